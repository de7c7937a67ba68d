/* opencl_host.c - a program that uses OpenCL in ways that are known, and says what it did by its own
 * measure: `truth NAME COUNT NANOSECONDS` for each kernel and transfer, as its own events say, and
 * `same WHAT` for what must not change because somebody looks on.
 *
 *     opencl_host in-order|out-of-order|threads|contexts|unasked|user-event|failing|spans|leave|wait
 *                 [--n COMMANDS] [--size FLOATS] [--seconds S] */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sonde/inference.h"
#include "sonde/sonde.h"

#define MUST(call)                                                                             \
    do {                                                                                       \
        const cl_int must_rc = (call);                                                         \
        if (must_rc != CL_SUCCESS) {                                                           \
            fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, must_rc);                    \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

enum { KERNELS = 3, NAMES = KERNELS + 4 };
static const char *const names[NAMES] = { "matmul_f32", "rms_norm", "vec_add", "write", "read",
                                          "copy", "fill" };
static const char source[] =
    "__kernel void matmul_f32(__global const float *a, __global float *b, int n) {\n"
    "    int i = get_global_id(0); float s = 0;\n"
    "    for (int k = 0; k < n; k++) s += a[k] * a[(i + k) % n];\n"
    "    b[i] = s;\n}\n"
    "__kernel void rms_norm(__global const float *a, __global float *b, int n) {\n"
    "    int i = get_global_id(0); b[i] = a[i] * 0.5f + (float)n * 0;\n}\n"
    "__kernel void vec_add(__global const float *a, __global float *b, int n) {\n"
    "    int i = get_global_id(0); b[i] = a[i] + 1.0f;\n}\n";

struct world {
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_program program;
    cl_kernel kernel[KERNELS];
    cl_mem a, b;
    size_t size;
};

struct sum { uint64_t count, ns, first_ns; };
static struct sum sums[NAMES];
static pthread_mutex_t sums_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t commands = 20;
static size_t floats = 4096;
static double seconds;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void world_make(struct world *w)
{
    const char *text = source;
    cl_int rc;
    w->size = floats;
    MUST(clGetPlatformIDs(1, &w->platform, NULL));
    MUST(clGetDeviceIDs(w->platform, CL_DEVICE_TYPE_ALL, 1, &w->device, NULL));
    w->context = clCreateContext(NULL, 1, &w->device, NULL, NULL, &rc);
    MUST(rc);
    w->program = clCreateProgramWithSource(w->context, 1, &text, NULL, &rc);
    MUST(rc);
    MUST(clBuildProgram(w->program, 1, &w->device, "", NULL, NULL));
    w->a = clCreateBuffer(w->context, CL_MEM_READ_WRITE, w->size * 4, NULL, &rc);
    MUST(rc);
    w->b = clCreateBuffer(w->context, CL_MEM_READ_WRITE, w->size * 4, NULL, &rc);
    MUST(rc);
    for (int i = 0; i < KERNELS; i++) {
        const cl_int n = (cl_int)w->size;
        w->kernel[i] = clCreateKernel(w->program, names[i], &rc);
        MUST(rc);
        MUST(clSetKernelArg(w->kernel[i], 0, sizeof(w->a), &w->a));
        MUST(clSetKernelArg(w->kernel[i], 1, sizeof(w->b), &w->b));
        MUST(clSetKernelArg(w->kernel[i], 2, sizeof(n), &n));
    }
}

static void world_release(struct world *w)
{
    for (int i = 0; i < KERNELS; i++) MUST(clReleaseKernel(w->kernel[i]));
    MUST(clReleaseMemObject(w->a));
    MUST(clReleaseMemObject(w->b));
    MUST(clReleaseProgram(w->program));
    MUST(clReleaseContext(w->context));
}

static cl_command_queue make_queue(struct world *w, cl_command_queue_properties properties)
{
    cl_int rc;
    const cl_queue_properties list[] = { CL_QUEUE_PROPERTIES, properties, 0 };
    cl_command_queue q =
        clCreateCommandQueueWithProperties(w->context, w->device, properties ? list : NULL, &rc);
    MUST(rc);
    return q;
}

static void tell_event(int what, cl_event event)
{
    cl_ulong start = 0, end = 0;
    MUST(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &start, NULL));
    MUST(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, &end, NULL));
    pthread_mutex_lock(&sums_lock);
    sums[what].count++;
    sums[what].ns += end - start;
    pthread_mutex_unlock(&sums_lock);
}

