/* heap.c - the heap of a program as series: what libsonde_preload keeps of it is in the
 * segment (segment/heap.h), so every agent that reads the segment has them. */
#include "collect/segment/private.h"
#include "sonde/sonde.h"

#define SPEC(family_name, family_type, family_unit, family_help)                                 \
    { .name = family_name, .type = family_type, .unit = family_unit, .help = family_help,        \
      .source = "sonde", .kind = SONDE_KIND_MEMORY }

enum {
    LIVE_BYTES, LIVE_COUNT, PEAK_BYTES, ALLOC_BYTES, ALLOC_COUNT, FREE_BYTES, REFUSED,
    ARENA_USED, ARENA_FREE, ARENA_MAPPED, ARENA_TRIM, FIGURES
};
_Static_assert(FIGURES == SEGMENT_HEAP_SERIES, "one series each");

#define ARENA SPEC("sonde_heap_allocator_bytes", SONDE_GAUGE, "bytes",                           \
                   "Memory that the allocator (glibc's) holds: used, free, in large blocks of "  \
                   "their own (mapped), and what malloc_trim would return (trimmable).")

static const struct {
    struct sonde_model_family_spec spec;
    const char *state;            /* value of a label "state"; NULL = none */
} figures[FIGURES] = {
    [LIVE_BYTES] = { SPEC("sonde_heap_live_bytes", SONDE_GAUGE, "bytes",
                          "Memory in use that the program allocated."), NULL },
    [LIVE_COUNT] = { SPEC("sonde_heap_live_allocations", SONDE_GAUGE, NULL,
                          "Allocations in use."), NULL },
    [PEAK_BYTES] = { SPEC("sonde_heap_peak_bytes", SONDE_GAUGE, "bytes",
                          "The most memory that was in use."), NULL },
    [ALLOC_BYTES] = { SPEC("sonde_heap_allocated_bytes_total", SONDE_COUNTER, "bytes",
                           "Memory allocated."), NULL },
    [ALLOC_COUNT] = { SPEC("sonde_heap_allocations_total", SONDE_COUNTER, NULL, "Allocations."),
                      NULL },
    [FREE_BYTES] = { SPEC("sonde_heap_freed_bytes_total", SONDE_COUNTER, "bytes",
                          "Memory given back."), NULL },
    [REFUSED] = { SPEC("sonde_heap_unrecorded_total", SONDE_COUNTER, NULL,
                       "Allocations that are in no figure: no memory for tables, or in a signal "
                       "handler."), NULL },
    [ARENA_USED] = { ARENA, "used" },
    [ARENA_FREE] = { ARENA, "free" },
    [ARENA_MAPPED] = { ARENA, "mapped" },
    [ARENA_TRIM] = { ARENA, "trimmable" },
};

static struct sonde_model_series *segment_malloc_series_of(struct sonde_segment *s,
                                                           struct sonde_model *m,
                                                           struct sonde_model_process *p,
                                                           uint32_t i)
{
    if (s->heap_series[i]) return s->heap_series[i];
    const struct sonde_label label = { "state", figures[i].state };
    s->heap_series[i] =
        sonde_model_own_series(m, &figures[i].spec, p, &label, figures[i].state != NULL);
    /* It is the process that counts: of one that is found late the first value is no increase. */
    if (s->heap_series[i]) s->heap_series[i]->from_zero = s->fresh != 0;
    return s->heap_series[i];
}

int segment_heap_read(struct sonde_segment *s, struct sonde_model *m,
                      struct sonde_model_process *p, struct sonde_err *err)
{
    struct sonde_segment_heap_info info;
    struct sonde_segment_heap_totals t;
    const int rc = sonde_segment_heap(s, &info, err);
    /* Without memory to read it there are no figures of the heap; others stay. */
    if (rc) return rc == SONDE_EFORMAT ? rc : 0;
    sonde_segment_heap_totals(s, &t);
    const uint64_t live = t.alloc_bytes - t.free_bytes;
    const uint64_t value[FIGURES] = {
        [LIVE_BYTES] = live,
        [LIVE_COUNT] = (t.allocs - t.frees) >> info.count_shift,
        /* As the process finds it, which may be a little behind. */
        [PEAK_BYTES] = info.peak_bytes > live ? info.peak_bytes : live,
        [ALLOC_BYTES] = t.alloc_bytes,
        [ALLOC_COUNT] = t.allocs >> info.count_shift,
        [FREE_BYTES] = t.free_bytes,
        [REFUSED] = info.refused + info.reentrant,
        [ARENA_USED] = info.arena.used_bytes,
        [ARENA_FREE] = info.arena.free_bytes,
        [ARENA_MAPPED] = info.arena.mapped_bytes,
        [ARENA_TRIM] = info.arena.trim_bytes,
    };
    for (uint32_t i = 0; i < FIGURES; i++) {
        if (figures[i].state && !info.arena.ticks) continue; /* the allocator does not say */
        struct sonde_model_series *series = segment_malloc_series_of(s, m, p, i);
        if (!series) continue;
        if (figures[i].spec.type == SONDE_GAUGE) series->gauge = (double)value[i];
        else if (value[i] > series->counter) series->counter = value[i];
    }
    return 0;
}
