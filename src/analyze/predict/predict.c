/* predict.c - questions to a model: many short runs of the simulated engine, each with other
 * coefficients, requests and arrivals; their figures, pooled, are the answer, and their spread is
 * its interval. Then: is that an answer that may be given? */
#include "analyze/predict/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/predict/private.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { REPLICATES = 200, REPLICATES_MIN = 40, REPLAYS = 15, RUN_MAX = 2000, KNEE_MIN = 200 };
#define SPEED_MAX 100.0       /* a machine that differs more is another kind of machine */
#define WORK_MAX 6e7          /* tokens simulated for one question: a few seconds */
#define BATCH_ANY (1u << 30)  /* tokens in a step where the limit is not known */
#define FAR 2u                /* times what was seen is too far to answer */
#define OUT_RATIO 0.01        /* of the time outside of what was seen is none */
#define UNEXPLAINED_RATIO 0.3
#define UNEXPLAINED_S 0.002
#define NEAR_KNEE 0.9
#define RATE_MAX 1e6
#define SLOTS_MAX 65536u

static const double predict_quantiles[3] = { 0.5, 0.9, 0.99 };

const char *sonde_predict_figure_name(enum sonde_predict_figure f)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_PREDICT_FIGURES(SONDE__X)
#undef SONDE__X
    };
    return names[f];
}

void sonde_predict_measured(const struct sonde_predict_model *m,
                            struct sonde_predict_value out[SONDE_PREDICT_FIGURE_COUNT])
{
    memcpy(out, m->measured, sizeof(m->measured));
}

void sonde_predict_replayed(const struct sonde_predict_model *m,
                            struct sonde_predict_value out[SONDE_PREDICT_FIGURE_COUNT])
{
    memcpy(out, m->replayed, sizeof(m->replayed));
}

/* ---- Room for runs --------------------------------------------------------------------------- */

struct predict_bench {
    const struct sonde_predict_model *m;
    struct predict_draws step, gap, intake;
    struct predict_sim sim;
    struct predict_sim_request *requests; /* owned; room for `most` */
    uint32_t most;
    struct predict_outcome *one, *all;    /* owned: of a run, and pooled */
    double *spread;                       /* owned: by figure and replicate; one more: the knee */
    uint32_t replicates;
    double seconds;                       /* of all runs, and requests and tokens */
    double requests_done, tokens_done;
};

static void predict_bench_release(struct predict_bench *b)
{
    predict_draws_release(&b->step);
    predict_draws_release(&b->gap);
    predict_draws_release(&b->intake);
    sonde__free(b->requests);
    sonde__free(b->one);
    sonde__free(b->all);
    sonde__free(b->spread);
}

static int predict_bench_init(struct predict_bench *b, const struct sonde_predict_model *m,
                              uint32_t most, uint32_t replicates)
{
    *b = (struct predict_bench){ .m = m, .most = most, .replicates = replicates };
    int rc = predict_draws_init(&b->step, &m->step);
    if (!rc) rc = predict_draws_init(&b->gap, &m->gap);
    if (!rc) rc = predict_draws_init(&b->intake, &m->intake);
    b->requests = sonde__calloc(most, sizeof(*b->requests));
    b->one = sonde__calloc(1, sizeof(*b->one));
    b->all = sonde__calloc(1, sizeof(*b->all));
    b->spread = sonde__calloc((size_t)replicates * (SONDE_PREDICT_FIGURE_COUNT + 1),
                              sizeof(*b->spread));
    if (rc || !b->requests || !b->one || !b->all || !b->spread) return SONDE_ENOMEM;
    const struct sonde_predict_facts *f = &m->facts;
    b->sim = (struct predict_sim){
        .features = &m->features, .step = &b->step, .gap = &b->gap, .intake = &b->intake,
        .requests = b->requests, .share = f->share, .cost_ratio = 1,
        .slots = f->slots ? f->slots : BATCH_ANY,
        .batch_tokens = f->batch_tokens ? f->batch_tokens : BATCH_ANY,
        .hull = { f->decode_max, f->step_tokens_max, f->context_max },
        .far = { FAR * f->decode_max, FAR * f->step_tokens_max, FAR * f->context_max },
    };
    return 0;
}

