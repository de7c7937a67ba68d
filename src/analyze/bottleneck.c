/* bottleneck.c - see bottleneck.h. */
#include "analyze/bottleneck.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/heap_site.h"
#include "analyze/span_own.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 20 };
#define SHARE_MIN 0.05
#define SECONDS_MIN 0.01

struct looking {
    const struct sonde_profile *p;
    struct sonde_bottleneck_options o; /* complete */
    struct sonde_findings *out;
};

const char *sonde_finding_kind_name(enum sonde_finding_kind k)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_FINDING_KINDS(SONDE__X)
#undef SONDE__X
    };
    assert((size_t)k < SONDE_COUNT(names));
    return names[k];
}

/* ---- The list -------------------------------------------------------------------------------- */

/* Copies the texts of f, and says what was measured. sure: the share that it has at least. */
__attribute__((format(printf, 4, 5))) static int
bottleneck_add(struct looking *l, struct sonde_finding f, double sure, const char *format, ...)
{
    struct sonde_findings *all = l->out;
    va_list args;
    if (SONDE_ARRAY_ROOM(all->rows, all->count, all->cap)) return SONDE_ENOMEM;
    va_start(args, format);
    vsnprintf(f.text, sizeof(f.text), format, args);
    va_end(args);
    f.subject = sonde__strdup(f.subject);
    f.file = sonde__strdup(f.file);
    if (!f.subject || !f.file) {
        sonde__free(f.subject);
        sonde__free(f.file);
        return SONDE_ENOMEM;
    }
    const int leak = f.kind == SONDE_FINDING_KIND_LEAK;
    const double critical = leak ? 0.10 : f.kind == SONDE_FINDING_KIND_QUEUE ? 0.50 : INFINITY;
    f.severity = sure >= critical               ? SONDE_SEVERITY_CRITICAL
                 : sure >= (leak ? 0.01 : 0.25) ? SONDE_SEVERITY_WARNING
                                                : SONDE_SEVERITY_INFO;
    all->rows[all->count++] = f;
    return 0;
}

static int worst_first(const void *x, const void *y)
{
    const struct sonde_finding *a = x, *b = y;
    if (a->severity != b->severity) return SONDE_CMP(b->severity, a->severity);
    if (a->share != b->share) return SONDE_CMP(b->share, a->share);
    if (a->kind != b->kind) return SONDE_CMP(a->kind, b->kind);
    return strcmp(a->subject, b->subject);
}

void sonde_findings_destroy(struct sonde_findings *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->count; i++) {
        sonde__free(f->rows[i].subject);
        sonde__free(f->rows[i].file);
    }
    sonde__free(f->rows);
    sonde__free(f);
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* The lower end of Wilson's 95 % interval of a share, seen in k of n samples. */
static double at_least(double k, double n)
{
    const double z = 1.96, share = k / n;
    const double middle = share + z * z / (2 * n);
    const double half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return (middle - half) / (1 + z * z / n);
}

static int bottleneck_add_function(struct looking *l, const struct sonde_flat *row,
                                   const struct sonde_tree *tree, enum sonde_finding_kind kind)
{
    const double whole = (double)tree->nodes[0].total;
    const double self = (double)row->self * 1e-9, share = (double)row->self / whole;
    const struct sonde_finding f = {
        .kind = kind, .subject = (char *)(uintptr_t)row->name,
        .file = (char *)(uintptr_t)row->file, .line = row->line, .share = share, .seconds = self,
        .bytes = NAN, .count = NAN, .avg_s = NAN };
    if (kind == SONDE_FINDING_KIND_BLOCKED) {
        return bottleneck_add(l, f, share, "%.3f s of %.3f s blocked (%.1f %%) are in %.100s", self,
                              whole * 1e-9, 100 * share, row->name);
    }
    const double sure = at_least((double)row->self_samples, (double)tree->nodes[0].samples);
    return bottleneck_add(
        l, f, fmin(share, sure),
        "%.100s itself used %.3f s of %.3f s of CPU time (%.1f %%), in %llu samples; "
        "with what it calls %.1f %%",
        row->name, self, whole * 1e-9, 100 * share, (unsigned long long)row->self_samples,
        100 * (double)row->total / whole);
}

