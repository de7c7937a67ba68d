/* curve.h - an amount over time, in a few bytes: when it is full, neighbours are joined, so memory
 * is bounded, the whole time is covered and every point stands for the same length of time. */
#ifndef SONDE_PROFILE_CURVE_H
#define SONDE_PROFILE_CURVE_H

#include <stdint.h>

#define SONDE_CURVE_POINTS 64u          /* even */

struct sonde_curve {
    float value[SONDE_CURVE_POINTS];    /* mean over each point's ticks */
    uint32_t count;                      /* points that are complete */
    uint32_t per_point;                  /* ticks that make one: a power of two; 0 = as 1 */
    uint32_t pending;                    /* ticks in the point that is not complete */
    uint32_t first;                      /* tick number of the first value */
    double pending_sum;
};

/* All zero is an empty series. */
void sonde_curve_add(struct sonde_curve *s, double value);

/* A tick becomes twice as long: ticks 2n and 2n + 1 are tick n from now on. Only while points are
 * single ticks (per_point 0 or 1). */
void sonde_curve_coarsen(struct sonde_curve *s);

/* Add add's values to s's, tick by tick; before its first and behind its last one a series is 0.
 * The points are as long as the longer ones of the two, or longer. */
void sonde_curve_sum(struct sonde_curve *s, const struct sonde_curve *add);

#endif