static void predict_bench_coefficients(struct predict_bench *b, struct predict_rng *rng)
{
    predict_draws_set(&b->step, &b->m->step, rng);
    predict_draws_set(&b->gap, &b->m->gap, rng);
    predict_draws_set(&b->intake, &b->m->intake, rng);
}

/* ---- Requests and arrivals ------------------------------------------------------------------- */

static uint32_t predict_scaled(uint32_t tokens, double ratio)
{
    const double v = round(tokens * ratio);
    return v < 1 ? 1 : v > (1u << 30) ? 1u << 30 : (uint32_t)v;
}

/* Requests of the recording, or of the load, any of them, as often as it comes. */
static void predict_bench_requests(struct predict_bench *b, const struct sonde_predict_ask *ask,
                                   uint32_t count, struct predict_rng *rng)
{
    const struct sonde_predict_model *m = ask->load ? ask->load : b->m;
    const double in = ask->prompt_ratio > 0 ? ask->prompt_ratio : 1;
    const double out = ask->output_ratio > 0 ? ask->output_ratio : 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t pick = m->warm + predict_rng_below(rng, m->request_count - m->warm);
        struct predict_sim_request *r = &b->requests[i];
        *r = m->requests[pick];
        r->arrived_s = 0;
        r->tokens_in = predict_scaled(r->tokens_in, in);
        r->tokens_out = predict_scaled(r->tokens_out, out);
        if (r->tokens_reused) r->tokens_reused = predict_scaled(r->tokens_reused, in);
        if (r->tokens_reused >= r->tokens_in) r->tokens_reused = r->tokens_in - 1;
    }
    b->sim.count = count;
}

/* Gaps of the recording in stretches of random length (the stationary bootstrap of Politis and
 * Romano, 1994), so that bursts stay bursts; or exponential ones. */
static void predict_bench_arrivals(struct predict_bench *b, double rate, int poisson,
                                   struct predict_rng *rng)
{
    const struct sonde_predict_model *m = b->m;
    const double stretch = cbrt(m->gap_count);
    double at = 0;
    uint32_t next = predict_rng_below(rng, m->gap_count);
    for (uint32_t i = 0; i < b->sim.count; i++) {
        b->requests[i].arrived_s = at;
        if (poisson) {
            at -= log(predict_rng_uniform(rng)) / rate;
            continue;
        }
        at += m->gaps[next] / rate;
        next = predict_rng_uniform(rng) * stretch < 1 ? predict_rng_below(rng, m->gap_count)
                                                      : (next + 1) % m->gap_count;
    }
}

/* ---- Figures --------------------------------------------------------------------------------- */

static void predict_outcome_add(struct predict_outcome *to, const struct predict_outcome *from)
{
    predict_hist_merge(&to->ttft, &from->ttft);
    predict_hist_merge(&to->itl, &from->itl);
    predict_hist_merge(&to->e2e, &from->e2e);
    to->busy_s += from->busy_s;
    to->step_s += from->step_s;
    to->decode_s += from->decode_s;
    to->decode_out_s += from->decode_out_s;
    to->decode_far_s += from->decode_far_s;
    to->tokens_out_s += from->tokens_out_s;
    to->tokens_far_s += from->tokens_far_s;
    to->context_out_s += from->context_out_s;
    to->context_far_s += from->context_far_s;
    if (from->decode_max > to->decode_max) to->decode_max = from->decode_max;
    if (from->tokens_max > to->tokens_max) to->tokens_max = from->tokens_max;
    if (from->context_max > to->context_max) to->context_max = from->context_max;
    if (from->cells_max > to->cells_max) to->cells_max = from->cells_max;
}

/* Latencies into figures; `stride` apart. */
static void predict_latencies(const struct predict_outcome *o, double *out, size_t stride)
{
    const struct predict_hist *const h[3] = { &o->ttft, &o->itl, &o->e2e };
    for (size_t i = 0; i < 9; i++) {
        out[(SONDE_PREDICT_TTFT_P50 + i) * stride] =
            predict_hist_quantile(h[i / 3], predict_quantiles[i % 3]);
    }
}

