/* why.c - GET /api/why and /api/requests/ID/why: what latencies consisted of (analyze/path/).
 *
 * Samples and spans come from a profile that is kept, or from the continuous profile of that time,
 * else spans from what the model still has. Parts of the history have no requests: those are in the
 * model, with timelines, and in the store. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "infer/tracker.h"
#include "present/report/why.h"
#include "serve/api/flame.h"
#include "serve/api/requests.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

#define WHY_BYTES_MAX ((size_t)512 << 20)
#define RANGE_DEFAULT_S 60.0
#define LONG_S 600.0   /* requests that arrived so long before the range are looked at */
#define AROUND_S 0.005 /* of one request: spans around it, which it may be part of */

/* ---- Requests -------------------------------------------------------------------------------- */

struct route_why_gather {
    struct sonde_profile *p;
    uint64_t from_ns, to_ns;    /* they ended after, and arrived before */
    uint64_t *ids;              /* of those of the model, sorted */
    size_t id_count;
    int rc;
};

static int route_why_add(struct route_why_gather *g, const struct sonde_infer_request *r)
{
    const uint64_t end_ns = r->arrived_ns + (uint64_t)(r->total_s * 1e9);
    if (r->arrived_ns >= g->to_ns || end_ns < g->from_ns || (r->flags & SONDE_INFER_RUNNING)) {
        return 0;
    }
    const struct sonde_infer_run *run = g->p->infer;
    if (run && run->request_count >= SONDE_REQUESTS_MAX) return SONDE_EFULL;
    struct sonde_infer_request copy = *r;
    copy.flags &= ~SONDE_INFER_WENT_ON; /* it replaces nothing here */
    return sonde_infer_run_add(g->p, &copy);
}

static int route_why_add_stored(const struct sonde_infer_request *r, void *arg)
{
    struct route_why_gather *g = arg;
    if (g->id_count && bsearch(&r->id, g->ids, g->id_count, sizeof(*g->ids), sonde_cmp_u64)) {
        return 0;
    }
    const int rc = route_why_add(g, r);
    if (rc == SONDE_ENOMEM) g->rc = rc;
    return rc != 0;
}

static int route_why_add_done(const struct sonde_http_request *r, struct route_why_gather *g)
{
    struct sonde_model *m = r->agent->collector ? sonde_collector_model(r->agent->collector) : NULL;
    int rc = 0;
    if (!m) return 0;
    sonde_rdlock(&m->lock);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(r->agent->collector);
    const size_t count = tracker ? sonde_infer_done_count(tracker) : 0;
    g->ids = sonde__calloc(count + 1, sizeof(*g->ids));
    if (!g->ids) rc = SONDE_ENOMEM;
    for (size_t age = count; !rc && age-- > 0;) {
        const struct sonde_infer_request *d = sonde_infer_done(tracker, age);
        g->ids[g->id_count++] = d->id;
        rc = route_why_add(g, d);
    }
    sonde_rwunlock(&m->lock);
    if (g->id_count) qsort(g->ids, g->id_count, sizeof(*g->ids), sonde_cmp_u64);
    return rc == SONDE_EFULL ? 0 : rc;
}

static int route_why_add_requests(const struct sonde_http_request *r, struct sonde_profile *p,
                                  double from_s, double to_s, struct sonde_err *err)
{
    struct route_why_gather g = { .p = p, .from_ns = sonde_clock_ns_of(from_s),
                                  .to_ns = sonde_clock_ns_of(to_s) };
    int rc = route_why_add_done(r, &g);
    struct sonde_store *store = sonde_http_history(r);
    if (!rc && store && r->agent->store_ops->requests) {
        const struct sonde_store_range range = { .from_s = fmax(from_s - LONG_S, 0),
                                                 .to_s = to_s };
        rc = r->agent->store_ops->requests(store, &range, route_why_add_stored, &g, NULL, err);
        if (!rc) rc = g.rc;
    }
    sonde__free(g.ids);
    return rc;
}

/* ---- The profile ----------------------------------------------------------------------------- */

