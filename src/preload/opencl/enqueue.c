/* enqueue.c - kernels, and commands that order others. */
#include "preload/opencl/call.h"

#define NEXT sonde__opencl_next

static void enqueue_sizes(struct sonde__opencl_call *c, cl_kernel kernel, cl_uint dim,
                          const size_t *global, const size_t *local)
{
    c->r.name = sonde__opencl_kernel_name(c->k, kernel);
    for (cl_uint i = 0; i < 3; i++) {
        c->r.global[i] = global && i < dim ? global[i] : 1;
        c->r.local[i] = local && i < dim ? local[i] : 0; /* 0: the driver chooses */
    }
}

LAYER(clEnqueueNDRangeKernel)(cl_command_queue queue, cl_kernel kernel, cl_uint dim,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint waits, const cl_event *list, cl_event *event)
{
    LAYER_CALL(queue, KERNEL, 0, enqueue_sizes(&c, kernel, dim, global, local),
               NEXT.clEnqueueNDRangeKernel(queue, kernel, dim, offset, global, local, waits, list,
                                           event));
}

LAYER(clEnqueueTask)(cl_command_queue queue, cl_kernel kernel, cl_uint waits, const cl_event *list,
                     cl_event *event)
{
    LAYER_CALL(queue, KERNEL, 0, enqueue_sizes(&c, kernel, 0, NULL, NULL),
               NEXT.clEnqueueTask(queue, kernel, waits, list, event));
}

LAYER(clEnqueueNativeKernel)(cl_command_queue queue, void(CL_CALLBACK *function)(void *),
                             void *args, size_t size, cl_uint count, const cl_mem *objects,
                             const void **places, cl_uint waits, const cl_event *list,
                             cl_event *event)
{
    LAYER_CALL(queue, NATIVE, 0, (void)0,
               NEXT.clEnqueueNativeKernel(queue, function, args, size, count, objects, places,
                                          waits, list, event));
}

LAYER(clEnqueueMarkerWithWaitList)(cl_command_queue queue, cl_uint waits, const cl_event *list,
                                   cl_event *event)
{
    LAYER_CALL(queue, MARKER, 0, (void)0,
               NEXT.clEnqueueMarkerWithWaitList(queue, waits, list, event));
}

LAYER(clEnqueueBarrierWithWaitList)(cl_command_queue queue, cl_uint waits, const cl_event *list,
                                    cl_event *event)
{
    LAYER_CALL(queue, BARRIER, 0, (void)0,
               NEXT.clEnqueueBarrierWithWaitList(queue, waits, list, event));
}

/* The event is what it is for. */
LAYER(clEnqueueMarker)(cl_command_queue queue, cl_event *event)
{
    struct sonde__opencl_call c;
    if (!event || !sonde__opencl_begin(&c, queue, SONDE__KERNEL_OP_MARKER, 0)) {
        return NEXT.clEnqueueMarker(queue, event);
    }
    const cl_int rc = NEXT.clEnqueueMarker(queue, event);
    sonde__opencl_end(&c, rc, rc == CL_SUCCESS ? *event : NULL, 1);
    return rc;
}

void sonde__opencl_enqueue_hooks(cl_icd_dispatch *d)
{
    d->clEnqueueNDRangeKernel = layer_clEnqueueNDRangeKernel;
    d->clEnqueueTask = layer_clEnqueueTask;
    d->clEnqueueNativeKernel = layer_clEnqueueNativeKernel;
    d->clEnqueueMarkerWithWaitList = layer_clEnqueueMarkerWithWaitList;
    d->clEnqueueBarrierWithWaitList = layer_clEnqueueBarrierWithWaitList;
    d->clEnqueueMarker = layer_clEnqueueMarker;
}
