/* library.c - see library.h. */
#include "opencl/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct opencl_library library;

static const struct { const char *name; size_t at; } functions[] = {
#define OPENCL_FUNCTION(name) { "cl" #name, offsetof(struct opencl_library, name) },
    OPENCL_FUNCTIONS(OPENCL_FUNCTION)
#undef OPENCL_FUNCTION
};

const struct opencl_library *opencl_library(struct fail *why)
{
    static int loaded;
    const char *set = getenv("SONDE_ENGINE_OPENCL");
    const char *name = set && *set ? set : "libOpenCL.so.1";
    if (loaded) return &library;
    /* Global: drivers, and the look-up below. */
    void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        const char *error = dlerror();
        fail_set(why, "OpenCL is not there (%.160s): install a loader (Debian: ocl-icd-libopencl1) "
                 "and the driver of your device (on a CPU: pocl-opencl-icd)", error ? error : name);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *f = dlsym(RTLD_DEFAULT, functions[i].name);
        if (!f) {
            fail_set(why, "%.160s has no function %s: OpenCL 1.2 is needed", name,
                     functions[i].name);
            dlclose(handle);
            return NULL;
        }
        memcpy((char *)&library + functions[i].at, &f, sizeof(f));
    }
    loaded = 1;
    return &library;
}

const char *opencl_error_name(cl_int error)
{
    static const struct { cl_int error; const char *name; } names[] = {
#define OPENCL_ERROR(name) { name, #name },
        OPENCL_ERROR(CL_DEVICE_NOT_FOUND)
        OPENCL_ERROR(CL_DEVICE_NOT_AVAILABLE)
        OPENCL_ERROR(CL_COMPILER_NOT_AVAILABLE)
        OPENCL_ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        OPENCL_ERROR(CL_OUT_OF_RESOURCES)
        OPENCL_ERROR(CL_OUT_OF_HOST_MEMORY)
        OPENCL_ERROR(CL_BUILD_PROGRAM_FAILURE)
        OPENCL_ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        OPENCL_ERROR(CL_INVALID_VALUE)
        OPENCL_ERROR(CL_INVALID_DEVICE)
        OPENCL_ERROR(CL_INVALID_CONTEXT)
        OPENCL_ERROR(CL_INVALID_COMMAND_QUEUE)
        OPENCL_ERROR(CL_INVALID_MEM_OBJECT)
        OPENCL_ERROR(CL_INVALID_KERNEL_ARGS)
        OPENCL_ERROR(CL_INVALID_WORK_GROUP_SIZE)
        OPENCL_ERROR(CL_INVALID_BUFFER_SIZE)
#undef OPENCL_ERROR
        { -1001, "no platform" }, /* of the loader */
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].error == error) return names[i].name;
    }
    return "an error";
}