/* A continuous profile has only those spans that were sampled in; the model has all of the last
 * ones. */
static int route_why_all_spans(const struct sonde_http_request *r, double from_s,
                               struct sonde_profile *p)
{
    struct sonde_profile *all;
    if (!r->agent->profiler) return 0;
    int rc = sonde_profile_create(WHY_BYTES_MAX, &all);
    if (rc) return rc;
    rc = sonde_profiler_spans(r->agent->profiler, sonde_clock_ns_of(from_s), all);
    if (!rc && all->spans_count > p->spans_count) {
        const uint64_t start_ns = p->start_ns, end_ns = p->end_ns;
        p->spans_count = p->parts_count = 0;
        rc = sonde_profile_merge(p, all);
        p->start_ns = start_ns;
        p->end_ns = end_ns;
    }
    sonde_profile_destroy(all);
    return rc;
}

static int route_why_collect(const struct sonde_http_request *r,
                             const struct sonde_api_flame_side *side, struct sonde_profile *p,
                             struct sonde_err *err)
{
    const struct sonde_api_flame_query q = { .side = *side, .kind = SONDE_SAMPLE_CPU };
    struct sonde_recent_thing *thing = NULL;
    int rc = sonde_api_flame_source(r, &q, side, &thing, err);
    if (!rc) {
        const struct sonde_api_flame_source *source = sonde_recent_get(thing);
        rc = sonde_profile_merge(p, source->profile);
        p->start_ns = source->profile->start_ns;
        p->end_ns = source->profile->end_ns;
        sonde_recent_give(thing);
        if (!rc && !side->profile) rc = route_why_all_spans(r, side->from_s, p);
    } else if (rc == SONDE_ENOENT && r->agent->profiler) {
        rc = sonde_profiler_spans(r->agent->profiler, sonde_clock_ns_of(side->from_s), p);
    }
    return rc;
}

/* What is asked for in a profile that is kept, or that is shown. */
static int route_why_kept(const struct sonde_http_request *r, const char *profile,
                          const struct sonde_why_query *query, struct sonde_buf *out,
                          struct sonde_err *err)
{
    const struct sonde_api_flame_side side = { .profile = profile };
    const struct sonde_api_flame_query q = { .side = side, .kind = SONDE_SAMPLE_CPU };
    struct sonde_recent_thing *thing = NULL;
    int rc = sonde_api_flame_source(r, &q, &side, &thing, err);
    if (rc) return rc;
    const struct sonde_api_flame_source *source = sonde_recent_get(thing);
    rc = sonde_why_json(source->profile, query, out, err);
    sonde_recent_give(thing);
    return rc;
}

static void route_why_answer(const struct sonde_http_request *r, struct sonde_response *answer,
                             const struct sonde_why_query *query, double from_s, double to_s)
{
    const char *profile = sonde_http_param(r, "profile");
    struct sonde_err err = { "" };
    struct sonde_profile *p = NULL;
    int rc;
    if (profile || r->shown) {
        rc = route_why_kept(r, profile ? profile : "", query, &answer->body, &err);
    } else {
        const struct sonde_api_flame_side side = { .from_s = from_s, .to_s = to_s, .span = "*",
                                                   .process = sonde_http_param(r, "process") };
        rc = sonde_profile_create(WHY_BYTES_MAX, &p);
        if (!rc) rc = route_why_collect(r, &side, p, &err);
        if (!rc) rc = route_why_add_requests(r, p, from_s, to_s, &err);
        if (!rc) rc = sonde_why_json(p, query, &answer->body, &err);
        sonde_profile_destroy(p);
    }
    if (rc) sonde_response_failed(answer, rc, &err);
}

/* ---- Routes ---------------------------------------------------------------------------------- */

/* NULL if it is not there, or empty. */
static const char *route_why_text(const struct sonde_http_request *r, const char *name)
{
    const char *text = sonde_http_param(r, name);
    return text && *text ? text : NULL;
}

