/* infer.c - inference in all: see api.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/tracker.h"
#include "model/window.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "base/json.h"
#include "present/report/requests.h"
#include "serve/api/api.h"
#include "sonde/sonde.h"

#define WINDOW_DEFAULT_S 60.0

/* ---- In all ---------------------------------------------------------------------------------- */

static void api_infer_put_outcomes(struct sonde_buf *out,
                                   const uint64_t count[SONDE_INFER_OUTCOMES])
{
    sonde_json_key_open(out, "requests", '{');
    for (uint32_t i = 0; i < SONDE_INFER_OUTCOMES; i++) {
        sonde_json_u64(out, sonde_infer_outcome_name(i), count[i]);
    }
    sonde_json_close(out, '}');
}

static void api_infer_put_totals(const struct sonde_infer_tracker *tracker, double now_s,
                                 struct sonde_buf *out)
{
    struct sonde_infer_totals t;
    sonde_infer_totals(tracker, now_s, &t);
    sonde_json_key_open(out, "totals", '{');
    sonde_json_time(out, "since", t.since_s);
    sonde_json_num(out, "uptime_s", t.uptime_s);
    api_infer_put_outcomes(out, t.requests);
    sonde_json_u64(out, "tokens_in", t.tokens_in);
    sonde_json_u64(out, "tokens_reused", t.tokens_reused);
    sonde_json_u64(out, "tokens_out", t.tokens_out);
    sonde_json_num(out, "tokens_per_s", t.tokens_per_s);
    sonde_json_num(out, "requests_per_s", t.requests_per_s);
    sonde_json_num(out, "hit_ratio", t.hit_ratio);
    sonde_json_u64(out, "memory_bytes", t.memory_bytes);
    sonde_json_u64(out, "memory_peak_bytes", t.memory_peak);
    sonde_json_u64(out, "slo_met", t.slo_met);
    sonde_json_u64(out, "slo_missed", t.slo_missed);
    sonde_json_close(out, '}');
}

static void api_infer_put_objectives(const struct sonde_infer_tracker *tracker,
                                     struct sonde_buf *out)
{
    const struct sonde_infer_options *o = sonde_infer_options(tracker);
    sonde_json_key_open(out, "slo", '{');
    sonde_json_num(out, "ttft_s", o->slo_ttft_s > 0 ? o->slo_ttft_s : NAN);
    sonde_json_num(out, "itl_s", o->slo_itl_s > 0 ? o->slo_itl_s : NAN);
    sonde_json_num(out, "total_s", o->slo_total_s > 0 ? o->slo_total_s : NAN);
    sonde_json_close(out, '}');
}

static void api_infer_put_process(const struct sonde_model_process *p, uint32_t source,
                                  struct sonde_buf *out)
{
    sonde_api_put_process(out, p);
    sonde_json_str(out, "source", sonde_infer_source_name(source));
}

static void api_infer_put_model(const struct sonde_infer_model_view *v, struct sonde_buf *out)
{
    const struct sonde_infer_model *f = &v->facts;
    sonde_json_open(out, '{');
    api_infer_put_process(v->process, f->source, out);
    sonde_json_str(out, "model", f->model);
    sonde_json_str(out, "backend", *f->backend ? f->backend : NULL);
    sonde_json_u64(out, "running", v->running);
    sonde_json_u64(out, "waiting", v->waiting);
    sonde_json_num(out, "prefill_tokens_per_s", v->prefill_per_s);
    sonde_json_num(out, "decode_tokens_per_s", v->decode_per_s);
    sonde_json_num(out, "output_tokens_per_s", v->output_per_s);
    sonde_json_num(out, "hit_ratio", v->hit_ratio);
    sonde_infer_model_json(out, f);
    sonde_json_close(out, '}');
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The window, and where it begins at the earliest: at a reset. */
struct span_of_time { double window_s; uint64_t tick; size_t done; };

static void put_stats(const struct sonde_model *m, const char *key,
                      const struct sonde_model_series *s, const struct span_of_time *t,
                      struct sonde_buf *out)
{
    struct sonde_window w;
    if (!s) {
        sonde_json_str(out, key, NULL);
        return;
    }
    sonde_window_stats_since(m, s, t->window_s, t->tick, &w);
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "count", w.count);
    sonde_json_num(out, "total", w.total);
    sonde_json_num(out, "avg", w.avg);
    sonde_json_num(out, "p50", w.p50);
    sonde_json_num(out, "p95", w.p95);
    sonde_json_num(out, "p99", w.p99);
    sonde_json_num(out, "max", w.max);
    sonde_json_close(out, '}');
}

static double api_infer_rate_of(const struct sonde_model *m, const struct sonde_model_series *s,
                                const struct span_of_time *t)
{
    struct sonde_window w;
    if (!s) return 0;
    sonde_window_stats_since(m, s, t->window_s, t->tick, &w);
    return w.rate;
}

