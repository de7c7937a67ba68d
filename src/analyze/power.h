/* power.h - how small a change can be seen with so many runs, and how many runs it takes to see one
 * of a given size.
 *
 * A figure is seen to have changed if its t is beyond the quantile that the level asks for. With
 * n0 runs before and n1 after, runs that spread by s, and a change of d, that happens with the
 * chance `power` if
 *
 *   d = (t(1 - level / 2, df) + t(power, df)) s sqrt(1 / n0 + 1 / n1),  df = n0 + n1 - 2
 *
 * s is that of both sides together: a small change of the mean leaves the spread about as it was,
 * and twice the runs know it better. The level of one of m figures that are looked at is that of
 * all by m, which is what the smallest p-value has to pass (Benjamini and Hochberg's step of rank
 * 1): a change that shows in several figures is found with fewer runs than this says. */
#ifndef SONDE_ANALYZE_POWER_H
#define SONDE_ANALYZE_POWER_H

#include <stddef.h>

#include "analyze/stats.h"

#define SONDE_POWER_DEFAULT 0.9
#define SONDE_POWER_MORE_MAX 1000u   /* runs beyond which nobody records */
#define SONDE_POWER_NEVER ((size_t)-1)

struct sonde_power {
    double before;      /* value that a change is relative to */
    double spread;      /* s, of single runs */
    size_t n[2];        /* runs there are */
};

/* Of estimates whose parts are n[0] and n[1] runs; a side of one run has borrowed its spread. The
 * spread is NaN where it is not known. */
struct sonde_power sonde_power_of(const struct sonde_estimate e[2], const size_t n[2]);

/* The smallest relative change that is seen with that chance if more[0] and more[1] runs were
 * added; NaN = not known. */
double sonde_power_smallest(const struct sonde_power *p, const size_t more[2], double level,
                            double chance);

/* How many runs more, after (each = 0) or on both sides, so that a relative change of that size is
 * seen. 0: there are enough. SONDE_POWER_NEVER: more than SONDE_POWER_MORE_MAX, or not known. */
size_t sonde_power_more(const struct sonde_power *p, double relative, double level, double chance,
                        int each);

#endif
