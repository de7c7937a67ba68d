/* window.c - what was allocated in a stretch of time, by events alone: see sonde_heap_reader_window. */
#include <math.h>

#include "collect/heap/private.h"
#include "sonde/sonde.h"

double heap_inverse_chance(const struct heap_target *t, const struct heap_event *e)
{
    return -1 / expm1(-((double)e->size + 1) / (double)t->info.mean);
}

static int heap_window_add_event(struct heap_target *t, struct heap_stacks *stacks,
                                 const struct heap_event *e, double factor, struct sonde_profile *p,
                                 struct sonde_err *err)
{
    uint32_t stack = 0;
    int truncated = 0;
    const int rc = heap_stacks_get(stacks, e->node, &stack, &truncated, err);
    if (rc || !stack) return rc;
    const struct heap_thread *thread = heap_target_thread(t, e->tid);
    const double many = heap_inverse_chance(t, e) * factor;
    const struct sonde_profile_sample like = {
        .stack = stack, .kind = SONDE_SAMPLE_ALLOC, .time_ns = e->time_ns,
        .flags = truncated ? SONDE_SAMPLE_TRUNCATED : 0,
        .thread = sonde_profile_thread(p, t->base.id.pid, e->tid, thread ? thread->name : "") };
    heap_sum_sample(p, &like, many * (double)e->size, many);
    return 0;
}

int heap_window(struct heap_target *t, uint32_t shift, uint64_t from_ns, uint64_t to_ns,
               struct sonde_profile *p, struct sonde_err *err)
{
    struct heap_stacks stacks;
    /* Events may name nodes that are newer than what was read before them. */
    int rc = sonde_segment_heap(t->base.segment, &t->info, err);
    if (rc) return rc;
    rc = heap_stacks_init(&stacks, t, p) ? SONDE_ENOMEM : 0;
    for (uint32_t i = 0; !rc && i < t->event_count; i++) {
        const struct heap_event *e = &t->events[i];
        if (e->time_ns < from_ns || e->time_ns >= to_ns || e->node >= t->info.nodes) continue;
        rc = heap_window_add_event(t, &stacks, e, ldexp(1, (int)shift), p, err);
    }
    heap_stacks_release(&stacks);
    sonde_segment_forget(t->base.segment);
    return rc;
}
