/* fit.c - from requests and steps to a model: what each step did, which steps are a cold start,
 * what steps, gaps and intakes cost, and what the recording itself measured.
 *
 * Contexts are not in the recording: they follow from it, since a step's parts say how many tokens
 * of a request were computed before. */
#include <math.h>
#include <string.h>

#include "analyze/predict/private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { COLD_PARTS = 20, COLD_PARTS_MAX = 5, SPLITS_MAX = 5, SPLIT_STEPS_MIN = 30 };
#define COLD_RATIO 1.2         /* a beginning that is not slower than this is not cold */
#define SPLIT_GAIN 0.03        /* of the loss, or a segment is not worth its parameter */
#define DRAFTS_RATIO 0.01

static const char *const quantities[PREDICT_QUANTITIES] = {
    [PREDICT_STEP] = "step", [PREDICT_TOKENS] = "token in the pass",
    [PREDICT_PROMPT] = "prompt token", [PREDICT_DECODE] = "sequence that decodes",
    [PREDICT_PROMPT_CELLS] = "KV cell that a prompt token attends to",
    [PREDICT_DECODE_CELLS] = "KV cell that a decoding sequence attends to",
};

/* What an engine's pass may cost by. One that computes all tokens of a pass in one go (llama.cpp)
 * pays for rows, whoever they are of; then a prompt of eight tokens says what eight sequences that
 * decode would cost, though so many were never seen. One that computes prompts and answers apart
 * pays for each kind by itself. Which it is the recording says: a later one has to explain it
 * better, since the first has one curve for both and so says more about what was not seen. */
static const enum predict_quantity bases[][2] = {
    { PREDICT_TOKENS, PREDICT_PROMPT },
    { PREDICT_TOKENS, PREDICT_DECODE },
    { PREDICT_PROMPT, PREDICT_DECODE },
};

/* ---- Checks ---------------------------------------------------------------------------------- */

static int predict_fit_enough(const struct sonde_predict_observed *o, struct sonde_err *err)
{
    if (o->request_count < SONDE_PREDICT_REQUESTS_MIN || o->step_count < SONDE_PREDICT_STEPS_MIN) {
        return sonde_err_set(err, SONDE_EINVAL, "%u requests and %u forward passes are too few to "
                             "predict from: record at least %u and %u", o->request_count,
                             o->step_count, SONDE_PREDICT_REQUESTS_MIN, SONDE_PREDICT_STEPS_MIN);
    }
    if (o->request_count > SONDE_PREDICT_REQUESTS_MAX || o->step_count > SONDE_PREDICT_STEPS_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "%u requests and %u forward passes are more than "
                             "are read: record for less time", o->request_count, o->step_count);
    }
    return 0;
}

static int predict_fit_check(const struct sonde_predict_observed *o, struct sonde_err *err)
{
    double before = -INFINITY;
    for (uint32_t i = 0; i < o->request_count; i++) {
        const struct sonde_predict_request *r = &o->requests[i];
        if (!(r->arrived_s >= before) || !isfinite(r->arrived_s) || !isfinite(r->ttft_s) ||
            !(r->total_s >= 0) || !isfinite(r->total_s) || r->tokens_reused >= r->tokens_in ||
            !r->tokens_out) {
            return sonde_err_set(err, SONDE_EINVAL, "request %u of the recording cannot be", i);
        }
        before = r->arrived_s;
    }
    before = -INFINITY;
    for (uint32_t i = 0; i < o->step_count; i++) {
        const struct sonde_predict_step *s = &o->steps[i];
        if (!(s->start_s >= before) || !isfinite(s->end_s) || !(s->end_s >= s->start_s) ||
            s->part > o->part_count || s->part_count > o->part_count - s->part) {
            return sonde_err_set(err, SONDE_EINVAL, "forward pass %u of the recording cannot be",
                                 i);
        }
        before = s->start_s;
    }
    for (uint32_t i = 0; i < o->part_count; i++) {
        if (o->parts[i].request != UINT32_MAX && o->parts[i].request >= o->request_count) {
            return sonde_err_set(err, SONDE_EINVAL, "part %u of a forward pass is of no request",
                                 i);
        }
    }
    return 0;
}

