/* infer.c - what the inference page of `sonde top` shows, from the answers of /api/inference
 * and /api/requests: see data.h. */
#include <string.h>

#include "base/alloc.h"
#include "present/top/json.h"
#include "sonde/sonde.h"

static void read_model(const json_t *o, struct sonde_top_model *m)
{
    const json_t *kv = json_object_get(o, "kv");
    const char *kind;
    json_t *v;
    *m = (struct sonde_top_model){
        .pid = top_id(o, "pid"), .process = top_string(o, "process"),
        .model = top_string(o, "model"), .backend = top_string(o, "backend"),
        .running = top_number(o, "running"), .waiting = top_number(o, "waiting"),
        .prefill_per_s = top_number(o, "prefill_tokens_per_s"),
        .decode_per_s = top_number(o, "decode_tokens_per_s"),
        .output_per_s = top_number(o, "output_tokens_per_s"),
        .hit_ratio = top_number(o, "hit_ratio"), .kv_used = top_number(kv, "used"),
        .kv_total = top_number(kv, "total"), .memory_peak = top_number(o, "memory_peak_bytes"),
    };
    json_object_foreach(json_object_get(o, "memory"), kind, v) {
        if (m->memory_count == SONDE_INFER_MEMORY_KINDS) break;
        m->memory[m->memory_count].kind = kind;
        m->memory[m->memory_count++].bytes = top_number(v, "bytes");
    }
}

static struct sonde_top_stat stat_of(const json_t *o)
{
    return (struct sonde_top_stat){
        .count = top_number(o, "count"), .total = top_number(o, "total"),
        .p50 = top_number(o, "p50"), .p95 = top_number(o, "p95"), .p99 = top_number(o, "p99"),
    };
}

static void read_route(const json_t *o, struct sonde_top_route *r)
{
    const json_t *requests = json_object_get(o, "requests");
    *r = (struct sonde_top_route){
        .pid = top_id(o, "pid"), .process = top_string(o, "process"),
        .model = top_string(o, "model"), .route = top_string(o, "route"),
        .per_s = top_number(o, "requests_per_s"),
        .failed = top_number(requests, "error") + top_number(requests, "timeout"),
        .cancelled = top_number(requests, "cancelled"), .lost = top_number(requests, "lost"),
        .slo_met = top_number(o, "slo_met"), .slo_missed = top_number(o, "slo_missed"),
        .user_per_s = top_number(json_object_get(o, "user_tokens_per_s"), "p50"),
        .duration = stat_of(json_object_get(o, "duration")),
        .ttft = stat_of(json_object_get(o, "ttft")), .itl = stat_of(json_object_get(o, "itl")),
    };
    for (size_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        const json_t *phase = json_object_get(json_object_get(o, "phases"), sonde_phase_name(k));
        const double total = top_number(phase, "total");
        r->phase_s[k] = total > 0 && isfinite(total) ? total : 0;
    }
}

int sonde_top_read_infer(struct sonde_top_data *d, const char *text, size_t len,
                         struct sonde_err *err)
{
    struct sonde_top_inference *out = &d->inference;
    json_t *groups;
    const int rc = top_open(d, "inference", "groups", text, len, &groups, err);
    if (rc) return rc;
    const json_t *root = d->json[d->json_count - 1], *models = json_object_get(root, "models");
    const size_t routes_n = top_at_most(groups, SONDE_TOP_ROUTES_MAX);
    const size_t models_n = top_at_most(models, SONDE_TOP_MODELS_MAX);
    out->window_s = top_number(root, "window_s");
    out->invalid = top_sum(json_object_get(root, "invalid_events"));
    out->routes = sonde__calloc(routes_n + 1, sizeof(*out->routes));
    out->models = sonde__calloc(models_n + 1, sizeof(*out->models));
    if (!out->routes || !out->models) return sonde_err_memory(err);
    for (size_t i = 0; i < routes_n; i++) {
        read_route(json_array_get(groups, i), &out->routes[out->route_count++]);
    }
    for (size_t i = 0; i < models_n; i++) {
        read_model(json_array_get(models, i), &out->models[out->model_count++]);
    }
    return 0;
}

int sonde_top_read_requests(struct sonde_top_data *d, const char *text, size_t len,
                            struct sonde_err *err)
{
    const int rc = sonde_requests_read(text, len, &d->inference.requests, err);
    if (!rc && d->inference.requests.time_s > d->time_s) {
        d->time_s = d->inference.requests.time_s;
    }
    return rc;
}
