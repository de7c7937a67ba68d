/* api.c - /api/…: the answers of serve/api/api.h, and exports, with parameters from the query. */
#include "serve/api/api.h"

#include <string.h>

#include "serve/api/store.h"
#include "serve/export/export.h"
#include "serve/api/filters.h"
#include "serve/http/route.h"
#include "store/transfer/transfer.h"

enum { LIMIT_MAX = 1000000 };

/* ---- Routes ------------------------------------------------------------------------------- */

/* The store knows better than the server what to ask for instead of what does not fit. */
static void store_error(struct sonde_response *answer, int rc, const struct sonde_err *err)
{
    sonde_buf_reset(&answer->body);
    sonde_response_failed(answer, rc, err);
}

static void query_store(const struct sonde_http_request *r, struct sonde_store *s,
                        struct sonde_response *answer, const struct sonde_api_query *q,
                        double step_s)
{
    const struct sonde_store_query stored = {
        .filters = q->filters, .filter_count = q->filter_count, .from_s = q->from_s,
        .to_s = q->to_s, .step_s = step_s, .series_max = q->limit,
    };
    struct sonde_err err = { "" };
    const int rc = sonde_api_stored(r->agent->store_ops, s, &stored, &answer->body, &err);
    if (rc) store_error(answer, rc, &err);
}

/* 1 if the range begins before what is in memory. */
static int is_older(struct sonde_model *m, double from_s)
{
    sonde_rdlock(&m->lock);
    const uint32_t ticks = m->tick < SONDE_HISTORY ? (uint32_t)m->tick : SONDE_HISTORY;
    const int older = !ticks || from_s < sonde_model_tick_end(m, ticks - 1) - m->interval_s;
    sonde_rwunlock(&m->lock);
    return older;
}

static void route_api_query(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_filters f;
    uint64_t limit = 0, history = 0;
    double step_s = 0;
    struct sonde_api_query q = { 0 };
    if (!sonde_http_filters(r, answer, &f) || !sonde_http_range(r, answer, &q.from_s, &q.to_s) ||
        !sonde_http_number(r, answer, "step", 0.001, 31536000, &step_s) ||
        !sonde_http_number(r, answer, "window", 0.001, 86400, &q.window_s) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit) ||
        !sonde_http_count(r, answer, "history", LIMIT_MAX, &history)) {
        return;
    }
    q.filters = f.filter;
    q.filter_count = f.count;
    q.limit = limit;
    q.history = history;
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    struct sonde_store *s = sonde_http_history(r);
    if (s && (step_s > 0 || (q.from_s > 0 && is_older(m, q.from_s)))) {
        query_store(r, s, answer, &q, step_s);
        return;
    }
    if (step_s > 0) {
        sonde_response_error(answer, 400,
                             "parameter step: there is no history to read from; start the "
                             "agent with --store FILE");
        return;
    }
    sonde_rdlock(&m->lock);
    sonde_api_query(m, &q, &answer->body);
    sonde_rwunlock(&m->lock);
}

/* One filter is all these two take; further names are refused by parse_one. */
static int route_api_parse_one(const struct sonde_http_request *r, struct sonde_response *answer,
                               struct sonde_filters *f)
{
    if (!sonde_http_filters(r, answer, f)) return 0;
    if (f->count > 1) {
        sonde_response_error(answer, 400, "parameter name: more than one; join them as a|b");
        return 0;
    }
    return 1;
}

static void route_api_series(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_filters f;
    uint64_t limit = 0;
    if (!route_api_parse_one(r, answer, &f) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) {
        return;
    }
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    sonde_api_series(m, &f.filter[0], limit, &answer->body);
    sonde_rwunlock(&m->lock);
}

/* Every reading of a time that is over, as `sonde export STORE` writes it. */
static void export_range(const struct sonde_http_request *r, struct sonde_response *answer,
                         const struct sonde_export_ops *format, const struct sonde_store_query *q)
{
    const int which = sonde_transfer_format(format->name);
    struct sonde_store *s = sonde_http_history(r);
    struct sonde_transfer_result result;
    struct sonde_err err = { "" };
    if (which < 0) {
        sonde_response_error(answer, 400,
                             "parameter format: with from or to json, csv, openmetrics and "
                             "prometheus can be written, not %s",
                             format->name);
    } else if (!s) {
        sonde_response_error(answer, 400,
                             "parameter from: there is no history to read from; start the agent "
                             "with --store FILE");
    } else {
        const int rc =
            sonde_transfer_export(r->agent->store_ops, s, q, (enum sonde_transfer_format)which,
                                  &answer->body, &result, &err);
        if (rc) store_error(answer, rc, &err);
        else answer->content_type = format->content_type;
    }
}

