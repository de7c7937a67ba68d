/* transfer.c - memory between host and device, and on the device. */
#include "preload/opencl/call.h"

#define NEXT sonde__opencl_next
#define WAITS cl_uint waits, const cl_event *list, cl_event *event

LAYER(clEnqueueReadBuffer)(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *to, WAITS)
{
    LAYER_CALL(queue, READ, blocking, c.r.bytes = size,
               NEXT.clEnqueueReadBuffer(queue, buffer, blocking, offset, size, to, waits, list,
                                        event));
}

LAYER(clEnqueueWriteBuffer)(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void *from, WAITS)
{
    LAYER_CALL(queue, WRITE, blocking, c.r.bytes = size,
               NEXT.clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, from, waits, list,
                                         event));
}

LAYER(clEnqueueReadBufferRect)(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                               const size_t *origin, const size_t *host, const size_t *region,
                               size_t row, size_t slice, size_t host_row, size_t host_slice,
                               void *to, WAITS)
{
    LAYER_CALL(queue, READ, blocking, c.r.bytes = layer_region(region),
               NEXT.clEnqueueReadBufferRect(queue, buffer, blocking, origin, host, region, row,
                                            slice, host_row, host_slice, to, waits, list, event));
}

LAYER(clEnqueueWriteBufferRect)(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                const size_t *origin, const size_t *host, const size_t *region,
                                size_t row, size_t slice, size_t host_row, size_t host_slice,
                                const void *from, WAITS)
{
    LAYER_CALL(queue, WRITE, blocking, c.r.bytes = layer_region(region),
               NEXT.clEnqueueWriteBufferRect(queue, buffer, blocking, origin, host, region, row,
                                             slice, host_row, host_slice, from, waits, list,
                                             event));
}

LAYER(clEnqueueCopyBuffer)(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                           size_t to_offset, size_t size, WAITS)
{
    LAYER_CALL(queue, COPY, 0, c.r.bytes = size,
               NEXT.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, waits, list,
                                        event));
}

LAYER(clEnqueueCopyBufferRect)(cl_command_queue queue, cl_mem from, cl_mem to,
                               const size_t *from_origin, const size_t *to_origin,
                               const size_t *region, size_t from_row, size_t from_slice,
                               size_t to_row, size_t to_slice, WAITS)
{
    LAYER_CALL(queue, COPY, 0, c.r.bytes = layer_region(region),
               NEXT.clEnqueueCopyBufferRect(queue, from, to, from_origin, to_origin, region,
                                            from_row, from_slice, to_row, to_slice, waits, list,
                                            event));
}

LAYER(clEnqueueReadImage)(cl_command_queue queue, cl_mem image, cl_bool blocking,
                          const size_t *origin, const size_t *region, size_t row, size_t slice,
                          void *to, WAITS)
{
    LAYER_CALL(queue, READ, blocking, c.r.bytes = layer_image_bytes(image, region),
               NEXT.clEnqueueReadImage(queue, image, blocking, origin, region, row, slice, to,
                                       waits, list, event));
}

LAYER(clEnqueueWriteImage)(cl_command_queue queue, cl_mem image, cl_bool blocking,
                           const size_t *origin, const size_t *region, size_t row, size_t slice,
                           const void *from, WAITS)
{
    LAYER_CALL(queue, WRITE, blocking, c.r.bytes = layer_image_bytes(image, region),
               NEXT.clEnqueueWriteImage(queue, image, blocking, origin, region, row, slice, from,
                                        waits, list, event));
}

LAYER(clEnqueueCopyImage)(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin,
                          const size_t *to_origin, const size_t *region, WAITS)
{
    LAYER_CALL(queue, COPY, 0, c.r.bytes = layer_image_bytes(from, region),
               NEXT.clEnqueueCopyImage(queue, from, to, from_origin, to_origin, region, waits,
                                       list, event));
}

LAYER(clEnqueueCopyImageToBuffer)(cl_command_queue queue, cl_mem from, cl_mem to,
                                  const size_t *origin, const size_t *region, size_t offset, WAITS)
{
    LAYER_CALL(queue, COPY, 0, c.r.bytes = layer_image_bytes(from, region),
               NEXT.clEnqueueCopyImageToBuffer(queue, from, to, origin, region, offset, waits,
                                               list, event));
}

LAYER(clEnqueueCopyBufferToImage)(cl_command_queue queue, cl_mem from, cl_mem to, size_t offset,
                                  const size_t *origin, const size_t *region, WAITS)
{
    LAYER_CALL(queue, COPY, 0, c.r.bytes = layer_image_bytes(to, region),
               NEXT.clEnqueueCopyBufferToImage(queue, from, to, offset, origin, region, waits,
                                               list, event));
}

