/* svm.c - shared virtual memory (OpenCL 2.0). */
#include "preload/opencl/call.h"

#define NEXT sonde__opencl_next
#define WAITS cl_uint waits, const cl_event *list, cl_event *event

typedef void(CL_CALLBACK *svm_free)(cl_command_queue, cl_uint, void *[], void *);

LAYER(clEnqueueSVMFree)(cl_command_queue queue, cl_uint count, void *at[], svm_free function,
                        void *arg, WAITS)
{
    LAYER_CALL(queue, OTHER, 0, (void)0,
               NEXT.clEnqueueSVMFree(queue, count, at, function, arg, waits, list, event));
}

LAYER(clEnqueueSVMMemcpy)(cl_command_queue queue, cl_bool blocking, void *to, const void *from,
                          size_t size, WAITS)
{
    LAYER_CALL(queue, COPY, blocking, c.r.bytes = size,
               NEXT.clEnqueueSVMMemcpy(queue, blocking, to, from, size, waits, list, event));
}

LAYER(clEnqueueSVMMemFill)(cl_command_queue queue, void *at, const void *pattern,
                           size_t pattern_size, size_t size, WAITS)
{
    LAYER_CALL(queue, FILL, 0, c.r.bytes = size,
               NEXT.clEnqueueSVMMemFill(queue, at, pattern, pattern_size, size, waits, list,
                                        event));
}

LAYER(clEnqueueSVMMap)(cl_command_queue queue, cl_bool blocking, cl_map_flags flags, void *at,
                       size_t size, WAITS)
{
    LAYER_CALL(queue, MAP, blocking, c.r.bytes = size,
               NEXT.clEnqueueSVMMap(queue, blocking, flags, at, size, waits, list, event));
}

LAYER(clEnqueueSVMUnmap)(cl_command_queue queue, void *at, WAITS)
{
    LAYER_CALL(queue, UNMAP, 0, (void)0,
               NEXT.clEnqueueSVMUnmap(queue, at, waits, list, event));
}

LAYER(clEnqueueSVMMigrateMem)(cl_command_queue queue, cl_uint count, const void **at,
                              const size_t *sizes, cl_mem_migration_flags flags, WAITS)
{
    LAYER_CALL(queue, MIGRATE, 0,
               for (cl_uint i = 0; sizes && i < count; i++) c.r.bytes += sizes[i],
               NEXT.clEnqueueSVMMigrateMem(queue, count, at, sizes, flags, waits, list, event));
}

void sonde__opencl_svm_hooks(cl_icd_dispatch *d)
{
    if (d->clEnqueueSVMFree) d->clEnqueueSVMFree = layer_clEnqueueSVMFree;
    if (d->clEnqueueSVMMemcpy) d->clEnqueueSVMMemcpy = layer_clEnqueueSVMMemcpy;
    if (d->clEnqueueSVMMemFill) d->clEnqueueSVMMemFill = layer_clEnqueueSVMMemFill;
    if (d->clEnqueueSVMMap) d->clEnqueueSVMMap = layer_clEnqueueSVMMap;
    if (d->clEnqueueSVMUnmap) d->clEnqueueSVMUnmap = layer_clEnqueueSVMUnmap;
    if (d->clEnqueueSVMMigrateMem) d->clEnqueueSVMMigrateMem = layer_clEnqueueSVMMigrateMem;
}
