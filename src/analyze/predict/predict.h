/* predict.h - how an inference engine would fare at another rate, with other requests or slots:
 * from what was observed of it, on this host, to latencies, throughput and the knee.
 *
 *   observed requests, steps ─▶ fit ─▶ costs of a step, a gap, an intake
 *                                        │
 *   rate, mix, slots, batch ───────────▶ simulate the scheduler ─▶ figures with intervals
 *
 * A step is a forward pass. What it costs is a sum of what it has to do (cost.h), never a mean over
 * unlike steps: tokens of prompts, sequences that decode, cells of the KV cache that each attends
 * to. Residuals are drawn from steps of about the same cost, so the tail stays as it was seen.
 * Queueing, batching and chunks of prompts are not fitted but simulated, since they are what
 * changes with the load.
 *
 * Intervals are those of what a run of as many requests would show, 19 times of 20: every replicate
 * fits anew on resampled stretches of the recording, and draws other requests and arrivals.
 *
 * What was not seen is not guessed: an answer says which quantity left the range, and a rate at or
 * above the knee has no latencies. Pure and deterministic: the same observations, question and seed
 * give the same answer.
 *
 * Rejected: a queueing formula (no M/G/k has batches whose service depends on who is in them), and
 * factors for TTFT by load (they hold for one mix of requests). */
#ifndef SONDE_ANALYZE_PREDICT_PREDICT_H
#define SONDE_ANALYZE_PREDICT_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ---- What was observed ----------------------------------------------------------------------- */

#define SONDE_PREDICT_REQUESTS_MAX (1u << 20)
#define SONDE_PREDICT_STEPS_MAX (1u << 22)
#define SONDE_PREDICT_REQUESTS_MIN 30u   /* fewer say nothing of a P90 */
#define SONDE_PREDICT_STEPS_MIN 100u

struct sonde_predict_request {
    double arrived_s;            /* on any clock that steps are on too */
    double ttft_s, total_s;      /* as measured; ttft_s < 0: there was no token */
    uint32_t tokens_in, tokens_reused, tokens_out;
};

/* Of a step: tokens of one request. */
struct sonde_predict_part {
    uint32_t request;            /* index; UINT32_MAX = of one that is not known */
    uint32_t prompt, output;     /* tokens of its prompt; sequences that decode */
};

struct sonde_predict_step {
    double start_s, end_s;
    uint32_t part, part_count;   /* parts[part …] */
};

/* Who gets what is left of a batch after the tokens that decode. */
enum sonde_predict_share {
    SONDE_PREDICT_FIRST,         /* the oldest all that it needs, then the next: llama.cpp */
    SONDE_PREDICT_EVEN,          /* all the same: sonde-engine */
};

struct sonde_predict_observed {
    const struct sonde_predict_request *requests; /* by arrival; borrowed, as the next two */
    const struct sonde_predict_step *steps;       /* by start */
    const struct sonde_predict_part *parts;
    uint32_t request_count, step_count, part_count;
    uint32_t slots;              /* 0 = not known: found where requests waited for one */
    uint32_t batch_tokens;       /* most in a step; 0 = found where prompts were cut */
    uint64_t kv_cells;           /* 0 = not known */
    uint32_t concurrency;        /* a closed loop of so many requests at a time; 0 = find out */
    int share;                   /* enum sonde_predict_share; -1 = as it was seen, else FIRST */
};

/* ---- The model ------------------------------------------------------------------------------- */

struct sonde_predict_model;

/* Costs that a step consists of, in this order. Segments: see cost.h. */
struct sonde_predict_coefficient {
    const char *name;            /* "step", "prompt token", … static */
    double from;                 /* it counts what is above this many */
    double seconds;              /* each */
};
#define SONDE_PREDICT_COEFFICIENTS_MAX 12

/* What is known of the recording and of how well it is explained. */
struct sonde_predict_facts {
    uint32_t requests, steps;    /* used */
    uint32_t cold_steps;         /* left out at the beginning: they were slower than the rest */
    uint32_t unknown_steps;      /* left out: of requests that are not known whole */
    double seconds, rate;        /* first arrival to the last end; requests per second */
    double burstiness;           /* coefficient of variation of arrivals' gaps; 1 = Poisson */
    int closed_loop;             /* arrivals followed completions: the load was not open … */
    uint32_t concurrency;        /* … with so many requests at a time; 0 = it was … */
    double think_s;              /* … and from an end to the next arrival, mean */
    uint32_t slots;              /* 0 = not known */
    uint32_t batch_tokens;       /* 0 = not known, at least step_tokens_max */
    enum sonde_predict_share share;
    double tokens_in, tokens_reused, tokens_out; /* means */
    uint32_t decode_max;         /* sequences in a step that were seen … */
    uint32_t step_tokens_max, prompt_max, context_max; /* … and tokens */
    double error_median;         /* of a step's cost: median of |seen / fitted - 1| */
    double busy_ratio;           /* time in steps and gaps, of all */
    uint32_t coefficient_count;
    struct sonde_predict_coefficient coefficients[SONDE_PREDICT_COEFFICIENTS_MAX];
    double gap_s, gap_output_s;  /* between steps, and for every token that comes out */
    double intake_s, intake_token_s; /* arrival to the queue, and for every token of the prompt */
};

