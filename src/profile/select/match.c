/* match.c - which samples of a profile pass a filter.
 *
 * The join with spans: per thread, the intervals of the spans that are asked for are sorted by
 * start and united where they touch or nest, so a sample is inside one of them or of none, and
 * one binary search on its thread's intervals answers it. The answer for every sample is worked
 * out once, as a bit. */
#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

struct interval {
    uint64_t start_ns, end_ns; /* unix time; the end is outside */
    uint32_t thread;
};

struct sonde_profile_match {
    int kind;
    uint32_t count;   /* of samples that pass */
    uint64_t *bits;   /* a bit a sample */
    uint64_t *spans;  /* a bit a span */
};

/* What is built to decide, and freed again. */
struct work {
    const struct sonde_profile *p;
    const struct sonde_profile_filter *f;
    unsigned char *thread_passes;  /* by thread id */
    struct interval *intervals;    /* by thread, then start; disjoint */
    uint32_t *first;               /* thread id -> its first interval; [threads_count] = end */
};

static int in_spans(const struct sonde_profile_filter *f)
{
    return f->span || f->trace_hi || f->trace_lo;
}

static int profile_match_resolve_kind(const struct sonde_profile *p, int kind)
{
    if (kind >= 0) return kind;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) seen |= 1u << p->samples[i].kind;
    return seen ? __builtin_ctz(seen) : SONDE_SAMPLE_CPU;
}

static int thread_passes(const struct sonde_profile *p, const char *glob, uint32_t thread)
{
    if (!glob) return 1;
    if (!thread) return 0;
    const struct sonde_profile_thread *t = &p->threads[thread];
    if (*glob && strspn(glob, "0123456789") == strlen(glob) &&
        strtoull(glob, NULL, 10) == t->tid) {
        return 1;
    }
    return !fnmatch(glob, sonde_profile_str(p, t->name), 0);
}

static int span_passes(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                       const struct sonde_profile_span *s)
{
    if (s->end_ns <= s->start_ns) return 0;
    if ((f->trace_hi || f->trace_lo) &&
        (s->trace_hi != f->trace_hi || s->trace_lo != f->trace_lo)) {
        return 0;
    }
    return !f->span || !fnmatch(f->span, sonde_profile_str(p, s->name), 0);
}

static int by_thread_and_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->start_ns != y->start_ns) return SONDE_CMP(x->start_ns, y->start_ns);
    return 0;
}

/* Sorted intervals united in place; returns how many are left. */
static uint32_t profile_match_unite(struct interval *v, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct interval *last = kept ? &v[kept - 1] : NULL;
        if (last && last->thread == v[i].thread && v[i].start_ns <= last->end_ns) {
            if (v[i].end_ns > last->end_ns) last->end_ns = v[i].end_ns;
        } else {
            v[kept++] = v[i];
        }
    }
    return kept;
}

static int build_intervals(struct work *w)
{
    const struct sonde_profile *p = w->p;
    uint32_t count = 0;
    w->intervals = sonde__calloc(p->spans_count, sizeof(*w->intervals));
    w->first = sonde__calloc((size_t)p->threads_count + 1, sizeof(*w->first));
    if (!w->intervals || !w->first) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (!span_passes(p, w->f, s)) continue;
        w->intervals[count++] = (struct interval){ s->start_ns, s->end_ns, s->thread };
    }
    qsort(w->intervals, count, sizeof(*w->intervals), by_thread_and_start);
    count = profile_match_unite(w->intervals, count);
    for (uint32_t i = 0; i < count; i++) w->first[w->intervals[i].thread + 1] = i + 1;
    for (uint32_t t = 1; t <= p->threads_count; t++) {
        if (!w->first[t]) w->first[t] = w->first[t - 1];
    }
    return 0;
}

static int in_interval(const struct work *w, const struct sonde_profile_sample *s)
{
    if (!s->thread || !s->time_ns) return 0;
    /* The last one that starts at or before the sample. */
    uint32_t low = w->first[s->thread], high = w->first[s->thread + 1];
    assert(low <= high);
    const uint32_t begin = low;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (w->intervals[mid].start_ns <= s->time_ns) low = mid + 1;
        else high = mid;
    }
    return low > begin && s->time_ns < w->intervals[low - 1].end_ns;
}

static int sample_passes(const struct work *w, int kind, const struct sonde_profile_sample *s)
{
    const struct sonde_profile_filter *f = w->f;
    if (s->kind != kind || !w->thread_passes[s->thread]) return 0;
    if (f->from_ns && s->time_ns < f->from_ns) return 0;
    if (f->to_ns && (!s->time_ns || s->time_ns >= f->to_ns)) return 0;
    return !w->intervals || in_interval(w, s);
}

static int work_init(struct work *w)
{
    w->thread_passes = sonde__alloc(w->p->threads_count);
    if (!w->thread_passes) return SONDE_ENOMEM;
    for (uint32_t t = 0; t < w->p->threads_count; t++) {
        w->thread_passes[t] = (unsigned char)thread_passes(w->p, w->f->thread, t);
    }
    return in_spans(w->f) ? build_intervals(w) : 0;
}

static void profile_match_work_release(struct work *w)
{
    sonde__free(w->thread_passes);
    sonde__free(w->intervals);
    sonde__free(w->first);
}

