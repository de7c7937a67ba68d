/* simulate.c - see simulate.h. */
#include "analyze/predict/simulate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

#define HIST_LEAST_S 1e-7
#define HIST_PER_E 166.6     /* buckets to a factor of e: 0.6 % each */

/* ---- Distributions --------------------------------------------------------------------------- */

void predict_hist_add(struct predict_hist *h, double seconds)
{
    const double at = seconds > HIST_LEAST_S ? log(seconds / HIST_LEAST_S) * HIST_PER_E : 0;
    h->bucket[at < PREDICT_BUCKETS - 1 ? (uint32_t)at : PREDICT_BUCKETS - 1]++;
    h->count++;
}

void predict_hist_merge(struct predict_hist *h, const struct predict_hist *from)
{
    for (uint32_t i = 0; i < PREDICT_BUCKETS; i++) h->bucket[i] += from->bucket[i];
    h->count += from->count;
}

double predict_hist_quantile(const struct predict_hist *h, double q)
{
    if (!h->count) return NAN;
    const double rank = q * (double)h->count;
    double below = 0;
    for (uint32_t i = 0; i < PREDICT_BUCKETS; i++) {
        if (!h->bucket[i]) continue;
        below += h->bucket[i];
        if (below >= rank) return HIST_LEAST_S * exp((i + 0.5) / HIST_PER_E);
    }
    return NAN;
}

/* ---- Features -------------------------------------------------------------------------------- */

void predict_features_of(const struct predict_features *f, const struct predict_work *w,
                         double *out)
{
    const double all[PREDICT_QUANTITIES] = {
        [PREDICT_STEP] = 1, [PREDICT_TOKENS] = w->prompt + w->decode,
        [PREDICT_PROMPT] = w->prompt, [PREDICT_DECODE] = w->decode,
        [PREDICT_PROMPT_CELLS] = w->prompt_cells, [PREDICT_DECODE_CELLS] = w->decode_cells,
    };
    for (uint32_t i = 0; i < f->count; i++) {
        const struct predict_feature *p = &f->of[i];
        const double v = all[p->quantity];
        out[i] = v <= p->from ? 0 : fmin(v, p->to) - p->from;
    }
}

/* ---- A run ----------------------------------------------------------------------------------- */

struct sim_running {
    uint32_t request;
    uint32_t computed;       /* tokens of it in the cache */
    uint32_t produced;
    uint32_t chunk;          /* tokens in this step */
    double last_s;           /* its last token */
};

struct sim_state {
    const struct predict_sim *s;
    struct predict_rng *rng;
    struct predict_outcome *out;
    struct sim_running *running;
    uint32_t running_count;
    double *arrived_s;       /* by request; owned, as the next */
    double *ready_s;         /* when it is in the queue; of the first `arrivals` */
    uint32_t next;           /* to be taken in */
    uint32_t arrivals;       /* so far, those of the future that are known included */
    uint32_t done, tenth, last_tenth;
    double now_s, tenth_s;
};

/* One that was slow to come in does not overtake, nor is it overtaken: servers hand requests over
 * in the order they came. */
static void sim_arrive(struct sim_state *st, double at_s)
{
    const uint32_t i = st->arrivals++;
    const struct predict_sim_request *r = &st->s->requests[i];
    const double x[2] = { 1, r->tokens_in };
    assert(r->tokens_reused < r->tokens_in && r->tokens_out);
    st->arrived_s[i] = at_s;
    st->ready_s[i] = at_s + st->s->cost_ratio * predict_draws_cost(st->s->intake, x, st->rng);
    if (i && st->ready_s[i] < st->ready_s[i - 1]) st->ready_s[i] = st->ready_s[i - 1];
}

static void sim_take_in(struct sim_state *st)
{
    const struct predict_sim *s = st->s;
    if (!st->running_count && st->next < st->arrivals && st->ready_s[st->next] > st->now_s) {
        st->now_s = st->ready_s[st->next];
    }
    while (st->running_count < s->slots && st->next < st->arrivals &&
           st->ready_s[st->next] <= st->now_s) {
        const struct predict_sim_request *r = &s->requests[st->next];
        st->running[st->running_count++] =
            (struct sim_running){ .request = st->next++, .computed = r->tokens_reused };
    }
}

static uint32_t sim_needs(const struct sim_state *st, const struct sim_running *j)
{
    return st->s->requests[j->request].tokens_in - j->computed;
}

/* How many tokens of each are in the step. */
static void sim_share(struct sim_state *st)
{
    const struct predict_sim *s = st->s;
    uint32_t left = s->batch_tokens, prompts = 0;
    for (uint32_t i = 0; i < st->running_count; i++) {
        struct sim_running *j = &st->running[i];
        j->chunk = 0;
        if (!j->produced) prompts++;
        else if (left) {
            j->chunk = 1;
            left--;
        }
    }
    for (uint32_t i = 0; s->share == SONDE_PREDICT_EVEN && prompts && i < st->running_count; i++) {
        struct sim_running *j = &st->running[i];
        if (j->produced) continue;
        const uint32_t share = left / prompts--, needs = sim_needs(st, j);
        j->chunk = needs < share ? needs : share;
        left -= j->chunk;
    }
    for (uint32_t i = 0; left && i < st->running_count; i++) {
        struct sim_running *j = &st->running[i];
        if (j->produced) continue;
        const uint32_t more = sim_needs(st, j) - j->chunk;
        j->chunk += more < left ? more : left;
        left -= more < left ? more : left;
    }
}

