/* requests.c - see requests.h, and api.h for those that are in a model. */
#include "serve/api/requests.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/heatmap.h"
#include "infer/tracker.h"
#include "analyze/shared.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "base/json.h"
#include "profile/profile.h"
#include "serve/api/api.h"
#include "serve/api/store.h"
#include "sonde/sonde.h"

enum { SHARED_MAX = 100, /* of each list */ KEPT_LEAST = 1000, LIMIT_DEFAULT = 100 };
#define COPIES_BYTES_MAX ((size_t)256 << 20)

/* ---- In the model ---------------------------------------------------------------------------- */

/* All that are known, those that run first: pointers to them, and those that run by value. */
struct all {
    const struct sonde_infer_request **list;
    struct sonde_infer_request *running;
    size_t count;
};

static int api_requests_gather(const struct sonde_model *m,
                               const struct sonde_infer_tracker *tracker, struct all *out)
{
    *out = (struct all){ 0 };
    if (!tracker) return 0;
    const size_t running = sonde_infer_running(tracker, m->now_s, NULL, 0);
    const size_t done = sonde_infer_done_count(tracker);
    out->list = sonde__calloc(running + done + 1, sizeof(struct sonde_infer_request *));
    out->running = sonde__calloc(running + 1, sizeof(*out->running));
    if (!out->list || !out->running) return SONDE_ENOMEM;
    sonde_infer_running(tracker, m->now_s, out->running, running);
    for (size_t i = 0; i < running; i++) out->list[out->count++] = &out->running[i];
    for (size_t i = 0; i < done; i++) out->list[out->count++] = sonde_infer_done(tracker, i);
    return 0;
}

static void all_release(struct all *a)
{
    sonde__free(a->list);
    sonde__free(a->running);
}

static void api_requests_put(const struct sonde_requests_query *q,
                             const struct sonde_infer_request *r, struct sonde_buf *out)
{
    struct sonde_infer_request bare = *r;
    if (q->no_timeline) {
        bare.items = NULL;
        bare.item_count = 0;
    }
    sonde_request_json(out, &bare);
}

void sonde_api_requests(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                        const struct sonde_requests_query *q, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    struct all a;
    if (api_requests_gather(m, tracker, &a)) out->error = SONDE_ENOMEM;
    size_t total = 0;
    const size_t n = out->error ? 0 : sonde_requests_select(q, a.list, a.count, &total);
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_u64(out, "total", total);
    sonde_json_key_open(out, "requests", '[');
    for (size_t i = 0; i < n && !out->error; i++) api_requests_put(q, a.list[i], out);
    sonde_buf_puts(out, "]}\n");
    all_release(&a);
}

int sonde_api_request(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                      const char *id, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    struct all a;
    if (api_requests_gather(m, tracker, &a)) out->error = SONDE_ENOMEM;
    size_t i = 0;
    while (!out->error && i < a.count && !sonde_request_is(a.list[i], id)) i++;
    const int found = !out->error && i < a.count;
    if (found) {
        sonde_request_json(out, a.list[i]);
        sonde_buf_putc(out, '\n');
    }
    all_release(&a);
    return found;
}

/* ---- Whom it shared its time with ------------------------------------------------------------ */

static void api_requests_put_name(struct sonde_buf *out, const struct sonde_infer_request *r)
{
    sonde_json_id(out, "id", &r->id, 1);
    sonde_json_str(out, "own_id", r->own_id[0] ? r->own_id : NULL);
}

static void put_shared_note(struct sonde_buf *out, const struct sonde_shared *s)
{
    char note[200] = "";
    if (s->no_timeline) {
        snprintf(note, sizeof(note),
                 "the timeline of this request was not kept, so nothing is known");
    } else if (s->others_unknown) {
        snprintf(note, sizeof(note), "the timelines of %zu requests of that time were not kept: "
                 "they may be missing here", s->others_unknown);
    } else if (s->joined) {
        snprintf(note, sizeof(note), "its timeline was too long and neighbouring steps were "
                 "joined: batches in these are not counted");
    }
    sonde_json_bool(out, "complete", !note[0]);
    sonde_json_str(out, "note", note[0] ? note : NULL);
}

