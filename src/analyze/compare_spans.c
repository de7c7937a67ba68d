/* compare_spans.c - figures of spans, by name: how many a second, how long, how much CPU in one. */
#include <stdlib.h>
#include <string.h>

#include "analyze/compare_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

static const struct cmp_measure span_times[3] = {
    { "p50", "time p50", "seconds", SONDE_MEASURE_SPANS, -1, 0 },
    { "p95", "time p95", "seconds", SONDE_MEASURE_SPANS, -1, 0 },
    { "p99", "time p99", "seconds", SONDE_MEASURE_SPANS, -1, 0 },
};
static const struct cmp_measure span_rate = {
    "spans", "spans", "per second", SONDE_MEASURE_SPANS, 1, 0 };
static const struct cmp_measure span_cpu = {
    "cpu", "CPU time in one", "seconds", SONDE_MEASURE_SPANS, -1, 1 };

struct span_name {
    uint32_t text;           /* in the pool of texts */
    double seconds;          /* in all of them, both sides */
    uint64_t count[2];
    struct cmp_list times[2];
    double *counts[2], *cpu[2]; /* by part */
};

struct span_work {
    struct span_name *names;
    size_t count, cap;
    uint32_t *index;         /* text -> name + 1 */
    size_t index_cap;
};

static void compare_span_work_release(struct span_work *w)
{
    for (size_t i = 0; i < w->count; i++) {
        for (int side = 0; side < 2; side++) {
            sonde__free(w->names[i].times[side].v);
            sonde__free(w->names[i].counts[side]);
            sonde__free(w->names[i].cpu[side]);
        }
    }
    sonde__free(w->names);
    sonde__free(w->index);
}

static struct span_name *compare_span_name_of(struct cmp *c, struct span_work *w, const char *name)
{
    const uint32_t text = sonde_strings_add(&c->out->texts->pool, name, strlen(name), &c->budget);
    if (!text) return NULL;
    if (text >= w->index_cap) {
        const size_t cap = (size_t)text * 2 + 64;
        uint32_t *grown = sonde__realloc(w->index, cap * sizeof(*grown));
        if (!grown) return NULL;
        memset(grown + w->index_cap, 0, (cap - w->index_cap) * sizeof(*grown));
        w->index = grown;
        w->index_cap = cap;
    }
    if (w->index[text]) return &w->names[w->index[text] - 1];
    if (SONDE_ARRAY_ROOM(w->names, w->count, w->cap)) return NULL;
    w->names[w->count] = (struct span_name){ .text = text };
    w->index[text] = (uint32_t)++w->count;
    return &w->names[w->count - 1];
}

/* Calls of spans that pass the filter; first to learn the names, then for those that are kept. */
typedef int (*span_visit)(struct cmp *c, struct span_work *w, int side, uint32_t part,
                          const char *name, double seconds);

static int each_span(struct cmp *c, struct span_work *w, span_visit visit)
{
    int rc = 0;
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < c->side[side].run_count && !rc; run++) {
            const struct sonde_profile *p = c->side[side].runs[run].profile;
            struct sonde_profile_match *match;
            rc = sonde_profile_match_create(p, &c->side[side].runs[run].filter, &match, c->err);
            if (rc) return rc;
            for (uint32_t i = 0; i < p->spans_count && !rc; i++) {
                const struct sonde_profile_span *s = &p->spans[i];
                const char *name = sonde_profile_str(p, s->name);
                const uint32_t part = cmp_part(c, side, run, s->end_ns);
                if (part == CMP_NO_PART || s->end_ns <= s->start_ns || !*name ||
                    !sonde_profile_matches_span(match, i)) {
                    continue;
                }
                rc = visit(c, w, side, part, name, (double)(s->end_ns - s->start_ns) / 1e9);
            }
            sonde_profile_match_destroy(match);
        }
    }
    return rc;
}

static int compare_span_learn(struct cmp *c, struct span_work *w, int side, uint32_t part,
                              const char *name, double seconds)
{
    (void)part;
    struct span_name *n = compare_span_name_of(c, w, name);
    if (!n) return SONDE_ENOMEM;
    n->seconds += seconds;
    n->count[side]++;
    return 0;
}

static int compare_span_gather(struct cmp *c, struct span_work *w, int side, uint32_t part,
                               const char *name, double seconds)
{
    struct span_name *n = compare_span_name_of(c, w, name);
    if (!n) return SONDE_ENOMEM;
    if (!n->counts[side]) return 0; /* not kept */
    n->counts[side][part]++;
    return cmp_list_add(&n->times[side], seconds, part);
}

