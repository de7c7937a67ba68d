/* growth.c - verdicts of a whole heap profile. See growth_series.c for one curve. */
#include "analyze/growth.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

#define Z_95 1.959964
enum { OBJECTS_MIN = 8 };        /* growth of fewer may be what is in flight just now */

/* Bytes in use at a tick; 0 before there were any. */
static double value_at(const struct sonde_curve *s, uint32_t tick)
{
    if (tick < s->first) return 0;
    const uint32_t per = s->per_point ? s->per_point : 1, i = (tick - s->first) / per;
    if (i < s->count) return (double)s->value[i];
    if (s->pending) return s->pending_sum / s->pending;
    return s->count ? (double)s->value[s->count - 1] : 0;
}

/* The tick that growth counts from, UINT32_MAX = there is none; sets the automatic mark. */
static uint32_t find_mark(struct sonde_heap *h)
{
    if (h->mark_automatic) h->mark_ns = 0;
    h->mark_automatic = 0;
    if (!(h->tick_s > 0)) return UINT32_MAX;
    if (h->mark_ns) {
        const double ticks = ((double)h->mark_ns - (double)h->tick0_ns) * 1e-9 / h->tick_s;
        return ticks <= 0 ? 0 : ticks < UINT32_MAX - 1.0 ? (uint32_t)ceil(ticks) : UINT32_MAX - 1;
    }
    const uint32_t tick = sonde_growth_warm_up(&h->growth);
    if (tick == UINT32_MAX) return UINT32_MAX;
    h->mark_ns = h->tick0_ns + (uint64_t)((double)tick * h->tick_s * 1e9);
    h->mark_automatic = 1;
    return tick;
}

/* In use at a mark that was not told in time, or at the start: from the curve, as many allocations
 * as are in proportion. */
static void mark_site(struct sonde_heap_site *s, uint32_t tick)
{
    const double live = s->live_bytes.value;
    s->mark_bytes = value_at(&s->growth, tick);
    s->mark_count = live > 0 ? s->live_count.value * s->mark_bytes / live : 0;
}

/* Is growth from this tick on that of more than a few objects, of the size that they have here? */
static int grown_by_many(const struct sonde_heap *h, const struct sonde_heap_site *s, uint32_t tick,
                         double slope)
{
    const uint32_t per = s->growth.per_point ? s->growth.per_point : 1;
    const double end = (double)s->growth.first + (double)s->growth.count * per;
    const double from = tick > s->growth.first ? tick : s->growth.first;
    const double count = s->alloc_count.value, size = count > 0 ? s->alloc_bytes.value / count : 0;
    return slope * (end - from) * h->tick_s >= OBJECTS_MIN * size;
}

/* Since the mark. An automatic one is where all memory in use calmed down, which need not be where
 * this site did: if what is left is too little to say, or a cache was full by then, the whole curve
 * tells. */
static void judge_site(const struct sonde_heap *h, struct sonde_heap_site *s, uint32_t tick)
{
    struct sonde_growth g, all;
    const double noise = (s->live_bytes.high - s->live_bytes.low) / (2 * Z_95);
    sonde_growth_judge(&s->growth, h->tick_s, tick, noise, &g);
    if (h->mark_automatic) {
        sonde_growth_judge(&s->growth, h->tick_s, 0, noise, &all);
        if (g.verdict == SONDE_HEAP_UNKNOWN ||
            (g.verdict == SONDE_HEAP_STABLE && all.verdict == SONDE_HEAP_CACHE)) {
            g = all;
            tick = 0;
        }
    }
    if (g.verdict == SONDE_HEAP_LEAK && h->full && !grown_by_many(h, s, tick, g.slope)) {
        g.verdict = SONDE_HEAP_UNKNOWN;
    }
    s->verdict = (uint32_t)g.verdict;
    s->slope = g.slope;
    s->slope_low = g.slope_low;
    s->slope_high = g.slope_high;
    s->grown_bytes = s->live_bytes.value - s->mark_bytes;
}

/* ---- Samples of kind LEAKED ------------------------------------------------------------------ */

static void growth_leaked(const struct sonde_heap *h, const struct sonde_heap_site *s,
                          double *bytes, double *count)
{
    *bytes = s->live_bytes.value;
    *count = s->live_count.value;
    if (h->ended) {
        if (!h->scanned) return;
        *bytes = s->lost_bytes;
        *count = s->lost_count;
    } else if ((h->mark_ns && !h->mark_automatic) || s->verdict == SONDE_HEAP_LEAK) {
        *bytes -= s->mark_bytes;
        *count -= s->mark_count;
    } else {
        *bytes = *count = 0;
    }
}

static void remove_leaked(struct sonde_profile *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (p->samples[i].kind != SONDE_SAMPLE_LEAKED) p->samples[kept++] = p->samples[i];
    }
    p->samples_count = kept;
}

/* By stack: are its samples truncated? Free it. */
static uint8_t *truncated_stacks(const struct sonde_profile *p)
{
    uint8_t *flags = sonde__calloc(p->stacks_count, 1);
    for (uint32_t i = 0; flags && i < p->samples_count; i++) {
        if (p->samples[i].flags & SONDE_SAMPLE_TRUNCATED) flags[p->samples[i].stack] = 1;
    }
    return flags;
}

static int add_leaked(struct sonde_profile *p)
{
    const struct sonde_heap *h = p->heap;
    uint8_t *truncated = truncated_stacks(p);
    int rc = truncated ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && i < h->site_count; i++) {
        const struct sonde_heap_site *s = &h->sites[i];
        double bytes, count;
        growth_leaked(h, s, &bytes, &count);
        if (!(bytes >= 0.5) || !s->stack || s->stack >= p->stacks_count) continue;
        const struct sonde_profile_sample sample = {
            .kind = SONDE_SAMPLE_LEAKED, .stack = s->stack, .weight = (uint64_t)(bytes + 0.5),
            .count = count < 1 ? 1 : count < UINT32_MAX ? (uint32_t)(count + 0.5) : UINT32_MAX,
            .flags = truncated[s->stack] ? SONDE_SAMPLE_TRUNCATED : 0 };
        rc = sonde_profile_add_sample(p, &sample);
    }
    sonde__free(truncated);
    return rc;
}

int sonde_growth_judge_profile(struct sonde_profile *p)
{
    struct sonde_heap *h = p->heap;
    if (!h) return 0;
    const uint32_t found = find_mark(h), tick = found == UINT32_MAX ? 0 : found;
    for (uint32_t i = 0; i < h->site_count; i++) {
        if (h->mark_automatic || !h->mark_ns) mark_site(&h->sites[i], tick);
        judge_site(h, &h->sites[i], tick);
    }
    remove_leaked(p);
    return add_leaked(p);
}
