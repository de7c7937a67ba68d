/* period.c - see period.h. */
#include "store/period.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/strip.h"
#include "profile/final.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "profile/track.h"
#include "sonde/sonde.h"
#include "store/period_series.h"
#include "store/tracks.h"

enum { SPANS_MAX = 200000, REQUESTS_MAX = 50000, NOTES_MAX = 1 << 15 };
#define BYTES_MAX ((size_t)1 << 30)

struct period_work {
    const struct sonde_period_source *from;
    struct sonde_history_query q;    /* times are known, not open */
    struct sonde_profile *p;
    struct sonde_buf notes;          /* lines */
    char host[300];
    uint64_t *known;                 /* owned, ascending: spans that samples came with */
    size_t known_count;
    size_t taken;                    /* spans, or requests */
    int rc;
};

static void period_note(struct period_work *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void period_note(struct period_work *w, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (w->notes.len) sonde_buf_putc(&w->notes, '\n');
    sonde_buf_puts(&w->notes, text);
}

/* ---- Which time ------------------------------------------------------------------------------ */

struct period_bounds {
    double first_s, last_s;
    char host[300];            /* of the newest; runs come newest first */
};

static void period_bounds_on_run(const struct sonde_store_run *r, void *arg)
{
    struct period_bounds *b = arg;
    const double end_s = r->live ? INFINITY : r->end_s;
    if (!r->ticks && !r->spans && !r->requests && !r->profiles) return;
    if (!(b->first_s <= r->start_s)) b->first_s = r->start_s;
    if (!(b->last_s >= end_s)) b->last_s = end_s;
    if (r->host && !*b->host) snprintf(b->host, sizeof(b->host), "%.299s", r->host);
}

static void period_bounds_on_part(const struct sonde_history_part *part, void *arg)
{
    struct period_bounds *b = arg;
    if (!(b->first_s <= part->start_s)) b->first_s = part->start_s;
    if (!(b->last_s >= part->end_s)) b->last_s = part->end_s;
}

/* When the first and the last of all was recorded; NaN = never. */
static int period_bounds_of(const struct sonde_period_source *from, struct period_bounds *out,
                            struct sonde_err *err)
{
    const struct sonde_history_query all = { .heap = 0 };
    int rc = 0;
    *out = (struct period_bounds){ .first_s = NAN, .last_s = NAN };
    if (from->store && from->ops->runs) {
        rc = from->ops->runs(from->store, period_bounds_on_run, out, err);
    }
    if (!rc && from->profiles) {
        rc = sonde_history_each(from->profile_ops, from->profiles, &all, period_bounds_on_part, out,
                                err);
    }
    return rc;
}

/* What was asked for, as far as anything was recorded. */
static int period_set_time(struct period_work *w, double now_s, struct sonde_err *err)
{
    struct period_bounds b;
    int rc = period_bounds_of(w->from, &b, err);
    if (rc) return rc;
    snprintf(w->host, sizeof(w->host), "%s", b.host);
    if (isnan(b.first_s)) return sonde_err_set(err, SONDE_ENOENT, "nothing is recorded in it yet");
    const double from_s = fmax(w->q.from_s, b.first_s);
    const double end_s = fmin(b.last_s, now_s);
    const double to_s = w->q.to_s > 0 ? fmin(w->q.to_s, end_s) : end_s;
    if (w->q.to_s > 0 && w->q.to_s <= w->q.from_s) {
        return sonde_err_set(err, SONDE_EINVAL, "the time range ends before it begins");
    }
    if (!(from_s < to_s)) {
        return sonde_err_set(err, SONDE_ENOENT, "nothing was recorded in that time; there is a "
                             "history from %.0f to %.0f", b.first_s, end_s);
    }
    w->q.from_s = from_s;
    w->q.to_s = to_s;
    return 0;
}

/* ---- Samples and heaps ----------------------------------------------------------------------- */

static int period_samples(struct period_work *w, struct sonde_err *err)
{
    const struct sonde_period_source *from = w->from;
    struct sonde_err why = { "continuous profiling is off" };
    int rc = SONDE_ENOENT;
    if (from->profiles) {
        rc = sonde_history_merge(from->profile_ops, from->profiles, &w->q, &w->p, &why);
    }
    if (rc && rc != SONDE_ENOENT) return sonde_err_set(err, rc, "%s", why.text);
    if (rc) {
        const int none = !from->profiles ||
                         sonde_history_is_empty(from->profile_ops, from->profiles, 0);
        period_note(w, "functions: %s%s", why.text,
                    none ? "; `sonde serve --continuous` turns it on" : "");
        rc = sonde_profile_create(BYTES_MAX, &w->p);
        if (rc) return sonde_err_memory(err);
    }
    return 0;
}

/* What was allocated in all: beside what was allocated in the period that would count twice. */
static void period_heap_drop_totals(struct sonde_profile *heap)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < heap->samples_count; i++) {
        if (heap->samples[i].kind != SONDE_SAMPLE_ALLOC) heap->samples[kept++] = heap->samples[i];
    }
    heap->samples_count = kept;
    heap->weights[SONDE_SAMPLE_ALLOC] = 0;
}