static void put_shared(struct sonde_buf *out, const struct sonde_infer_request *r,
                       const struct sonde_shared *s)
{
    sonde_buf_putc(out, '{');
    api_requests_put_name(out, r);
    sonde_json_key_open(out, "shared", '[');
    for (size_t i = 0; i < s->request_count && i < SHARED_MAX; i++) {
        const struct sonde_shared_request *o = &s->requests[i];
        sonde_json_open(out, '{');
        api_requests_put_name(out, o->request);
        sonde_json_str(out, "model", o->request->model);
        sonde_json_str(out, "route", o->request->route);
        sonde_json_u64(out, "batches", o->batches);
        sonde_json_u64(out, "tokens", o->tokens);
        sonde_json_num(out, "seconds", o->seconds);
        sonde_json_num(out, "share", s->batch_s > 0 ? o->seconds / s->batch_s : 0);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "waited_for", '[');
    for (size_t i = 0; i < s->wait_count && i < SHARED_MAX; i++) {
        sonde_json_open(out, '{');
        api_requests_put_name(out, s->waits[i].request);
        sonde_json_str(out, "phase", s->waits[i].phase);
        sonde_json_num(out, "seconds", s->waits[i].seconds);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "queue", '{');
    sonde_json_num(out, "seconds", s->no_timeline ? NAN : s->wait_s);
    sonde_json_close(out, '}');
    put_shared_note(out, s);
    sonde_buf_puts(out, "}\n");
}

int sonde_api_shared(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                     const char *id, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    struct all a;
    struct sonde_shared s = { 0 };
    size_t at = 0;
    if (api_requests_gather(m, tracker, &a)) out->error = SONDE_ENOMEM;
    while (!out->error && at < a.count && !sonde_request_is(a.list[at], id)) at++;
    const int found = !out->error && at < a.count;
    if (found && sonde_shared_find(a.list[at], a.list, a.count, &s)) out->error = SONDE_ENOMEM;
    if (found && !out->error) put_shared(out, a.list[at], &s);
    sonde_shared_release(&s);
    all_release(&a);
    return found;
}

/* ---- Of the store: which --------------------------------------------------------------------- */

/* What passed so far, but for those that a limit leaves out anyhow: every now and then the last in
 * order go, so that twice the limit is the most that is held. From then on nothing is copied that
 * would come after all that are left: of tens of thousands, that is nearly everything. */
struct sifting {
    const struct sonde_requests_query *q;
    struct sonde_profile *copies; /* what is read is good for a moment only */
    size_t limit;
    uint64_t total;
    int truncated;
    int full;                      /* as many as are wanted are held, … */
    struct sonde_infer_request last; /* … and this is the last of them; its texts are gone */
    struct sonde_profile *running; /* of the model, ascending by id … */
    unsigned char *ended;          /* … and which of them the store has by now */
};

static size_t copies_count(const struct sifting *s)
{
    return s->copies->infer ? s->copies->infer->request_count : 0;
}

/* Pointers to all that are held; the caller frees it. NULL: out of memory. */
static const struct sonde_infer_request **copies_list(const struct sifting *s)
{
    const size_t n = copies_count(s);
    const struct sonde_infer_request **list = sonde__calloc(n + 1, sizeof(*list));
    for (size_t i = 0; list && i < n; i++) list[i] = &s->copies->infer->requests[i];
    return list;
}

/* Leaves the first `limit` of them. 0 or SONDE_ENOMEM. */
static int api_requests_sift(struct sifting *s)
{
    struct sonde_infer_run *run = s->copies->infer;
    const size_t count = run->request_count;
    const struct sonde_infer_request **list = copies_list(s);
    unsigned char *stays = sonde__calloc(count, 1);
    const int rc = list && stays ? 0 : SONDE_ENOMEM;
    const size_t n = rc ? 0 : sonde_requests_select(s->q, list, count, NULL);
    if (n) {
        s->full = 1; /* there were more than the limit */
        s->last = *list[n - 1];
    }
    for (size_t i = 0; i < n; i++) stays[list[i] - run->requests] = 1;
    uint32_t kept = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        struct sonde_infer_request *r = &run->requests[i];
        if (stays[i]) {
            run->requests[kept++] = *r;
            continue;
        }
        s->copies->bytes -= r->item_count * sizeof(*r->items) + r->attr_count * sizeof(*r->attrs);
        sonde_infer_request_release(r);
    }
    if (!rc) run->request_count = kept;
    sonde__free(stays);
    sonde__free(list);
    return rc;
}

static int api_requests_cmp(const void *a, const void *b)
{
    const struct sonde_infer_request *x = a, *y = b;
    if (x->id != y->id) return SONDE_CMP(x->id, y->id);
    return x->pid != y->pid ? SONDE_CMP(x->pid, y->pid) : SONDE_CMP(x->source, y->source);
}