LAYER(clEnqueueFillBuffer)(cl_command_queue queue, cl_mem buffer, const void *pattern,
                           size_t pattern_size, size_t offset, size_t size, WAITS)
{
    LAYER_CALL(queue, FILL, 0, c.r.bytes = size,
               NEXT.clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size, waits,
                                        list, event));
}

LAYER(clEnqueueFillImage)(cl_command_queue queue, cl_mem image, const void *color,
                          const size_t *origin, const size_t *region, WAITS)
{
    LAYER_CALL(queue, FILL, 0, c.r.bytes = layer_image_bytes(image, region),
               NEXT.clEnqueueFillImage(queue, image, color, origin, region, waits, list, event));
}

static uint64_t transfer_objects(cl_uint count, const cl_mem *objects)
{
    uint64_t bytes = 0;
    for (cl_uint i = 0; objects && i < count; i++) bytes += layer_object_bytes(objects[i]);
    return bytes;
}

LAYER(clEnqueueMigrateMemObjects)(cl_command_queue queue, cl_uint count, const cl_mem *objects,
                                  cl_mem_migration_flags flags, WAITS)
{
    LAYER_CALL(queue, MIGRATE, 0, c.r.bytes = transfer_objects(count, objects),
               NEXT.clEnqueueMigrateMemObjects(queue, count, objects, flags, waits, list, event));
}

LAYER(clEnqueueUnmapMemObject)(cl_command_queue queue, cl_mem object, void *at, WAITS)
{
    LAYER_CALL(queue, UNMAP, 0, (void)0,
               NEXT.clEnqueueUnmapMemObject(queue, object, at, waits, list, event));
}

/* ---- Mappings: they return an address, and their error by pointer ------------------------ */

static CL_API_ENTRY void *CL_API_CALL
layer_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, WAITS, cl_int *rc)
{
    struct sonde__opencl_call c;
    cl_event own = NULL;
    cl_int failed = CL_SUCCESS;
    if (!sonde__opencl_begin(&c, queue, SONDE__KERNEL_OP_MAP, blocking != 0)) {
        return NEXT.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, waits, list,
                                       event, rc);
    }
    c.r.bytes = size;
    void *at = NEXT.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, waits, list,
                                       event ? event : &own, &failed);
    sonde__opencl_end(&c, failed, failed ? NULL : event ? *event : own, event != NULL);
    if (rc) *rc = failed;
    return at;
}

static CL_API_ENTRY void *CL_API_CALL
layer_clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_bool blocking, cl_map_flags flags,
                        const size_t *origin, const size_t *region, size_t *row, size_t *slice,
                        WAITS, cl_int *rc)
{
    struct sonde__opencl_call c;
    cl_event own = NULL;
    cl_int failed = CL_SUCCESS;
    if (!sonde__opencl_begin(&c, queue, SONDE__KERNEL_OP_MAP, blocking != 0)) {
        return NEXT.clEnqueueMapImage(queue, image, blocking, flags, origin, region, row, slice,
                                      waits, list, event, rc);
    }
    c.r.bytes = layer_image_bytes(image, region);
    void *at = NEXT.clEnqueueMapImage(queue, image, blocking, flags, origin, region, row, slice,
                                      waits, list, event ? event : &own, &failed);
    sonde__opencl_end(&c, failed, failed ? NULL : event ? *event : own, event != NULL);
    if (rc) *rc = failed;
    return at;
}

void sonde__opencl_transfer_hooks(cl_icd_dispatch *d)
{
    d->clEnqueueReadBuffer = layer_clEnqueueReadBuffer;
    d->clEnqueueWriteBuffer = layer_clEnqueueWriteBuffer;
    d->clEnqueueReadBufferRect = layer_clEnqueueReadBufferRect;
    d->clEnqueueWriteBufferRect = layer_clEnqueueWriteBufferRect;
    d->clEnqueueCopyBuffer = layer_clEnqueueCopyBuffer;
    d->clEnqueueCopyBufferRect = layer_clEnqueueCopyBufferRect;
    d->clEnqueueReadImage = layer_clEnqueueReadImage;
    d->clEnqueueWriteImage = layer_clEnqueueWriteImage;
    d->clEnqueueCopyImage = layer_clEnqueueCopyImage;
    d->clEnqueueCopyImageToBuffer = layer_clEnqueueCopyImageToBuffer;
    d->clEnqueueCopyBufferToImage = layer_clEnqueueCopyBufferToImage;
    d->clEnqueueFillBuffer = layer_clEnqueueFillBuffer;
    d->clEnqueueFillImage = layer_clEnqueueFillImage;
    d->clEnqueueMigrateMemObjects = layer_clEnqueueMigrateMemObjects;
    d->clEnqueueUnmapMemObject = layer_clEnqueueUnmapMemObject;
    d->clEnqueueMapBuffer = layer_clEnqueueMapBuffer;
    d->clEnqueueMapImage = layer_clEnqueueMapImage;
}