/* v is sorted: NaN last. */
static struct sonde_predict_value predict_interval(double value, double *v, uint32_t n)
{
    qsort(v, n, sizeof(*v), sonde_cmp_double);
    while (n && isnan(v[n - 1])) n--;
    if (!n || isnan(value)) return (struct sonde_predict_value){ NAN, NAN, NAN };
    const uint32_t cut = (uint32_t)(0.025 * n);
    return (struct sonde_predict_value){ value, fmin(v[cut], value), fmax(v[n - 1 - cut], value) };
}

/* ---- Replay ---------------------------------------------------------------------------------- */

int predict_replay(struct sonde_predict_model *m)
{
    struct predict_bench b;
    struct predict_rng rng = { 1 };
    double figures[SONDE_PREDICT_FIGURE_COUNT], seconds = 0;
    int rc = predict_bench_init(&b, m, 1, 1);
    b.sim.requests = m->requests;
    b.sim.count = m->request_count;
    b.sim.from = m->warm;
    b.sim.concurrency = m->facts.concurrency;
    b.sim.think_s = m->facts.think_s;
    if (!rc) predict_bench_coefficients(&b, NULL);
    const double work = m->request_count * (1 + m->facts.tokens_out);
    const uint32_t times = work * REPLAYS > WORK_MAX ? 1 : REPLAYS;
    for (uint32_t i = 0; !rc && i < times; i++) {
        rc = predict_simulate(&b.sim, &rng, b.one);
        if (rc) break;
        predict_outcome_add(b.all, b.one);
        seconds += (b.one->end_s - m->requests[m->warm].arrived_s) / times;
    }
    if (!rc) {
        const double n = m->request_count - m->warm;
        predict_latencies(b.all, figures, 1);
        figures[SONDE_PREDICT_REQUESTS_PER_S] = n / seconds;
        figures[SONDE_PREDICT_TOKENS_PER_S] = n * m->facts.tokens_out / seconds;
        for (int i = 0; i < SONDE_PREDICT_FIGURE_COUNT; i++) {
            m->replayed[i] = (struct sonde_predict_value){ figures[i], figures[i], figures[i] };
        }
    }
    predict_bench_release(&b);
    return rc;
}

/* ---- May it be answered? --------------------------------------------------------------------- */

static void predict_refuse(struct sonde_predict_answer *a, enum sonde_predict_verdict v,
                           const char *why)
{
    if (a->verdict >= v && a->verdict) return;
    a->verdict = v;
    snprintf(a->why, sizeof(a->why), "%s", why);
}

/* Of a closed loop only the total time, which is its throughput, too: whether its requests fall
 * into step and have their prompts computed together is a matter of microseconds, and times to
 * first token depend on it. */
static void predict_check_replay(const struct sonde_predict_model *m,
                                 struct sonde_predict_answer *a)
{
    static const struct { enum sonde_predict_figure f; int open; const char *name; } checked[] = {
        { SONDE_PREDICT_TTFT_P50, 1, "P50 of the time to first token" },
        { SONDE_PREDICT_TTFT_P90, 1, "P90 of the time to first token" },
        { SONDE_PREDICT_E2E_P50, 0, "P50 of the total time" },
    };
    char why[sizeof(a->why)];
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
        if (checked[i].open && m->facts.closed_loop) continue;
        const double seen = m->measured[checked[i].f].value, has = m->replayed[checked[i].f].value;
        if (!(fabs(has - seen) > UNEXPLAINED_S) || !(fabs(has / seen - 1) > UNEXPLAINED_RATIO)) {
            continue;
        }
        snprintf(why, sizeof(why), "replayed, the recording comes out otherwise: %s was %.3g ms "
                 "and is %.3g ms in the model, so it does not describe this engine (%s)",
                 checked[i].name, 1e3 * seen, 1e3 * has,
                 m->facts.slots ? "was the machine busy with something else, or do requests wait "
                                  "for something that is not computed?"
                                : "how many slots it has is not known: name them");
        predict_refuse(a, SONDE_PREDICT_UNEXPLAINED, why);
        return;
    }
}