/* Copies those that run and pass, before the store is read: one that ends meanwhile is then in
 * both, not in neither. 0 or SONDE_ENOMEM. */
static int take_running(struct sifting *s, const struct sonde_api_past *p)
{
    struct all a;
    sonde_rdlock(&p->m->lock);
    int rc = api_requests_gather(p->m, p->tracker, &a);
    for (size_t i = 0; i < a.count && !rc; i++) {
        if (!(a.list[i]->flags & SONDE_INFER_RUNNING)) break; /* they come first */
        if (sonde_request_passes(s->q, a.list[i])) rc = sonde_infer_run_add(s->running, a.list[i]);
    }
    sonde_rwunlock(&p->m->lock);
    all_release(&a);
    struct sonde_infer_run *run = s->running->infer;
    if (rc || !run) return rc;
    qsort(run->requests, run->request_count, sizeof(*run->requests), api_requests_cmp);
    s->ended = sonde__calloc(run->request_count + 1, 1);
    return s->ended ? 0 : SONDE_ENOMEM;
}

static void note_ended(struct sifting *s, const struct sonde_infer_request *r)
{
    const struct sonde_infer_run *run = s->running->infer;
    if (!run || !run->request_count) return;
    const struct sonde_infer_request *f = bsearch(r, run->requests, run->request_count,
                                                  sizeof(*run->requests), api_requests_cmp);
    if (f) s->ended[f - run->requests] = 1;
}

static int api_requests_take(const struct sonde_infer_request *r, void *arg)
{
    struct sifting *s = arg;
    note_ended(s, r);
    if (!sonde_request_passes(s->q, r)) return 0;
    s->total++;
    if (s->full && sonde_requests_compare(s->q->sort, r, &s->last) > 0) return 0;
    struct sonde_infer_request bare = *r;
    if (s->q->no_timeline) {
        bare.items = NULL;
        bare.item_count = 0;
    }
    if (copies_count(s) >= 2 * s->limit) s->truncated = api_requests_sift(s) != 0;
    if (!s->truncated) s->truncated = sonde_infer_run_add(s->copies, &bare) != 0;
    return s->truncated;
}

/* ---- Of the store: as JSON ------------------------------------------------------------------- */

int sonde_api_request_cmp_at(const void *a, const void *b)
{
    return api_requests_cmp(*(const struct sonde_infer_request *const *)a,
                            *(const struct sonde_infer_request *const *)b);
}

/* Timelines that the store has not kept and the model still has: copies of those requests go to p,
 * and list to them. */
static void find_timelines(const struct sonde_api_past *past,
                           const struct sonde_infer_request **list, size_t n,
                           struct sonde_profile *p)
{
    sonde_assert_held(&past->m->lock);
    const struct sonde_infer_tracker *tracker = past->tracker;
    const size_t done = tracker ? sonde_infer_done_count(tracker) : 0;
    const struct sonde_infer_request **known = done ? sonde__calloc(done, sizeof(*known)) : NULL;
    size_t *at = done ? sonde__calloc(n + 1, sizeof(*at)) : NULL;
    if (known && at) {
        for (size_t i = 0; i < done; i++) known[i] = sonde_infer_done(tracker, i);
        qsort(known, done, sizeof(*known), sonde_api_request_cmp_at);
        for (size_t i = 0; i < n; i++) {
            const struct sonde_infer_request *const *f =
                list[i]->items
                    ? NULL
                    : bsearch(&list[i], known, done, sizeof(*known), sonde_api_request_cmp_at);
            /* One that went on is not what the store knows of it. */
            if (!f || !(*f)->items || ((*f)->flags & SONDE_INFER_WENT_ON)) continue;
            if (sonde_infer_run_add(p, *f)) break; /* it is shown without */
            at[i] = p->infer->request_count;
        }
        for (size_t i = 0; i < n; i++) {
            if (at[i]) list[i] = &p->infer->requests[at[i] - 1];
        }
    }
    sonde__free(at);
    sonde__free(known);
}

static void put_sifted(const struct sifting *s, const struct sonde_api_past *p,
                       struct sonde_buf *out)
{
    const struct sonde_infer_request **list = copies_list(s);
    struct sonde_profile *found = NULL;
    if (!list || sonde_profile_create(COPIES_BYTES_MAX, &found) != 0) {
        sonde__free(list);
        out->error = SONDE_ENOMEM;
        return;
    }
    const size_t n = sonde_requests_select(s->q, list, copies_count(s), NULL);
    if (!s->q->no_timeline) {
        sonde_rdlock(&p->m->lock);
        find_timelines(p, list, n, found);
        sonde_rwunlock(&p->m->lock);
    }
    sonde_json_u64(out, "total", s->total);
    sonde_json_bool(out, "truncated", s->truncated);
    sonde_json_key_open(out, "requests", '[');
    for (size_t i = 0; i < n && !out->error; i++) sonde_request_json(out, list[i]);
    sonde_json_close(out, ']');
    sonde_profile_destroy(found);
    sonde__free(list);
}

