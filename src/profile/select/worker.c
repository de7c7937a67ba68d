/* worker.c - whose the samples of threads without a span are, as far as it can be told: by
 * one sweep over the time of each process, past beginnings and ends of phases, with the innermost
 * phase of every thread at hand, and what they have in common. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/select/private.h"

enum { ENDS, BEGINS, SAMPLED }; /* in this order at the same time */

struct select_worker_event {
    uint64_t time_ns;
    uint64_t length_ns;   /* longer spans begin first */
    uint32_t pid, type;
    uint32_t index;       /* of a span, or of a sample */
};

/* The phases that run now, one a thread. */
struct select_worker_running {
    uint32_t count, whole, none; /* of which completely and not at all in the selection */
    uint32_t mixed;              /* indexes of all, by xor: if it is one, its own */
};

static int select_worker_in_order(const void *a, const void *b)
{
    const struct select_worker_event *x = a, *y = b;
    if (x->pid != y->pid) return SONDE_CMP(x->pid, y->pid);
    if (x->time_ns != y->time_ns) return SONDE_CMP(x->time_ns, y->time_ns);
    if (x->type != y->type) return SONDE_CMP(x->type, y->type);
    if (x->length_ns != y->length_ns) return SONDE_CMP(y->length_ns, x->length_ns);
    return SONDE_CMP(x->index, y->index);
}

static int select_worker_computes(const struct select_work *w, uint32_t span)
{
    const struct sonde_profile_span *s = &w->p->spans[span];
    return w->p->threads[s->thread].tid && s->end_ns > s->start_ns &&
           !(w->names[s->name] & SELECT_WAITS) && select_is_phase(w, span);
}

static uint32_t select_worker_collect(const struct select_work *w,
                                      struct select_worker_event *events)
{
    const struct sonde_profile *p = w->p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (!select_worker_computes(w, i)) continue;
        const uint32_t pid = p->threads[s->thread].pid;
        const uint64_t length = s->end_ns - s->start_ns;
        events[n++] = (struct select_worker_event){ s->start_ns, length, pid, BEGINS, i };
        events[n++] = (struct select_worker_event){ s->end_ns, length, pid, ENDS, i };
    }
    for (uint32_t i = 0; n && i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (w->of_sample[i] || !s->thread || !s->time_ns) continue;
        events[n++] = (struct select_worker_event){ s->time_ns, 0, p->threads[s->thread].pid,
                                                    SAMPLED, i };
    }
    return n;
}

/* by: 1 or -1 of the span, given as index + 1; 0 = there is none. */
static void select_worker_count(const struct select_work *w, struct select_worker_running *r,
                                uint32_t span, int by)
{
    if (!span) return;
    const float share = w->span_share[span - 1];
    r->count += (uint32_t)by;
    if (share >= 1) r->whole += (uint32_t)by;
    if (share <= 0) r->none += (uint32_t)by;
    r->mixed ^= span;
}

static float share_now(const struct select_work *w, const struct select_worker_running *r)
{
    if (r->count == r->none) return 0;
    if (r->count == r->whole) return 1;
    return r->count == 1 ? w->span_share[r->mixed - 1] : SELECT_AMBIGUOUS;
}

/* What goes on when a phase has ended: the one it began inside of. */
static uint32_t select_worker_outer(const struct select_work *w, uint32_t span, uint64_t now_ns)
{
    uint32_t at = w->of_span[span];
    while (at && (w->p->spans[at - 1].end_ns <= now_ns || !select_worker_computes(w, at - 1))) {
        at = w->of_span[at - 1];
    }
    return at;
}

static void select_worker_sweep(struct select_work *w, const struct select_worker_event *events,
                                uint32_t n, uint32_t *top)
{
    struct select_worker_running r = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        const struct select_worker_event *e = &events[i];
        if (e->type == SAMPLED) {
            w->sample_share[e->index] = share_now(w, &r);
            continue;
        }
        uint32_t *innermost = &top[w->p->spans[e->index].thread];
        uint32_t next = e->index + 1;
        if (e->type == ENDS) {
            if (*innermost != next) continue; /* it was left by another that is still open */
            next = select_worker_outer(w, e->index, e->time_ns);
        }
        select_worker_count(w, &r, *innermost, -1);
        select_worker_count(w, &r, next, 1);
        *innermost = next;
    }
}

int select_workers(struct select_work *w)
{
    const struct sonde_profile *p = w->p;
    const size_t most = 2 * (size_t)p->spans_count + p->samples_count;
    struct select_worker_event *events = sonde__alloc(most * sizeof(*events));
    uint32_t *top = sonde__calloc(p->threads_count, sizeof(*top)); /* by thread: index + 1 */
    w->sample_share = sonde__calloc(p->samples_count, sizeof(*w->sample_share));
    const int rc = events && top && w->sample_share ? 0 : SONDE_ENOMEM;
    if (!rc) {
        const uint32_t n = select_worker_collect(w, events);
        qsort(events, n, sizeof(*events), select_worker_in_order);
        select_worker_sweep(w, events, n, top);
    }
    sonde__free(events);
    sonde__free(top);
    return rc;
}
