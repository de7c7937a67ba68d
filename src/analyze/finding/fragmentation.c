/* fragmentation.c - memory that the allocator has from the kernel and nobody uses, which it cannot
 * give back, as glibc counts it or as mappings show it; and pools of an inference engine whose free
 * memory is in pieces that are too small. */
#include <math.h>
#include <string.h>

#include "analyze/engine.h"
#include "analyze/finding/rule.h"
#include "profile/heap.h"

#define INFO_SHARE 0.25
#define WARNING_SHARE 0.45
#define BYTES_MIN (8.0 * 1048576)
#define POOL_SHARE 0.5
#define MIB 1048576.0
#define BLOCK_BYTES 16.0      /* of the allocator's own for each block */
#define TRIM_MAX (64 * MIB)   /* glibc keeps at most so much at the end of the heap */

/* What is free in the heap and cannot be given back. */
struct fragmentation_held {
    double system, held;         /* bytes: from the kernel, and of that */
    int counted;                 /* 1: as the allocator counts it; 0: as mappings show it */
};

static void fragmentation_counted(const struct sonde_heap *h, struct fragmentation_held *out)
{
    /* What is free at the end of the heap goes back with the next trim. */
    *out = (struct fragmentation_held){ .system = (double)h->arena_system, .counted = 1,
                                        .held = (double)h->arena_free - (double)h->arena_trim };
}

/* The allocator is asked when memory is allocated, so of a program that has since only freed and
 * worked it is known as it was then. The kernel knows how much of the heap is resident, and the
 * profiler how much is in use. At its peak the heap was full of it: what is resident was not put
 * there by others. */
static void fragmentation_seen(const struct sonde_profile *p, struct fragmentation_held *out)
{
    const struct sonde_heap *h = p->heap;
    const double used = h->live_bytes.high + BLOCK_BYTES * h->live_count.high;
    for (uint32_t i = 0; i < h->pool_count; i++) {
        const struct sonde_heap_pool *pool = &h->pools[i];
        const double resident = (double)pool->rss_bytes;
        if (!pool->mapped || strcmp(sonde_profile_str(p, pool->name), "[heap]") != 0) continue;
        if ((double)h->arena_system > resident / 2 || (double)h->peak_bytes < resident / 2) return;
        *out = (struct fragmentation_held){ .system = resident, .held = resident - used };
    }
    if (out->held < TRIM_MAX) *out = (struct fragmentation_held){ .held = 0 };
}

static void fragmentation_tell(struct finding_look *l, struct sonde_finding *f,
                               const struct fragmentation_held *m)
{
    const struct sonde_heap *h = l->p->heap;
    if (m->counted) {
        finding_text(l, f,
                     "%.1f MiB of the %.1f MiB that malloc has from the kernel are free but cannot "
                     "be given back (%.0f %%): they lie between blocks that are in use",
                     m->held / MIB, m->system / MIB, 100 * f->share);
        finding_prove_series(l, f, &(struct finding_series){
            .family = "sonde_heap_allocator_bytes", .label = "state=\"free\"" },
            "bytes", "free in the allocator");
    } else {
        finding_text(l, f,
                     "%.1f MiB of the heap are resident, but only %.1f MiB (%.1f … %.1f) are in "
                     "use, after %.1f MiB at the peak: what was freed lies between blocks that "
                     "stay, and cannot be given back",
                     m->system / MIB, h->live_bytes.value / MIB, h->live_bytes.low / MIB,
                     h->live_bytes.high / MIB, (double)h->peak_bytes / MIB);
    }
    finding_prove_series(
        l, f, &(struct finding_series){ .family = "sonde_process_resident_memory_bytes" },
        "bytes", "resident");
}

static void fragmentation_of_heap(struct finding_look *l)
{
    const struct sonde_heap *h = l->p->heap;
    struct fragmentation_held counted, seen = { .held = 0 };
    if (!h || !h->arena_known) return;
    fragmentation_counted(h, &counted);
    fragmentation_seen(l->p, &seen);
    const struct fragmentation_held *m = seen.held > counted.held ? &seen : &counted;
    if (!(m->system > 0)) return;
    const double share = m->held / m->system;
    if (share < INFO_SHARE || m->held < BYTES_MIN) return;
    struct sonde_finding *f = finding_add(
        l, share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, "heap", "", 0);
    f->share = share;
    f->bytes = m->held;
    f->gain = share;
    f->gain_of = "heap";
    fragmentation_tell(l, f, m);
    if (!isnan(l->cpus) && (double)h->arenas > 2 * l->cpus) {
        finding_advise(l, f,
                       "there are %llu arenas on %.0f CPUs: MALLOC_ARENA_MAX=%.0f leaves fewer "
                       "gaps; else allocate what lives long apart from what lives short",
                       (unsigned long long)h->arenas, l->cpus, fmax(1, l->cpus));
    } else {
        finding_advise(l, f,
                       "allocate what lives long apart from what lives short (a pool, or a "
                       "separate arena), or use an allocator with size classes: "
                       "LD_PRELOAD=libjemalloc.so.2; malloc_trim(0) returns whole free pages now");
    }
}

static void fragmentation_of_pool(struct finding_look *l, const struct sonde_engine_pool *pool)
{
    const double free_bytes = pool->capacity_bytes - pool->used_bytes;
    /* Where the largest free piece is not told there is nothing to judge. */
    if (!(pool->free_block_bytes > 0) || !(pool->external >= POOL_SHARE)) return;
    if (!pool->failures && free_bytes < 0.2 * pool->capacity_bytes) return;
    struct sonde_finding *f = finding_add(l, pool->failures ? SONDE_SEVERITY_CRITICAL
                                                            : SONDE_SEVERITY_WARNING,
                                          pool->external * free_bytes / pool->capacity_bytes);
    finding_subject(l, f, pool->pool, "", 0);
    f->share = pool->external;
    f->bytes = free_bytes;
    finding_text(l, f,
                 "pool %.100s has %.1f of %.1f MiB free, but the largest piece is %.1f MiB (%.0f "
                 "%% fragmented); %llu allocations failed",
                 pool->pool, free_bytes / MIB, pool->capacity_bytes / MIB,
                 pool->free_block_bytes / MIB, 100 * pool->external,
                 (unsigned long long)pool->failures);
    finding_advise(l, f, "give pool %.100s blocks of one size, or compact it", pool->pool);
}

static void fragmentation_look(struct finding_look *l)
{
    const struct sonde_final *run = l->p->final;
    struct sonde_engine *e = NULL;
    fragmentation_of_heap(l);
    if (!run || l->rc) return;
    l->rc = sonde_engine_build(run->series, run->count, &e);
    for (uint32_t i = 0; e && i < e->pool_count; i++) fragmentation_of_pool(l, &e->pools[i]);
    sonde_engine_destroy(e);
}

extern const struct finding_rule finding_rule_fragmentation;
const struct finding_rule finding_rule_fragmentation = {
    .kind = "fragmentation",
    .title = "Fragmentation",
    .summary = "a quarter or more of the heap is free but cannot be given back; a warning from 45 "
               "% on",
    .look = fragmentation_look,
};