static void route_why_many(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const struct sonde_why_query query = { .trace = route_why_text(r, "trace"),
                                           .span = route_why_text(r, "span"),
                                           .slowest = route_why_text(r, "slowest") };
    double from_s = 0, to_s = 0;
    if (!sonde_http_number(r, answer, "from", 0, SONDE_TIME_MAX_S, &from_s) ||
        !sonde_http_number(r, answer, "to", 0, SONDE_TIME_MAX_S, &to_s)) {
        return;
    }
    if (!(to_s > 0)) to_s = fmax(sonde_clock_s(CLOCK_REALTIME), from_s + 1);
    if (!(from_s > 0)) from_s = fmax(to_s - RANGE_DEFAULT_S, 0);
    if (!(to_s > from_s)) {
        sonde_response_error(answer, 400, "parameter to: it must be after from");
        return;
    }
    route_why_answer(r, answer, &query, from_s, to_s);
}

/* When the request was, by what is known of it: 1, 0 = there is none. */
static int route_why_find(const struct sonde_http_request *r, const char *id, double *from_s,
                          double *to_s, char number[24])
{
    const struct sonde_api_past past = { .m = sonde_collector_model(r->agent->collector),
                                         .tracker = sonde_collector_tracker(r->agent->collector),
                                         .ops = r->agent->store_ops,
                                         .store = sonde_http_history(r) };
    struct sonde_requests found = { 0 };
    struct sonde_buf json;
    sonde_buf_init(&json, (size_t)16 << 20);
    int ok = sonde_api_past_request(&past, id, &json, NULL) > 0 && !json.error &&
             sonde_requests_read(json.data, json.len, &found, NULL) == 0 && found.count;
    if (ok) {
        *from_s = (double)found.list[0].arrived_ns * 1e-9 - AROUND_S;
        *to_s = (double)found.list[0].arrived_ns * 1e-9 + found.list[0].total_s + AROUND_S;
        snprintf(number, 24, "%016" PRIx64, found.list[0].id);
    }
    sonde_requests_release(&found);
    sonde_buf_release(&json);
    return ok;
}

static void route_why_one(const struct sonde_http_request *r, struct sonde_response *answer)
{
    char id[256], number[24] = "";
    struct sonde_why_query query = { .request = id };
    double from_s = 0, to_s = 0;
    /* What the star stands for goes on up to the end of the path. */
    const char *end = strrchr(r->name, '/');
    const size_t len = end ? (size_t)(end - r->name) : strlen(r->name);
    snprintf(id, sizeof(id), "%.*s", (int)(len < sizeof(id) ? len : sizeof(id) - 1), r->name);
    if (!sonde_http_param(r, "profile") && !r->shown) {
        if (!route_why_find(r, id, &from_s, &to_s, number)) {
            sonde_response_error(answer, 404, "there is no request \"%.100s\", or it is no longer "
                                 "kept; /api/requests lists them", id);
            return;
        }
        query.request = number;
    }
    route_why_answer(r, answer, &query, from_s, to_s);
}

extern const struct sonde_route sonde_route_api_why, sonde_route_api_request_why;
const struct sonde_route sonde_route_api_why = {
    .method = "GET",
    .path = "/api/why",
    .summary = "what the latency of the slowest requests, of spans, or of a trace consisted of, in "
               "parts that add up to it, and what tells the slow ones from the rest",
    .params = (const char *const[]){ "slowest", "span", "trace", "from", "to", "process",
                                     "profile", NULL },
    .slow = 1,
    .handle = route_why_many,
    .statuses = "404,409",
};
const struct sonde_route sonde_route_api_request_why = {
    .method = "GET",
    .path = "/api/requests/*/why",
    .summary = "what the latency of a request consisted of, in parts that add up to it: waiting "
               "for a slot, computing for it and for others, locks, I/O, not running",
    .params = (const char *const[]){ "profile", NULL },
    .slow = 1,
    .handle = route_why_one,
    .keys = "kind,id,name,seconds,parts,timeline,notes",
    .statuses = "409",
};