/* Several tokens of a request in one step of decoding: how many of them count is not known. */
static int predict_fit_drafts(const struct sonde_predict_observed *o, struct sonde_err *err)
{
    uint32_t drafts = 0, decodes = 0;
    for (uint32_t i = 0; i < o->part_count; i++) {
        decodes += o->parts[i].output != 0;
        drafts += o->parts[i].output > 1;
    }
    if (drafts <= DRAFTS_RATIO * decodes) return 0;
    return sonde_err_set(err, SONDE_EINVAL, "the engine computes drafts (speculative decoding): "
                         "how many tokens a step yields is not modelled; record without it");
}

/* ---- What each step did ---------------------------------------------------------------------- */

static void observation_release(struct predict_observation *b)
{
    sonde__free(b->seen);
    sonde__free(b->work);
    sonde__free(b->unknown);
    sonde__free(b->itl);
}

static void observation_step(struct predict_observation *b, uint32_t i)
{
    const struct sonde_predict_observed *o = b->o;
    struct predict_work *w = &b->work[i];
    for (uint32_t k = 0; k < o->steps[i].part_count; k++) {
        const struct sonde_predict_part *p = &o->parts[o->steps[i].part + k];
        if (!p->prompt && !p->output) continue;
        w->members++;
        if (p->request == UINT32_MAX) {
            b->unknown[i] = 1;
            continue;
        }
        struct predict_seen *s = &b->seen[p->request];
        if (s->first_step == UINT32_MAX) s->first_step = i;
        s->last_step = i;
        if (p->prompt) predict_work_prompt(w, s->computed, p->prompt);
        if (p->output) predict_work_decode(w, s->computed);
        s->computed += p->prompt + p->output;
        if (s->computed > w->context_max) w->context_max = s->computed;
        w->outputs += p->output || !predict_part_cut(&o->requests[p->request], s->computed);
    }
}

static int observation_make(struct predict_observation *b, const struct sonde_predict_observed *o)
{
    *b = (struct predict_observation){ .o = o };
    b->seen = sonde__calloc(o->request_count, sizeof(*b->seen));
    b->work = sonde__calloc(o->step_count, sizeof(*b->work));
    b->unknown = sonde__calloc(o->step_count, sizeof(*b->unknown));
    b->itl = sonde__calloc(1, sizeof(*b->itl));
    if (!b->seen || !b->work || !b->unknown || !b->itl) return SONDE_ENOMEM;
    for (uint32_t r = 0; r < o->request_count; r++) {
        b->seen[r] = (struct predict_seen){
            .first_step = UINT32_MAX, .last_step = UINT32_MAX,
            .computed = o->requests[r].tokens_reused, .token_s = NAN,
            .end_s = o->requests[r].arrived_s + o->requests[r].total_s };
    }
    for (uint32_t i = 0; i < o->step_count; i++) observation_step(b, i);
    return 0;
}