static void period_heap_note(struct period_work *w, const struct sonde_profile *heap)
{
    const time_t at = (time_t)(heap->end_ns / 1000000000u);
    char when[32] = "";
    struct tm tm;
    if (localtime_r(&at, &tm)) strftime(when, sizeof(when), "%F %T", &tm);
    period_note(w, "memory: as it stood at %s, since the program began", when);
    if (!heap->program && heap->heap) {
        period_note(w, "memory: several programs' heaps were kept; figures are of one of them, and "
                    "--type live shows where all of it was allocated");
    }
}

/* How heaps stood in it, if any was looked at. */
static int period_heap(struct period_work *w, struct sonde_err *err)
{
    const struct sonde_period_source *from = w->from;
    struct sonde_history_query q = w->q;
    struct sonde_profile *heap = NULL;
    struct sonde_err why = { "" };
    q.heap = 1;
    int rc = SONDE_ENOENT;
    if (from->profiles) {
        rc = sonde_history_merge(from->profile_ops, from->profiles, &q, &heap, &why);
    }
    if (rc == SONDE_ENOENT) {
        period_note(w, "memory: no heap was looked at; continuous profiling keeps those of "
                    "programs that run under libsonde_preload (`sonde help serve`)");
        return 0;
    }
    if (rc) return sonde_err_set(err, rc, "%s", why.text);
    period_heap_note(w, heap);
    if (w->p->weights[SONDE_SAMPLE_ALLOC]) period_heap_drop_totals(heap);
    heap->spans_count = heap->parts_count = heap->attrs_count = 0;
    sonde_infer_run_destroy(heap->infer);
    sonde_tracks_destroy(heap->tracks);
    sonde_final_destroy(heap->final);
    heap->infer = NULL;
    heap->tracks = NULL;
    heap->final = NULL;
    rc = sonde_profile_merge(w->p, heap);
    sonde_profile_destroy(heap);
    return rc ? sonde_err_set(err, rc, "no memory for the heaps of that time") : 0;
}

/* ---- Spans and requests ---------------------------------------------------------------------- */

/* Spans that samples were kept with are known by when and what they are. */
static uint64_t period_span_key(uint64_t start_ns, uint64_t id, uint32_t pid)
{
    return (start_ns ^ id << 1) * 0x9e3779b97f4a7c15u + pid;
}

static int period_note_known(struct period_work *w)
{
    const struct sonde_profile *p = w->p;
    w->known = sonde__calloc(p->spans_count + 1u, sizeof(*w->known));
    if (!w->known) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        w->known[i] = period_span_key(s->start_ns, s->id, p->threads[s->thread].pid);
    }
    w->known_count = p->spans_count;
    qsort(w->known, w->known_count, sizeof(*w->known), sonde_cmp_u64);
    return 0;
}

/* Stores look at milliseconds; of two periods that follow each other it is in one. */
static int period_is_inside(const struct period_work *w, uint64_t time_ns)
{
    return time_ns >= (uint64_t)(w->q.from_s * 1e9) && time_ns < (uint64_t)(w->q.to_s * 1e9);
}

static int period_is_of(const struct period_work *w, const char *program, uint32_t pid)
{
    return (!w->q.pid || w->q.pid == pid) && sonde_filter_glob(w->q.program, program);
}

static int period_on_span(const struct sonde_model_span *span, void *arg)
{
    struct period_work *w = arg;
    const uint64_t key = period_span_key(span->start_ns, span->id, span->pid);
    if (!period_is_inside(w, span->start_ns) ||
        !period_is_of(w, span->program ? span->program : "", span->pid)) {
        return 0;
    }
    if (w->known_count &&
        bsearch(&key, w->known, w->known_count, sizeof(key), sonde_cmp_u64)) {
        return 0;
    }
    if (w->taken == SPANS_MAX) return 1;
    w->rc = sonde_model_span_add_to(span, w->p);
    w->taken++;
    return w->rc;
}

static int period_on_request(const struct sonde_infer_request *r, void *arg)
{
    struct period_work *w = arg;
    if (!period_is_inside(w, r->arrived_ns) || !period_is_of(w, r->program, r->pid)) return 0;
    if (w->taken == REQUESTS_MAX) return 1;
    w->rc = sonde_infer_run_add(w->p, r);
    w->taken++;
    return w->rc;
}

/* The store has the newest first, recordings the oldest. */
static void period_requests_turn(struct sonde_infer_run *run)
{
    for (uint32_t i = 0; run && i < run->request_count / 2; i++) {
        struct sonde_infer_request *a = &run->requests[i];
        struct sonde_infer_request *b = &run->requests[run->request_count - 1 - i];
        const struct sonde_infer_request swap = *a;
        *a = *b;
        *b = swap;
    }
}

