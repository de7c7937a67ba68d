/* faults.h - libOpenCL between the engine and the real one: the nth call of those that may fail
 * fails, and what is created and not released is counted. */
#ifndef TESTS_UNIT_ENGINE_OPENCL_FAULTS_H
#define TESTS_UNIT_ENGINE_OPENCL_FAULTS_H

#include <stdint.h>

#include "opencl/opencl_private.h"

static struct opencl_library faults_real;
static struct { uint64_t calls, fail_at; cl_int error; const char *failed; int64_t live; } faults;

static inline int fault_hit(const char *name)
{
    if (++faults.calls != faults.fail_at) return 0;
    faults.failed = name;
    return 1;
}

#define FAULT_CALL(name, params, args)                                                            \
    static CL_API_ENTRY cl_int CL_API_CALL fault_##name params                                    \
    {                                                                                             \
        return fault_hit(#name) ? faults.error : faults_real.name args;                           \
    }
/* An event comes with it. */
#define FAULT_ENQUEUE(name, params, args)                                                         \
    static CL_API_ENTRY cl_int CL_API_CALL fault_##name params                                    \
    {                                                                                             \
        if (fault_hit(#name)) return faults.error;                                                \
        const cl_int rc = faults_real.name args;                                                  \
        faults.live += !rc && event;                                                              \
        return rc;                                                                                \
    }
#define FAULT_CREATE(type, name, params, args)                                                    \
    static CL_API_ENTRY type CL_API_CALL fault_##name params                                      \
    {                                                                                             \
        if (fault_hit(#name)) {                                                                   \
            *error = faults.error;                                                                \
            return NULL;                                                                          \
        }                                                                                         \
        const type it = faults_real.name args;                                                    \
        faults.live += it != NULL;                                                                \
        return it;                                                                                \
    }
#define FAULT_RELEASE(type, name)                                                                 \
    static CL_API_ENTRY cl_int CL_API_CALL fault_##name(type it)                                  \
    {                                                                                             \
        faults.live--;                                                                            \
        return faults_real.name(it);                                                              \
    }

FAULT_CALL(GetPlatformIDs, (cl_uint n, cl_platform_id *ids, cl_uint *count), (n, ids, count))
FAULT_CALL(GetPlatformInfo, (cl_platform_id p, cl_platform_info i, size_t n, void *v, size_t *s),
           (p, i, n, v, s))
FAULT_CALL(GetDeviceIDs,
           (cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *ids, cl_uint *count),
           (p, t, n, ids, count))
FAULT_CALL(GetDeviceInfo, (cl_device_id d, cl_device_info i, size_t n, void *v, size_t *s),
           (d, i, n, v, s))
FAULT_CALL(BuildProgram,
           (cl_program p, cl_uint n, const cl_device_id *d, const char *o,
            void(CL_CALLBACK *f)(cl_program, void *), void *u),
           (p, n, d, o, f, u))
FAULT_CALL(GetKernelWorkGroupInfo,
           (cl_kernel k, cl_device_id d, cl_kernel_work_group_info i, size_t n, void *v, size_t *s),
           (k, d, i, n, v, s))
FAULT_CALL(SetKernelArg, (cl_kernel k, cl_uint i, size_t n, const void *v), (k, i, n, v))
FAULT_CALL(GetEventProfilingInfo,
           (cl_event e, cl_profiling_info i, size_t n, void *v, size_t *s), (e, i, n, v, s))
FAULT_ENQUEUE(EnqueueNDRangeKernel,
              (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g,
               const size_t *l, cl_uint n, const cl_event *w, cl_event *event),
              (q, k, d, o, g, l, n, w, event))
FAULT_ENQUEUE(EnqueueReadBuffer,
              (cl_command_queue q, cl_mem b, cl_bool y, size_t o, size_t s, void *p, cl_uint n,
               const cl_event *w, cl_event *event),
              (q, b, y, o, s, p, n, w, event))
FAULT_ENQUEUE(EnqueueReadBufferRect,
              (cl_command_queue q, cl_mem b, cl_bool y, const size_t *f, const size_t *t,
               const size_t *r, size_t br, size_t bs, size_t hr, size_t hs, void *p, cl_uint n,
               const cl_event *w, cl_event *event),
              (q, b, y, f, t, r, br, bs, hr, hs, p, n, w, event))
FAULT_ENQUEUE(EnqueueWriteBuffer,
              (cl_command_queue q, cl_mem b, cl_bool y, size_t o, size_t s, const void *p,
               cl_uint n, const cl_event *w, cl_event *event),
              (q, b, y, o, s, p, n, w, event))
FAULT_CREATE(cl_context, CreateContext,
             (const cl_context_properties *p, cl_uint n, const cl_device_id *d,
              void(CL_CALLBACK *f)(const char *, const void *, size_t, void *), void *u,
              cl_int *error),
             (p, n, d, f, u, error))
FAULT_CREATE(cl_command_queue, CreateCommandQueue,
             (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *error),
             (c, d, p, error))
FAULT_CREATE(cl_mem, CreateBuffer,
             (cl_context c, cl_mem_flags f, size_t n, void *p, cl_int *error), (c, f, n, p, error))
FAULT_CREATE(cl_program, CreateProgramWithSource,
             (cl_context c, cl_uint n, const char **s, const size_t *l, cl_int *error),
             (c, n, s, l, error))
FAULT_CREATE(cl_kernel, CreateKernel, (cl_program p, const char *n, cl_int *error), (p, n, error))
FAULT_RELEASE(cl_context, ReleaseContext)
FAULT_RELEASE(cl_command_queue, ReleaseCommandQueue)
FAULT_RELEASE(cl_mem, ReleaseMemObject)
FAULT_RELEASE(cl_program, ReleaseProgram)
FAULT_RELEASE(cl_kernel, ReleaseKernel)
FAULT_RELEASE(cl_event, ReleaseEvent)

static CL_API_ENTRY void *CL_API_CALL fault_EnqueueMapBuffer(cl_command_queue q, cl_mem b,
                                                             cl_bool y, cl_map_flags f, size_t o,
                                                             size_t s, cl_uint n,
                                                             const cl_event *w, cl_event *e,
                                                             cl_int *error)
{
    if (fault_hit("EnqueueMapBuffer")) {
        *error = faults.error;
        return NULL;
    }
    return faults_real.EnqueueMapBuffer(q, b, y, f, o, s, n, w, e, error);
}

/* A real device is done then too: nothing writes to memory that the test gives back. */
static CL_API_ENTRY cl_int CL_API_CALL fault_Finish(cl_command_queue q)
{
    const cl_int rc = faults_real.Finish(q);
    return fault_hit("Finish") ? faults.error : rc;
}

static inline void faults_install(void)
{
    struct opencl_library *cl = (struct opencl_library *)(uintptr_t)opencl_library(NULL);
    faults_real = *cl;
#define FAULTY(name) cl->name = fault_##name;
    FAULTY(GetPlatformIDs) FAULTY(GetPlatformInfo) FAULTY(GetDeviceIDs) FAULTY(GetDeviceInfo)
    FAULTY(BuildProgram) FAULTY(GetKernelWorkGroupInfo) FAULTY(SetKernelArg)
    FAULTY(GetEventProfilingInfo) FAULTY(EnqueueNDRangeKernel) FAULTY(EnqueueReadBuffer)
    FAULTY(EnqueueReadBufferRect) FAULTY(EnqueueWriteBuffer) FAULTY(CreateContext)
    FAULTY(CreateCommandQueue) FAULTY(CreateBuffer) FAULTY(CreateProgramWithSource)
    FAULTY(CreateKernel) FAULTY(ReleaseContext) FAULTY(ReleaseCommandQueue)
    FAULTY(ReleaseMemObject) FAULTY(ReleaseProgram) FAULTY(ReleaseKernel) FAULTY(ReleaseEvent)
    FAULTY(EnqueueMapBuffer) FAULTY(Finish)
#undef FAULTY
}

#endif
