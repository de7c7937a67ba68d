/* event.c - waiting, and what the program is told of its events. */
#include "preload/opencl/opencl.h"

static cl_command_queue event_queue(cl_event event)
{
    cl_command_queue queue = NULL;
    return sonde__opencl_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue,
                                             NULL) == CL_SUCCESS ? queue : NULL;
}

static CL_API_ENTRY cl_int CL_API_CALL layer_clFinish(cl_command_queue queue)
{
    struct sonde__opencl_waiting w;
    struct sonde__opencl_queue *q = sonde__opencl_queue_find(queue);
    sonde__opencl_wait_begin(&w);
    const cl_int rc = sonde__opencl_next.clFinish(queue);
    sonde__opencl_wait_end(&w, queue, SONDE__KERNEL_WAIT_FINISH);
    if (q) sonde__opencl_poll(q, SONDE__OPENCL_ALL);
    return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL layer_clFlush(cl_command_queue queue)
{
    const cl_int rc = sonde__opencl_next.clFlush(queue);
    struct sonde__opencl_queue *q = sonde__opencl_queue_find(queue);
    if (q) sonde__opencl_poll(q, 16);
    return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL layer_clWaitForEvents(cl_uint count, const cl_event *events)
{
    struct sonde__opencl_waiting w;
    sonde__opencl_wait_begin(&w);
    const cl_command_queue queue = w.k && count && events && events[0] ? event_queue(events[0])
                                                                       : NULL;
    const cl_int rc = sonde__opencl_next.clWaitForEvents(count, events);
    sonde__opencl_wait_end(&w, queue, SONDE__KERNEL_WAIT_EVENTS);
    sonde__opencl_poll_all();
    return rc;
}

/* A program may wait by asking. References that we hold are not its business. */
static CL_API_ENTRY cl_int CL_API_CALL layer_clGetEventInfo(cl_event event, cl_event_info param,
                                                            size_t size, void *value, size_t *ret)
{
    const cl_int rc = sonde__opencl_next.clGetEventInfo(event, param, size, value, ret);
    if (rc != CL_SUCCESS || !value || size < sizeof(cl_int)) return rc;
    if (param == CL_EVENT_COMMAND_EXECUTION_STATUS && *(cl_int *)value <= CL_COMPLETE) {
        sonde__opencl_poll_all();
    } else if (param == CL_EVENT_REFERENCE_COUNT) {
        const cl_uint held = sonde__opencl_held(event);
        if (*(cl_uint *)value > held) *(cl_uint *)value -= held;
    }
    return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL
layer_clGetEventProfilingInfo(cl_event event, cl_profiling_info param, size_t size, void *value,
                              size_t *ret)
{
    const struct sonde__opencl_queue *q = event ? sonde__opencl_queue_find(event_queue(event))
                                                : NULL;
    if (q && q->timed && !q->asked) return CL_PROFILING_INFO_NOT_AVAILABLE;
    return sonde__opencl_next.clGetEventProfilingInfo(event, param, size, value, ret);
}

void sonde__opencl_event_hooks(cl_icd_dispatch *d)
{
    d->clFinish = layer_clFinish;
    d->clFlush = layer_clFlush;
    d->clWaitForEvents = layer_clWaitForEvents;
    d->clGetEventInfo = layer_clGetEventInfo;
    d->clGetEventProfilingInfo = layer_clGetEventProfilingInfo;
}
