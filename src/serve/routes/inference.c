/* inference.c - /api/requests, /api/requests/ID, /api/inference, and POST /api/inference/reset, which
 * has totals begin anew. */
#include <string.h>

#include "analyze/inference.h"
#include "serve/api.h"
#include "serve/api_store.h"
#include "serve/route.h"

enum { LIMIT_MAX = SONDE_REQUESTS_MAX };
#define PID_MAX 4194304u
#define MS_MAX 1e9
#define TIME_MAX 1e11 /* unix seconds */

/* What a word stands for; fallback without one. */
static int word_of(const struct sonde_request *r, const char *name, int (*find)(const char *),
                   int fallback)
{
    const char *text = sonde_request_param(r, name);
    return text ? find(text) : fallback;
}

static int state_find(const char *name)
{
    return strcmp(name, "running") == 0 ? SONDE_REQUESTS_RUNNING : SONDE_REQUESTS_DONE;
}

/* 1 if there were requests since then that are no longer in memory. */
static int is_older(const struct sonde_request *r, struct sonde_model *m, double from_s)
{
    if (!(from_s > 0)) return 0;
    pthread_rwlock_rdlock(&m->lock);
    const struct sonde_infer *x = sonde_infer_of(m);
    const int full = x && sonde_infer_done_count(x) >= sonde_infer_options(x)->done_max;
    pthread_rwlock_unlock(&m->lock);
    return full || from_s < r->started_s;
}

static void requests(const struct sonde_request *r, struct sonde_response *a)
{
    uint64_t limit = 0, pid = 0;
    double min_ms = 0;
    struct sonde_requests_query q = {
        .model = sonde_request_param(r, "model"),
        .route = sonde_request_param(r, "route"),
        .outcome = word_of(r, "outcome", sonde_infer_outcome_find, -1),
        .source = word_of(r, "source", sonde_infer_source_find, -1),
        .sort = (enum sonde_requests_sort)word_of(r, "sort", sonde_requests_sort_find,
                                                  SONDE_REQUESTS_SLOWEST),
        .state = (enum sonde_requests_state)word_of(r, "state", state_find, SONDE_REQUESTS_ALL),
    };
    if (!sonde_request_count(r, a, "limit", LIMIT_MAX, &limit) ||
        !sonde_request_count(r, a, "pid", PID_MAX, &pid) ||
        !sonde_request_number(r, a, "min_ms", 0, MS_MAX, &min_ms) ||
        !sonde_request_number(r, a, "from", 0, TIME_MAX, &q.from_s) ||
        !sonde_request_number(r, a, "to", 0, TIME_MAX, &q.to_s)) {
        return;
    }
    if (q.to_s > 0 && q.to_s < q.from_s) {
        sonde_response_error(a, 400, "parameter to: it is before from");
        return;
    }
    q.limit = (size_t)limit;
    q.pid = (uint32_t)pid;
    q.min_s = min_ms * 1e-3;
    struct sonde_model *m = sonde_collector_model(r->collector);
    if (r->store && q.state != SONDE_REQUESTS_RUNNING && is_older(r, m, q.from_s)) {
        struct sonde_err err = { "" };
        const int rc = sonde_api_stored_requests(r->store_ops, r->store, &q, &a->body, &err);
        if (rc) sonde_response_error(a, 500, "%s", err.text);
        return;
    }
    pthread_rwlock_rdlock(&m->lock);
    sonde_api_requests(m, &q, &a->body);
    pthread_rwlock_unlock(&m->lock);
}

static void request(const struct sonde_request *r, struct sonde_response *a)
{
    struct sonde_model *m = sonde_collector_model(r->collector);
    pthread_rwlock_rdlock(&m->lock);
    const int found = sonde_api_request(m, r->name, &a->body);
    pthread_rwlock_unlock(&m->lock);
    if (found || a->body.error) return;
    struct sonde_err err = { "" };
    const int stored = r->store ? sonde_api_stored_request(r->store_ops, r->store, r->name,
                                                           &a->body, &err) : 0;
    if (stored > 0) return;
    if (stored < 0) {
        sonde_response_error(a, 500, "%s", err.text);
        return;
    }
    sonde_response_error(a, 404, "there is no request \"%.100s\", or it is no longer kept; "
                         "/api/requests lists them", r->name);
}

static void inference(const struct sonde_request *r, struct sonde_response *a)
{
    double window_s = 0;
    if (!sonde_request_number(r, a, "window", 0.001, 86400, &window_s)) return;
    struct sonde_model *m = sonde_collector_model(r->collector);
    pthread_rwlock_rdlock(&m->lock);
    sonde_api_inference(m, window_s, &a->body);
    pthread_rwlock_unlock(&m->lock);
}

static void reset(const struct sonde_request *r, struct sonde_response *a)
{
    struct sonde_model *m = sonde_collector_model(r->collector);
    pthread_rwlock_wrlock(&m->lock);
    struct sonde_infer *x = sonde_infer_of(m);
    if (x) sonde_infer_reset(x, m->now_s);
    pthread_rwlock_unlock(&m->lock);
    if (x) sonde_buf_puts(&a->body, "{\"reset\":true}\n");
    else sonde_response_error(a, 404, "this agent follows no inference");
}

extern const struct sonde_route sonde_route_api_requests, sonde_route_api_request,
    sonde_route_api_inference, sonde_route_api_inference_reset;
const struct sonde_route sonde_route_api_requests = {
    .method = "GET",
    .path = "/api/requests",
    .summary = "inference requests that run or ended, with figures and timelines; with from, also "
               "those of the store",
    .params = (const char *const[]){ "sort", "limit", "model", "route", "outcome", "source",
                                     "state", "pid", "min_ms", "from", "to", NULL },
    .handle = requests,
    .keys = "time,total,requests",
};
const struct sonde_route sonde_route_api_request = {
    .method = "GET",
    .path = "/api/requests/*",
    .summary = "one of them, by the engine's id, its number or its trace id",
    .params = (const char *const[]){ NULL },
    .handle = request,
};
const struct sonde_route sonde_route_api_inference = {
    .method = "GET",
    .path = "/api/inference",
    .summary = "inference in all: totals, models with memory and rates, percentiles by route",
    .params = (const char *const[]){ "window", NULL },
    .handle = inference,
    .keys = "time,window_s,totals,models,groups",
};
const struct sonde_route sonde_route_api_inference_reset = {
    .method = "POST",
    .path = "/api/inference/reset",
    .summary = "totals of inference begin anew",
    .params = (const char *const[]){ NULL },
    .handle = reset,
    .keys = "reset",
    .statuses = "404",
};