static int read_stored(const struct sonde_api_past *p, struct sifting *s, struct sonde_buf *out,
                       struct sonde_err *err)
{
    const struct sonde_store_range range = { .from_s = s->q->from_s, .to_s = s->q->to_s };
    struct sonde_store_counts counts = { 0 };
    int rc = s->q->state == SONDE_REQUESTS_DONE ? 0 : take_running(s, p);
    if (rc) return sonde_err_memory(err);
    rc = p->ops->requests(p->store, &range, api_requests_take, s, &counts, err);
    if (rc) return rc;
    const struct sonde_infer_run *run = s->running->infer;
    for (size_t i = 0; run && i < run->request_count && !s->truncated; i++) {
        if (!s->ended[i]) api_requests_take(&run->requests[i], s);
    }
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", sonde_clock_s(CLOCK_REALTIME));
    put_sifted(s, p, out);
    sonde_api_put_counts(out, &counts);
    sonde_buf_puts(out, "}\n");
    return 0;
}

static int is_stored(const struct sonde_api_past *p, const struct sonde_requests_query *q)
{
    return p->store && (q->from_s > 0 || q->to_s > 0) && q->state != SONDE_REQUESTS_RUNNING;
}

int sonde_api_past_requests(const struct sonde_api_past *p, const struct sonde_requests_query *q,
                            struct sonde_buf *out, struct sonde_err *err)
{
    assert(p->m && (!p->store || p->ops));
    if (!is_stored(p, q)) {
        sonde_rdlock(&p->m->lock);
        sonde_api_requests(p->m, p->tracker, q, out);
        sonde_rwunlock(&p->m->lock);
        return 0;
    }
    struct sifting s = { .q = q, .limit = q->limit ? q->limit : LIMIT_DEFAULT };
    if (s.limit < KEPT_LEAST) s.limit = KEPT_LEAST;
    int rc = sonde_profile_create(COPIES_BYTES_MAX, &s.copies);
    if (!rc) rc = sonde_profile_create(COPIES_BYTES_MAX, &s.running);
    rc = rc ? sonde_err_memory(err) : read_stored(p, &s, out, err);
    sonde__free(s.ended);
    sonde_profile_destroy(s.running);
    sonde_profile_destroy(s.copies);
    return rc;
}

/* ---- One ------------------------------------------------------------------------------------- */

struct finding_one { const char *id; struct sonde_buf *out; int found; };

static int api_requests_find_one(const struct sonde_infer_request *r, void *arg)
{
    struct finding_one *a = arg;
    if (!sonde_request_is(r, a->id)) return 0;
    sonde_request_json(a->out, r);
    sonde_buf_putc(a->out, '\n');
    return a->found = 1;
}

int sonde_api_past_request(const struct sonde_api_past *p, const char *id, struct sonde_buf *out,
                           struct sonde_err *err)
{
    sonde_rdlock(&p->m->lock);
    const int found = sonde_api_request(p->m, p->tracker, id, out);
    sonde_rwunlock(&p->m->lock);
    if (found || out->error || !p->store) return found;
    struct finding_one a = { .id = id, .out = out };
    const struct sonde_store_range all = { 0 };
    const int rc = p->ops->requests(p->store, &all, api_requests_find_one, &a, NULL, err);
    return rc ? rc : a.found;
}

/* ---- A heat map ------------------------------------------------------------------------------ */

struct api_requests_mapping { const struct sonde_requests_query *q; struct sonde_heatmap map; };

/* As the series of errors count: one whose client went away did not fail. */
static int is_failed(const struct sonde_infer_request *r)
{
    return r->outcome != SONDE_OK && r->outcome != SONDE_CANCELLED;
}

static int map_request(const struct sonde_infer_request *r, void *arg)
{
    struct api_requests_mapping *a = arg;
    double value;
    if (!sonde_request_passes(a->q, r) || !sonde_request_metric(r, a->q->metric, &value)) return 0;
    return sonde_heatmap_add(&a->map, r->arrived_ns, value, is_failed(r));
}

