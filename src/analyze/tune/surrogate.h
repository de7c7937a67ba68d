/* surrogate.h - what a few trials say of all settings: a guess with its uncertainty for each point
 * of the grid, and for the difference of any two.
 *
 * The logarithm of the objective is taken for a Gaussian process: a sum of one function for each
 * knob, one for each pair of knobs, and a little of each point's own, all unknown:
 *
 *   log y(x, t) = e(x) + c + sum f_k(x_k) + sum f_kl(x_k, x_l) + g(x) + drift(t) + noise
 *
 *   cov         C + sum a_k + p sum_{k<l} a_k a_l / sqrt(w_k w_l) + r [x = x'] + d e^{-|t-t'|/4}
 *   a_k         w_k, times e^{-|places' distance|} where the knob is ordered, times [same level]
 *               where it is not
 *
 * e(x) is what is expected beforehand (space.h), known; the rest is what that leaves open. A wrong
 * expectation costs trials, no more: they outvote it.
 *
 * So a knob that hardly matters (w_k small) is found out after a few trials whatever the others
 * were set to, which is why a fraction of the grid is enough; and since trials near in time share
 * their drift, neighbours are compared as pairs would be. Weights, noise and drift are those under
 * which the trials were most likely (marginal likelihood, coordinate by coordinate over a few
 * steps each, with a weak prior).
 *
 * Rejected: climbing one knob after the other, which stays where two knobs have to be changed at
 * once (threads and slots do), and spends most trials on comparing neighbours that are alike. */
#ifndef SONDE_ANALYZE_TUNE_SURROGATE_H
#define SONDE_ANALYZE_TUNE_SURROGATE_H

#include "analyze/tune/space.h"

#define SONDE_TUNE_TRIALS_MAX 512u /* that are learnt from */

struct sonde_tune_seen {
    uint32_t point;
    uint32_t time;       /* which trial it was: neighbours share their drift */
    double y;            /* logarithm of the objective; once learnt, less what was expected */
};

struct sonde_tune_weights {
    double knob[SONDE_TUNE_KNOBS_MAX]; /* variances, of logarithms */
    double pair;         /* how strong pairs are, of the geometric mean of their knobs' */
    double own;          /* of each point's own */
    double drift, noise;
};

struct sonde_tune_surrogate {
    const struct sonde_tune_space *space; /* borrowed */
    struct sonde_tune_seen *seen;         /* owned */
    uint8_t (*levels)[SONDE_TUNE_KNOBS_MAX]; /* owned: of each that was seen */
    size_t count;
    double alike[SONDE_TUNE_KNOBS_MAX][SONDE_TUNE_LEVELS_MAX][SONDE_TUNE_LEVELS_MAX]; /* levels of
                                             a knob: 0 … 1 */
    double mean;                          /* of y, before anything is learnt */
    struct sonde_tune_weights weights;
    size_t weighed;                       /* trials that the weights are by */
    double *factor;                       /* owned: Cholesky's, lower triangle, rows of count */
    double *solved;                       /* owned: covariance^-1 (y - mean) */
};

/* What is known of a point. load: what covariances with it are made of, count numbers. */
struct sonde_tune_guess { double mean, variance; };

/* Learns from what was seen, which is copied. Zero *s before the first time; later the weights are
 * only found anew when there is an eighth more. 0, SONDE_ENOMEM; SONDE_EINVAL: nothing, or too
 * much, was seen. */
int sonde_tune_surrogate_learn(struct sonde_tune_surrogate *s, const struct sonde_tune_space *space,
                               const struct sonde_tune_seen *seen, size_t count);
void sonde_tune_surrogate_release(struct sonde_tune_surrogate *s);

/* load: count numbers to write to, NULL = not wanted. */
struct sonde_tune_guess sonde_tune_guess(const struct sonde_tune_surrogate *s, uint32_t point,
                                         double *load);
/* Of two points, by the loads of both. */
double sonde_tune_covariance(const struct sonde_tune_surrogate *s, uint32_t a, const double *load_a,
                             uint32_t b, const double *load_b);

/* log y(b) - log y(a). */
struct sonde_tune_guess sonde_tune_difference(const struct sonde_tune_surrogate *s, uint32_t a,
                                              uint32_t b);

#endif
