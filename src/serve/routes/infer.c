/* infer.c - /api/requests, /api/requests/ID, /api/heatmap, /api/inference, and POST
 * /api/inference/reset, which has totals begin anew. */
#include <string.h>

#include "analyze/heatmap.h"
#include "infer/tracker.h"
#include "base/clock.h"
#include "base/trace_id.h"
#include "serve/api/api.h"
#include "serve/api/requests.h"
#include "serve/http/route.h"

enum { LIMIT_MAX = SONDE_REQUESTS_MAX };
#define PID_MAX 4194304u
#define MS_MAX 1e9
#define METRIC_MAX 1e15
#define HOUR_S 3600.0
#define COLUMN_S 0.001 /* the shortest of a heat map */

/* What a word stands for; fallback without one. */
static int route_infer_word_of(const struct sonde_http_request *r, const char *name,
                               int (*find)(const char *), int fallback)
{
    const char *text = sonde_http_param(r, name);
    return text ? find(text) : fallback;
}

static int state_find(const char *name)
{
    return strcmp(name, "running") == 0 ? SONDE_REQUESTS_RUNNING : SONDE_REQUESTS_DONE;
}

static struct sonde_api_past past_of(const struct sonde_http_request *r)
{
    return (struct sonde_api_past){ .m = sonde_collector_model(r->agent->collector),
                                    .tracker = sonde_collector_tracker(r->agent->collector),
                                    .ops = r->agent->store_ops, .store = sonde_http_history(r) };
}

/* The filters that lists and heat maps share. 0: the 400 is in answer. */
static int parse_filters(const struct sonde_http_request *r, struct sonde_response *answer,
                         struct sonde_requests_query *q)
{
    uint64_t pid = 0;
    *q = (struct sonde_requests_query){
        .model = sonde_http_param(r, "model"),
        .route = sonde_http_param(r, "route"),
        .process = sonde_http_param(r, "process"),
        .outcome = route_infer_word_of(r, "outcome", sonde_infer_outcome_find, -1),
        .source = route_infer_word_of(r, "source", sonde_infer_source_find, -1),
        .metric = (enum sonde_request_metric)route_infer_word_of(
            r, "metric", sonde_request_metric_find, SONDE_METRIC_NONE),
    };
    if (!sonde_http_count(r, answer, "pid", PID_MAX, &pid) ||
        !sonde_http_range(r, answer, &q->from_s, &q->to_s) ||
        !sonde_http_trace(r, answer, &q->trace_hi, &q->trace_lo)) {
        return 0;
    }
    q->pid = (uint32_t)pid;
    return 1;
}

/* Bounds of the metric, and of the total in milliseconds, which is older. */
static int parse_bounds(const struct sonde_http_request *r, struct sonde_response *answer,
                        struct sonde_requests_query *q)
{
    double min_ms = 0;
    if (!sonde_http_number(r, answer, "min_ms", 0, MS_MAX, &min_ms) ||
        !sonde_http_number(r, answer, "min", 0, METRIC_MAX, &q->metric_min) ||
        !sonde_http_number(r, answer, "max", 0, METRIC_MAX, &q->metric_max)) {
        return 0;
    }
    q->min_s = min_ms * 1e-3;
    if (q->metric == SONDE_METRIC_NONE && (q->metric_min > 0 || q->metric_max > 0)) {
        q->metric = SONDE_METRIC_TOTAL;
    }
    if (!(q->metric_max > 0) || q->metric_min <= q->metric_max) return 1;
    sonde_response_error(answer, 400, "parameter max: it is less than min");
    return 0;
}