/* Gaps between tokens, as the ends of the steps that gave them. */
static void observation_itl(struct predict_observation *b, double warm_s)
{
    const struct sonde_predict_observed *o = b->o;
    for (uint32_t r = 0; r < o->request_count; r++) {
        b->seen[r].computed = o->requests[r].tokens_reused;
    }
    for (uint32_t i = 0; i < o->step_count; i++) {
        for (uint32_t k = 0; k < o->steps[i].part_count; k++) {
            const struct sonde_predict_part *p = &o->parts[o->steps[i].part + k];
            if (p->request == UINT32_MAX) continue;
            struct predict_seen *s = &b->seen[p->request];
            s->computed += p->prompt + p->output;
            if (predict_part_cut(&o->requests[p->request], s->computed)) continue;
            if (!isnan(s->token_s) && o->requests[p->request].arrived_s >= warm_s) {
                predict_hist_add(b->itl, o->steps[i].end_s - s->token_s);
            }
            s->token_s = o->steps[i].end_s;
        }
    }
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* Every nth of count, so that no more than PREDICT_ROWS_MAX are used. */
static uint32_t predict_fit_stride(uint32_t count) { return count / PREDICT_ROWS_MAX + 1; }

static uint32_t predict_fit_step_rows(const struct sonde_predict_model *m,
                                      const struct predict_observation *b,
                                      struct predict_row *rows)
{
    const struct sonde_predict_observed *o = b->o;
    uint32_t n = 0;
    for (uint32_t i = b->cold; i < o->step_count; i += predict_fit_stride(o->step_count)) {
        if (b->unknown[i] || !b->work[i].members) continue;
        predict_features_of(&m->features, &b->work[i], rows[n].x);
        rows[n++].seconds = o->steps[i].end_s - o->steps[i].start_s;
    }
    return n;
}

/* Between a step and the next, where a request is in both: the engine did not wait for work. */
static uint32_t predict_fit_gap_rows(const struct predict_observation *b, struct predict_row *rows)
{
    const struct sonde_predict_observed *o = b->o;
    uint32_t n = 0;
    for (uint32_t i = b->cold; i + 1 < o->step_count; i += predict_fit_stride(o->step_count)) {
        int both = 0;
        if (b->unknown[i]) continue;
        for (uint32_t k = 0; !both && k < o->steps[i].part_count; k++) {
            const uint32_t r = o->parts[o->steps[i].part + k].request;
            both = r != UINT32_MAX && b->seen[r].last_step > i;
        }
        if (!both) continue;
        rows[n].x[0] = 1;
        rows[n].x[1] = b->work[i].outputs;
        rows[n++].seconds = fmax(o->steps[i + 1].start_s - o->steps[i].end_s, 0);
    }
    return n;
}

/* From arrival to the first step, of requests that came when nothing was computed: they waited for
 * nobody. */
static uint32_t predict_fit_intake_rows(const struct predict_observation *b,
                                        struct predict_row *rows)
{
    const struct sonde_predict_observed *o = b->o;
    uint32_t n = 0;
    for (uint32_t r = 0; r < o->request_count && n < PREDICT_ROWS_MAX; r++) {
        const uint32_t first = b->seen[r].first_step;
        if (first == UINT32_MAX || first < b->cold) continue;
        const double start = o->steps[first].start_s, at = o->requests[r].arrived_s;
        if (start < at || (first && o->steps[first - 1].end_s > at)) continue;
        rows[n].x[0] = 1;
        rows[n].x[1] = o->requests[r].tokens_in;
        rows[n++].seconds = start - at;
    }
    return n;
}

/* ---- Segments -------------------------------------------------------------------------------- */

/* Steps whose quantity is on each side of a bound, at least. */
static int predict_split_supported(const struct predict_row *rows, uint32_t n, uint32_t feature,
                                   const struct predict_feature *f, double at)
{
    uint32_t low = 0, high = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double v = rows[i].x[feature] + f->from;
        if (v <= f->from) continue;
        if (v <= at) low++;
        else high++;
    }
    return low >= SPLIT_STEPS_MIN && high >= SPLIT_STEPS_MIN;
}

static void predict_split_at(struct predict_features *f, uint32_t feature, double at)
{
    memmove(&f->of[feature + 2], &f->of[feature + 1],
            (f->count - feature - 1) * sizeof(f->of[0]));
    f->of[feature + 1] = (struct predict_feature){ f->of[feature].quantity, at, f->of[feature].to };
    f->of[feature].to = at;
    f->count++;
}

/* Tokens or sequences; beside all tokens of a pass only those. */
static int predict_split_may(const struct predict_features *f, uint32_t feature)
{
    const enum predict_quantity q = f->of[feature].quantity;
    return q == PREDICT_TOKENS ||
           (f->of[1].quantity != PREDICT_TOKENS && (q == PREDICT_PROMPT || q == PREDICT_DECODE));
}

/* The split of one segment of tokens or sequences that helps most; 0 = none is worth it. */
static int predict_split_best(struct sonde_predict_model *m, const struct predict_observation *b,
                              struct predict_row *rows, struct predict_features *best, int *rc)
{
    const struct predict_features had = m->features;
    double loss = m->step.loss * (1 - SPLIT_GAIN);
    int found = 0;
    const uint32_t n = predict_fit_step_rows(m, b, rows);
    for (uint32_t f = 0; f < had.count && had.count < PREDICT_FEATURES_MAX; f++) {
        if (!predict_split_may(&had, f)) continue;
        for (double at = 1; at <= 1024 && !*rc; at *= 2) {
            struct predict_cost c;
            m->features = had;
            if (at <= had.of[f].from || at >= had.of[f].to) continue;
            predict_fit_step_rows(m, b, rows);
            if (!predict_split_supported(rows, n, f, &had.of[f], at)) continue;
            predict_split_at(&m->features, f, at);
            predict_fit_step_rows(m, b, rows);
            *rc = predict_cost_fit(rows, n, m->features.count, &c);
            if (!*rc && c.loss < loss) {
                loss = c.loss;
                *best = m->features;
                found = 1;
            }
            if (!*rc) predict_cost_release(&c);
        }
    }
    m->features = had;
    return found;
}

