/* infer_answer.c - see infer_answer.h. Figures are exact: all values are at hand, and percentiles
 * are of the nearest rank. */
#include "present/report/infer_answer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/json.h"
#include "present/report/requests.h"

struct infer_answer_run {
    const struct sonde_infer_run *of;
    double from_s, to_s;         /* first arrival to last end */
    double *values;              /* owned; room for one of each request */
};

/* g: one request of a group stands for it; NULL = all. */
static int infer_answer_is_of(const struct sonde_infer_request *r,
                              const struct sonde_infer_request *g)
{
    return !g || (r->pid == g->pid && r->source == g->source && strcmp(r->model, g->model) == 0 &&
                  strcmp(r->route, g->route) == 0);
}

static double infer_answer_rank_of(const double *sorted, size_t n, double share)
{
    const size_t at = (size_t)ceil(share * (double)n);
    return sorted[at ? at - 1 : 0];
}

/* ---- Measures of a request; NaN = it has none ------------------------------------------------ */

static double ended_well(const struct sonde_infer_request *r, double value)
{
    return r->outcome == SONDE_OK ? value : NAN;
}
static double duration_of(const struct sonde_infer_request *r, int phase)
{
    (void)phase;
    return ended_well(r, r->total_s);
}
static double ttft_of(const struct sonde_infer_request *r, int phase)
{
    (void)phase;
    return sonde_infer_has_ttft(r) ? r->ttft_s : NAN;
}
static double tpot_of(const struct sonde_infer_request *r, int phase)
{
    (void)phase;
    return r->itl_count ? r->itl_s : NAN;
}
static double infer_answer_rate_of(const struct sonde_infer_request *r, int phase)
{
    (void)phase;
    return r->tokens_out ? ended_well(r, r->tokens_per_s) : NAN;
}
static double phase_of(const struct sonde_infer_request *r, int phase)
{
    return r->phase_count[phase] ? r->phase_s[phase] : NAN;
}

/* Values of a group, sorted, in run->values; *sum of them. */
static size_t infer_answer_collect(
    const struct infer_answer_run *run, const struct sonde_infer_request *g,
    double (*of)(const struct sonde_infer_request *, int), int phase, double *sum)
{
    size_t n = 0;
    *sum = 0;
    for (size_t i = 0; i < run->of->request_count; i++) {
        const struct sonde_infer_request *r = &run->of->requests[i];
        const double v = infer_answer_is_of(r, g) && !*r->invalid ? of(r, phase) : NAN;
        if (isnan(v)) continue;
        run->values[n++] = v;
        *sum += v;
    }
    qsort(run->values, n, sizeof(*run->values), sonde_cmp_double);
    return n;
}

static void put_dist(const struct infer_answer_run *run, const struct sonde_infer_request *g,
                     const char *key, double (*of)(const struct sonde_infer_request *, int),
                     int phase, struct sonde_buf *out)
{
    double sum;
    const size_t n = infer_answer_collect(run, g, of, phase, &sum);
    if (!n) {
        sonde_json_str(out, key, NULL);
        return;
    }
    sonde_json_key_open(out, key, '{');
    sonde_json_u64(out, "count", n);
    sonde_json_num(out, "total", sum);
    sonde_json_num(out, "avg", sum / (double)n);
    sonde_json_num(out, "p50", infer_answer_rank_of(run->values, n, 0.5));
    sonde_json_num(out, "p95", infer_answer_rank_of(run->values, n, 0.95));
    sonde_json_num(out, "p99", infer_answer_rank_of(run->values, n, 0.99));
    sonde_json_num(out, "max", run->values[n - 1]);
    sonde_json_close(out, '}');
}

static void infer_answer_put_user_rate(const struct infer_answer_run *run,
                                       const struct sonde_infer_request *g, struct sonde_buf *out)
{
    double sum;
    const size_t n = infer_answer_collect(run, g, infer_answer_rate_of, 0, &sum);
    sonde_json_key_open(out, "user_tokens_per_s", '{');
    sonde_json_u64(out, "count", n);
    sonde_json_num(out, "avg", n ? sum / (double)n : NAN);
    sonde_json_num(out, "p50", n ? run->values[(n - 1) / 2] : NAN);
    sonde_json_num(out, "p5", n ? run->values[(n - 1) / 20] : NAN);
    sonde_json_close(out, '}');
}

/* ---- Sums ------------------------------------------------------------------------------------ */

struct sums {
    uint64_t requests[SONDE_INFER_OUTCOMES], count;
    uint64_t tokens_in, tokens_reused, tokens_out, slo_met, slo_missed;
};