static void route_api_export(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_filters f;
    const char *name = sonde_http_param(r, "format");
    const struct sonde_export_ops *format = sonde_export_find(name ? name : "json");
    struct sonde_store_query q = { .filters = f.filter, .filter_count = 1 };
    if (!route_api_parse_one(r, answer, &f) || !sonde_http_range(r, answer, &q.from_s, &q.to_s))
        return;
    if (sonde_http_param(r, "from") || sonde_http_param(r, "to")) {
        export_range(r, answer, format, &q);
        return;
    }
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    format->render(m, &f.filter[0], &answer->body);
    sonde_rwunlock(&m->lock);
    answer->content_type = format->content_type;
}

static void route_api_processes(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    sonde_api_processes(m, &answer->body);
    sonde_rwunlock(&m->lock);
}

static void route_api_runs(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    if (!r->agent->store) { /* as with findings: a list of none */
        sonde_buf_puts(&answer->body, "{\"runs\":[],\"store\":null}\n");
        return;
    }
    const int rc = sonde_api_runs(r->agent->store_ops, r->agent->store, &answer->body, &err);
    if (rc) store_error(answer, rc, &err);
}

/* 1 if there were spans since then that are no longer in memory. */
static int spans_are_older(const struct sonde_http_request *r, struct sonde_model *m, double from_s)
{
    sonde_rdlock(&m->lock);
    const int full = m->span_next >= m->spans_max;
    const struct sonde_model_span *oldest = full ? &m->spans[m->span_next % m->spans_max] : NULL;
    const int older = from_s < r->agent->started_s ||
                      (oldest && from_s < (double)oldest->start_ns * 1e-9);
    sonde_rwunlock(&m->lock);
    return older;
}

static void route_api_spans(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_api_spans q = { .name = sonde_http_param(r, "name") };
    uint64_t pid = 0, limit = 0;
    if (!sonde_http_trace(r, answer, &q.trace_hi, &q.trace_lo) ||
        !sonde_http_range(r, answer, &q.from_s, &q.to_s) ||
        !sonde_http_count(r, answer, "pid", UINT32_MAX, &pid) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) {
        return;
    }
    q.pid = (uint32_t)pid;
    q.limit = limit;
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    struct sonde_store *s = sonde_http_history(r);
    if (s && q.from_s > 0 && spans_are_older(r, m, q.from_s)) {
        struct sonde_err err = { "" };
        const int rc = sonde_api_stored_spans(r->agent->store_ops, s, &q, &answer->body, &err);
        if (rc) store_error(answer, rc, &err);
        return;
    }
    sonde_rdlock(&m->lock);
    sonde_api_spans(m, &q, &answer->body);
    sonde_rwunlock(&m->lock);
}

#define PARAMS(...) (const char *const[]){ __VA_ARGS__, NULL }

extern const struct sonde_route sonde_route_api_series, sonde_route_api_query,
    sonde_route_api_processes, sonde_route_api_spans, sonde_route_api_export,
    sonde_route_api_runs;
const struct sonde_route sonde_route_api_series = {
    .method = "GET",
    .path = "/api/series",
    .summary = "list of series",
    .params = PARAMS(SONDE_FILTER_PARAMS, "limit"),
    .handle = route_api_series,
    .keys = "time,families",
};
const struct sonde_route sonde_route_api_query = {
    .method = "GET",
    .path = "/api/query",
    .summary = "values, statistics of the last seconds and history of series; with step, or from "
               "before what is in memory, of any time from the store",
    .params = PARAMS(SONDE_FILTER_PARAMS, "window", "from", "to", "step", "limit", "history"),
    .handle = route_api_query,
    .keys = "series",
};
const struct sonde_route sonde_route_api_processes = {
    .method = "GET",
    .path = "/api/processes",
    .summary = "recorded processes",
    .params = (const char *const[]){ NULL },
    .handle = route_api_processes,
    .keys = "time,processes",
};
const struct sonde_route sonde_route_api_spans = {
    .method = "GET",
    .path = "/api/spans",
    .summary = "recent spans, newest first; with from, also those of the store",
    .params = PARAMS("trace", "name", "pid", "from", "to", "limit"),
    .handle = route_api_spans,
    .keys = "time,spans",
};
const struct sonde_route sonde_route_api_export = {
    .method = "GET",
    .path = "/api/export",
    .summary = "all series as format=json, csv or any other that `sonde export` knows; with from "
               "or to, every reading of that time from the store",
    .params = PARAMS("format", SONDE_FILTER_PARAMS, "from", "to"),
    .slow = 1,
    .handle = route_api_export,
    .produces = "application/json|text/csv|text/plain|application/openmetrics-text|"
                "application/vnd.google.protobuf",
};
const struct sonde_route sonde_route_api_runs = {
    .method = "GET",
    .path = "/api/runs",
    .summary = "runs in the store, newest first, and the state of the store; none without a store",
    .params = (const char *const[]){ NULL },
    .handle = route_api_runs,
    .keys = "runs,store",
};