static int look_at_functions(struct looking *l, enum sonde_sample_kind samples,
                             enum sonde_finding_kind kind)
{
    const struct sonde_profile_filter filter = { .kind = (int)samples };
    const struct sonde_tree_options whole_tree = { .by_module = 1 };
    struct sonde_tree *tree;
    struct sonde_flat *rows = NULL;
    size_t count = 0, few = 0;
    if (!l->p->weights[samples]) return 0;
    int rc = sonde_tree_build(l->p, &filter, &whole_tree, &tree, NULL);
    if (rc) return rc == SONDE_ENOENT ? 0 : rc;
    rc = sonde_tree_flat(tree, &rows, &count);
    const double whole = (double)tree->nodes[0].total;
    for (size_t i = 0; !rc && i < count && i < l->o.limit; i++) {
        const double self = (double)rows[i].self;
        if (self < l->o.share_min * whole || self * 1e-9 < l->o.seconds_min) break;
        if (kind == SONDE_FINDING_KIND_FUNCTION &&
            rows[i].self_samples < SONDE_FINDING_KIND_SAMPLES) {
            few++;
            continue;
        }
        rc = bottleneck_add_function(l, &rows[i], tree, kind);
    }
    if (few) {
        snprintf(l->out->note, sizeof(l->out->note), "%zu functions with fewer than %d samples are "
                 "left out: the profile has %llu, sample for longer or more often", few,
                 SONDE_FINDING_KIND_SAMPLES, (unsigned long long)tree->nodes[0].samples);
    }
    sonde__free(rows);
    sonde_tree_destroy(tree);
    return rc;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

struct by_name {
    uint32_t name;
    uint64_t own_ns, total_ns, count;
};

static int most_own_first(const void *x, const void *y)
{
    const struct by_name *a = x, *b = y;
    return SONDE_CMP(b->own_ns, a->own_ns);
}

/* Spans of no thread are requests, whose phases are spans themselves. */
static void bottleneck_sum_spans(const struct sonde_profile *p, const uint64_t *own_ns,
                                 struct by_name *rows)
{
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (!s->thread) continue;
        struct by_name *row = &rows[s->name];
        row->name = s->name;
        row->own_ns += own_ns[i];
        row->total_ns += sonde_span_length(p, s);
        row->count++;
    }
}

static int bottleneck_add_span(struct looking *l, const struct by_name *row, double all_s)
{
    const char *name = sonde_profile_str(l->p, row->name);
    const double own = (double)row->own_ns * 1e-9, total = (double)row->total_ns * 1e-9;
    const double avg = total / (double)row->count;
    const struct sonde_finding f = {
        .kind = SONDE_FINDING_KIND_SPAN, .subject = (char *)(uintptr_t)name, .file = (char *)"",
        .share = own / all_s, .seconds = own, .bytes = NAN, .count = (double)row->count,
        .avg_s = avg };
    return bottleneck_add(
        l, f, f.share,
        "%.100s took %.3f s itself (%.1f %% of the time in spans): %llu times, %.3f ms "
        "on average with what is inside",
        name, own, 100 * own / all_s, (unsigned long long)row->count, avg * 1e3);
}