static struct sums sums_of(const struct infer_answer_run *run, const struct sonde_infer_request *g)
{
    struct sums s = { 0 };
    for (size_t i = 0; i < run->of->request_count; i++) {
        const struct sonde_infer_request *r = &run->of->requests[i];
        if (!infer_answer_is_of(r, g) || r->outcome >= SONDE_INFER_OUTCOMES) continue;
        s.requests[r->outcome]++;
        s.count++;
        s.tokens_in += r->tokens_in;
        s.tokens_reused += r->tokens_reused;
        s.tokens_out += r->tokens_out;
        s.slo_met += (r->flags & SONDE_INFER_SLO_MET) != 0;
        s.slo_missed += (r->flags & SONDE_INFER_SLO_MISSED) != 0;
    }
    return s;
}

static double per_s(const struct infer_answer_run *run, uint64_t n)
{
    return run->to_s > run->from_s ? (double)n / (run->to_s - run->from_s) : NAN;
}

static void infer_answer_put_outcomes(const struct sums *s, struct sonde_buf *out)
{
    sonde_json_key_open(out, "requests", '{');
    for (uint32_t i = 0; i < SONDE_INFER_OUTCOMES; i++) {
        sonde_json_u64(out, sonde_infer_outcome_name(i), s->requests[i]);
    }
    sonde_json_close(out, '}');
}

static void infer_answer_put_totals(const struct infer_answer_run *run, struct sonde_buf *out)
{
    const struct sums s = sums_of(run, NULL);
    uint64_t peak = 0;
    for (size_t i = 0; i < run->of->model_count; i++) peak += run->of->models[i].memory_peak;
    sonde_json_key_open(out, "totals", '{');
    sonde_json_time(out, "since", run->from_s);
    sonde_json_num(out, "uptime_s", run->to_s - run->from_s);
    infer_answer_put_outcomes(&s, out);
    sonde_json_u64(out, "tokens_in", s.tokens_in);
    sonde_json_u64(out, "tokens_reused", s.tokens_reused);
    sonde_json_u64(out, "tokens_out", s.tokens_out);
    sonde_json_num(out, "tokens_per_s", per_s(run, s.tokens_out));
    sonde_json_num(out, "requests_per_s", per_s(run, s.count));
    sonde_json_num(out, "hit_ratio",
                   s.tokens_in ? (double)s.tokens_reused / (double)s.tokens_in : NAN);
    sonde_json_num(out, "memory_bytes", NAN);
    sonde_json_u64(out, "memory_peak_bytes", peak);
    sonde_json_u64(out, "slo_met", s.slo_met);
    sonde_json_u64(out, "slo_missed", s.slo_missed);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "slo", '{');
    sonde_json_num(out, "ttft_s", run->of->slo_ttft_s > 0 ? run->of->slo_ttft_s : NAN);
    sonde_json_num(out, "itl_s", run->of->slo_itl_s > 0 ? run->of->slo_itl_s : NAN);
    sonde_json_num(out, "total_s", run->of->slo_total_s > 0 ? run->of->slo_total_s : NAN);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "invalid_events", '{');
    for (uint32_t i = 0; i < run->of->invalid_count; i++) {
        sonde_json_u64(out, run->of->invalid[i].reason, run->of->invalid[i].count);
    }
    sonde_json_close(out, '}');
}

static double infer_answer_ratio(double a, double b) { return b > 0 ? a / b : NAN; }

static void infer_answer_put_model(const struct infer_answer_run *run,
                                   const struct sonde_infer_model *m, struct sonde_buf *out)
{
    uint64_t in = 0, reused = 0, tokens = 0;
    for (size_t i = 0; i < run->of->request_count; i++) {
        const struct sonde_infer_request *r = &run->of->requests[i];
        if (r->pid != m->pid || strcmp(r->model, m->model) != 0) continue;
        in += r->tokens_in;
        reused += r->tokens_reused;
        tokens += r->tokens_out;
    }
    sonde_json_open(out, '{');
    sonde_json_str(out, "process", m->program);
    sonde_json_u64(out, "pid", m->pid);
    sonde_json_str(out, "source", sonde_infer_source_name(m->source));
    sonde_json_str(out, "model", m->model);
    sonde_json_str(out, "backend", *m->backend ? m->backend : NULL);
    sonde_json_num(out, "running", NAN);
    sonde_json_num(out, "waiting", NAN);
    sonde_json_num(out, "prefill_tokens_per_s",
                   infer_answer_ratio((double)m->phase_tokens[SONDE_PHASE_PREFILL],
                                      m->phase_s[SONDE_PHASE_PREFILL]));
    sonde_json_num(out, "decode_tokens_per_s",
                   infer_answer_ratio((double)m->phase_tokens[SONDE_PHASE_DECODE],
                                      m->phase_s[SONDE_PHASE_DECODE]));
    sonde_json_num(out, "output_tokens_per_s", per_s(run, tokens));
    sonde_json_num(out, "hit_ratio", infer_answer_ratio((double)reused, (double)in));
    sonde_infer_model_json(out, m);
    sonde_json_close(out, '}');
}

