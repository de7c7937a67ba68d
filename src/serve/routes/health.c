/* health.c - /livez, /readyz and /healthz, from what the collector has recorded.
 *
 * Live: the server answers. Ready: the model was filled once and is fresh. Fresh: the last tick
 * is younger than three intervals and two seconds. */
#include <math.h>

#include "base/clock.h"
#include "base/strip.h"
#include "base/json.h"
#include "serve/http/route.h"

enum { REFUSALS_SHOWN = 20 };

/* "starting", "ok" or "stale"; *age of the last tick, NaN before the first. */
static const char *collector_state(const struct sonde_model *m, double *age)
{
    sonde_assert_held(&m->lock);
    *age = NAN;
    if (m->tick == 0) return "starting";
    *age = fmax(0, sonde_clock_s(CLOCK_REALTIME) - m->now_s);
    return *age <= 3 * m->interval_s + 2 ? "ok" : "stale";
}

static void route_health_livez(const struct sonde_http_request *r, struct sonde_response *answer)
{
    (void)r;
    answer->content_type = "text/plain; charset=utf-8";
    sonde_buf_puts(&answer->body, "ok\n");
}

static void route_health_readyz(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    double age;
    sonde_rdlock(&m->lock);
    const char *state = collector_state(m, &age);
    sonde_rwunlock(&m->lock);
    answer->content_type = "text/plain; charset=utf-8";
    if (state[0] == 'o' || r->file_count) { /* files are there from the start */
        sonde_buf_puts(&answer->body, "ok\n");
    } else {
        answer->status = 503;
        sonde_buf_printf(&answer->body, "%s: %s\n", state,
                         isnan(age) ? "nothing has been read yet"
                                    : "the collector has stopped reading");
    }
}

/* ---- /healthz ------------------------------------------------------------------------------ */

struct counts {
    const char *state;
    double age, interval_s;
    uint64_t ticks, series, series_max, dropped_series, conflicts;
    uint64_t running, ended, drops, spans_seen, spans_lost;
};

static void route_health_count(struct sonde_model *m, struct counts *c)
{
    sonde_rdlock(&m->lock);
    c->state = collector_state(m, &c->age);
    c->interval_s = m->interval_s;
    c->ticks = m->tick;
    c->series = m->series_count;
    c->series_max = m->series_max;
    c->dropped_series = m->dropped_series;
    c->conflicts = m->dropped_conflicts;
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *p = m->processes[i];
        if (p->state == SONDE_PROCESS_RUNNING) c->running++;
        else c->ended++;
        for (size_t d = 0; d < SONDE__DROP_COUNT; d++) {
            /* These two are noted, and what was recorded is kept. */
            if (d != SONDE__DROP_label_cut && d != SONDE__DROP_range) c->drops += p->drops[d];
        }
        c->spans_seen += p->spans_seen;
        c->spans_lost += p->spans_lost;
    }
    sonde_rwunlock(&m->lock);
}

static void put_component(struct sonde_buf *out, const char *name, const char *status)
{
    sonde_json_key_open(out, name, '{');
    sonde_json_str(out, "status", status);
}

static void put_segments(struct sonde_buf *out, const struct sonde_collector_refusal *refused,
                         size_t count_refused)
{
    put_component(out, "segments", count_refused ? "degraded" : "ok");
    sonde_json_u64(out, "refused", count_refused);
    sonde_json_key_open(out, "refusals", '[');
    for (size_t i = 0; i < count_refused; i++) {
        struct sonde_collector_refusal r = refused[i];
        if (sonde_strip_on()) sonde_strip_path(r.path);
        if (sonde_strip_on()) sonde_strip_paths(r.reason);
        sonde_json_open(out, '{');
        sonde_json_str(out, "path", r.path);
        sonde_json_str(out, "reason", r.reason);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void route_health_put_components(struct sonde_buf *out, const struct counts *c,
                                        const struct sonde_collector_refusal *refused,
                                        size_t count_refused)
{
    sonde_json_key_open(out, "components", '{');
    put_component(out, "collector", c->state);
    sonde_json_u64(out, "ticks", c->ticks);
    sonde_json_num(out, "last_tick_age_s", c->age);
    sonde_json_num(out, "interval_s", c->interval_s);
    sonde_json_close(out, '}');
    put_segments(out, refused, count_refused);
    put_component(out, "series", c->dropped_series || c->conflicts ? "degraded" : "ok");
    sonde_json_u64(out, "count", c->series);
    sonde_json_u64(out, "max", c->series_max);
    sonde_json_u64(out, "dropped", c->dropped_series);
    sonde_json_u64(out, "conflicts", c->conflicts);
    sonde_json_close(out, '}');
    put_component(out, "processes", c->drops ? "degraded" : "ok");
    sonde_json_u64(out, "running", c->running);
    sonde_json_u64(out, "ended", c->ended);
    sonde_json_u64(out, "records_dropped", c->drops);
    sonde_json_close(out, '}');
    put_component(out, "spans", c->spans_lost ? "degraded" : "ok");
    sonde_json_u64(out, "seen", c->spans_seen);
    sonde_json_u64(out, "lost", c->spans_lost);
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void route_health_healthz(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_collector_refusal refused[REFUSALS_SHOWN];
    struct counts c = { 0 };
    const size_t refusals = sonde_collector_refusals(r->agent->collector, refused, REFUSALS_SHOWN);
    route_health_count(sonde_collector_model(r->agent->collector), &c);
    if (r->file_count) c.state = "ok"; /* `sonde view` reads nothing: all is there */
    const int fresh = c.state[0] == 'o';
    const int degraded =
        refusals || c.dropped_series || c.conflicts || c.drops || c.spans_lost;
    answer->status = fresh ? 200 : 503;
    sonde_buf_putc(&answer->body, '{');
    sonde_json_str(&answer->body, "status", fresh && degraded ? "degraded" : c.state);
    const double up_s = sonde_clock_s(CLOCK_REALTIME) - r->agent->started_s;
    sonde_json_num(&answer->body, "uptime_s", fmax(0, round(up_s * 1e3) / 1e3));
    sonde_json_u64(&answer->body, "ticks", c.ticks);
    sonde_json_num(&answer->body, "last_tick_age_s", c.age);
    sonde_json_u64(&answer->body, "series", c.series);
    sonde_json_u64(&answer->body, "processes", c.running);
    sonde_json_u64(&answer->body, "refused_segments", refusals);
    if (r->file_count) sonde_json_u64(&answer->body, "files", r->file_count);
    route_health_put_components(&answer->body, &c, refused, refusals);
    sonde_buf_puts(&answer->body, "}\n");
}

extern const struct sonde_route sonde_route_livez, sonde_route_readyz, sonde_route_healthz;
const struct sonde_route sonde_route_livez = {
    .method = "GET",
    .path = "/livez",
    .summary = "200 as long as the service answers",
    .handle = route_health_livez,
    .produces = "text/plain",
};
const struct sonde_route sonde_route_readyz = {
    .method = "GET",
    .path = "/readyz",
    .summary = "200 once series have been read and are fresh",
    .handle = route_health_readyz,
    .produces = "text/plain",
    .statuses = "503*",
};
const struct sonde_route sonde_route_healthz = {
    .method = "GET",
    .path = "/healthz",
    .summary = "state of the collector, segments, series and spans",
    .handle = route_health_healthz,
    .keys = "status,uptime_s,components",
    .statuses = "503*",
};