/* Tokens a second as users saw them: of the group's requests that ended in the window. */
static void api_infer_put_user_rate(const struct sonde_model *m,
                                    const struct sonde_infer_tracker *tracker,
                                    const struct sonde_infer_group_view *g,
                                    const struct span_of_time *t, struct sonde_buf *out)
{
    const size_t done = t->done;
    double *rates = sonde__calloc(done + 1, sizeof(*rates)), sum = 0;
    size_t n = 0;
    if (!rates) {
        out->error = SONDE_ENOMEM;
        return;
    }
    for (size_t i = 0; i < done; i++) {
        const struct sonde_infer_request *r = sonde_infer_done(tracker, i);
        const double end_s = (double)r->arrived_ns * 1e-9 + r->total_s;
        if (end_s < m->now_s - t->window_s || r->outcome != SONDE_OK || !r->tokens_out ||
            *r->invalid || r->source != g->source || (g->process && r->pid != g->process->pid) ||
            strcmp(r->model, g->model) != 0 || strcmp(r->route, g->route) != 0) {
            continue;
        }
        rates[n++] = r->tokens_per_s;
        sum += r->tokens_per_s;
    }
    qsort(rates, n, sizeof(*rates), sonde_cmp_double);
    sonde_json_key_open(out, "user_tokens_per_s", '{');
    sonde_json_u64(out, "count", n);
    sonde_json_num(out, "avg", n ? sum / (double)n : NAN);
    sonde_json_num(out, "p50", n ? rates[(n - 1) / 2] : NAN);
    sonde_json_num(out, "p5", n ? rates[(n - 1) / 20] : NAN); /* the slow ones are of interest */
    sonde_json_close(out, '}');
    sonde__free(rates);
}

static void put_group_counts(const struct sonde_model *m, const struct sonde_infer_group_view *g,
                             const struct span_of_time *t, struct sonde_buf *out)
{
    uint64_t outcomes[SONDE_INFER_OUTCOMES];
    double per_s = 0;
    for (int i = 0; i < SONDE_INFER_OUTCOMES; i++) {
        const struct sonde_model_series *s = g->series[SONDE_INFER_G_OK + i];
        outcomes[i] = g->counted[SONDE_INFER_G_OK + i];
        per_s += api_infer_rate_of(m, s, t);
    }
    api_infer_put_outcomes(out, outcomes);
    sonde_json_num(out, "requests_per_s", per_s);
    sonde_json_u64(out, "tokens_in", g->counted[SONDE_INFER_G_TOKENS_IN]);
    sonde_json_u64(out, "tokens_reused", g->counted[SONDE_INFER_G_TOKENS_REUSED]);
    sonde_json_u64(out, "tokens_out", g->counted[SONDE_INFER_G_TOKENS_OUT]);
    sonde_json_num(out, "output_tokens_per_s",
                   api_infer_rate_of(m, g->series[SONDE_INFER_G_TOKENS_OUT], t));
    sonde_json_u64(out, "slo_met", g->counted[SONDE_INFER_G_SLO_MET]);
    sonde_json_u64(out, "slo_missed", g->counted[SONDE_INFER_G_SLO_MISSED]);
}

static void api_infer_put_group(const struct sonde_model *m,
                                const struct sonde_infer_tracker *tracker,
                                const struct sonde_infer_group_view *g,
                                const struct span_of_time *t, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    api_infer_put_process(g->process, g->source, out);
    sonde_json_str(out, "model", g->model);
    sonde_json_str(out, "route", g->route);
    put_group_counts(m, g, t, out);
    api_infer_put_user_rate(m, tracker, g, t, out);
    put_stats(m, "duration", g->series[SONDE_INFER_G_DURATION], t, out);
    put_stats(m, "ttft", g->series[SONDE_INFER_G_TTFT], t, out);
    put_stats(m, "tpot", g->series[SONDE_INFER_G_TPOT], t, out);
    put_stats(m, "itl", g->series[SONDE_INFER_G_ITL], t, out);
    sonde_json_key_open(out, "phases", '{');
#define SONDE__X(id, name) put_stats(m, name, g->series[SONDE_INFER_G_PHASE_##id], t, out);
    SONDE_PHASES(SONDE__X)
#undef SONDE__X
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void api_infer_put_invalid(const struct sonde_infer_tracker *tracker, struct sonde_buf *out)
{
    sonde_json_key_open(out, "invalid_events", '{');
    for (int i = 0; i < SONDE_INFER_REASON_COUNT; i++) {
        const enum sonde_infer_reason reason = (enum sonde_infer_reason)i;
        const uint64_t n = sonde_infer_invalid(tracker, reason);
        if (n) sonde_json_u64(out, sonde_infer_reason_name(reason), n);
    }
    sonde_json_close(out, '}');
}

void sonde_api_infer(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                     double window_s, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    if (!(window_s > 0)) window_s = WINDOW_DEFAULT_S;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_num(out, "window_s", window_s);
    if (tracker) {
        api_infer_put_totals(tracker, m->now_s, out);
        api_infer_put_objectives(tracker, out);
        api_infer_put_invalid(tracker, out);
    }
    sonde_json_key_open(out, "models", '[');
    for (size_t i = 0; tracker && i < sonde_infer_model_count(tracker); i++) {
        struct sonde_infer_model_view v;
        sonde_infer_model_at(tracker, i, &v);
        api_infer_put_model(&v, out);
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "groups", '[');
    const struct span_of_time t = { window_s, tracker ? sonde_infer_reset_tick(tracker) : 0,
                                    tracker ? sonde_infer_reset_done(tracker) : 0 };
    for (size_t i = 0; tracker && i < sonde_infer_group_count(tracker) && !out->error; i++) {
        struct sonde_infer_group_view g;
        sonde_infer_group(tracker, i, &g);
        api_infer_put_group(m, tracker, &g, &t, out);
    }
    sonde_buf_puts(out, "]}\n");
}