/* With the quantities of one base, and as many segments as are worth it. */
static int predict_fit_base(struct sonde_predict_model *m, const struct predict_observation *b,
                            const enum predict_quantity *base, struct predict_row *rows)
{
    const enum predict_quantity of[] = { PREDICT_STEP, base[0], base[1], PREDICT_PROMPT_CELLS,
                                         PREDICT_DECODE_CELLS };
    m->features = (struct predict_features){ .count = SONDE_COUNT(of) };
    for (uint32_t i = 0; i < SONDE_COUNT(of); i++) {
        m->features.of[i] = (struct predict_feature){ of[i], 0, INFINITY };
    }
    int rc = predict_cost_fit(rows, predict_fit_step_rows(m, b, rows), m->features.count, &m->step);
    for (int i = 0; !rc && i < SPLITS_MAX; i++) {
        struct predict_features best;
        if (!predict_split_best(m, b, rows, &best, &rc)) break;
        m->features = best;
        predict_cost_release(&m->step);
        rc = predict_cost_fit(rows, predict_fit_step_rows(m, b, rows), m->features.count, &m->step);
    }
    return rc;
}

static int predict_fit_steps(struct sonde_predict_model *m, const struct predict_observation *b,
                             struct predict_row *rows)
{
    int rc = predict_fit_base(m, b, bases[0], rows);
    for (uint32_t i = 1; !rc && i < SONDE_COUNT(bases); i++) {
        const struct predict_features features = m->features;
        struct predict_cost step = m->step;
        m->step = (struct predict_cost){ 0 };
        rc = predict_fit_base(m, b, bases[i], rows);
        if (!rc && m->step.loss < (1 - SPLIT_GAIN) * step.loss) {
            predict_cost_release(&step);
            continue;
        }
        predict_cost_release(&m->step);
        m->features = features;
        m->step = step;
    }
    return rc;
}

/* ---- Cold start ------------------------------------------------------------------------------ */

/* Steps that follow the first are often slower than all later ones: caches are cold, memory is
 * touched for the first time, clocks are low. Of the first quarter of the recording, as many
 * twentieths are left out as leave the mean of seen / fitted known best (MSER, White 1997), if they
 * were slower indeed. */
static uint32_t predict_fit_cold(const struct sonde_predict_model *m,
                                 const struct predict_observation *b)
{
    double part[COLD_PARTS] = { 0 }, seen[COLD_PARTS] = { 0 }, least = INFINITY;
    const struct sonde_predict_observed *o = b->o;
    uint32_t best = 0;
    for (uint32_t i = 0; i < o->step_count; i++) {
        double x[PREDICT_FEATURES_MAX], fitted = 0;
        const uint32_t k = (uint32_t)((uint64_t)i * COLD_PARTS / o->step_count);
        if (b->unknown[i]) continue;
        predict_features_of(&m->features, &b->work[i], x);
        for (uint32_t f = 0; f < m->features.count; f++) fitted += m->step.beta[f] * x[f];
        part[k] += fitted;
        seen[k] += o->steps[i].end_s - o->steps[i].start_s;
    }
    for (uint32_t cut = 0; cut <= COLD_PARTS_MAX; cut++) {
        double sum = 0, squares = 0;
        const double n = COLD_PARTS - cut;
        for (uint32_t k = cut; k < COLD_PARTS; k++) {
            const double ratio = part[k] > 0 ? seen[k] / part[k] : 1;
            sum += ratio;
            squares += ratio * ratio;
        }
        const double error = (squares - sum * sum / n) / (n * n);
        if (error < least) {
            least = error;
            best = cut;
        }
    }
    double cold = 0, cold_fitted = 0, warm = 0, warm_fitted = 0;
    for (uint32_t k = 0; k < COLD_PARTS; k++) {
        *(k < best ? &cold : &warm) += seen[k];
        *(k < best ? &cold_fitted : &warm_fitted) += part[k];
    }
    if (!best || cold * warm_fitted < COLD_RATIO * warm * cold_fitted) return 0;
    return (uint32_t)((uint64_t)best * o->step_count / COLD_PARTS);
}

