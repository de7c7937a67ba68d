/* library.h - libOpenCL.so.1, loaded when it is asked for: the engine starts without it.
 *
 * Functions are looked up by name in the whole process, not in the library alone, so that what is
 * preloaded to watch OpenCL sees the engine's calls as it sees those of a program that is linked
 * with it. */
#ifndef ENGINE_OPENCL_LIBRARY_H
#define ENGINE_OPENCL_LIBRARY_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "base/fail.h"

#define OPENCL_FUNCTIONS(X)                                                                       \
    X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo) X(CreateContext)        \
    X(ReleaseContext) X(CreateCommandQueue) X(ReleaseCommandQueue) X(CreateBuffer)                \
    X(ReleaseMemObject) X(CreateProgramWithSource) X(BuildProgram) X(GetProgramBuildInfo)         \
    X(ReleaseProgram) X(CreateKernel) X(ReleaseKernel) X(GetKernelWorkGroupInfo) X(SetKernelArg)  \
    X(EnqueueNDRangeKernel) X(EnqueueReadBuffer) X(EnqueueReadBufferRect) X(EnqueueWriteBuffer)   \
    X(EnqueueMapBuffer) X(EnqueueUnmapMemObject) X(Finish) X(GetEventProfilingInfo)               \
    X(ReleaseEvent)

struct opencl_library { /* cl->CreateBuffer is clCreateBuffer */
#define OPENCL_FUNCTION(name) __typeof__(cl##name) *name;
    OPENCL_FUNCTIONS(OPENCL_FUNCTION)
#undef OPENCL_FUNCTION
};

/* Loaded at the first call and never unloaded: drivers have threads. NULL: why it is not to be had,
 * and what to install. SONDE_ENGINE_OPENCL names another file than libOpenCL.so.1. */
const struct opencl_library *opencl_library(struct fail *why);

/* "CL_OUT_OF_RESOURCES" */
const char *opencl_error_name(cl_int error);

#endif
