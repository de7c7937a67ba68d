/* real.c - the functions behind the ones that this library stands in front of. */
#include <dlfcn.h>

#include "preload/preload.h"

static void *found[SONDE__REAL_COUNT];

void *sonde__real(enum sonde__real_id id)
{
    static const char *const names[] = {
#define SONDE__X(name) #name,
        SONDE__INTERPOSED(SONDE__X)
#undef SONDE__X
    };
    void *f = __atomic_load_n(&found[id], __ATOMIC_RELAXED);
    if (f) return f;
    f = dlsym(RTLD_NEXT, names[id]);
    __atomic_store_n(&found[id], f, __ATOMIC_RELAXED);
    return f;
}