__attribute__((noinline)) static void launch(struct world *w, cl_command_queue q, int kernel,
                                             cl_event *event)
{
    const size_t global = w->size, local = 64;
    MUST(clEnqueueNDRangeKernel(q, w->kernel[kernel], 1, NULL, &global, &local, 0, NULL, event));
}

/* n rounds of all kinds of commands, each with an event whose times are added up. */
static void work(struct world *w, cl_command_queue q, uint32_t n)
{
    float *host = calloc(w->size, 4);
    cl_event event[NAMES];
    const float pattern = 2;
    for (uint32_t i = 0; i < n; i++) {
        MUST(clEnqueueWriteBuffer(q, w->a, CL_FALSE, 0, w->size * 4, host, 0, NULL, &event[3]));
        MUST(clFinish(q));
        launch(w, q, 0, &event[0]);
        launch(w, q, 1, &event[1]);
        launch(w, q, 2, &event[2]);
        MUST(clFinish(q));
        MUST(clEnqueueFillBuffer(q, w->a, &pattern, 4, 0, w->size * 4, 0, NULL, &event[6]));
        MUST(clEnqueueCopyBuffer(q, w->a, w->b, 0, 0, w->size * 4, 1, &event[6], &event[5]));
        MUST(clEnqueueReadBuffer(q, w->b, CL_TRUE, 0, w->size * 4, host, 1, &event[5], &event[4]));
        if (host[0] != pattern || host[w->size - 1] != pattern) {
            fprintf(stderr, "wrong result\n");
            exit(1);
        }
        MUST(clWaitForEvents(NAMES, event));
        for (int e = 0; e < NAMES; e++) {
            tell_event(e, event[e]);
            MUST(clReleaseEvent(event[e]));
        }
    }
    free(host);
}

static void tell(void)
{
    for (int i = 0; i < NAMES; i++) {
        if (sums[i].count) {
            printf("truth %s %llu %llu\n", names[i], (unsigned long long)sums[i].count,
                   (unsigned long long)sums[i].ns);
        }
    }
}

/* ---- Ways of using it ------------------------------------------------------------------------ */

static void with_queue(cl_command_queue_properties more)
{
    struct world w;
    world_make(&w);
    cl_command_queue q = make_queue(&w, CL_QUEUE_PROFILING_ENABLE | more);
    work(&w, q, commands);
    MUST(clReleaseCommandQueue(q));
    world_release(&w);
}

static void *thread_work(void *arg)
{
    struct world *w = arg;
    cl_command_queue q = make_queue(w, CL_QUEUE_PROFILING_ENABLE);
    work(w, q, commands);
    MUST(clReleaseCommandQueue(q));
    return NULL;
}

/* Kernels' arguments are the kernel's, so each thread has kernels of its own. */
static void two_threads(int shared)
{
    pthread_t t[2];
    struct world w[2];
    world_make(&w[0]);
    world_make(&w[1]);
    (void)shared;
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, thread_work, &w[i]);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    world_release(&w[0]);
    world_release(&w[1]);
}

/* Nothing was asked for, so nothing is told. */
static void unasked(void)
{
    struct world w;
    world_make(&w);
    cl_command_queue q = make_queue(&w, 0);
    cl_command_queue_properties p = 99;
    cl_queue_properties list[8];
    size_t bytes = 99;
    cl_event event;
    cl_ulong t;
    cl_uint refs = 0;
    MUST(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof(p), &p, NULL));
    MUST(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES_ARRAY, sizeof(list), list, &bytes));
    printf("same properties %llu list %zu\n", (unsigned long long)p, bytes);
    for (uint32_t i = 0; i < commands; i++) launch(&w, q, 2, NULL);
    launch(&w, q, 1, &event);
    MUST(clFinish(q));
    MUST(clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof(refs), &refs, NULL));
    printf("same profiling %d references %u\n",
           clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &t, NULL), refs);
    MUST(clReleaseEvent(event));
    MUST(clReleaseCommandQueue(q));
    world_release(&w);
    printf("truth vec_add %u 0\ntruth rms_norm 1 0\n", commands);
}

