/* innermost.c - the innermost span of every sample, by one sweep over time: starts of spans and
 * samples of a thread in order, with the open spans on a stack. */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

/* A span's start, or a sample. */
struct innermost_event {
    uint64_t time_ns;
    uint64_t length_ns;  /* longer spans first, so that nested ones end up on top */
    uint32_t thread;
    uint32_t is_sample;  /* after spans that start at the same time */
    uint32_t index;
};

static int innermost_in_order(const void *a, const void *b)
{
    const struct innermost_event *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->time_ns != y->time_ns) return SONDE_CMP(x->time_ns, y->time_ns);
    if (x->is_sample != y->is_sample) return SONDE_CMP(x->is_sample, y->is_sample);
    if (x->length_ns != y->length_ns) return SONDE_CMP(y->length_ns, x->length_ns);
    return SONDE_CMP(x->index, y->index);
}

static size_t innermost_collect(const struct sonde_profile *p, struct innermost_event *events)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (!s->thread || s->end_ns <= s->start_ns) continue;
        events[n++] = (struct innermost_event){ s->start_ns, s->end_ns - s->start_ns,
                                                s->thread, 0, i };
    }
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (!s->thread || !s->time_ns) continue;
        events[n++] = (struct innermost_event){ s->time_ns, 0, s->thread, 1, i };
    }
    return n;
}

static void innermost_sweep(const struct sonde_profile *p, const struct innermost_event *events,
                            size_t count, uint32_t *open, uint32_t *of_sample, uint32_t *of_span)
{
    size_t depth = 0;
    for (size_t i = 0; i < count; i++) {
        const struct innermost_event *e = &events[i];
        if (i && events[i - 1].thread != e->thread) depth = 0;
        while (depth && p->spans[open[depth - 1]].end_ns <= e->time_ns) depth--;
        uint32_t *out = e->is_sample ? of_sample : of_span;
        if (depth && out) out[e->index] = open[depth - 1] + 1;
        assert(depth < p->spans_count || e->is_sample);
        if (!e->is_sample) open[depth++] = e->index;
    }
}

int sonde_profile_innermost_spans(const struct sonde_profile *p, uint32_t **of_sample,
                                  uint32_t **of_span)
{
    const size_t all = (size_t)p->spans_count + p->samples_count;
    uint32_t *samples = sonde__calloc(p->samples_count, sizeof(*samples));
    uint32_t *spans = of_span ? sonde__calloc(p->spans_count, sizeof(*spans)) : NULL;
    uint32_t *open = sonde__calloc(p->spans_count, sizeof(*open));
    struct innermost_event *events = p->spans_count ? sonde__calloc(all, sizeof(*events)) : NULL;
    const int rc = samples && open && (spans || !of_span) && (events || !p->spans_count)
                       ? 0
                       : SONDE_ENOMEM;
    if (!rc && events) {
        const size_t count = innermost_collect(p, events);
        qsort(events, count, sizeof(*events), innermost_in_order);
        innermost_sweep(p, events, count, open, samples, spans);
    }
    sonde__free(events);
    sonde__free(open);
    if (rc) {
        sonde__free(samples);
        sonde__free(spans);
        return rc;
    }
    *of_sample = samples;
    if (of_span) *of_span = spans;
    return 0;
}
