#include "profile/formats/order.h"

#include <stdlib.h>

#include "base/alloc.h"

static int by_thread_and_time(const void *a, const void *b, void *samples)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct sonde_profile_sample *x = (const struct sonde_profile_sample *)samples + i;
    const struct sonde_profile_sample *y = (const struct sonde_profile_sample *)samples + k;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return i < k ? -1 : i > k;
}

uint32_t *sonde_samples_in_order(const struct sonde_profile *p,
                                 const struct sonde_profile_match *m)
{
    uint32_t count = 0;
    uint32_t *order = sonde__alloc(sonde_profile_match_count(m) * sizeof(*order));
    if (!order) return NULL;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) order[count++] = i;
    }
    qsort_r(order, count, sizeof(*order), by_thread_and_time, p->samples);
    return order;
}