/* SONDE_EINVAL: too little, or what cannot be (err says which and what to record); SONDE_ENOMEM.
 * o is not needed afterwards. */
int sonde_predict_fit(const struct sonde_predict_observed *o, struct sonde_predict_model **out,
                      struct sonde_err *err);
void sonde_predict_destroy(struct sonde_predict_model *m); /* NULL is fine */
const struct sonde_predict_facts *sonde_predict_facts(const struct sonde_predict_model *m);

/* ---- Questions and answers ------------------------------------------------------------------- */

#define SONDE_PREDICT_FIGURES(X)                                                               \
    X(REQUESTS_PER_S, "requests_per_s")                                                        \
    X(TOKENS_PER_S, "output_tokens_per_s")                                                     \
    X(TTFT_P50, "ttft_p50_s") X(TTFT_P90, "ttft_p90_s") X(TTFT_P99, "ttft_p99_s")              \
    X(ITL_P50, "itl_p50_s") X(ITL_P90, "itl_p90_s") X(ITL_P99, "itl_p99_s")                    \
    X(E2E_P50, "e2e_p50_s") X(E2E_P90, "e2e_p90_s") X(E2E_P99, "e2e_p99_s")

enum sonde_predict_figure {
#define SONDE__X(id, name) SONDE_PREDICT_##id,
    SONDE_PREDICT_FIGURES(SONDE__X)
#undef SONDE__X
    SONDE_PREDICT_FIGURE_COUNT
};
const char *sonde_predict_figure_name(enum sonde_predict_figure f);

#define SONDE_PREDICT_LOAD_MAX 20000u

struct sonde_predict_value { double value, low, high; }; /* NaN = not known */

struct sonde_predict_ask {
    const struct sonde_predict_model *load; /* requests of this one, when they came, its first
                                    SONDE_PREDICT_LOAD_MAX; rate, ratios and requests are then not
                                    asked for. NULL = such as m has, at random. Borrowed */
    double rate;                 /* requests per second; 0 = as recorded */
    double prompt_ratio, output_ratio; /* 2 = twice as many tokens; 0 = as recorded */
    double speed;                /* 2 = all costs half as much, on a faster machine; 0 = as it is */
    uint32_t slots;              /* 0 = as recorded */
    uint32_t batch_tokens;       /* 0 = as recorded */
    uint32_t requests;           /* of a run that intervals are for; 0 = as many as recorded */
    uint32_t replicates;         /* 0 = 200 */
    int poisson;                 /* arrivals are Poisson, however they were */
    int knee_only;               /* leave out what depends on the rate */
    uint64_t seed;
};

/* Why there is no answer, or one to be read with care. */
enum sonde_predict_verdict {
    SONDE_PREDICT_OK,
    SONDE_PREDICT_STRETCHED,     /* somewhat outside of what was seen: `why` */
    SONDE_PREDICT_BEYOND_KNEE,   /* refused: the queue grows without bound */
    SONDE_PREDICT_UNSEEN,        /* refused: far outside of what was seen */
    SONDE_PREDICT_UNEXPLAINED,   /* refused: replayed, the recording comes out otherwise */
    SONDE_PREDICT_UNKNOWN,       /* refused: something that has to be known is not */
};

struct sonde_predict_answer {
    enum sonde_predict_verdict verdict;
    char why[512];               /* which quantity, what was seen, what to record; "" = nothing */
    double rate, speed;          /* what was asked for, resolved */
    uint32_t slots, batch_tokens, requests;
    double tokens_in, tokens_out; /* means of the requests simulated */
    struct sonde_predict_value knee; /* highest rate with a bounded queue; NaN = refused */
    struct sonde_predict_value figures[SONDE_PREDICT_FIGURE_COUNT]; /* NaN where refused */
    double busy_ratio;           /* of the time, and */
    double decoding;             /* sequences in a step, mean over time in steps */
};

/* 0 with a verdict, SONDE_EINVAL for a question that cannot be, or SONDE_ENOMEM. */
int sonde_predict_run(const struct sonde_predict_model *m, const struct sonde_predict_ask *ask,
                      struct sonde_predict_answer *out, struct sonde_err *err);

/* The same figures as measured: of the recording that m was fitted on, without its cold start.
 * low and high are the value. */
void sonde_predict_measured(const struct sonde_predict_model *m,
                            struct sonde_predict_value out[SONDE_PREDICT_FIGURE_COUNT]);
/* And as the model has them: its own arrivals and requests, replayed. Where they differ, no
 * prediction is to be trusted. */
void sonde_predict_replayed(const struct sonde_predict_model *m,
                            struct sonde_predict_value out[SONDE_PREDICT_FIGURE_COUNT]);

static inline int sonde_predict_refused(const struct sonde_predict_answer *a)
{
    return a->verdict >= SONDE_PREDICT_BEYOND_KNEE;
}

#endif