static void route_infer_requests(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const char *timeline = sonde_http_param(r, "timeline");
    struct sonde_requests_query q;
    struct sonde_err err = { "" };
    uint64_t limit = 0;
    if (!parse_filters(r, answer, &q) || !parse_bounds(r, answer, &q) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) {
        return;
    }
    q.limit = (size_t)limit;
    q.no_timeline = timeline && timeline[0] == '0';
    q.sort = (enum sonde_requests_sort)route_infer_word_of(r, "sort", sonde_requests_sort_find,
                                                           SONDE_REQUESTS_SLOWEST);
    q.state =
        (enum sonde_requests_state)route_infer_word_of(r, "state", state_find, SONDE_REQUESTS_ALL);
    const struct sonde_api_past past = past_of(r);
    const int rc = sonde_api_past_requests(&past, &q, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

static void route_infer_request(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    const struct sonde_api_past past = past_of(r);
    const int found = sonde_api_past_request(&past, r->name, &answer->body, &err);
    if (found > 0 || answer->body.error) return;
    if (found < 0) {
        sonde_response_failed(answer, found, &err);
        return;
    }
    sonde_response_error(answer, 404, "there is no request \"%.100s\", or it is no longer kept; "
                         "/api/requests lists them", r->name);
}

static void route_infer_heatmap(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_requests_query q;
    struct sonde_err err = { "" };
    uint64_t columns = 0, rows = 0;
    if (!parse_filters(r, answer, &q) ||
        !sonde_http_count(r, answer, "columns", SONDE_HEATMAP_COLUMNS_MAX, &columns) ||
        !sonde_http_count(r, answer, "rows", SONDE_HEATMAP_ROWS_MAX, &rows)) {
        return;
    }
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    if (!(q.to_s > 0)) q.to_s = q.from_s < now_s ? now_s : q.from_s + 1;
    if (!sonde_http_param(r, "from")) q.from_s = q.to_s > HOUR_S ? q.to_s - HOUR_S : 0;
    if (q.to_s - q.from_s < COLUMN_S) q.to_s = q.from_s + COLUMN_S;
    if (q.metric == SONDE_METRIC_NONE) q.metric = SONDE_METRIC_TTFT;
    const struct sonde_api_past past = past_of(r);
    const int rc =
        sonde_api_heatmap(&past, &q, (uint32_t)columns, (uint32_t)rows, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

static void route_infer_summary(const struct sonde_http_request *r, struct sonde_response *answer)
{
    double window_s = 0;
    if (!sonde_http_number(r, answer, "window", 0.001, 86400, &window_s)) return;
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    sonde_api_infer(m, sonde_collector_tracker(r->agent->collector), window_s, &answer->body);
    sonde_rwunlock(&m->lock);
}

static void route_infer_reset(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    struct sonde_infer_tracker *tracker = sonde_collector_tracker(r->agent->collector);
    sonde_wrlock(&m->lock);
    if (tracker) sonde_infer_reset(tracker, m->now_s);
    sonde_rwunlock(&m->lock);
    if (tracker) sonde_buf_puts(&answer->body, "{\"reset\":true}\n");
    else sonde_response_error(answer, 404, "inference tracking is disabled in this agent");
}

static void route_infer_shared(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    const int found = sonde_api_shared(m, sonde_collector_tracker(r->agent->collector),
                                       r->name, &answer->body);
    sonde_rwunlock(&m->lock);
    if (found || answer->body.error) return;
    sonde_response_error(answer, 404,
                         "request \"%.100s\" is not among those in memory, so its neighbours "
                         "are not known; /api/requests lists them",
                         r->name);
}

extern const struct sonde_route sonde_route_api_shared;
const struct sonde_route sonde_route_api_shared = {
    .method = "GET",
    .path = "/api/shared/*",
    .summary = "which requests shared batches with a request, and which ones it waited for",
    .params = (const char *const[]){ NULL },
    .handle = route_infer_shared,
    .keys = "id,shared,waited_for,queue,complete",
};
extern const struct sonde_route sonde_route_api_requests, sonde_route_api_request,
    sonde_route_api_heatmap, sonde_route_api_inference, sonde_route_api_inference_reset;
const struct sonde_route sonde_route_api_requests = {
    .method = "GET",
    .path = "/api/requests",
    .summary = "inference requests that run or ended, with figures and timelines; with from or to "
               "those of that time, from the store",
    .params = (const char *const[]){ "sort", "limit", "model", "route", "process", "pid", "outcome",
                                     "source", "state", "trace", "from", "to", "metric", "min",
                                     "max", "min_ms", "timeline", NULL },
    .handle = route_infer_requests,
    .keys = "time,total,requests",
};
const struct sonde_route sonde_route_api_request = {
    .method = "GET",
    .path = "/api/requests/*",
    .summary = "one request, by the engine's id, its number or its trace id",
    .params = (const char *const[]){ NULL },
    .handle = route_infer_request,
};
const struct sonde_route sonde_route_api_heatmap = {
    .method = "GET",
    .path = "/api/heatmap",
    .summary = "requests counted by arrival time and by a metric, ttft unless given, for a heat "
               "map; /api/requests with the bounds of a cell lists what it counts",
    .params = (const char *const[]){ "metric", "from", "to", "columns", "rows", "model", "route",
                                     "process", "pid", "outcome", "source", "trace", NULL },
    .handle = route_infer_heatmap,
    .keys = "time,metric,unit,from,to,step_s,edges,columns,rows,cells,counted,kept,seen,truncated",
};
const struct sonde_route sonde_route_api_inference = {
    .method = "GET",
    .path = "/api/inference",
    .summary = "inference overview: totals, models with memory and rates, percentiles by route",
    .params = (const char *const[]){ "window", NULL },
    .handle = route_infer_summary,
    .keys = "time,window_s,totals,models,groups",
};
const struct sonde_route sonde_route_api_inference_reset = {
    .method = "POST",
    .path = "/api/inference/reset",
    .summary = "resets the totals of inference",
    .params = (const char *const[]){ NULL },
    .handle = route_infer_reset,
    .keys = "reset",
    .statuses = "404",
};