/* ---- Measured -------------------------------------------------------------------------------- */

static void predict_fit_figure(struct sonde_predict_model *m, enum sonde_predict_figure f, double v)
{
    m->measured[f] = (struct sonde_predict_value){ v, v, v };
}

static int predict_fit_measured(struct sonde_predict_model *m, const struct predict_observation *b)
{
    const struct sonde_predict_observed *o = b->o;
    struct predict_hist *h = sonde__calloc(2, sizeof(*h));
    double end = 0, tokens = 0, n = 0;
    if (!h) return SONDE_ENOMEM;
    const double begin = o->requests[m->warm].arrived_s;
    for (uint32_t i = m->warm; i < o->request_count; i++) {
        const struct sonde_predict_request *r = &o->requests[i];
        if (r->ttft_s >= 0) predict_hist_add(&h[0], r->ttft_s);
        predict_hist_add(&h[1], r->total_s);
        end = fmax(end, b->seen[i].end_s);
        tokens += r->tokens_out;
        n++;
    }
    const double seconds = fmax(end - begin, 1e-9);
    predict_fit_figure(m, SONDE_PREDICT_REQUESTS_PER_S, n / seconds);
    predict_fit_figure(m, SONDE_PREDICT_TOKENS_PER_S, tokens / seconds);
    static const double q[3] = { 0.5, 0.9, 0.99 };
    for (int i = 0; i < 3; i++) {
        predict_fit_figure(m, (enum sonde_predict_figure)(SONDE_PREDICT_TTFT_P50 + i),
                           predict_hist_quantile(&h[0], q[i]));
        predict_fit_figure(m, (enum sonde_predict_figure)(SONDE_PREDICT_ITL_P50 + i),
                           predict_hist_quantile(b->itl, q[i]));
        predict_fit_figure(m, (enum sonde_predict_figure)(SONDE_PREDICT_E2E_P50 + i),
                           predict_hist_quantile(&h[1], q[i]));
    }
    sonde__free(h);
    return 0;
}

/* ---- Requests and facts ---------------------------------------------------------------------- */

static int predict_fit_requests(struct sonde_predict_model *m, const struct predict_observation *b)
{
    const struct sonde_predict_observed *o = b->o;
    const double warm_s = b->cold ? o->steps[b->cold].start_s : -INFINITY;
    const uint32_t n = o->request_count;
    m->requests = sonde__calloc(n, sizeof(*m->requests));
    m->gaps = sonde__calloc(n, sizeof(*m->gaps));
    if (!m->requests || !m->gaps) return SONDE_ENOMEM;
    while (m->warm + SONDE_PREDICT_REQUESTS_MIN < n && o->requests[m->warm].arrived_s < warm_s) {
        m->warm++;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct sonde_predict_request *r = &o->requests[i];
        m->requests[i] = (struct predict_sim_request){ r->arrived_s - o->requests[0].arrived_s,
                                                       r->tokens_in, r->tokens_reused,
                                                       r->tokens_out };
        if (i < m->warm) continue;
        m->facts.tokens_in += r->tokens_in / (double)(n - m->warm);
        m->facts.tokens_reused += r->tokens_reused / (double)(n - m->warm);
        m->facts.tokens_out += r->tokens_out / (double)(n - m->warm);
        m->facts.seconds = fmax(m->facts.seconds,
                                b->seen[i].end_s - o->requests[m->warm].arrived_s);
    }
    m->request_count = n;
    const double span = o->requests[n - 1].arrived_s - o->requests[m->warm].arrived_s;
    m->gap_count = n - m->warm - 1;
    const double mean = fmax(span / m->gap_count, 1e-9);
    for (uint32_t i = 0; i < m->gap_count; i++) {
        const uint32_t r = m->warm + i;
        m->gaps[i] = (o->requests[r + 1].arrived_s - o->requests[r].arrived_s) / mean;
    }
    m->facts.rate = 1 / mean;
    return 0;
}