int sonde_profile_match_create(const struct sonde_profile *p,
                               const struct sonde_profile_filter *f,
                               struct sonde_profile_match **out, struct sonde_err *err)
{
    assert(p && f && out && f->kind < SONDE_SAMPLE_KIND_COUNT);
    if (f->to_ns && f->to_ns <= f->from_ns) {
        return sonde_err_set(err, SONDE_EINVAL, "the time range ends before it starts");
    }
    struct work w = { .p = p, .f = f };
    struct sonde_profile_match *m = sonde__calloc(1, sizeof(*m));
    if (m) {
        m->bits = sonde__calloc((size_t)p->samples_count / 64 + 1, sizeof(*m->bits));
        m->spans = sonde__calloc((size_t)p->spans_count / 64 + 1, sizeof(*m->spans));
    }
    if (!m || !m->bits || !m->spans || work_init(&w)) {
        profile_match_work_release(&w);
        sonde_profile_match_destroy(m);
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to look through the profile");
    }
    m->kind = profile_match_resolve_kind(p, f->kind);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint64_t bit = (uint64_t)sample_passes(&w, m->kind, &p->samples[i]);
        m->bits[i / 64] |= bit << (i % 64);
        m->count += (uint32_t)bit;
    }
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        const int passes = w.thread_passes[s->thread] && span_passes(p, f, s) &&
                           (!f->from_ns || s->end_ns > f->from_ns) &&
                           (!f->to_ns || s->start_ns < f->to_ns);
        m->spans[i / 64] |= (uint64_t)passes << (i % 64);
    }
    profile_match_work_release(&w);
    *out = m;
    return 0;
}

int sonde_profile_matches(const struct sonde_profile_match *m, uint32_t sample)
{
    return (int)(m->bits[sample / 64] >> (sample % 64) & 1);
}

int sonde_profile_matches_span(const struct sonde_profile_match *m, uint32_t span)
{
    assert(m->spans);
    return (int)(m->spans[span / 64] >> (span % 64) & 1);
}

int sonde_profile_match_kind(const struct sonde_profile_match *m) { return m->kind; }

uint32_t sonde_profile_match_count(const struct sonde_profile_match *m) { return m->count; }

static int match_by_thread_and_time(const void *a, const void *b, void *samples)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct sonde_profile_sample *x = (const struct sonde_profile_sample *)samples + i;
    const struct sonde_profile_sample *y = (const struct sonde_profile_sample *)samples + k;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    return x->time_ns != y->time_ns ? SONDE_CMP(x->time_ns, y->time_ns) : SONDE_CMP(i, k);
}

uint32_t *sonde_profile_match_in_order(const struct sonde_profile *p,
                                       const struct sonde_profile_match *m)
{
    uint32_t count = 0;
    uint32_t *order = sonde__alloc((m->count ? m->count : 1) * sizeof(*order));
    if (!order) return NULL;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) order[count++] = i;
    }
    assert(count == m->count);
    qsort_r(order, count, sizeof(*order), match_by_thread_and_time, p->samples);
    return order;
}

void sonde_profile_match_destroy(struct sonde_profile_match *m)
{
    if (!m) return;
    sonde__free(m->bits);
    sonde__free(m->spans);
    sonde__free(m);
}

/* ---- Why nothing passed ---------------------------------------------------------------------- */

/* With the reason, if its notes begin with one. */
static int profile_match_no_samples(const struct sonde_profile *p, struct sonde_err *err)
{
    static const char about[] = "functions: ";
    const char *notes = sonde_profile_str(p, p->notes);
    const int known = !strncmp(notes, about, sizeof(about) - 1);
    const char *why = known ? notes + sizeof(about) - 1 : "";
    return sonde_err_set(err, SONDE_ENOENT, "the profile has no samples%s%.*s", known ? ": " : "",
                         (int)strcspn(why, "\n"), why);
}

int sonde_profile_match_none(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                             struct sonde_err *err)
{
    if (!p->samples_count) return profile_match_no_samples(p, err);
    const int kind = profile_match_resolve_kind(p, f->kind);
    const char *title = sonde_sample_kind_title((enum sonde_sample_kind)kind);
    uint32_t of_kind = 0, threads = 0, spans = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) of_kind += p->samples[i].kind == kind;
    for (uint32_t t = 1; t < p->threads_count; t++) threads += !!thread_passes(p, f->thread, t);
    for (uint32_t i = 0; i < p->spans_count; i++) spans += !!span_passes(p, f, &p->spans[i]);

    if (!of_kind) {
        const int other = profile_match_resolve_kind(p, -1);
        return sonde_err_set(err, SONDE_ENOENT, "no samples of %s in it; there are some of %s (%s)",
                             title, sonde_sample_kind_title((enum sonde_sample_kind)other),
                             sonde_sample_kind_name((enum sonde_sample_kind)other));
    }
    if (f->thread && !threads) {
        return sonde_err_set(err, SONDE_ENOENT, "no thread is named, or has the id, '%s'",
                             f->thread);
    }
    if (in_spans(f) && !spans) {
        if (!p->spans_count) {
            return sonde_err_set(err, SONDE_ENOENT, "the profile has no spans: the program "
                                 "recorded none with libsonde");
        }
        if (!f->span) return sonde_err_set(err, SONDE_ENOENT, "no span is of that trace");
        return sonde_err_set(err, SONDE_ENOENT, "no span%s is named '%s'",
                             f->trace_hi || f->trace_lo ? " of that trace" : "", f->span);
    }
    return sonde_err_set(err, SONDE_ENOENT, "none of the %u samples of %s passes the filter",
                         of_kind, title);
}

int sonde_profile_match_some(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                             struct sonde_profile_match **out, struct sonde_err *err)
{
    struct sonde_profile_match *m;
    const int rc = sonde_profile_match_create(p, f, &m, err);
    if (rc) return rc;
    if (!sonde_profile_match_count(m)) {
        sonde_profile_match_destroy(m);
        return sonde_profile_match_none(p, f, err);
    }
    *out = m;
    return 0;
}
