/* heap_build.h - heap facts of a small profile, for tests. */
#ifndef SONDE_TESTS_HEAP_BUILD_H
#define SONDE_TESTS_HEAP_BUILD_H

#include <stdlib.h>

#include "base/alloc.h"
#include "profile/heap.h"
#include "unit/profile/profile_build.h"

#define BUILD_HEAP_SITES 3u

static inline struct sonde_heap_amount build_amount(double value)
{
    return (struct sonde_heap_amount){ value, value - value / 4, value + value / 4 };
}

/* Every field has a value of its own. */
static inline struct sonde_heap *build_heap_facts(struct sonde_profile *p)
{
    static const char *const stacks[BUILD_HEAP_SITES] = { "main;load;malloc", "main;serve;malloc",
                                                          "main;load" };
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    if (!h) abort();
    h->full = 1;
    h->mean = 4096;
    h->allocator = sonde_profile_cstring(p, "/lib/libc.so.6");
    h->mark_ns = 1700000001000000000u;
    h->mark_automatic = 1;
    h->ended = 1;
    h->tick_s = 0.25;
    h->tick0_ns = 1700000000000000000u;
    h->live_bytes = build_amount(1000);
    h->live_count = build_amount(10);
    h->alloc_bytes = build_amount(5000);
    h->alloc_count = build_amount(50);
    h->peak_bytes = 2000;
    h->peak_ns = 1700000000500000000u;
    h->rss_bytes = 1 << 20;
    h->rss_peak_bytes = 2 << 20;
    h->pss_bytes = 1 << 19;
    h->arenas = 2;
    h->arena_system = 11;
    h->arena_used = 12;
    h->arena_free = 13;
    h->arena_mapped = 14;
    h->arena_trim = 15;
    h->arena_known = 1;
    h->lost_events = 21;
    h->reentrant = 22;
    h->refused = 23;
    h->truncated = 24;
    h->unmatched = 25;
    h->failed = 26;
    h->scanned = 1;
    for (uint32_t i = 0; i < SONDE_HEAP_SIZES; i++) h->size_class[i] = i * 1.5;
    for (uint32_t i = 0; i < SONDE_HEAP_LIFETIMES; i++) h->lifetime[i] = i * 2.5;
    h->sites = sonde__calloc(BUILD_HEAP_SITES, sizeof(*h->sites));
    h->points = sonde__calloc(2, sizeof(*h->points));
    h->threads = sonde__calloc(1, sizeof(*h->threads));
    h->pools = sonde__calloc(2, sizeof(*h->pools));
    if (!h->sites || !h->points || !h->threads || !h->pools) abort();
    h->site_count = BUILD_HEAP_SITES;
    h->point_count = h->pool_count = 2;
    h->thread_count = 1;
    for (uint32_t i = 0; i < BUILD_HEAP_SITES; i++) {
        struct sonde_heap_site *s = &h->sites[i];
        const double k = 100.0 * (BUILD_HEAP_SITES - i);
        *s = (struct sonde_heap_site){
            .stack = build_stack(p, stacks[i]), .verdict = i,
            .live_bytes = build_amount(k), .live_count = build_amount(k + 1),
            .alloc_bytes = build_amount(k + 2), .alloc_count = build_amount(k + 3),
            .peak_bytes = k + 4, .temp_bytes = k + 5, .temp_count = k + 6, .mapped_bytes = k + 7,
            .lifetime_s = i ? k + 8 : -1, .mark_bytes = k + 9, .mark_count = k + 10,
            .grown_bytes = -k, .slope = -k - 1, .slope_low = -k - 2, .slope_high = k,
            .lost_bytes = i ? k : -1, .lost_count = i ? 2 : -1,
        };
        s->growth.first = 5 * i;
        for (uint32_t t = 0; t < 50 * i + 3; t++) sonde_curve_add(&s->growth, i == 1 ? 7 : t);
        for (uint32_t t = 0; t < 77; t++) sonde_curve_add(&h->growth, t * 0.5);
    }
    for (uint32_t i = 0; i < 2; i++) {
        h->points[i] = (struct sonde_heap_point){ h->tick0_ns + i, 1 + i, 2 + i, 3 + i, 4 + i,
                                                  5 + i };
        h->pools[i] = (struct sonde_heap_pool){ sonde_profile_cstring(p, i ? "kv" : "/m.gguf"), !i,
                                                600 + i, 700 + i };
    }
    h->threads[0] = (struct sonde_heap_thread){ sonde_profile_thread(p, 1, 2, "worker"), 31, 32 };
    return h;
}

#endif
