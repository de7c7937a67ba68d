/* load_gaps.c - gaps between events, counted in buckets by sub-windows of the run; see load.h.
 *
 * Below 2^9 ns each value has a bucket; above, each power of two is cut into 2^9 of equal width,
 * up to 2^40 ns (18 minutes), and what is longer is in the last: 16,384 buckets of 4 bytes, 64 KiB
 * a window and 8 MiB for all 128. When a gap is later than the last window can be, neighbours are
 * added to each other and windows are twice as wide; that passes over some megabytes, once in 32
 * s, then once in 64 s, and so on. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/http/load_answer.h"
#include "sonde/sonde.h"

enum { SUB_BITS = 9, TOP_BITS = 40 };
#define BUCKETS ((size_t)(TOP_BITS - SUB_BITS + 1) << SUB_BITS)

size_t sonde_load_gap_buckets(void) { return BUCKETS; }

size_t sonde_load_gap_bucket(uint64_t ns)
{
    if (ns < 1u << SUB_BITS) return (size_t)ns;
    if (ns >> TOP_BITS) return BUCKETS - 1;
    const unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - SUB_BITS;
    return ((size_t)shift << SUB_BITS) + (size_t)(ns >> shift);
}

double sonde_load_gap_middle_ns(size_t bucket)
{
    if (bucket < 1u << SUB_BITS) return (double)bucket;
    const size_t shift = (bucket >> SUB_BITS) - 1;
    const uint64_t low = (uint64_t)(bucket - (shift << SUB_BITS)) << shift;
    return (double)low + ((double)(1ull << shift) - 1) / 2;
}

int load_gaps_init(struct sonde_load_gaps *g, uint64_t begin_ns, uint64_t width_ns)
{
    assert(width_ns);
    uint32_t *counts = sonde__calloc(SONDE_LOAD_GAP_WINDOWS * BUCKETS, sizeof(*counts));
    if (!counts) return SONDE_ENOMEM;
    *g = (struct sonde_load_gaps){ .begin_ns = begin_ns, .width_ns = width_ns, .counts = counts };
    return 0;
}

void sonde_load_gaps_release(struct sonde_load_gaps *g)
{
    sonde__free(g->counts);
    *g = (struct sonde_load_gaps){ 0 };
}

static void gaps_row_add(uint32_t *into, const uint32_t *from)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        if (__builtin_add_overflow(into[i], from[i], &into[i])) into[i] = UINT32_MAX;
    }
}

/* Windows of twice the width. */
static void gaps_widen(struct sonde_load_gaps *g)
{
    const size_t half = (g->window_count + 1) / 2, row = BUCKETS * sizeof(*g->counts);
    for (size_t w = 0; w < half; w++) {
        uint32_t *into = g->counts + w * BUCKETS, *from = g->counts + 2 * w * BUCKETS;
        if (w) memcpy(into, from, row);
        if (2 * w + 1 < g->window_count) gaps_row_add(into, from + BUCKETS);
    }
    memset(g->counts + half * BUCKETS, 0, (g->window_count - half) * row);
    g->window_count = half;
    g->width_ns *= 2;
}

void load_gaps_add(struct sonde_load_gaps *g, uint64_t at_ns, uint64_t gap_ns)
{
    const uint64_t from_begin = at_ns > g->begin_ns ? at_ns - g->begin_ns : 0;
    while (from_begin / g->width_ns >= SONDE_LOAD_GAP_WINDOWS) gaps_widen(g);
    const size_t window = (size_t)(from_begin / g->width_ns);
    if (window >= g->window_count) g->window_count = window + 1;
    uint32_t *count = &g->counts[window * BUCKETS + sonde_load_gap_bucket(gap_ns)];
    *count += *count != UINT32_MAX;
}

void load_gaps_merge(struct sonde_load_gaps *into, struct sonde_load_gaps *from)
{
    assert(into->begin_ns == from->begin_ns);
    while (into->width_ns < from->width_ns) gaps_widen(into);
    while (from->width_ns < into->width_ns) gaps_widen(from);
    for (size_t w = 0; w < from->window_count; w++) {
        gaps_row_add(into->counts + w * BUCKETS, from->counts + w * BUCKETS);
    }
    if (from->window_count > into->window_count) into->window_count = from->window_count;
}