static void infer_answer_put_group(const struct infer_answer_run *run,
                                   const struct sonde_infer_request *g, struct sonde_buf *out)
{
    const struct sums s = sums_of(run, g);
    sonde_json_open(out, '{');
    sonde_json_str(out, "process", g->program);
    sonde_json_u64(out, "pid", g->pid);
    sonde_json_str(out, "source", sonde_infer_source_name(g->source));
    sonde_json_str(out, "model", g->model);
    sonde_json_str(out, "route", g->route);
    infer_answer_put_outcomes(&s, out);
    sonde_json_num(out, "requests_per_s", per_s(run, s.count));
    sonde_json_u64(out, "tokens_in", s.tokens_in);
    sonde_json_u64(out, "tokens_reused", s.tokens_reused);
    sonde_json_u64(out, "tokens_out", s.tokens_out);
    sonde_json_num(out, "output_tokens_per_s", per_s(run, s.tokens_out));
    sonde_json_u64(out, "slo_met", s.slo_met);
    sonde_json_u64(out, "slo_missed", s.slo_missed);
    infer_answer_put_user_rate(run, g, out);
    put_dist(run, g, "duration", duration_of, 0, out);
    put_dist(run, g, "ttft", ttft_of, 0, out);
    put_dist(run, g, "tpot", tpot_of, 0, out);
    sonde_json_str(out, "itl", NULL);
    sonde_json_key_open(out, "phases", '{');
#define SONDE__X(id, name) put_dist(run, g, name, phase_of, SONDE_PHASE_##id, out);
    SONDE_PHASES(SONDE__X)
#undef SONDE__X
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static int infer_answer_is_first(const struct sonde_infer_run *of, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (infer_answer_is_of(&of->requests[i], &of->requests[index])) return 0;
    }
    return 1;
}

static void find_time(struct infer_answer_run *run)
{
    for (size_t i = 0; i < run->of->request_count; i++) {
        const struct sonde_infer_request *r = &run->of->requests[i];
        const double from_s = (double)r->arrived_ns * 1e-9, to_s = from_s + r->total_s;
        if (!i || from_s < run->from_s) run->from_s = from_s;
        if (to_s > run->to_s) run->to_s = to_s;
    }
}

int sonde_infer_answer(const struct sonde_profile *p, struct sonde_buf *out)
{
    assert(p->infer);
    struct infer_answer_run run = { .of = p->infer };
    run.values = sonde__calloc(run.of->request_count + 1, sizeof(*run.values));
    if (!run.values) return SONDE_ENOMEM;
    find_time(&run);
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", run.to_s > 0 ? run.to_s : (double)p->end_ns * 1e-9);
    sonde_json_num(out, "window_s", run.to_s - run.from_s);
    infer_answer_put_totals(&run, out);
    sonde_json_key_open(out, "models", '[');
    for (size_t i = 0; i < run.of->model_count; i++) {
        infer_answer_put_model(&run, &run.of->models[i], out);
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "groups", '[');
    for (size_t i = 0; i < run.of->request_count && !out->error; i++) {
        if (infer_answer_is_first(run.of, i)) {
            infer_answer_put_group(&run, &run.of->requests[i], out);
        }
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    sonde__free(run.values);
    return out->error;
}

int sonde_requests_answer(const struct sonde_profile *p, size_t limit, size_t *count,
                          struct sonde_buf *out)
{
    assert(p->infer);
    const struct sonde_infer_run *run = p->infer;
    const struct sonde_requests_query q = { .limit = limit, .outcome = -1, .source = -1 };
    size_t total = 0;
    const struct sonde_infer_request **list = sonde__calloc(run->request_count + 1, sizeof(*list));
    if (!list) return SONDE_ENOMEM;
    for (size_t i = 0; i < run->request_count; i++) list[i] = &run->requests[i];
    *count = sonde_requests_select(&q, list, run->request_count, &total);
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", (double)p->end_ns * 1e-9);
    sonde_json_u64(out, "total", total);
    sonde_json_key_open(out, "requests", '[');
    for (size_t i = 0; i < *count && !out->error; i++) sonde_request_json(out, list[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    sonde__free(list);
    return out->error;
}
