/* usl.h - how throughput grows with the number of workers: Gunther's universal scalability law
 *
 *   X(N) = l N / (1 + s (N - 1) + k N (N - 1))
 *
 * l is the throughput of one, s (contention) the share of the work that only one can do at a time,
 * k (coherence) what every worker costs every other; with k > 0 there is a best number of workers,
 * sqrt((1 - s) / k), beyond which more of them do less.
 *
 * Fitted as what it is when turned around, a straight line in two variables:
 *
 *   N / X(N) = a + b (N - 1) + c N (N - 1)          l = 1 / a, s = b / a, k = c / a
 *
 * by least squares, weighted by the errors of the points, with b and c not below 0. Intervals are
 * of fits to points drawn anew around those measured, as far off as these may be (Student's t): a
 * formula for errors does not hold at the border that b and c may lie on. If the points lie farther
 * from the curve than their errors explain, these are raised by as much. Rejected: fitting X itself
 * step by step, which finds the same and may not converge. */
#ifndef SONDE_ANALYZE_USL_H
#define SONDE_ANALYZE_USL_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_USL_POINTS_MIN 3u
#define SONDE_USL_POINTS_MAX 64u

struct sonde_usl_point {
    double n;                /* workers, at least 1 */
    double throughput;       /* per second, more than 0 */
    double se;               /* its standard error; 0 or not finite = not known */
    double df;               /* of that */
};

struct sonde_usl_range { double value, low, high; }; /* 95 %; high may be infinite */

struct sonde_usl {
    struct sonde_usl_range single;      /* l */
    struct sonde_usl_range contention;  /* s */
    struct sonde_usl_range coherence;   /* k */
    struct sonde_usl_range best_n;      /* INFINITY = more is always more */
    double best_throughput;             /* there; where there is no best, l / s, the limit */
    double seen_n;                      /* the most workers of a point: beyond it is a guess */
    double r2;                          /* share of the points' variation that the curve has */
};

/* 0; SONDE_EINVAL: fewer than three different numbers of workers, or a point that cannot be. */
int sonde_usl_fit(const struct sonde_usl_point *points, size_t count, uint64_t seed,
                  struct sonde_usl *out);

/* X(N) of a fit. */
double sonde_usl_at(const struct sonde_usl *u, double n);

#endif
