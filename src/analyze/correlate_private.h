/* correlate_private.h - one series, made ready to be correlated with many. */
#ifndef SONDE_ANALYZE_CORRELATE_PRIVATE_H
#define SONDE_ANALYZE_CORRELATE_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* A series and what was made of it; arrays have `points` values, NaN where there is none. */
struct correlate_form {
    double *level;             /* its longest part without a gap */
    double *change;            /* first differences of that */
    double *fresh;             /* what an autoregressive model of itself does not predict, with its
                                  outliers drawn in */
    double *alike;             /* autocorrelations of fresh, what its model left, from lag 1 on */
    size_t alike_count;
    double tails;              /* excess kurtosis of fresh: 0 = as of a normal distribution */
    uint32_t order;            /* of that model */
    int drifts;                /* … which is of its differences */
    const char *problem;       /* why nothing can be said; NULL = it can */
    const char *problem_of_target; /* the same, of a target */
};

/* 0 or SONDE_ENOMEM. */
int correlate_form_init(struct correlate_form *f, const double *values, size_t points);
void correlate_form_release(struct correlate_form *f);

/* Pairs of x[i] and y[i + lag] of which both are known; i + lag within points. The number of pairs;
 * xs and ys have room for `points`. */
size_t correlate_pairs(const double *x, const double *y, size_t points, int lag, double *xs,
                       double *ys);

/* NaN if one of them does not vary. */
double correlate_pearson(const double *x, const double *y, size_t n);

/* v becomes its ranks, from 1; of equal values, the mean of theirs. 0 or SONDE_ENOMEM. */
int correlate_rank(double *v, size_t n);

/* How many independent observations n pairs are worth: n / (1 + 2 Σ (1 - k/n) ρx(k) ρy(k)), at
 * most n; NaN if one does not vary. */
double correlate_n_effective(const double *x, const double *y, size_t n);

#endif