/* Those that ended and are still in the model. truncated: others of the time have been there. */
static void map_model(const struct sonde_api_past *p, struct api_requests_mapping *a,
                      struct sonde_store_counts *counts)
{
    const struct sonde_infer_tracker *tracker = p->tracker;
    sonde_rdlock(&p->m->lock);
    const size_t done = tracker ? sonde_infer_done_count(tracker) : 0;
    const struct sonde_requests_query time = { .outcome = -1, .source = -1,
                                               .from_s = a->q->from_s, .to_s = a->q->to_s };
    for (size_t i = 0; i < done; i++) {
        const struct sonde_infer_request *r = sonde_infer_done(tracker, i);
        counts->seen += (uint64_t)sonde_request_passes(&time, r);
        map_request(r, a);
    }
    counts->kept = counts->seen;
    if (done && done >= sonde_infer_options(tracker)->done_max) {
        /* What was dropped ended before the oldest that is left, so it arrived before that, too. */
        const struct sonde_infer_request *oldest = sonde_infer_done(tracker, done - 1);
        a->map.truncated |=
            a->q->from_s < (double)oldest->arrived_ns * 1e-9 + oldest->total_s;
    }
    sonde_rwunlock(&p->m->lock);
}

static void put_cells(const struct sonde_heatmap *h, struct sonde_buf *out)
{
    sonde_json_key_open(out, "cells", '[');
    for (uint32_t c = 0; c < h->columns && h->rows; c++) {
        for (uint32_t r = 0; r < h->rows; r++) {
            const struct sonde_heatmap_cell *cell = &h->cells[(size_t)c * h->rows + r];
            if (!cell->count) continue;
            sonde_json_open(out, '[');
            sonde_buf_printf(out, "%u,%u,%u,%u]", c, r, cell->count, cell->failed);
        }
    }
    sonde_json_close(out, ']');
}

static void put_map(const struct api_requests_mapping *a, const struct sonde_store_counts *counts,
                    struct sonde_buf *out)
{
    const struct sonde_heatmap *h = &a->map;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", sonde_clock_s(CLOCK_REALTIME));
    sonde_json_str(out, "metric", sonde_request_metric_name(a->q->metric));
    sonde_json_str(out, "unit", sonde_request_metric_unit(a->q->metric));
    if (h->from_ms) sonde_json_time(out, "from", (double)h->from_ms * 1e-3);
    else sonde_json_u64(out, "from", 0); /* 1970 is a time here */
    sonde_json_time(out, "to", (double)(h->from_ms + h->columns * h->step_ms) * 1e-3);
    sonde_json_num(out, "step_s", (double)h->step_ms / 1e3);
    sonde_json_key_open(out, "edges", '[');
    for (uint32_t i = 0; h->rows && i <= h->rows; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_double(out, h->edges[i]);
    }
    sonde_json_close(out, ']');
    sonde_json_u64(out, "columns", h->columns);
    sonde_json_u64(out, "rows", h->rows);
    put_cells(h, out);
    sonde_json_u64(out, "counted", h->counted);
    sonde_json_u64(out, "kept", counts->kept);
    sonde_json_u64(out, "seen", counts->seen);
    sonde_json_bool(out, "truncated", h->truncated);
    sonde_buf_puts(out, "}\n");
}

int sonde_api_heatmap(const struct sonde_api_past *p, const struct sonde_requests_query *q,
                      uint32_t columns, uint32_t rows, struct sonde_buf *out,
                      struct sonde_err *err)
{
    struct sonde_requests_query whole = *q; /* of whole columns */
    struct api_requests_mapping a = { .q = &whole };
    struct sonde_store_counts counts = { 0 };
    int rc = 0;
    assert(q->metric != SONDE_METRIC_NONE && q->to_s >= q->from_s);
    sonde_heatmap_init(&a.map, &(struct sonde_heatmap_options){
        .from_s = q->from_s, .to_s = q->to_s, .columns = columns, .rows = rows });
    whole.from_s = (double)a.map.from_ms * 1e-3;
    whole.to_s = (double)(a.map.from_ms + a.map.columns * a.map.step_ms) * 1e-3;
    if (is_stored(p, &whole)) {
        const struct sonde_store_range range = { .from_s = whole.from_s, .to_s = whole.to_s };
        rc = p->ops->requests(p->store, &range, map_request, &a, &counts, err);
    } else {
        map_model(p, &a, &counts);
    }
    if (!rc && sonde_heatmap_finish(&a.map) != 0) {
        rc = sonde_err_memory(err);
    }
    if (!rc) put_map(&a, &counts, out);
    sonde_heatmap_release(&a.map);
    return rc;
}
