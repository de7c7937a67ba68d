/* heap_place.c - see heap_place.h.
 *
 * heap_frames() knows well-known wrappers by name. A program's own ones are known by what else they
 * do: a function through which other places get memory that they free again is not what keeps it,
 * so its caller is looked at, and so on outwards. A function all of whose memory stays is the
 * place, whoever calls it. */
#include "analyze/finding/heap_place.h"

#include <string.h>

enum { FRAMES_MAX = 12 };
#define GIVEN_BACK 0.5 /* of what was allocated: then it is freed as a rule */

/* How many of the innermost functions two stacks share. */
static size_t heap_place_shared(const struct heap_frame *a, size_t a_count,
                                const struct heap_frame *b, size_t b_count)
{
    size_t n = 0;
    while (n < a_count && n < b_count &&
           !strcmp(heap_frame_name(&a[n]), heap_frame_name(&b[n])) &&
           !strcmp(a[n].module, b[n].module)) {
        n++;
    }
    return n;
}

int finding_heap_place(const struct sonde_profile *p, const struct sonde_heap_site *s,
                       struct finding_heap_place *out)
{
    const struct sonde_heap *h = p->heap;
    struct heap_frame own[FRAMES_MAX], other[FRAMES_MAX];
    const size_t count = heap_frames(p, s->stack, own, FRAMES_MAX);
    size_t at = 0;
    if (!count) return 0;
    for (uint32_t i = 0; i < h->site_count; i++) {
        const struct sonde_heap_site *o = &h->sites[i];
        if (o == s || o->live_bytes.value > GIVEN_BACK * o->alloc_bytes.value) continue;
        const size_t n = heap_frames(p, o->stack, other, FRAMES_MAX);
        const size_t shared = heap_place_shared(own, count, other, n);
        if (shared > at) at = shared;
    }
    if (at >= count) at = 0; /* the same functions all the way: nothing tells them apart */
    out->frame = own[at];
    out->has_caller = at + 1 < count;
    if (out->has_caller) out->caller = own[at + 1];
    return 1;
}