static void predict_fit_facts(struct sonde_predict_model *m, const struct predict_observation *b)
{
    struct sonde_predict_facts *f = &m->facts;
    double busy = 0;
    f->requests = m->request_count - m->warm;
    f->steps = m->step.count;
    f->cold_steps = b->cold;
    for (uint32_t i = b->cold; i < b->o->step_count; i++) {
        busy += b->o->steps[i].end_s - b->o->steps[i].start_s;
        f->unknown_steps += b->unknown[i];
    }
    f->error_median = m->step.error_median;
    f->busy_ratio = f->seconds > 0 ? fmin(busy / f->seconds, 1) : 0;
    for (uint32_t i = 0; i < m->features.count; i++) {
        f->coefficients[f->coefficient_count++] = (struct sonde_predict_coefficient){
            quantities[m->features.of[i].quantity], m->features.of[i].from, m->step.beta[i] };
    }
    f->gap_s = m->gap.beta[0];
    f->gap_output_s = m->gap.beta[1];
    f->intake_s = m->intake.beta[0];
    f->intake_token_s = m->intake.beta[1];
    m->kv_cells = b->o->kv_cells;
}

static int predict_fit_all(struct sonde_predict_model *m, struct predict_observation *b)
{
    const uint32_t most = b->o->step_count > b->o->request_count ? b->o->step_count
                                                                 : b->o->request_count;
    struct predict_row *rows = sonde__calloc(
        (size_t)(most < PREDICT_ROWS_MAX ? most : PREDICT_ROWS_MAX) + 1, sizeof(*rows));
    if (!rows) return SONDE_ENOMEM;
    int rc = predict_fit_steps(m, b, rows);
    if (!rc) b->cold = predict_fit_cold(m, b);
    if (!rc && b->cold) {
        predict_cost_release(&m->step);
        rc = predict_fit_steps(m, b, rows);
    }
    if (!rc) rc = predict_cost_fit(rows, predict_fit_gap_rows(b, rows), 2, &m->gap);
    if (!rc) rc = predict_cost_fit(rows, predict_fit_intake_rows(b, rows), 2, &m->intake);
    if (!rc) rc = predict_fit_requests(m, b);
    if (!rc) {
        observation_itl(b, b->o->requests[m->warm].arrived_s);
        rc = predict_fit_measured(m, b);
        predict_fit_facts(m, b);
        predict_look(b, &m->facts);
    }
    sonde__free(rows);
    return rc || m->step.count < SONDE_PREDICT_STEPS_MIN ? rc : predict_replay(m);
}

int sonde_predict_fit(const struct sonde_predict_observed *o, struct sonde_predict_model **out,
                      struct sonde_err *err)
{
    struct predict_observation b;
    int rc = predict_fit_enough(o, err);
    if (!rc) rc = predict_fit_check(o, err);
    if (!rc) rc = predict_fit_drafts(o, err);
    if (rc) return rc;
    struct sonde_predict_model *m = sonde__calloc(1, sizeof(*m));
    if (!m) return sonde_err_memory(err);
    rc = observation_make(&b, o);
    if (!rc) rc = predict_fit_all(m, &b);
    observation_release(&b);
    if (!rc && m->step.count >= SONDE_PREDICT_STEPS_MIN) {
        *out = m;
        return 0;
    }
    if (rc) sonde_err_memory(err);
    else {
        rc = sonde_err_set(err, SONDE_EINVAL, "of %u forward passes only %u are of requests that "
                           "the recording has from their beginning: record for longer, or start "
                           "recording before the load", o->step_count, m->step.count);
    }
    sonde_predict_destroy(m);
    return rc;
}

void sonde_predict_destroy(struct sonde_predict_model *m)
{
    if (!m) return;
    predict_cost_release(&m->step);
    predict_cost_release(&m->gap);
    predict_cost_release(&m->intake);
    sonde__free(m->requests);
    sonde__free(m->gaps);
    sonde__free(m);
}

const struct sonde_predict_facts *sonde_predict_facts(const struct sonde_predict_model *m)
{
    return &m->facts;
}