static void period_note_kept(struct period_work *w, const char *what, size_t most,
                             const struct sonde_store_counts *c)
{
    if (w->taken == most) {
        period_note(w, "%s: the newest %zu of that time; ask for a shorter time", what, most);
    } else if (c->kept < c->seen) {
        period_note(w, "%s: %llu of %llu were kept; of more than a store takes per second it keeps "
                    "those that failed or were slow", what, (unsigned long long)c->kept,
                    (unsigned long long)c->seen);
    }
}

static int period_events(struct period_work *w, struct sonde_err *err)
{
    const struct sonde_store_ops *ops = w->from->ops;
    const struct sonde_store_range range = { .from_s = w->q.from_s, .to_s = w->q.to_s };
    struct sonde_store_counts spans = { 0 }, requests = { 0 };
    int rc = period_note_known(w) ? sonde_err_memory(err) : 0;
    if (!rc && ops->spans) {
        rc = ops->spans(w->from->store, &range, period_on_span, w, &spans, err);
        if (!rc) period_note_kept(w, "spans", SPANS_MAX, &spans);
    }
    w->taken = 0;
    if (!rc && !w->rc && ops->requests) {
        rc = ops->requests(w->from->store, &range, period_on_request, w, &requests, err);
        if (!rc) period_note_kept(w, "requests", REQUESTS_MAX, &requests);
        period_requests_turn(w->p->infer);
    }
    if (!rc && w->rc) rc = sonde_err_set(err, w->rc, "that time has more spans and requests than "
                                         "there is memory for: ask for less");
    return rc;
}

/* ---- Series ---------------------------------------------------------------------------------- */

static int period_on_finding(const struct sonde_store_finding *f, void *arg)
{
    (void)f;
    ((struct period_work *)arg)->taken++;
    return 0;
}

/* Findings that are kept are changes from what was before: of more than this time. */
static int period_kept_findings(struct period_work *w, struct sonde_err *err)
{
    const struct sonde_store_range range = { .from_s = w->q.from_s, .to_s = w->q.to_s,
                                             .kind = "regression" };
    w->taken = 0;
    if (!w->from->ops->findings) return 0;
    const int rc = w->from->ops->findings(w->from->store, &range, period_on_finding, w, err);
    if (!rc && w->taken) {
        period_note(w, "findings: %zu change%s from earlier times %s in it; `sonde regressions` "
                    "has them", w->taken, w->taken == 1 ? "" : "s", w->taken == 1 ? "is" : "are");
    }
    return rc;
}

static int period_of_store(struct period_work *w, struct sonde_err *err)
{
    const struct sonde_period_source *from = w->from;
    if (!from->store || !from->ops->query) {
        period_note(w, "operations, system, requests and all else that is not samples: no store "
                    "was kept; `sonde serve --store FILE` keeps one");
        return 0;
    }
    int rc = 0;
    if (!w->p->tracks) {
        rc = sonde_store_tracks(from->ops, from->store, NULL, w->q.from_s, w->q.to_s, w->p, err);
    }
    if (!rc) rc = sonde_period_series(from->ops, from->store, &w->q, w->p, err);
    if (!rc) rc = period_events(w, err);
    return rc ? rc : period_kept_findings(w, err);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int period_is_empty(const struct sonde_profile *p)
{
    return !p->samples_count && !p->spans_count && !(p->infer && p->infer->request_count) &&
           !(p->tracks && p->tracks->count) && !(p->final && p->final->count);
}

/* Whose it is, if it is one program's. */
static void period_set_program(struct sonde_profile *p)
{
    const char *first = NULL;
    for (uint32_t i = 0; p->tracks && i < p->tracks->count; i++) {
        const char *program = p->tracks->rows[i].program;
        if (!*program || !strcmp(program, "sonde")) continue;
        if (first && strcmp(first, program) != 0) return;
        first = program;
    }
    if (first && !p->samples_count) p->program = sonde_profile_cstring(p, first);
}

int sonde_period_profile(const struct sonde_period_source *from,
                         const struct sonde_history_query *q, double now_s,
                         struct sonde_profile **out, struct sonde_err *err)
{
    struct period_work w = { .from = from, .q = *q };
    w.q.heap = 0;
    int rc = period_set_time(&w, now_s, err);
    if (rc) return rc;
    sonde_buf_init(&w.notes, NOTES_MAX);
    rc = period_samples(&w, err);
    if (!rc) rc = period_heap(&w, err);
    if (!rc) rc = period_of_store(&w, err);
    if (!rc && period_is_empty(w.p)) {
        rc = sonde_err_set(err, SONDE_ENOENT, "nothing was recorded in that time");
    }
    if (!rc && w.notes.len && !w.notes.error) {
        w.p->notes = sonde_profile_cstring(w.p, w.notes.data);
    }
    sonde_buf_release(&w.notes);
    sonde__free(w.known);
    if (rc) {
        sonde_profile_destroy(w.p);
        return rc;
    }
    period_set_program(w.p);
    if (!w.p->host && !sonde_strip_on()) w.p->host = sonde_profile_cstring(w.p, w.host);
    w.p->start_ns = (uint64_t)(w.q.from_s * 1e9);
    w.p->end_ns = (uint64_t)(w.q.to_s * 1e9);
    *out = w.p;
    return 0;
}
