/* kernel.c - what kernels are called. The name of a kernel is remembered by its handle, until the
 * handle may be another's: whatever makes one forgets what was known under it. */
#include <string.h>

#include "preload/opencl/opencl.h"

#define KNOWN 1024u

static struct { uint64_t key, name; } kernel_known[KNOWN]; /* key: handle and name mixed */

static uint64_t kernel_key(cl_kernel kernel, uint64_t name)
{
    return (uint64_t)(uintptr_t)kernel ^ (name + 1) * 0x9e3779b97f4a7c15ull;
}

static uint32_t kernel_place(cl_kernel kernel)
{
    return (uint32_t)((uint64_t)(uintptr_t)kernel * 0x9e3779b97f4a7c15ull >> 54) % KNOWN;
}

static void kernel_forget(cl_kernel kernel)
{
    __atomic_store_n(&kernel_known[kernel_place(kernel)].key, 0, __ATOMIC_RELAXED);
}

void sonde__opencl_kernels_forget(void) { memset(kernel_known, 0, sizeof(kernel_known)); }

uint32_t sonde__opencl_kernel_name(struct sonde__kernels *k, cl_kernel kernel)
{
    char text[SONDE__KERNEL_NAME_MAX + 1] = "";
    const uint32_t at = kernel_place(kernel);
    const uint64_t known = __atomic_load_n(&kernel_known[at].name, __ATOMIC_RELAXED);
    if (known && __atomic_load_n(&kernel_known[at].key, __ATOMIC_RELAXED) ==
                     kernel_key(kernel, known)) {
        return (uint32_t)known;
    }
    size_t bytes = 0;
    if (sonde__opencl_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &bytes) !=
            CL_SUCCESS || !bytes || bytes > sizeof(text) ||
        sonde__opencl_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, bytes, text, NULL) !=
            CL_SUCCESS) {
        return 0;
    }
    text[sizeof(text) - 1] = '\0';
    const uint32_t name = sonde__kernels_name(k, text, strlen(text));
    if (name) {
        __atomic_store_n(&kernel_known[at].name, name, __ATOMIC_RELAXED);
        __atomic_store_n(&kernel_known[at].key, kernel_key(kernel, name), __ATOMIC_RELAXED);
    }
    return name;
}

static CL_API_ENTRY cl_kernel CL_API_CALL layer_clCreateKernel(cl_program program, const char *name,
                                                               cl_int *rc)
{
    const cl_kernel kernel = sonde__opencl_next.clCreateKernel(program, name, rc);
    if (kernel) kernel_forget(kernel);
    return kernel;
}

static CL_API_ENTRY cl_int CL_API_CALL
layer_clCreateKernelsInProgram(cl_program program, cl_uint count, cl_kernel *kernels, cl_uint *ret)
{
    const cl_int rc = sonde__opencl_next.clCreateKernelsInProgram(program, count, kernels, ret);
    if (rc == CL_SUCCESS && kernels) sonde__opencl_kernels_forget();
    return rc;
}

static CL_API_ENTRY cl_kernel CL_API_CALL layer_clCloneKernel(cl_kernel from, cl_int *rc)
{
    const cl_kernel kernel = sonde__opencl_next.clCloneKernel(from, rc);
    if (kernel) kernel_forget(kernel);
    return kernel;
}

void sonde__opencl_kernel_hooks(cl_icd_dispatch *d)
{
    d->clCreateKernel = layer_clCreateKernel;
    d->clCreateKernelsInProgram = layer_clCreateKernelsInProgram;
    if (d->clCloneKernel) d->clCloneKernel = layer_clCloneKernel;
}
