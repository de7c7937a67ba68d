/* heap_sample.h - a heap profile as a server's would be, for tests of what shows it: a leak, a
 * cache that fills, what was loaded at the start, a ring; 120 seconds. */
#ifndef SONDE_TESTS_HEAP_SAMPLE_H
#define SONDE_TESTS_HEAP_SAMPLE_H

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "profile/heap.h"
#include "unit/profile/profile_build.h"

#define HEAP_SAMPLE_START 1700000000000000000u
enum { HEAP_SAMPLE_TICKS = 120, HEAP_SAMPLE_SITES = 5 };

/* "function file:line" frames from the innermost on; the last is the thread's start. */
static inline uint32_t heap_sample_stack(struct sonde_profile *p, const char *const *frames,
                                         const uint32_t *lines, size_t count)
{
    uint32_t stack = 0;
    for (size_t i = count; i-- > 0;) {
        const struct sonde_profile_function f = {
            .name = sonde_profile_cstring(p, frames[i]),
            .file = lines[i] ? sonde_profile_cstring(p, "src/server.c") : 0 };
        const struct sonde_profile_line line = { sonde_profile_function(p, &f), lines[i] };
        stack = sonde_profile_stack(p, stack, sonde_profile_lines_location(p, 0, 0, &line, 1));
    }
    return stack;
}

static inline struct sonde_heap_amount heap_sample_amount(double v, double share)
{
    return (struct sonde_heap_amount){ v, v * (1 - share), v * (1 + share) };
}

static inline double heap_sample_bytes(uint32_t site, double t)
{
    switch (site) {
    case 0: return 64e6 * fmin(t / 10, 1);
    case 1: return 16e6 * (1 - exp(-t / 50));
    case 2: return 6667 * t;
    case 3: return 1e6 * fmod(t, 6) / 6;
    default: return 0;
    }
}