static void user_event(void)
{
    struct world w;
    cl_int rc, status = 99;
    cl_uint refs = 0;
    world_make(&w);
    cl_command_queue q = make_queue(&w, CL_QUEUE_PROFILING_ENABLE);
    cl_event gate = clCreateUserEvent(w.context, &rc), event;
    const size_t global = w.size;
    MUST(rc);
    MUST(clEnqueueNDRangeKernel(q, w.kernel[2], 1, NULL, &global, NULL, 1, &gate, &event));
    MUST(clFlush(q));
    MUST(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, 4, &status, NULL));
    MUST(clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, 4, &refs, NULL));
    printf("same waits %d\n", status > CL_COMPLETE);
    MUST(clSetUserEventStatus(gate, CL_COMPLETE));
    MUST(clWaitForEvents(1, &event));
    tell_event(2, event);
    MUST(clReleaseEvent(event));
    MUST(clReleaseEvent(gate));
    MUST(clReleaseCommandQueue(q));
    world_release(&w);
}

/* Calls that are refused are refused the same, and are nothing that was queued. */
static void failing(void)
{
    struct world w;
    cl_int rc = 0;
    world_make(&w);
    cl_command_queue q = make_queue(&w, 0);
    const size_t global = 0;
    char byte;
    printf("same refused %d %d %d\n",
           clEnqueueNDRangeKernel(q, w.kernel[0], 9, NULL, &global, NULL, 0, NULL, NULL),
           clEnqueueReadBuffer(q, w.a, CL_TRUE, 0, SIZE_MAX / 2, &byte, 0, NULL, NULL),
           clEnqueueMapBuffer(q, w.a, CL_TRUE, 0, 0, SIZE_MAX / 2, 0, NULL, NULL, &rc) ? 1 : rc);
    launch(&w, q, 1, NULL);
    MUST(clFinish(q));
    MUST(clReleaseCommandQueue(q));
    world_release(&w);
    printf("truth rms_norm 1 0\n");
}

__attribute__((noinline)) static void span_work(struct world *w, cl_command_queue q, int kernel,
                                                uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        cl_event event;
        launch(w, q, kernel, &event);
        MUST(clWaitForEvents(1, &event));
        tell_event(kernel, event);
        MUST(clReleaseEvent(event));
    }
}

/* Two requests, each with a prefill of its own and decodes. */
static void spans(void)
{
    struct world w;
    world_make(&w);
    cl_command_queue q = make_queue(&w, CL_QUEUE_PROFILING_ENABLE);
    for (int i = 0; i < 2; i++) {
        struct sonde_request r = { 0 };
        const struct sonde_request_info info = {
            .size = sizeof(info), .model = sonde_name("known"), .id = i ? "second" : "first" };
        struct sonde_phase p;
        sonde_request_begin(&r, &info);
        sonde_request_prompt(&r, 16, 0);
        sonde_phase_begin(&p, &r, SONDE_PHASE_PREFILL);
        span_work(&w, q, 0, commands);
        sonde_phase_end(&p, 16);
        sonde_phase_begin(&p, &r, SONDE_PHASE_DECODE);
        span_work(&w, q, 2, commands * (i ? 3 : 1));
        sonde_request_tokens(&r, 1);
        sonde_phase_end(&p, 1);
        sonde_request_end(&r, SONDE_OK, NULL);
    }
    span_work(&w, q, 1, commands); /* in no phase */
    MUST(clReleaseCommandQueue(q));
    world_release(&w);
}

/* Ends without waiting for anything, or releasing it. */
static void leave(void)
{
    struct world w;
    world_make(&w);
    cl_command_queue q = make_queue(&w, 0);
    for (uint32_t i = 0; i < commands; i++) launch(&w, q, 2, NULL);
    fflush(stdout);
    _exit(0);
}

/* For as long as it takes, at a pace; `pid` first. */
static void wait_long(void)
{
    struct world w;
    world_make(&w);
    cl_command_queue q = make_queue(&w, CL_QUEUE_PROFILING_ENABLE);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    for (const double end = now_s() + seconds; now_s() < end;) {
        span_work(&w, q, 2, 5);
        usleep(5000);
    }
    MUST(clReleaseCommandQueue(q));
    world_release(&w);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--n")) commands = (uint32_t)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--size")) floats = (size_t)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
    }
    if (!strcmp(mode, "in-order")) with_queue(0);
    else if (!strcmp(mode, "out-of-order")) with_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    else if (!strcmp(mode, "threads") || !strcmp(mode, "contexts")) two_threads(0);
    else if (!strcmp(mode, "unasked")) unasked();
    else if (!strcmp(mode, "user-event")) user_event();
    else if (!strcmp(mode, "failing")) failing();
    else if (!strcmp(mode, "spans")) spans();
    else if (!strcmp(mode, "leave")) leave();
    else if (!strcmp(mode, "wait")) wait_long();
    else return 2;
    tell();
    return 0;
}
