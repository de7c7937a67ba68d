/* stats.h - from figures of parts of a run (sub-windows, or whole runs) to an estimate with its
 * standard error, and from two of those to a difference with a 95 % interval. Pure arithmetic.
 *
 * Samples and requests that follow each other are alike: a slow second is slow for all of them. So
 * what counts as one observation is never a sample or a request, but a part of the run:
 *
 *   ratio     R = sum y / sum x over the parts (CPU by requests, requests by seconds, a function's
 *             weight by all). Its variance is that of d = y - R x from part to part (the ratio
 *             estimator of sample surveys), n - 1 degrees of freedom. Neighbours that are still
 *             alike raise it by (1 + r) / (1 - r), r their correlation, less its bias.
 *   quantile  The share F of values up to the quantile is such a ratio; the bounds of F, looked up
 *             among the values, are those of the quantile (Woodruff 1952). No bootstrap, so nothing
 *             is random, and the error may be larger upwards than downwards, as it is for a p99.
 *   change    Welch's t with Satterthwaite's degrees of freedom; arms that differ are combined by
 *             MOVER (Zou and Donner 2008), and for the relative change by MOVER-R, which with equal
 *             arms is Fieller's interval. So the interval of the change leaves out 0 just when that
 *             of the relative change does.
 */
#ifndef SONDE_ANALYZE_STATS_H
#define SONDE_ANALYZE_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Student's t; df may be INFINITY. p is two-sided: of |T| >= |t|. The quantile is that of which
 * P(T <= result) = q, 0 < q < 1. */
double sonde_t_p(double t, double df);
double sonde_t_quantile(double q, double df);

/* p-values become those of Benjamini and Hochberg (1995): calling everything at or below a level a
 * change makes at most that share of such calls wrong, and where nothing has changed, makes any
 * such call in at most that share of comparisons. NaN stays and does not count. 0 or
 * SONDE_ENOMEM. */
int sonde_stats_adjust(double *p, size_t count);

struct sonde_estimate {
    double value;             /* not negative; NaN = there is none */
    double se_low, se_high;   /* standard error downwards and upwards; INFINITY = not known */
    double df;
};

/* Of n parts; run: which run each is of, neighbours of the same follow each other. variance_min:
 * what the variance of R cannot be below (of sampling). */
struct sonde_estimate sonde_estimate_ratio(const double *y, const double *x, const uint32_t *run,
                                           size_t n, double variance_min);

/* Of n whole runs that were recorded one after the other, in that order. A machine that is slow for
 * one of them is often slow for the next (on a shared machine r was 0.2 for CPU time and 0.7 for
 * wall time), and then the mean of a few neighbours is off by more than their spread says, and
 * their spread is too small as well:
 *
 *   f = 1 + 2 sum (1 - k / n) r^k          n var(mean) / variance of a run, where neighbours are
 *   E s^2 = variance (1 - (f - 1) / (n - 1))                                 alike by r (AR(1))
 *
 * Five runs know little of r. So it is what they say, less its bias, together with what is expected
 * before they are looked at: SONDE_RUNS_LIKENESS, as if SONDE_RUNS_LIKENESS_PAIRS pairs of
 * neighbours had said so. In simulations of two sets of 5 and 16 that follow each other, that calls
 * equal ones different at the 5 % level in 2 % (r = 0), 4 % (0.2), 6 % (0.4) and 12 % (0.7) of
 * comparisons, instead of 5, 11, 20 and 40 %. */
#define SONDE_RUNS_LIKENESS 0.3
#define SONDE_RUNS_LIKENESS_PAIRS 8
struct sonde_estimate sonde_estimate_runs(const double *y, const double *x, size_t n,
                                          double variance_min);

struct sonde_observed { double value; uint32_t part; };

/* Of v, sorted by value (sonde_observed_sort), which are of n parts. work: 2 n doubles. */
struct sonde_estimate sonde_estimate_quantile(const struct sonde_observed *v,
                                              size_t count, double q,
                                              const uint32_t *run, size_t n, double *work);
void sonde_observed_sort(struct sonde_observed *v, size_t count);

/* Of the value of a single part, about which nothing is known but what n >= 2 other parts, of which
 * `from` is the estimate, say of how much parts differ. The degrees of freedom are such that a
 * comparison of the two has the n - 1 of the one spread that both rest on. */
struct sonde_estimate sonde_estimate_lend(double value, const struct sonde_estimate *from,
                                          size_t n);

struct sonde_difference {
    double change, low, high;               /* after - before; NaN, or infinite: not known */
    double relative, relative_low, relative_high; /* of before: 0.1 = 10 % more; NaN alike */
    double p;                               /* two-sided; NaN = cannot be judged */
};
struct sonde_difference sonde_estimate_compare(const struct sonde_estimate *before,
                                               const struct sonde_estimate *after);

#endif