/* One quantity outside of what was seen, for a share of the time. */
static void predict_check_range(struct sonde_predict_answer *a, const char *where, const char *what,
                                double step_s, double out_s, double far_s, uint32_t had,
                                uint32_t seen)
{
    char why[sizeof(a->why)];
    const double out = step_s > 0 ? out_s / step_s : 0, far = step_s > 0 ? far_s / step_s : 0;
    if (out <= OUT_RATIO) return;
    if (far > OUT_RATIO) {
        snprintf(why, sizeof(why), "%s%.0f %% of the time there would be up to %u %s, and at most "
                 "%u were seen: record a load that has at least %u to be able to answer", where,
                 100 * out, had, what, seen, (had + FAR - 1) / FAR);
        predict_refuse(a, SONDE_PREDICT_UNSEEN, why);
        return;
    }
    snprintf(why, sizeof(why), "%s%.0f %% of the time there are up to %u %s, and at most %u were "
             "seen: what they cost is extrapolated", where, 100 * out, had, what, seen);
    predict_refuse(a, SONDE_PREDICT_STRETCHED, why);
}

static void predict_check_hull(const struct predict_bench *b, const char *where,
                               struct sonde_predict_answer *a)
{
    const struct predict_outcome *o = b->all;
    const struct predict_hull *h = &b->sim.hull;
    predict_check_range(a, where, "sequences that decode together", o->step_s, o->decode_out_s,
                        o->decode_far_s, o->decode_max, h->decode);
    predict_check_range(a, where, "tokens in a forward pass", o->step_s, o->tokens_out_s,
                        o->tokens_far_s, o->tokens_max, h->tokens);
    predict_check_range(a, where, "tokens of context", o->step_s, o->context_out_s,
                        o->context_far_s, o->context_max, h->context);
    if (b->m->kv_cells && o->cells_max > b->m->kv_cells) {
        char why[sizeof(a->why)];
        snprintf(why, sizeof(why), "%s%llu cells of the KV cache would be in use, and it has %llu: "
                 "what the engine does then was not seen", where,
                 (unsigned long long)o->cells_max, (unsigned long long)b->m->kv_cells);
        predict_refuse(a, SONDE_PREDICT_UNSEEN, why);
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void predict_bench_clear(struct predict_bench *b)
{
    memset(b->all, 0, sizeof(*b->all));
    b->seconds = b->requests_done = b->tokens_done = 0;
}

/* All at once: how many leave per second while the queue is never empty is what it can hold. */
static int predict_knee(struct predict_bench *b, const struct sonde_predict_ask *ask,
                        uint32_t count, struct sonde_predict_answer *a)
{
    double *spread = b->spread + (size_t)SONDE_PREDICT_FIGURE_COUNT * b->replicates, sum = 0;
    predict_bench_clear(b);
    for (uint32_t i = 0; i < b->replicates; i++) {
        struct predict_rng rng = { ask->seed * 0x2545f4914f6cdd1dull + 2 * i + 1 };
        predict_bench_coefficients(b, &rng);
        predict_bench_requests(b, ask, count, &rng);
        if (predict_simulate(&b->sim, &rng, b->one)) return SONDE_ENOMEM;
        predict_outcome_add(b->all, b->one);
        spread[i] = b->one->middle_rate;
        sum += 1 / spread[i];
    }
    /* Time per request is what is added up, so it is the mean of that. */
    a->knee = predict_interval(b->replicates / sum, spread, b->replicates);
    return 0;
}

/* What arrives in one run. */
static void predict_bench_load(struct predict_bench *b, const struct sonde_predict_ask *ask,
                               const struct sonde_predict_answer *a, struct predict_rng *rng)
{
    if (ask->load) {
        memcpy(b->requests, ask->load->requests, a->requests * sizeof(*b->requests));
        b->sim.count = a->requests;
        b->sim.from = ask->load->warm < a->requests ? ask->load->warm : 0;
        b->sim.concurrency = ask->load->facts.concurrency;
        b->sim.think_s = ask->load->facts.think_s;
        return;
    }
    predict_bench_requests(b, ask, a->requests, rng);
    predict_bench_arrivals(b, a->rate, ask->poisson || b->m->facts.closed_loop, rng);
}

static int predict_rates(struct predict_bench *b, const struct sonde_predict_ask *ask,
                         struct sonde_predict_answer *a)
{
    const uint32_t n = b->replicates;
    double value[SONDE_PREDICT_FIGURE_COUNT], in = 0;
    predict_bench_clear(b);
    for (uint32_t i = 0; i < n; i++) {
        struct predict_rng rng = { ask->seed * 0x2545f4914f6cdd1dull + 2 * i + 2 };
        predict_bench_coefficients(b, &rng);
        predict_bench_load(b, ask, a, &rng);
        if (predict_simulate(&b->sim, &rng, b->one)) return SONDE_ENOMEM;
        predict_outcome_add(b->all, b->one);
        predict_latencies(b->one, &b->spread[i], n);
        const double seconds = b->one->end_s - b->requests[b->sim.from].arrived_s;
        double tokens = 0;
        for (uint32_t k = b->sim.from; k < a->requests; k++) {
            in += b->requests[k].tokens_in;
            tokens += b->requests[k].tokens_out;
        }
        b->spread[SONDE_PREDICT_REQUESTS_PER_S * n + i] = (a->requests - b->sim.from) / seconds;
        b->spread[SONDE_PREDICT_TOKENS_PER_S * n + i] = tokens / seconds;
        b->seconds += seconds;
        b->requests_done += a->requests - b->sim.from;
        b->tokens_done += tokens;
    }
    predict_latencies(b->all, value, 1);
    value[SONDE_PREDICT_REQUESTS_PER_S] = b->requests_done / b->seconds;
    value[SONDE_PREDICT_TOKENS_PER_S] = b->tokens_done / b->seconds;
    for (size_t f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        a->figures[f] = predict_interval(value[f], &b->spread[f * n], n);
    }
    a->tokens_in = in / b->requests_done;
    a->tokens_out = b->tokens_done / b->requests_done;
    a->busy_ratio = fmin(b->all->busy_s / b->seconds, 1);
    a->decoding = b->all->step_s > 0 ? b->all->decode_s / b->all->step_s : 0;
    return 0;
}

static void predict_answer_forget(struct sonde_predict_answer *a)
{
    for (size_t f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        a->figures[f] = (struct sonde_predict_value){ NAN, NAN, NAN };
    }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int predict_ask_check(const struct sonde_predict_ask *ask, struct sonde_err *err)
{
    if (!(ask->rate >= 0 && ask->rate <= RATE_MAX)) {
        return sonde_err_set(err, SONDE_EINVAL, "a rate is above 0 and at most %g per second",
                             RATE_MAX);
    }
    if (!(ask->prompt_ratio >= 0 && ask->prompt_ratio <= 1000) ||
        !(ask->output_ratio >= 0 && ask->output_ratio <= 1000)) {
        return sonde_err_set(err, SONDE_EINVAL, "tokens can be at most 1000 times as many");
    }
    if (!(ask->speed == 0 || (ask->speed >= 1 / SPEED_MAX && ask->speed <= SPEED_MAX))) {
        return sonde_err_set(err, SONDE_EINVAL, "a machine can be from 1/%g to %g times as fast",
                             SPEED_MAX, SPEED_MAX);
    }
    if (ask->slots > SLOTS_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "slots are at most %u", SLOTS_MAX);
    }
    return 0;
}

static void predict_resolve(const struct sonde_predict_model *m,
                            const struct sonde_predict_ask *ask, struct sonde_predict_answer *a)
{
    const struct sonde_predict_facts *f = &m->facts;
    *a = (struct sonde_predict_answer){
        .rate = ask->rate > 0 ? ask->rate : f->rate,
        .slots = ask->slots ? ask->slots : f->slots,
        .batch_tokens = ask->batch_tokens ? ask->batch_tokens : f->batch_tokens,
        .requests = ask->requests ? ask->requests : f->requests,
        .speed = ask->speed > 0 ? ask->speed : 1,
        .knee = { NAN, NAN, NAN },
    };
    if (a->requests > RUN_MAX) a->requests = RUN_MAX;
    if (ask->load) {
        const uint32_t count = ask->load->request_count;
        a->rate = ask->load->facts.rate;
        a->requests = count < SONDE_PREDICT_LOAD_MAX ? count : SONDE_PREDICT_LOAD_MAX;
    }
    predict_answer_forget(a);
    if (!a->slots) {
        predict_refuse(a, SONDE_PREDICT_UNKNOWN, "how many slots the engine has is not known: its "
                       "command line does not say, and no request waited for one; name them");
    }
    predict_check_replay(m, a);
}

/* What depends on the rate, if the knee allows it. */
static int predict_at_rate(struct predict_bench *b, const struct sonde_predict_ask *ask,
                           const struct sonde_predict_value *knee, struct sonde_predict_answer *a)
{
    char why[sizeof(a->why)];
    if (a->rate >= knee->value) {
        snprintf(why, sizeof(why), "%.3g requests per second are more than it can hold: from %.3g "
                 "(%.3g to %.3g) per second on the queue grows without bound, and latencies with "
                 "it", a->rate, knee->value, knee->low, knee->high);
        predict_refuse(a, SONDE_PREDICT_BEYOND_KNEE, why);
        return 0;
    }
    const int rc = predict_rates(b, ask, a);
    if (rc) return rc;
    predict_check_hull(b, "", a);
    if (sonde_predict_refused(a)) predict_answer_forget(a);
    else if (a->rate > NEAR_KNEE * knee->value || a->rate > knee->low) {
        snprintf(why, sizeof(why), "%.0f %% of the knee: queues are long there and differ much "
                 "from run to run", 100 * a->rate / knee->value);
        predict_refuse(a, SONDE_PREDICT_STRETCHED, why);
    }
    return 0;
}

int sonde_predict_run(const struct sonde_predict_model *m, const struct sonde_predict_ask *ask,
                      struct sonde_predict_answer *out, struct sonde_err *err)
{
    struct predict_bench b;
    struct sonde_predict_answer a, at_knee;
    int rc = predict_ask_check(ask, err);
    if (rc) return rc;
    predict_resolve(m, ask, &a);
    if (sonde_predict_refused(&a)) {
        *out = a;
        return 0;
    }
    const uint32_t wanted = a.requests > KNEE_MIN ? a.requests : KNEE_MIN;
    const double tokens_out = (ask->load ? ask->load : m)->facts.tokens_out;
    const uint32_t least = a.slots < RUN_MAX / 10 ? 10 * a.slots : RUN_MAX;
    const uint32_t most = wanted > least ? wanted : least;
    const double work = most * (1 + tokens_out * fmax(ask->output_ratio, 1));
    uint32_t replicates = ask->replicates ? ask->replicates : REPLICATES;
    if (replicates * work > WORK_MAX) replicates = (uint32_t)(WORK_MAX / work);
    if (replicates < REPLICATES_MIN) replicates = REPLICATES_MIN;
    rc = predict_bench_init(&b, m, most, replicates);
    if (!rc) {
        b.sim.slots = a.slots;
        b.sim.cost_ratio = 1 / a.speed;
        if (a.batch_tokens) b.sim.batch_tokens = a.batch_tokens;
        at_knee = a;
        rc = predict_knee(&b, ask, most, &at_knee);
    }
    if (!rc) {
        predict_check_hull(&b, "at the knee, ", &at_knee);
        if (!sonde_predict_refused(&at_knee)) a.knee = at_knee.knee;
        if (!ask->knee_only) rc = predict_at_rate(&b, ask, &at_knee.knee, &a);
        if (!sonde_predict_refused(&a) && a.verdict == SONDE_PREDICT_OK && at_knee.verdict) {
            a.verdict = ask->knee_only ? at_knee.verdict : SONDE_PREDICT_STRETCHED;
            memcpy(a.why, at_knee.why, sizeof(a.why));
        }
        /* That the knee itself was not seen is the stronger reason. */
        if (a.verdict == SONDE_PREDICT_BEYOND_KNEE && sonde_predict_refused(&at_knee)) {
            a.verdict = at_knee.verdict;
            memcpy(a.why, at_knee.why, sizeof(a.why));
        }
    }
    predict_bench_release(&b);
    if (rc) return sonde_err_memory(err);
    *out = a;
    return 0;
}
