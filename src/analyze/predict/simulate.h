/* simulate.h - the scheduler of an engine with continuous batching, step by step.
 *
 *   arrived ─ intake ─▶ queue, first come first served ─▶ slots ─▶ step ─ gap ─▶ step …
 *
 * A step has a token of every answer that is under way, and of what is left of the batch chunks of
 * the prompts that are not computed yet. Whoever's prompt is complete gets a token in the gap after
 * the step, one after the other; whoever has all its tokens leaves its slot. Time is the model's
 * alone: nothing here reads a clock. */
#ifndef SONDE_ANALYZE_PREDICT_SIMULATE_H
#define SONDE_ANALYZE_PREDICT_SIMULATE_H

#include "analyze/predict/cost.h"
#include "analyze/predict/predict.h"

/* ---- What a step does ------------------------------------------------------------------------ */

struct predict_work {
    double prompt, decode;           /* tokens of prompts; sequences that decode */
    double prompt_cells, decode_cells; /* cells of the KV cache that they attend to */
    uint32_t outputs;                /* sequences that get a token */
    uint32_t members, context_max;
};

/* The prompt's tokens at … at + count - 1, or an answer's at. */
static inline void predict_work_prompt(struct predict_work *w, double at, double count)
{
    w->prompt += count;
    w->prompt_cells += count * at + count * (count + 1) / 2;
}

static inline void predict_work_decode(struct predict_work *w, double at)
{
    w->decode += 1;
    w->decode_cells += at + 1;
}

/* PREDICT_TOKENS are those of prompts and of answers together: the rows of a pass's matrices. */
enum predict_quantity { PREDICT_STEP, PREDICT_TOKENS, PREDICT_PROMPT, PREDICT_DECODE,
                        PREDICT_PROMPT_CELLS, PREDICT_DECODE_CELLS, PREDICT_QUANTITIES };

/* A feature: the part of a quantity that is above from and up to to. */
struct predict_feature { enum predict_quantity quantity; double from, to; };
struct predict_features { uint32_t count; struct predict_feature of[PREDICT_FEATURES_MAX]; };

void predict_features_of(const struct predict_features *f, const struct predict_work *w,
                         double *out);

/* ---- Distributions --------------------------------------------------------------------------- */

/* Buckets of 0.6 % from a tenth of a microsecond to a day: bounded, whatever is simulated. */
#define PREDICT_BUCKETS 4608u
struct predict_hist { uint64_t count; uint32_t bucket[PREDICT_BUCKETS]; };

void predict_hist_add(struct predict_hist *h, double seconds);
void predict_hist_merge(struct predict_hist *h, const struct predict_hist *from);
double predict_hist_quantile(const struct predict_hist *h, double q); /* NaN = empty */

/* ---- Runs ------------------------------------------------------------------------------------ */

struct predict_sim_request {
    double arrived_s;
    uint32_t tokens_in, tokens_reused, tokens_out; /* reused < in; out ≥ 1 */
};

/* What was seen; the shares of time outside of it are reported. 0 = not watched. */
struct predict_hull { uint32_t decode, tokens, context; };

struct predict_sim {
    const struct predict_features *features;
    const struct predict_draws *step, *gap, *intake;
    const struct predict_sim_request *requests; /* by arrival */
    uint32_t count;
    uint32_t slots, batch_tokens;    /* both > 0 */
    double cost_ratio;               /* 2 = all takes twice as long; > 0 */
    enum sonde_predict_share share;
    struct predict_hull hull, far;   /* seen; and how far it may be left */
    uint32_t from;                   /* latencies count from this request on */
    uint32_t concurrency;            /* closed loop: so many at a time; 0 = open */
    double think_s;                  /* in a closed loop the next one arrives when one has ended and
                                        this has passed, not at its arrived_s */
};

struct predict_outcome {
    struct predict_hist ttft, itl, e2e;
    double end_s;                    /* last token */
    double busy_s, step_s;           /* steps and gaps; steps */
    double decode_s;                 /* sequences that decode × time of the step */
    uint64_t tokens_out, steps;
    double middle_rate;              /* completions per second between 1/10 and 9/10 of them */
    /* Time in steps outside of the hull, and far outside, by quantity; the largest of each. */
    double decode_out_s, decode_far_s, tokens_out_s, tokens_far_s, context_out_s, context_far_s;
    uint32_t decode_max, tokens_max, context_max;
    uint64_t cells_max;              /* of the KV cache, at once */
};

/* 0 or SONDE_ENOMEM. out is large: not on the stack. */
int predict_simulate(const struct predict_sim *s, struct predict_rng *rng,
                     struct predict_outcome *out);

#endif
