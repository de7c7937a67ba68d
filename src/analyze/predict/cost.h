/* cost.h - what something costs as a sum of what it has to do, and how much it varies.
 *
 *   seconds = sum over features of coefficient × count,   all coefficients ≥ 0
 *
 * A count is a quantity, or the part of it between two bounds: with (0, 64] and (64, ∞) of tokens a
 * token costs one thing in small batches and another in large ones, as where weights are read once
 * for many tokens.
 *
 * Least squares of relative errors, since a step of 200 ms is off by more milliseconds than one of
 * 2 ms; outliers count less (Huber), so that a page fault does not become a coefficient. What the
 * sum leaves unexplained is not thrown away: every draw is multiplied by seen / fitted of an
 * observation of about the same cost. So means and tails are as seen, also where the sum is bent.
 *
 * For intervals the observations are cut into blocks of time; a replicate draws blocks with
 * replacement, solves anew (the normal equations of blocks add up, so that is a sum of small
 * matrices) and draws residuals from those blocks only. A machine that was slow for a while is thus
 * slow in some replicates, and not a little in all of them. */
#ifndef SONDE_ANALYZE_PREDICT_COST_H
#define SONDE_ANALYZE_PREDICT_COST_H

#include <stddef.h>
#include <stdint.h>

#define PREDICT_FEATURES_MAX 12u
#define PREDICT_BLOCKS 24u

struct predict_rng { uint64_t state; };

static inline uint64_t predict_rng_next(struct predict_rng *r)
{
    uint64_t x = (r->state += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* In (0, 1). */
static inline double predict_rng_uniform(struct predict_rng *r)
{
    return ((double)(predict_rng_next(r) >> 11) + 0.5) / 9007199254740992.0;
}

/* In 0 … n - 1; n > 0. */
static inline uint32_t predict_rng_below(struct predict_rng *r, uint32_t n)
{
    return (uint32_t)((predict_rng_next(r) >> 32) * n >> 32);
}

#define PREDICT_ROWS_MAX (1u << 17)  /* more than these say nothing new */

/* One observation: counts of features, and seconds. */
struct predict_row {
    double x[PREDICT_FEATURES_MAX];
    double seconds;
    double fitted;                   /* the next too: filled in by the fit */
    uint32_t block;
};

struct predict_cost {
    uint32_t features;
    double beta[PREDICT_FEATURES_MAX];
    double error_median;             /* of |seen / fitted - 1| */
    double loss;                     /* weighted sum of squared relative errors */
    double floor_s;                  /* no cost is below: half of the least that was seen */
    struct predict_row *rows;        /* owned; sorted by fitted */
    uint32_t count, blocks;
    double (*xtx)[PREDICT_FEATURES_MAX][PREDICT_FEATURES_MAX]; /* owned; by block, as the next */
    double (*xty)[PREDICT_FEATURES_MAX];
};

/* rows are in the order of time, at most PREDICT_ROWS_MAX, and copied. 0 or SONDE_ENOMEM; count may
 * be 0: it costs nothing then. */
int predict_cost_fit(const struct predict_row *rows, uint32_t count, uint32_t features,
                     struct predict_cost *out);
void predict_cost_release(struct predict_cost *c);

/* A cost as it is drawn in one replicate. */
struct predict_draws {
    uint32_t features, count, window;
    double place[PREDICT_FEATURES_MAX]; /* of the fit itself: where residuals are looked for */
    double beta[PREDICT_FEATURES_MAX];  /* of this replicate */
    double floor_s;
    double *fitted, *ratio;          /* owned; room for the rows of any replicate */
};

/* Room for replicates of c: 0 or SONDE_ENOMEM. */
int predict_draws_init(struct predict_draws *d, const struct predict_cost *c);
void predict_draws_release(struct predict_draws *d);
/* As fitted, or with rng != NULL of resampled blocks: which blocks is drawn from rng. */
void predict_draws_set(struct predict_draws *d, const struct predict_cost *c,
                       struct predict_rng *rng);
/* Seconds of one with these counts. */
double predict_draws_cost(const struct predict_draws *d, const double *x, struct predict_rng *rng);

#endif