/* share: of each amount, half its interval; 0 = exact. */
static inline struct sonde_profile *heap_sample(double share)
{
    static const char *const frames[HEAP_SAMPLE_SITES][5] = {
        { "malloc", "load_weights", "main", "__libc_start_main" },
        { "operator new(unsigned long)",
          "void std::vector<int>::_M_realloc_insert<int>(int&&)", "cache_put", "handle", "main" },
        { "malloc", "session_open", "handle", "main" },
        { "ring_push", "handle", "main" },
        { "format_reply", "handle", "main" },
    };
    static const uint32_t lines[HEAP_SAMPLE_SITES][5] = {
        { 0, 31, 210, 0 }, { 0, 0, 77, 150, 215 }, { 0, 99, 152, 215 }, { 120, 155, 215 },
        { 130, 157, 215 },
    };
    static const size_t depth[HEAP_SAMPLE_SITES] = { 4, 5, 4, 3, 3 };
    struct sonde_profile *p;
    if (sonde_profile_create(0, &p)) abort();
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    if (!h) abort();
    h->sites = sonde__calloc(HEAP_SAMPLE_SITES, sizeof(*h->sites));
    h->points = sonde__calloc(HEAP_SAMPLE_TICKS, sizeof(*h->points));
    h->threads = sonde__calloc(2, sizeof(*h->threads));
    h->pools = sonde__calloc(4, sizeof(*h->pools));
    if (!h->sites || !h->points || !h->threads || !h->pools) abort();
    p->start_ns = HEAP_SAMPLE_START;
    p->end_ns = HEAP_SAMPLE_START + HEAP_SAMPLE_TICKS * 1000000000ull;
    p->program = sonde_profile_cstring(p, "server");
    h->full = share <= 0;
    h->mean = 524288;
    h->allocator = sonde_profile_cstring(p, "/lib/x86_64-linux-gnu/libc.so.6");
    h->tick_s = 1;
    h->tick0_ns = HEAP_SAMPLE_START;
    h->site_count = HEAP_SAMPLE_SITES;
    h->point_count = HEAP_SAMPLE_TICKS;
    h->thread_count = 2;
    h->pool_count = 4;
    for (uint32_t t = 0; t < HEAP_SAMPLE_TICKS; t++) {
        double all = 0;
        for (uint32_t i = 0; i < HEAP_SAMPLE_SITES; i++) {
            const double v = heap_sample_bytes(i, t);
            sonde_curve_add(&h->sites[i].growth, v);
            h->sites[i].live_bytes = heap_sample_amount(v, share);
            all += v;
        }
        sonde_curve_add(&h->growth, all);
        h->live_bytes = heap_sample_amount(all, share);
        h->points[t] = (struct sonde_heap_point){
            .time_ns = HEAP_SAMPLE_START + t * 1000000000ull, .live_bytes = (uint64_t)all,
            .live_count = 100 + t, .alloc_bytes = (uint64_t)(64e6 + 2e6 * t),
            .alloc_count = 80130 + 1000u * t, .rss_bytes = (uint64_t)(90e6 + all / 5) };
    }
    for (uint32_t i = 0; i < HEAP_SAMPLE_SITES; i++) {
        struct sonde_heap_site *s = &h->sites[i];
        s->stack = heap_sample_stack(p, frames[i], lines[i], depth[i]);
        s->live_count = heap_sample_amount(i == 2 ? 99000 : 10 * (i + 1), share);
        s->alloc_bytes = heap_sample_amount(s->live_bytes.value + (i > 2 ? 100e6 : 0), share);
        s->alloc_count = heap_sample_amount(s->live_count.value + (i > 2 ? 50000 : 0), share);
        s->peak_bytes = s->live_bytes.value;
        s->temp_bytes = i == 4 ? 90e6 : 0;
        s->temp_count = i == 4 ? 45000 : 0;
        s->lifetime_s = i > 2 ? 0.0021 * i : -1;
        s->lost_bytes = s->lost_count = -1;
        const struct sonde_profile_sample samples[] = {
            { .kind = SONDE_SAMPLE_LIVE, .weight = (uint64_t)s->live_bytes.value },
            { .kind = SONDE_SAMPLE_ALLOC, .weight = (uint64_t)s->alloc_bytes.value },
        };
        for (size_t k = 0; k < 2; k++) {
            struct sonde_profile_sample sample = samples[k];
            sample.stack = s->stack;
            sample.count = 1;
            if (sample.weight && sonde_profile_add_sample(p, &sample)) abort();
        }
    }
    h->live_count = heap_sample_amount(99130, share);
    h->alloc_bytes = heap_sample_amount(302e6, share);
    h->alloc_count = heap_sample_amount(199130, share);
    h->peak_bytes = 81000000;
    h->peak_ns = HEAP_SAMPLE_START + 113500000000u;
    h->rss_bytes = 106000000;
    h->rss_peak_bytes = 108000000;
    h->pss_bytes = 105000000;
    h->arenas = 3;
    h->arena_system = 30000000;
    h->arena_used = 21000000;
    h->arena_free = 9000000;
    h->arena_mapped = 64000000;
    h->arena_trim = 4000000;
    h->arena_known = 1;
    h->unmatched = 7;
    for (uint32_t i = 2; i < 40; i++) h->size_class[i] = 10000.0 / (1 + abs((int)i - 9));
    for (uint32_t i = 3; i < 20; i++) h->lifetime[i] = 5000.0 / (1 + abs((int)i - 8));
    h->threads[0] = (struct sonde_heap_thread){ sonde_profile_thread(p, 7, 8, "worker"), 230000000,
                                                190000 };
    h->threads[1] = (struct sonde_heap_thread){ sonde_profile_thread(p, 7, 7, "main"), 72000000,
                                                9130 };
    h->pools[0] = (struct sonde_heap_pool){ sonde_profile_cstring(p, "kv"), 0, 16000000, 0 };
    h->pools[1] = (struct sonde_heap_pool){ sonde_profile_cstring(p, "/models/m.gguf"), 1,
                                            400000000, 64000000 };
    h->pools[2] = (struct sonde_heap_pool){ sonde_profile_cstring(p, "[anon:arena]"), 1, 2000000,
                                            1024000 };
    h->pools[3] = (struct sonde_heap_pool){ sonde_profile_cstring(p, "[vdso]"), 1, 8192, 4096 };
    if (sonde_profile_take_heap(p, h)) abort();
    return p;
}

#endif
