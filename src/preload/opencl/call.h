/* call.h - how a function that queues a command is stood in front of. */
#ifndef SONDE_PRELOAD_OPENCL_CALL_H
#define SONDE_PRELOAD_OPENCL_CALL_H

#include "preload/opencl/opencl.h"

#define LAYER(name) static CL_API_ENTRY cl_int CL_API_CALL layer_##name

/* The body of one that returns its error and takes a place for an event last. set: what is known of
 * the command, as members of c.r. The call is made with `event`, which is never NULL if it is
 * recorded: ours, where the program has none. */
#define LAYER_CALL(queue, operation, blocking, set, call)                                      \
    struct sonde__opencl_call c;                                                               \
    cl_event own = NULL;                                                                       \
    const int shared = event != NULL;                                                          \
    if (!sonde__opencl_begin(&c, queue, SONDE__KERNEL_OP_##operation, (blocking) != 0)) {      \
        return call;                                                                           \
    }                                                                                          \
    if (!shared) event = &own;                                                                 \
    set;                                                                                       \
    const cl_int rc = call;                                                                    \
    sonde__opencl_end(&c, rc, rc == CL_SUCCESS ? *event : NULL, shared);                       \
    return rc

static inline uint64_t layer_region(const size_t *region)
{
    return region ? (uint64_t)region[0] * region[1] * region[2] : 0;
}

static inline uint64_t layer_image_bytes(cl_mem image, const size_t *region)
{
    size_t element = 0;
    if (sonde__opencl_next.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof(element), &element,
                                          NULL) != CL_SUCCESS) {
        return 0;
    }
    return element * layer_region(region);
}

static inline uint64_t layer_object_bytes(cl_mem object)
{
    size_t bytes = 0;
    return sonde__opencl_next.clGetMemObjectInfo(object, CL_MEM_SIZE, sizeof(bytes), &bytes,
                                                 NULL) == CL_SUCCESS ? bytes : 0;
}

#endif
