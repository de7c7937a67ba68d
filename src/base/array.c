#include "base/array.h"

#include <assert.h>

#include "base/alloc.h"

/* Few enough for the many arrays that stay small, and no more than three allocations to 64. */
enum { FIRST = 16 };

void *sonde_array_grow(void *items, size_t *cap, size_t needed, size_t item_bytes, size_t cap_max,
                       int *error)
{
    assert(item_bytes);
    assert(needed > *cap);
    size_t bytes;
    if (needed > cap_max) {
        *error = SONDE_EFULL;
        return NULL;
    }
    size_t more = *cap > cap_max / 2 ? cap_max : *cap * 2;
    if (more < FIRST) more = FIRST < cap_max ? FIRST : cap_max;
    if (more < needed) more = needed;
    /* PTRDIFF_MAX: what is larger cannot be indexed, and malloc refuses it. */
    void *grown = __builtin_mul_overflow(more, item_bytes, &bytes) || bytes > PTRDIFF_MAX
                      ? NULL
                      : sonde__realloc(items, bytes);
    *error = grown ? 0 : SONDE_ENOMEM;
    if (grown) *cap = more;
    return grown;
}
