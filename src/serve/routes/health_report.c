/* health_report.c - /health: how what is watched does, and sonde itself, from what was recorded in
 * the last seconds. A probe costs a look at memory; it asks nothing of anybody.
 *
 * failing (503): the collector does not read, or more requests fail than may. degraded: anything
 * else that somebody should look at. What there is too little of is not judged. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/health.h"
#include "base/clock.h"
#include "base/json.h"
#include "serve/http/route.h"

enum { REASONS_MAX = 8, REASON_MAX = 320 };
#define WINDOW_DEFAULT_S 60.0

struct route_health_report_state {
    struct sonde_health h;
    struct sonde_store_stats store;
    double age_s, interval_s;   /* of the last tick; NaN before the first */
    int degraded, failing;
    char reasons[REASONS_MAX][REASON_MAX];
    size_t reason_count;
};

__attribute__((format(printf, 3, 4))) static void
route_health_report_reason(struct route_health_report_state *p, int *what, const char *format, ...)
{
    va_list args;
    *what = 1;
    if (p->reason_count == REASONS_MAX) return;
    va_start(args, format);
    vsnprintf(p->reasons[p->reason_count++], REASON_MAX, format, args);
    va_end(args);
}

/* Also when there are NaN of them: then not at all. */
static void judge_errors(struct route_health_report_state *p, const struct sonde_health_options *o,
                         double failed, double count, const char *how)
{
    if (!(count >= SONDE_HEALTH_MIN)) return;
    const double ratio = failed / count;
    if (o->error_ratio_failing > 0 && ratio > o->error_ratio_failing) {
        route_health_report_reason(p, &p->failing, "%.0f of %.0f requests %s", failed, count, how);
    } else if (o->error_ratio_max > 0 && ratio > o->error_ratio_max) {
        route_health_report_reason(p, &p->degraded, "%.0f of %.0f requests %s", failed, count, how);
    }
}

static void judge_requests(struct route_health_report_state *p,
                           const struct sonde_health_options *o)
{
    const struct sonde_health *h = &p->h;
    judge_errors(p, o, h->failed, h->count, "failed");
    judge_errors(p, o, h->front_failed, h->front_count, "were not answered by the upstream");
    if (h->count < SONDE_HEALTH_MIN) return;
    if (o->p95_s_max > 0 && h->p95_s > o->p95_s_max) {
        route_health_report_reason(p, &p->degraded,
                                   "the 95th percentile of latency is %.3g s, over %.3g s",
                                   h->p95_s, o->p95_s_max);
    }
}

static void route_health_report_judge(struct route_health_report_state *p,
                                      const struct sonde_http_request *r)
{
    const struct sonde_health *h = &p->h;
    if (isnan(p->age_s)) route_health_report_reason(p, &p->failing, "nothing has been read yet");
    else if (p->age_s > 3 * p->interval_s + 2) {
        route_health_report_reason(p, &p->failing, "nothing was read for %.0f s", p->age_s);
    }
    judge_requests(p, &r->agent->health);
    const double used = 1 - h->memory_available / h->memory_total;
    if (r->agent->health.memory_ratio_max > 0 && used > r->agent->health.memory_ratio_max) {
        route_health_report_reason(p, &p->degraded, "%.0f %% of the machine's memory is in use",
                                   used * 100);
    }
    if (p->store.failing_since_s > 0) {
        route_health_report_reason(p, &p->degraded, "the store cannot be written: %s",
                                   p->store.problem);
    }
}

static void route_health_report_put_requests(struct sonde_buf *out, const struct sonde_health *h)
{
    sonde_json_key_open(out, "latency", '{');
    sonde_json_str(out, "source", h->source);
    if (!h->source) sonde_json_str(out, "reason", "no request or span ended in the window");
    sonde_json_num(out, "p50_s", h->p50_s);
    sonde_json_num(out, "p95_s", h->p95_s);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "errors", '{');
    sonde_json_num(out, "requests", h->count);
    sonde_json_num(out, "failed", h->failed);
    sonde_json_num(out, "ratio", h->count > 0 ? h->failed / h->count : NAN);
    sonde_json_close(out, '}');
}

static void put_machine(struct sonde_buf *out, const struct sonde_health *h)
{
    sonde_json_key_open(out, "memory", '{');
    sonde_json_num(out, "total_bytes", h->memory_total);
    sonde_json_num(out, "available_bytes", h->memory_available);
    sonde_json_num(out, "used_ratio", 1 - h->memory_available / h->memory_total);
    sonde_json_num(out, "processes_bytes", h->resident);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "gpu", '{');
    sonde_json_num(out, "utilization_ratio", h->gpu_ratio);
    if (isnan(h->gpu_ratio)) sonde_json_str(out, "reason", "no GPU is read on this machine");
    sonde_json_close(out, '}');
}

