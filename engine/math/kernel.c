/* kernel.c - which variant: the best that this CPU has, or the one that is asked for. */
#include "math/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "math/kernel_variants.h"

static const struct kernel_ops *const kernel_variants[] = {
#if defined(__x86_64__)
    &kernel_avx512,
    &kernel_avx2,
#endif
    &kernel_portable,
    NULL,
};

const struct kernel_ops *const *kernel_all(void) { return kernel_variants; }

const struct kernel_ops *kernel_named(const char *name)
{
    for (const struct kernel_ops *const *k = kernel_variants; *k; k++) {
        if (!strcmp((*k)->name, name)) return (*k)->usable() ? *k : NULL;
    }
    return NULL;
}

int kernel_refuse(struct fail *why)
{
    char usable[64] = "";
    for (const struct kernel_ops *const *k = kernel_variants; *k; k++) {
        const size_t n = strlen(usable);
        if ((*k)->usable()) {
            snprintf(usable + n, sizeof(usable) - n, "%s%s", n ? ", " : "", (*k)->name);
        }
    }
    const char *name = getenv("SONDE_ENGINE_KERNEL");
    return fail_set(why, "SONDE_ENGINE_KERNEL is \"%.32s\", and this CPU can run %s",
                    name ? name : "", usable);
}

const struct kernel_ops *kernel_choose(void)
{
    const char *name = getenv("SONDE_ENGINE_KERNEL");
    if (name && *name) return kernel_named(name);
    const struct kernel_ops *const *k = kernel_variants;
    while (!(*k)->usable()) k++; /* the portable one always is */
    return *k;
}