static int compare_span_by_time(const void *a, const void *b, void *pool)
{
    const struct span_name *x = a, *y = b;
    const int both_x = x->count[0] && x->count[1], both_y = y->count[0] && y->count[1];
    if (both_x != both_y) return both_y - both_x;
    if (x->seconds != y->seconds) return SONDE_CMP(y->seconds, x->seconds);
    char **strings = ((struct sonde_strings *)pool)->strings;
    return strcmp(strings[x->text], strings[y->text]);
}

/* Those on both sides that took the most time. */
static int keep_names(struct cmp *c, struct span_work *w)
{
    struct sonde_strings *pool = &c->out->texts->pool;
    if (!w->count) return 0;
    qsort_r(w->names, w->count, sizeof(*w->names), compare_span_by_time, pool);
    for (size_t i = 0; i < w->count; i++) {
        struct span_name *n = &w->names[i];
        w->index[n->text] = (uint32_t)i + 1;
        if (i >= CMP_SPANS_MAX || !n->count[0] || !n->count[1]) continue;
        for (int side = 0; side < 2; side++) {
            n->counts[side] = sonde__calloc(c->side[side].n, sizeof(double));
            n->cpu[side] = sonde__calloc(c->side[side].n, sizeof(double));
            if (!n->counts[side] || !n->cpu[side]) return SONDE_ENOMEM;
        }
    }
    return 0;
}

/* CPU time inside the spans of a name, with what is nested in them. */
static int sum_cpu(struct cmp *c, struct span_name *n, int side, size_t run)
{
    const struct sonde_compare_run *r = &c->side[side].runs[run];
    const char *name = c->out->texts->pool.strings[n->text];
    struct sonde_profile_filter filter = r->filter;
    char glob[512];
    size_t at = 0;
    for (const char *s = name; *s; s++) {
        if (at + 3 > sizeof(glob)) return 0;
        if (strchr("*?[]\\", *s)) glob[at++] = '\\';
        glob[at++] = *s;
    }
    glob[at] = '\0';
    filter.span = glob;
    filter.kind = SONDE_SAMPLE_CPU;
    struct sonde_profile_match *match;
    const int rc = sonde_profile_match_create(r->profile, &filter, &match, c->err);
    if (rc) return rc;
    for (uint32_t i = 0; i < r->profile->samples_count; i++) {
        if (!sonde_profile_matches(match, i)) continue;
        const uint32_t part = cmp_part(c, side, run, r->profile->samples[i].time_ns);
        if (part == CMP_NO_PART) continue;
        n->cpu[side][part] += (double)r->profile->samples[i].weight / 1e9;
    }
    sonde_profile_match_destroy(match);
    return 0;
}

static int compare_span_add_name(struct cmp *c, struct span_name *n)
{
    const char *name = c->out->texts->pool.strings[n->text];
    const double *const counts[2] = { n->counts[0], n->counts[1] };
    const double *const seconds[2] = { c->side[0].seconds, c->side[1].seconds };
    const double *const cpu[2] = { n->cpu[0], n->cpu[1] };
    int rc = cmp_add_quantiles(c, span_times, name, n->seconds, n->times);
    if (!rc) rc = cmp_add_ratio(c, &span_rate, name, n->seconds, counts, seconds, NULL);
    if (rc || c->side[0].cpu_all <= 0 || c->side[1].cpu_all <= 0) return rc;
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < c->side[side].run_count && !rc; run++) {
            rc = sum_cpu(c, n, side, run);
        }
    }
    /* No sample can be in spans that are shorter than the time between two. */
    double all[2] = { 0, 0 }, count[2] = { 0, 0 }, least[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c->side[side].n; i++) {
            all[side] += n->cpu[side][i];
            count[side] += n->counts[side][i];
        }
        const double one = cmp_sample_seconds(c, side) / (count[side] > 0 ? count[side] : 1);
        const double share = c->side[side].cpu_all > 0 ? all[side] / c->side[side].cpu_all : 0;
        least[side] = one * all[side] / (count[side] > 0 ? count[side] : 1) * (1 - share) +
                      one * one;
    }
    if (rc || (all[0] <= 0 && all[1] <= 0)) return rc;
    return cmp_add_ratio(c, &span_cpu, name, n->seconds, cpu, counts, least);
}

int cmp_spans(struct cmp *c)
{
    struct span_work w = { 0 };
    int rc = each_span(c, &w, compare_span_learn);
    if (!rc) rc = keep_names(c, &w);
    if (!rc) rc = each_span(c, &w, compare_span_gather);
    for (size_t i = 0; i < w.count && i < CMP_SPANS_MAX && !rc; i++) {
        if (w.names[i].counts[0]) rc = compare_span_add_name(c, &w.names[i]);
    }
    compare_span_work_release(&w);
    return rc;
}
