/* stream.c - GET /api/stream: what the agent reads, each tick, as server-sent events. Data of an
 * event is what the route of the same name answers: series as /api/query, processes as
 * /api/processes, inference as /api/inference; store tells how the store is. points are of the step
 * that has just ended, when one has: what /api/query?step= answers of it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "serve/api/api.h"
#include "serve/api/filters.h"
#include "serve/http/route.h"
#include "serve/http/status.h"
#include "sonde/sonde.h"

enum { LIMIT_MAX = 10000, HISTORY_MAX = 1000 };

struct route_stream_wanted {
    double step_s;               /* of points */
    struct sonde_filters filters;
    struct sonde_api_query query;
};

static int route_stream_parse(const struct sonde_http_request *r, struct sonde_response *answer,
                              struct route_stream_wanted *w)
{
    uint64_t limit = 0, history = 0;
    const char *step = sonde_http_param(r, "step");
    w->query = (struct sonde_api_query){ .filters = w->filters.filter };
    w->step_s = step ? atof(step) : 1; /* it is one of a few words */
    if (!sonde_http_filters(r, answer, &w->filters) ||
        !sonde_http_number(r, answer, "window", 0.001, 86400, &w->query.window_s) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit) ||
        !sonde_http_count(r, answer, "history", HISTORY_MAX, &history)) {
        return 0;
    }
    w->query.filter_count = w->filters.count;
    w->query.limit = (size_t)limit;
    w->query.history = (size_t)history;
    return 1;
}

static void put_store(const struct sonde_http_request *r, struct sonde_buf *out)
{
    struct sonde_store_stats stats;
    if (!r->agent->store) {
        sonde_buf_puts(out, "null");
        return;
    }
    r->agent->store_ops->stats(r->agent->store, &stats);
    sonde_json_open(out, '{');
    sonde_json_time(out, "failing_since", stats.failing_since_s);
    sonde_json_str(out, "problem", stats.problem[0] ? stats.problem : NULL);
    sonde_json_u64(out, "ticks", stats.ticks);
    sonde_json_u64(out, "dropped_ticks", stats.dropped_ticks);
    sonde_json_u64(out, "dropped_series", stats.dropped_series);
    sonde_json_close(out, '}');
}

static void route_stream_put_event(const struct sonde_http_request *r,
                                   const struct route_stream_wanted *w,
                                   const char *name, struct sonde_buf *out)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(r->agent->collector);
    struct sonde_buf data;
    sonde_buf_init(&data, out->max);
    if (strcmp(name, "store") == 0) {
        put_store(r, &data);
    } else {
        sonde_rdlock(&m->lock);
        if (strcmp(name, "points") == 0) sonde_api_points(m, &w->query, w->step_s, &data);
        else if (strcmp(name, "series") == 0) sonde_api_query(m, &w->query, &data);
        else if (strcmp(name, "processes") == 0) sonde_api_processes(m, &data);
        else sonde_api_infer(m, tracker, w->query.window_s, &data);
        sonde_rwunlock(&m->lock);
    }
    if (data.error) out->error = data.error;
    else if (data.len) sonde_stream_event(out, name, data.data, data.len);
    sonde_buf_release(&data);
}

static void route_stream_render(const struct sonde_http_request *r, struct sonde_buf *out)
{
    static const char *const names[] = { "points", "series", "processes", "inference", "store" };
    const char *events = sonde_http_param(r, "events");
    struct sonde_response unused = { 0 };
    struct route_stream_wanted w;
    if (!route_stream_parse(r, &unused, &w)) return; /* it went well when the stream was opened */
    if (!events) events = "series";
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (strstr(events, names[i])) route_stream_put_event(r, &w, names[i], out);
    }
}

static void route_stream_handle(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct route_stream_wanted w;
    struct sonde_err err = { "" };
    assert(r->streams);
    if (!route_stream_parse(r, answer, &w)) return;
    const int rc = sonde_streams_open(r->streams, r, route_stream_render, r->last_event_id,
                                      &answer->stream, &err);
    if (rc) {
        answer->retry_after_s = 10;
        /* Not the 400 of EFULL: there are too many readers, whatever this one asks for. */
        sonde_response_error(answer, rc == SONDE_EFULL ? 503 : sonde_http_status(rc), "%s",
                             err.text);
        return;
    }
    answer->content_type = "text/event-stream";
}

extern const struct sonde_route sonde_route_api_stream;
const struct sonde_route sonde_route_api_stream = {
    .method = "GET",
    .path = "/api/stream",
    .summary = "server-sent events, each tick: events=points,series,processes,inference,store; "
               "series alone unless given",
    .params = (const char *const[]){ "events", SONDE_FILTER_PARAMS, "window", "limit", "history",
                                     "step", NULL },
    .handle = route_stream_handle,
    .produces = "text/event-stream",
    .statuses = "503",
};