/* What the front saw of its upstream; nothing is asked of that for it. */
static void put_front(struct sonde_buf *out, const struct route_health_report_state *p,
                      const struct sonde_health_options *o)
{
    const struct sonde_health *h = &p->h;
    const int bad = h->front_count >= SONDE_HEALTH_MIN && o->error_ratio_max > 0 &&
                    h->front_failed / h->front_count > o->error_ratio_max;
    sonde_json_key_open(out, "front", '{');
    sonde_json_str(out, "status", isnan(h->front_count) ? "off" : bad ? "failing" : "ok");
    if (!isnan(h->front_count)) {
        sonde_json_num(out, "requests", h->front_count);
        sonde_json_num(out, "not_answered", h->front_failed);
    }
    sonde_json_close(out, '}');
}

static void route_health_report_put_components(struct sonde_buf *out,
                                               const struct route_health_report_state *p,
                                               const struct sonde_http_request *r)
{
    const int fresh = p->age_s <= 3 * p->interval_s + 2;
    sonde_json_key_open(out, "components", '{');
    sonde_json_key_open(out, "collector", '{');
    sonde_json_str(out, "status", fresh ? "ok" : "failing");
    sonde_json_num(out, "last_tick_age_s", p->age_s);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "store", '{');
    sonde_json_str(out, "status", !r->agent->store                ? "off"
                                  : p->store.failing_since_s > 0 ? "failing"
                                                                 : "ok");
    if (r->agent->store) {
        sonde_json_time(out, "failing_since", p->store.failing_since_s);
        sonde_json_u64(out, "dropped_ticks", p->store.dropped_ticks);
        sonde_json_str(out, "problem", p->store.failing_since_s > 0 ? p->store.problem : NULL);
    }
    sonde_json_close(out, '}');
    put_front(out, p, &r->agent->health);
    sonde_json_key_open(out, "profiler", '{');
    sonde_json_str(out, "status", r->agent->profiler ? "ok" : "off");
    sonde_json_bool(out, "continuous", r->agent->continuous != NULL);
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

/* One object without parts, for programs that look at nothing else: milliseconds, megabytes, and 0
 * where nothing was measured, since they take numbers alone. */
static void put_flat(struct sonde_buf *out, const struct route_health_report_state *p)
{
    const struct sonde_health *h = &p->h;
    const double gpu = h->gpu_ratio * 100, memory = h->resident / (1024 * 1024);
    sonde_buf_putc(out, '{');
    sonde_json_str(out, "status", p->failing ? "unhealthy" : "healthy");
    sonde_json_num(out, "latency_p50", isnan(h->p50_s) ? 0 : h->p50_s * 1e3);
    sonde_json_num(out, "latency_p95", isnan(h->p95_s) ? 0 : h->p95_s * 1e3);
    sonde_json_num(out, "memory_usage_mb", isnan(memory) ? 0 : memory);
    sonde_json_num(out, "gpu_utilization", isnan(gpu) ? 0 : gpu);
    sonde_json_num(out, "error_rate", h->count > 0 ? h->failed / h->count : 0);
    sonde_buf_puts(out, "}\n");
}

static void route_health_report_health(const struct sonde_http_request *r,
                                       struct sonde_response *answer)
{
    const char *format = sonde_http_param(r, "format");
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    const double asked_s = r->agent->health.window_s;
    const double window_s = asked_s > 0 ? asked_s : WINDOW_DEFAULT_S;
    struct route_health_report_state p = { .age_s = NAN };
    sonde_rdlock(&m->lock);
    const int rc = sonde_health_measure(m, window_s, &p.h);
    if (m->tick) p.age_s = fmax(0, sonde_clock_s(CLOCK_REALTIME) - m->now_s);
    p.interval_s = m->interval_s;
    sonde_rwunlock(&m->lock);
    if (rc) {
        answer->body.error = rc;
        return;
    }
    if (r->agent->store) r->agent->store_ops->stats(r->agent->store, &p.store);
    route_health_report_judge(&p, r);
    struct sonde_buf *out = &answer->body;
    answer->status = p.failing ? 503 : 200;
    if (format && !strcmp(format, "flat")) {
        put_flat(out, &p);
        return;
    }
    sonde_buf_putc(out, '{');
    sonde_json_str(out, "status", p.failing ? "failing" : p.degraded ? "degraded" : "ok");
    sonde_json_key_open(out, "reasons", '[');
    for (size_t i = 0; i < p.reason_count; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_str(out, p.reasons[i], strlen(p.reasons[i]));
    }
    sonde_json_close(out, ']');
    sonde_json_num(out, "window_s", window_s);
    route_health_report_put_requests(out, &p.h);
    put_machine(out, &p.h);
    route_health_report_put_components(out, &p, r);
    sonde_buf_puts(out, "}\n");
}

extern const struct sonde_route sonde_route_health;
const struct sonde_route sonde_route_health = {
    .method = "GET",
    .path = "/health",
    .summary = "ok, degraded or failing: latency, errors, memory, GPU and components of the last "
               "seconds; format=flat: healthy or unhealthy and six figures",
    .handle = route_health_report_health,
    .keys = "status", /* what both formats have */
    .statuses = "503*",
};