static void sim_work(const struct sim_state *st, struct predict_work *w)
{
    uint64_t cells = 0;
    *w = (struct predict_work){ 0 };
    for (uint32_t i = 0; i < st->running_count; i++) {
        const struct sim_running *j = &st->running[i];
        cells += j->computed + j->chunk;
        if (!j->chunk) continue;
        w->members++;
        if (j->computed + j->chunk > w->context_max) w->context_max = j->computed + j->chunk;
        if (j->produced) predict_work_decode(w, j->computed);
        else predict_work_prompt(w, j->computed, j->chunk);
        w->outputs += j->produced || j->chunk == sim_needs(st, j);
    }
    if (cells > st->out->cells_max) st->out->cells_max = cells;
}

static void sim_watch(const struct sim_state *st, const struct predict_work *w, double seconds)
{
    const struct predict_hull *hull = &st->s->hull, *far = &st->s->far;
    struct predict_outcome *out = st->out;
    const uint32_t decode = (uint32_t)w->decode, tokens = (uint32_t)(w->decode + w->prompt);
    if (decode > hull->decode) out->decode_out_s += seconds;
    if (decode > far->decode) out->decode_far_s += seconds;
    if (tokens > hull->tokens) out->tokens_out_s += seconds;
    if (tokens > far->tokens) out->tokens_far_s += seconds;
    if (w->context_max > hull->context) out->context_out_s += seconds;
    if (w->context_max > far->context) out->context_far_s += seconds;
    if (decode > out->decode_max) out->decode_max = decode;
    if (tokens > out->tokens_max) out->tokens_max = tokens;
    if (w->context_max > out->context_max) out->context_max = w->context_max;
}

static void sim_token(struct sim_state *st, struct sim_running *j, double at_s)
{
    const struct predict_sim_request *r = &st->s->requests[j->request];
    struct predict_outcome *out = st->out;
    const int counts = j->request >= st->s->from;
    if (counts && j->produced) predict_hist_add(&out->itl, at_s - j->last_s);
    else if (counts) predict_hist_add(&out->ttft, at_s - st->arrived_s[j->request]);
    j->produced++;
    j->last_s = at_s;
    out->tokens_out++;
    if (j->produced < r->tokens_out) return;
    if (counts) predict_hist_add(&out->e2e, at_s - st->arrived_s[j->request]);
    out->end_s = at_s;
    st->done++;
    if (st->arrivals < st->s->count) sim_arrive(st, at_s + st->s->think_s);
    if (st->done == st->tenth) st->tenth_s = at_s;
    if (st->done == st->last_tenth && st->last_tenth > st->tenth) {
        out->middle_rate = (st->last_tenth - st->tenth) / (at_s - st->tenth_s);
    }
}

/* Tokens come out one after the other in the gap; those that are complete leave. */
static void sim_deliver(struct sim_state *st, const struct predict_work *w, double end_s,
                        double gap_s)
{
    uint32_t kept = 0, rank = 0;
    for (uint32_t i = 0; i < st->running_count; i++) {
        struct sim_running j = st->running[i];
        const struct predict_sim_request *r = &st->s->requests[j.request];
        const int output = j.chunk && (j.produced || j.chunk == sim_needs(st, &j));
        j.computed += j.chunk;
        if (output) sim_token(st, &j, end_s + gap_s * ++rank / w->outputs);
        if (j.produced < r->tokens_out) st->running[kept++] = j;
    }
    st->running_count = kept;
}

static void sim_step(struct sim_state *st)
{
    struct predict_work w;
    double x[PREDICT_FEATURES_MAX];
    sim_share(st);
    sim_work(st, &w);
    predict_features_of(st->s->features, &w, x);
    const double step_s = st->s->cost_ratio * predict_draws_cost(st->s->step, x, st->rng);
    const double outputs[2] = { 1, w.outputs };
    const double gap_s =
        st->s->cost_ratio * predict_draws_cost(st->s->gap, outputs, st->rng);
    sim_watch(st, &w, step_s);
    sim_deliver(st, &w, st->now_s + step_s, gap_s);
    st->out->step_s += step_s;
    st->out->busy_s += step_s + gap_s;
    st->out->decode_s += w.decode * step_s;
    st->out->steps++;
    st->now_s += step_s + gap_s;
}

int predict_simulate(const struct predict_sim *s, struct predict_rng *rng,
                     struct predict_outcome *out)
{
    assert(s->slots && s->batch_tokens && s->cost_ratio > 0);
    struct sim_state st = { .s = s, .rng = rng, .out = out };
    const uint32_t room = s->slots < s->count ? s->slots : s->count;
    memset(out, 0, sizeof(*out));
    out->middle_rate = NAN;
    if (!s->count) return 0;
    st.running = sonde__calloc(room, sizeof(*st.running));
    st.arrived_s = sonde__calloc(s->count, sizeof(*st.arrived_s));
    st.ready_s = sonde__calloc(s->count, sizeof(*st.ready_s));
    const int rc = st.running && st.arrived_s && st.ready_s ? 0 : SONDE_ENOMEM;
    if (!rc) {
        st.tenth = s->count / 10 + 1;
        st.last_tenth = s->count - s->count / 10;
        st.now_s = s->requests[0].arrived_s;
        const int closed = s->concurrency && s->concurrency < s->count;
        const uint32_t known = closed ? s->concurrency : s->count;
        while (st.arrivals < known) sim_arrive(&st, s->requests[st.arrivals].arrived_s);
        while (st.next < s->count || st.running_count) {
            sim_take_in(&st);
            sim_step(&st);
        }
    }
    sonde__free(st.running);
    sonde__free(st.arrived_s);
    sonde__free(st.ready_s);
    return rc;
}
