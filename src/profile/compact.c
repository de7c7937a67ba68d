/* compact.c - see compact.h. */
#include "profile/compact.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/copy.h"
#include "sonde/sonde.h"

/* ---- Adding a part --------------------------------------------------------------------------- */

struct compacting {
    struct sonde_profile_copy copy;
    const struct sonde_compact_part *part;
    uint64_t from_ns;          /* of what is asked for and there is */
    uint8_t *spans;            /* owned: 1 = is wanted */
};

/* Whether a sample is of the part; a sonde_profile_copy_wanted. */
static int compact_sample_wanted(void *arg, uint32_t i)
{
    const struct compacting *a = arg;
    const struct sonde_profile *p = a->copy.from;
    const struct sonde_compact_part *part = a->part;
    const struct sonde_profile_sample *s = &p->samples[i];
    if (part->kinds && !(part->kinds >> s->kind & 1)) return 0;
    if (part->from_ns && s->time_ns < part->from_ns) return 0;
    if (part->to_ns && s->time_ns >= part->to_ns) return 0;
    return !part->pid || p->threads[s->thread].pid == part->pid;
}

/* ---- Spans that are wanted ------------------------------------------------------------------- */

enum { PASSES_MAX = 16 };

struct span_id { uint64_t id; uint32_t index; };

/* A sample outside of any span. */
struct outside { uint64_t time_ns; uint32_t pid; };

struct wanting {
    struct compacting *a;
    uint32_t *of_sample, *of_span; /* sonde_profile_innermost_spans */
    struct span_id *ids;           /* of those that are on a thread, sorted */
    uint32_t id_count;
    struct outside *outside;       /* sorted */
    uint32_t outside_count;
};

static int is_on_thread(const struct sonde_profile *p, uint32_t span)
{
    return p->threads[p->spans[span].thread].tid != 0;
}

static int compact_by_id(const void *a, const void *b)
{
    const struct span_id *x = a, *y = b;
    return x->id != y->id ? SONDE_CMP(x->id, y->id) : SONDE_CMP(x->index, y->index);
}

static int compact_by_process(const void *a, const void *b)
{
    const struct outside *x = a, *y = b;
    return x->pid != y->pid ? SONDE_CMP(x->pid, y->pid) : SONDE_CMP(x->time_ns, y->time_ns);
}

/* Index + 1 of the first of that id; 0 = none. */
static uint32_t find_span(const struct wanting *w, uint64_t id)
{
    assert(!w->id_count || w->ids[0].id <= w->ids[w->id_count - 1].id);
    uint32_t low = 0, high = w->id_count;
    while (id && low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (w->ids[mid].id < id) low = mid + 1;
        else high = mid;
    }
    return id && low < w->id_count && w->ids[low].id == id ? w->ids[low].index + 1 : 0;
}

/* With each span those that it began inside of, and what it was begun for. Most are found in the
 * first pass or two. */
static void want_above(const struct wanting *w)
{
    const struct sonde_profile *p = w->a->copy.from;
    uint8_t *wanted = w->a->spans;
    int more = 1;
    for (int pass = 0; more && pass < PASSES_MAX; pass++) {
        more = 0;
        for (uint32_t i = 0; i < p->spans_count; i++) {
            const uint32_t above[] = { w->of_span[i], find_span(w, p->spans[i].parent) };
            for (int k = 0; k < 2 && wanted[i]; k++) {
                if (!above[k] || wanted[above[k] - 1]) continue;
                wanted[above[k] - 1] = 1;
                more = 1;
            }
        }
    }
}

/* Whether a sample outside of any span was taken in this process while span was open. */
static int had_outside(const struct wanting *w, const struct sonde_profile_span *s, uint32_t pid)
{
    const struct outside key = { s->start_ns, pid };
    uint32_t low = 0, high = w->outside_count;
    assert(!high || compact_by_process(&w->outside[0], &w->outside[high - 1]) <= 0);
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (compact_by_process(&w->outside[mid], &key) < 0) low = mid + 1;
        else high = mid;
    }
    return low < w->outside_count && w->outside[low].pid == pid &&
           w->outside[low].time_ns < s->end_ns;
}

static void want_others(struct wanting *w)
{
    const struct sonde_profile *p = w->a->copy.from;
    uint32_t left = w->a->part->others_max;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (w->of_sample[i] || !s->thread || !s->time_ns || !compact_sample_wanted(w->a, i)) {
            continue;
        }
        w->outside[w->outside_count++] =
            (struct outside){ s->time_ns, p->threads[s->thread].pid };
    }
    qsort(w->outside, w->outside_count, sizeof(*w->outside), compact_by_process);
    for (uint32_t i = 0; i < p->spans_count && left; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (w->a->spans[i] || !is_on_thread(p, i)) continue;
        if (!had_outside(w, s, p->threads[s->thread].pid)) continue;
        w->a->spans[i] = 1;
        left--;
    }
}

static int wanting_init(struct wanting *w)
{
    const struct sonde_profile *p = w->a->copy.from;
    int rc = sonde_profile_innermost_spans(p, &w->of_sample, &w->of_span);
    w->ids = sonde__calloc(p->spans_count, sizeof(*w->ids));
    w->outside = sonde__calloc(p->samples_count + 1u, sizeof(*w->outside));
    if (rc || !w->ids || !w->outside) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        if (!p->spans[i].id || !is_on_thread(p, i)) continue;
        w->ids[w->id_count++] = (struct span_id){ p->spans[i].id, i };
    }
    qsort(w->ids, w->id_count, sizeof(*w->ids), compact_by_id);
    return 0;
}

