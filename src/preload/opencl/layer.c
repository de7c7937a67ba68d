/* layer.c - how the ICD loader comes to load this library as a layer, and the table it gets.
 *
 * The loader asks getenv for OPENCL_LAYERS with the first call of OpenCL. It must not be in the
 * environment, which is the program's and is handed on to all that it starts; so getenv is
 * interposed for this one name. Where the library is loaded as a layer without having been asked
 * for (a variable somebody set by hand), it steps back. */
#include <stddef.h>
#include <string.h>

#include "preload/opencl/opencl.h"
#include "preload/preload.h"
#include "record/state.h"

#define EXPORT __attribute__((visibility("default")))
#define LAYERS "OPENCL_LAYERS"
#define LAYERS_MAX 2048u

cl_icd_dispatch sonde__opencl_next;

static cl_icd_dispatch layer_table;
static struct {
    uint32_t wanted, lock, made;
    char value[LAYERS_MAX];
} layer;

void sonde__opencl_start(void) { __atomic_store_n(&layer.wanted, 1, __ATOMIC_RELEASE); }

void sonde__opencl_layer_forked(void) { layer.lock = 0; }

/* ---- Being loaded ------------------------------------------------------------------------ */

/* Ours in front of those that the program wants. What does not fit is left as it is. */
static char *layer_value(char *theirs)
{
    const char *ours = sonde__host.library;
    const size_t len = strlen(ours), more = theirs ? strlen(theirs) : 0;
    if (!len || len + more + 2 > LAYERS_MAX || sonde__silent()) return theirs;
    if (theirs && strstr(theirs, ours)) return theirs;
    if (sonde__spin_wait(&layer.lock)) return theirs;
    if (!layer.made) {
        char *end = stpcpy(layer.value, ours);
        if (more) stpcpy(stpcpy(end, ":"), theirs);
        layer.made = 1;
    }
    __atomic_store_n(&layer.lock, 0, __ATOMIC_RELEASE);
    return layer.value;
}

static int layer_is_asked(const char *name)
{
    return name && name[0] == 'O' && !strcmp(name, LAYERS) &&
           __atomic_load_n(&layer.wanted, __ATOMIC_ACQUIRE);
}

EXPORT char *getenv(const char *name)
{
    char *value = SONDE__REAL(getenv)(name);
    return SONDE__LIKELY(!layer_is_asked(name)) ? value : layer_value(value);
}

EXPORT char *secure_getenv(const char *name)
{
    char *value = SONDE__REAL(secure_getenv)(name);
    return SONDE__LIKELY(!layer_is_asked(name)) ? value : layer_value(value);
}

/* ---- The layer --------------------------------------------------------------------------- */

EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info param, size_t size, void *value,
                                                      size_t *size_ret)
{
    static const char name[] = "sonde";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = param == CL_LAYER_NAME ? (const void *)name : (const void *)&version;
    const size_t bytes = param == CL_LAYER_NAME ? sizeof(name) : sizeof(version);
    if (param != CL_LAYER_NAME && param != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
    if (value && size < bytes) return CL_INVALID_VALUE;
    if (value) memcpy(value, from, bytes);
    if (size_ret) *size_ret = bytes;
    return CL_SUCCESS;
}

/* All functions that are used of what is behind: an older loader's table may end before them. */
static int layer_suits(cl_uint entries)
{
    return entries > offsetof(cl_icd_dispatch, clEnqueueBarrierWithWaitList) / sizeof(void *);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target,
                                                   cl_uint *entries_ret,
                                                   const cl_icd_dispatch **layer_ret)
{
    const cl_uint known = sizeof(cl_icd_dispatch) / sizeof(void *);
    if (!target || !entries_ret || !layer_ret) return CL_INVALID_VALUE;
    if (!__atomic_load_n(&layer.wanted, __ATOMIC_ACQUIRE) || !layer_suits(entries)) {
        return CL_INVALID_VALUE;
    }
    if (entries > known) entries = known;
    memcpy(&sonde__opencl_next, target, entries * sizeof(void *));
    memcpy(&layer_table, target, entries * sizeof(void *));
    sonde__opencl_queue_hooks(&layer_table);
    sonde__opencl_event_hooks(&layer_table);
    sonde__opencl_kernel_hooks(&layer_table);
    sonde__opencl_enqueue_hooks(&layer_table);
    sonde__opencl_transfer_hooks(&layer_table);
    sonde__opencl_svm_hooks(&layer_table);
    *entries_ret = entries;
    *layer_ret = &layer_table;
    return CL_SUCCESS;
}
