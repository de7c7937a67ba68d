/* opencl_fails - preloaded: the OPENCL_FAILS_AT-th launch of a kernel and all after it fail, as on a
 * device that is gone. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                       cl_uint dims, const size_t *offset,
                                                       const size_t *global, const size_t *local,
                                                       cl_uint waits, const cl_event *wait,
                                                       cl_event *event)
{
    static __typeof__(clEnqueueNDRangeKernel) *next;
    static long launches;
    const char *at = getenv("OPENCL_FAILS_AT");
    if (!next) {
        void *found = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
        memcpy(&next, &found, sizeof(next));
    }
    if (!next || (at && ++launches >= atol(at))) return CL_OUT_OF_RESOURCES;
    return next(queue, kernel, dims, offset, global, local, waits, wait, event);
}
