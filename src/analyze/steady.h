/* steady.h - of a series of measurements in order of time: from where on it is steady, whether it
 * still moves then, and how many independent measurements it is worth. Pure arithmetic.
 *
 *   MSER-5    (White 1997) Means of five neighbours each; the cut is where what is left has the
 *             least standard error of its mean, sum (y - mean)^2 / n^2. Cuts in the last half are
 *             not looked at: a minimum at the end of what is looked at means that it never became
 *             steady. Nothing is cut that is like the rest.
 *   n_eff     n / (1 + 2 sum r_k), the autocorrelations added up in pairs while a pair is positive
 *             (Geyer 1992, initial positive sequence). Never more than n.
 *   trend     The mean of the last third against the first one, each with as many independent
 *             values as it is worth. A server that falls behind shows here.
 *
 * Rejected: CUSUM, which needs to be told how large a change matters. */
#ifndef SONDE_ANALYZE_STEADY_H
#define SONDE_ANALYZE_STEADY_H

#include <stddef.h>

#define SONDE_STEADY_BATCH 5u
#define SONDE_STEADY_MIN 20u   /* values below which nothing is said */

struct sonde_steady {
    size_t cut;      /* values to leave out at the beginning */
    int known;       /* there were enough values to say */
    int steady;      /* the cut is in the first half (known only) */
};

/* v: in order of time, finite. */
struct sonde_steady sonde_steady_find(const double *v, size_t count);

/* At least 1 if there is a value. */
double sonde_steady_effective(const double *v, size_t count);

struct sonde_drift {
    double first, last; /* means of the first and the last third */
    double p;           /* two-sided, of a difference at least as large by chance; NaN = unknown */
};
struct sonde_drift sonde_steady_trend(const double *v, size_t count);

#endif