static int look_at_spans(struct looking *l)
{
    const struct sonde_profile *p = l->p;
    uint64_t *own_ns = NULL;
    if (!p->spans_count) return 0;
    struct by_name *rows = sonde__calloc(p->strings_count, sizeof(*rows));
    int rc = rows ? sonde_span_own(p, &own_ns) : SONDE_ENOMEM;
    double all = 0;
    if (!rc) {
        bottleneck_sum_spans(p, own_ns, rows);
        qsort(rows, p->strings_count, sizeof(*rows), most_own_first);
        for (uint32_t i = 0; i < p->strings_count; i++) all += (double)rows[i].own_ns * 1e-9;
    }
    for (uint32_t i = 0; !rc && i < p->strings_count && i < l->o.limit; i++) {
        const double own = (double)rows[i].own_ns * 1e-9;
        if (!rows[i].count || own < l->o.share_min * all || own < l->o.seconds_min) break;
        rc = bottleneck_add_span(l, &rows[i], all);
    }
    sonde__free(own_ns);
    sonde__free(rows);
    return rc;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int look_at_requests(struct looking *l)
{
    const struct sonde_infer_run *run = l->p->infer;
    double waited = 0, total = 0;
    size_t count = 0;
    for (size_t i = 0; run && i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (*r->invalid || !(r->total_s > 0)) continue;
        waited += sonde_infer_queue_s(r);
        total += r->total_s;
        count++;
    }
    if (!count || waited < l->o.share_min * total || waited < l->o.seconds_min) return 0;
    const struct sonde_finding f = {
        .kind = SONDE_FINDING_KIND_QUEUE, .subject = (char *)"requests", .file = (char *)"",
        .share = waited / total, .seconds = waited, .bytes = NAN, .count = (double)count,
        .avg_s = waited / (double)count };
    return bottleneck_add(
        l, f, f.share,
        "%zu requests waited for %.3f ms on average before work on them began, %.1f %% "
        "of their time",
        count, 1e3 * waited / (double)count, 100 * waited / total);
}

/* ---- Leaks ----------------------------------------------------------------------------------- */

static int look_at_leaks(struct looking *l)
{
    const struct sonde_heap *h = l->p->heap;
    int rc = 0;
    size_t found = 0;
    for (uint32_t i = 0; h && !rc && i < h->site_count && found < l->o.limit; i++) {
        const struct sonde_heap_site *s = &h->sites[i];
        struct heap_frame frame;
        if (s->verdict != SONDE_HEAP_LEAK || !heap_frames(l->p, s->stack, &frame, 1)) continue;
        found++;
        const double bytes = s->live_bytes.value;
        const struct sonde_finding f = {
            .kind = SONDE_FINDING_KIND_LEAK, .subject = (char *)(uintptr_t)heap_frame_name(&frame),
            .file = (char *)(uintptr_t)frame.file, .line = frame.line, .seconds = NAN,
            .share = h->live_bytes.value > 0 ? fmin(bytes / h->live_bytes.value, 1) : 0,
            .bytes = bytes, .count = s->live_count.value, .avg_s = NAN };
        rc = bottleneck_add(
            l, f, f.share,
            "%.100s allocated %.1f MiB that are still in use and grow by %.0f bytes a "
            "second without slowing down",
            heap_frame_name(&frame), bytes / 1048576, s->slope);
    }
    return rc;
}

int sonde_bottlenecks(const struct sonde_profile *p, const struct sonde_bottleneck_options *o,
                      struct sonde_findings **out)
{
    struct looking l = { .p = p, .o = *o };
    l.out = sonde__calloc(1, sizeof(*l.out));
    if (!l.out) return SONDE_ENOMEM;
    if (!l.o.limit) l.o.limit = LIMIT_DEFAULT;
    if (!(l.o.share_min > 0)) l.o.share_min = SHARE_MIN;
    if (!(l.o.seconds_min > 0)) l.o.seconds_min = SECONDS_MIN;
    int rc = look_at_functions(&l, SONDE_SAMPLE_CPU, SONDE_FINDING_KIND_FUNCTION);
    if (!rc) rc = look_at_functions(&l, SONDE_SAMPLE_OFFCPU, SONDE_FINDING_KIND_BLOCKED);
    if (!rc) rc = look_at_spans(&l);
    if (!rc) rc = look_at_requests(&l);
    if (!rc) rc = look_at_leaks(&l);
    if (rc) {
        sonde_findings_destroy(l.out);
        return rc;
    }
    if (l.out->count) qsort(l.out->rows, l.out->count, sizeof(*l.out->rows), worst_first);
    *out = l.out;
    return 0;
}