static int want_spans(struct compacting *a)
{
    const struct sonde_profile *p = a->copy.from;
    const struct sonde_compact_part *part = a->part;
    struct wanting w = { .a = a };
    const int rc = wanting_init(&w);
    for (uint32_t i = 0; !rc && i < p->samples_count; i++) {
        if (w.of_sample[i] && compact_sample_wanted(a, i)) a->spans[w.of_sample[i] - 1] = 1;
    }
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        if (part->pid && p->threads[p->spans[i].thread].pid != part->pid) continue;
        a->spans[i] |= p->spans[i].start_ns < a->from_ns && p->spans[i].end_ns > a->from_ns;
    }
    if (!rc && part->others_max) want_others(&w);
    if (!rc) want_above(&w);
    sonde__free(w.of_sample);
    sonde__free(w.of_span);
    sonde__free(w.ids);
    sonde__free(w.outside);
    return rc;
}

/* Parts that follow each other may both know of a span that goes over their border. */
static int compact_has_span(const struct sonde_profile *p, const struct sonde_profile_span *s,
                            uint32_t thread)
{
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *o = &p->spans[i];
        if (o->start_ns == s->start_ns && o->id == s->id && o->thread == thread &&
            o->end_ns == s->end_ns) {
            return 1;
        }
    }
    return 0;
}

/* A sonde_profile_copy_wanted. */
static int compact_span_wanted(void *arg, uint32_t i)
{
    struct compacting *a = arg;
    const struct sonde_profile_span *s = &a->copy.from->spans[i];
    if (!a->spans[i] || s->start_ns >= a->from_ns) return a->spans[i];
    return !compact_has_span(a->copy.to, s, sonde_profile_copy_thread(&a->copy, s->thread));
}

static int compact_facts(struct compacting *a)
{
    const struct sonde_profile *from = a->copy.from;
    const struct sonde_compact_part *part = a->part;
    struct sonde_profile *p = a->copy.to;
    const uint64_t end = part->to_ns && part->to_ns < from->end_ns ? part->to_ns : from->end_ns;
    const int rc = sonde_profile_copy_facts(&a->copy, a->from_ns, end);
    if (p->end_ns < p->start_ns) p->end_ns = p->start_ns;
    /* Of a part it is not known what was lost: neither when nor whose. */
    if (!part->from_ns && !part->to_ns && !part->pid && !part->kinds) {
        p->lost_records += from->lost_records;
        p->dropped_samples += from->dropped_samples;
    }
    return rc;
}

int sonde_compact_add(struct sonde_profile *p, const struct sonde_profile *from,
                      const struct sonde_compact_part *part)
{
    assert(part && (!part->to_ns || part->from_ns <= part->to_ns));
    struct compacting a = { .part = part };
    a.from_ns = from->start_ns > part->from_ns ? from->start_ns : part->from_ns;
    a.spans = sonde__calloc(from->spans_count + 1u, 1);
    int rc = sonde_profile_copy_init(&a.copy, p, from);
    a.copy.rebase = part->rebase;
    if (!a.spans) rc = SONDE_ENOMEM;
    if (!rc) rc = sonde_profile_copy_samples(&a.copy, compact_sample_wanted, &a);
    if (!rc && part->spans && from->spans_count) rc = want_spans(&a);
    if (!rc) rc = sonde_profile_copy_spans(&a.copy, compact_span_wanted, &a, 1);
    if (!rc) rc = compact_facts(&a);
    sonde_profile_copy_release(&a.copy);
    sonde__free(a.spans);
    return rc;
}

/* ---- Folding --------------------------------------------------------------------------------- */

static int compact_in_order(const void *a, const void *b)
{
    const struct sonde_profile_sample *x = a, *y = b;
    if (x->time_ns != y->time_ns) return SONDE_CMP(x->time_ns, y->time_ns);
    if (x->kind != y->kind) return SONDE_CMP(x->kind, y->kind);
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->stack != y->stack) return SONDE_CMP(x->stack, y->stack);
    return SONDE_CMP(x->flags, y->flags);
}

/* 1 if b could be added to a. */
static int compact_add_up(struct sonde_profile_sample *a, const struct sonde_profile_sample *b)
{
    uint32_t count;
    if (compact_in_order(a, b) != 0 || __builtin_add_overflow(a->count, b->count, &count)) {
        return 0;
    }
    a->weight += b->weight; /* all weights of a kind fit (profile.h) */
    a->count = count;
    return 1;
}

/* Each thread as the one of its process, or of all, that has its name. */
static int name_threads(struct sonde_profile *p, int all)
{
    const uint32_t count = p->threads_count;
    uint32_t *to = sonde__calloc(count, sizeof(*to));
    int rc = to ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 1; !rc && i < count; i++) {
        to[i] = sonde_profile_thread(p, all ? 0 : p->threads[i].pid, 0,
                                     sonde_profile_str(p, p->threads[i].name));
        if (!to[i]) rc = SONDE_ENOMEM;
    }
    for (uint32_t i = 0; !rc && i < p->samples_count; i++) {
        p->samples[i].thread = to[p->samples[i].thread];
    }
    sonde__free(to);
    return rc;
}

int sonde_compact_steps(struct sonde_profile *p, uint64_t step_ns,
                        enum sonde_compact_threads threads)
{
    assert(step_ns);
    const int rc = threads ? name_threads(p, threads == SONDE_COMPACT_THREADS_ALL) : 0;
    if (rc) return rc;
    p->spans_count = p->parts_count = p->attrs_count = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        p->samples[i].time_ns -= p->samples[i].time_ns % step_ns;
    }
    if (p->samples_count) {
        qsort(p->samples, p->samples_count, sizeof(p->samples[0]), compact_in_order);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (kept && compact_add_up(&p->samples[kept - 1], &p->samples[i])) continue;
        p->samples[kept++] = p->samples[i];
    }
    p->samples_count = kept;
    return 0;
}
