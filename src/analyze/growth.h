/* growth.h - does memory in use leak? The amounts over time of each place get a verdict by a test
 * of slopes, so that noise is not called growth and a cache that fills is not called a leak. */
#ifndef SONDE_ANALYZE_GROWTH_H
#define SONDE_ANALYZE_GROWTH_H

#include "profile/heap.h"
#include "profile/profile.h"

struct sonde_growth {
    enum sonde_heap_verdict verdict;
    double slope, slope_low, slope_high; /* a second, over the last half; 95 % */
};

/* One series, of values tick_s seconds apart, from skip ticks on (warm-up). noise: standard
 * deviation of one value (of a sampled estimate), 0 = exact. Fewer than 16 points or 5 seconds:
 * unknown. */
void sonde_growth_judge(const struct sonde_curve *s, double tick_s, uint32_t skip, double noise,
                        struct sonde_growth *out);

/* Where warm-up ends in the curve of all memory in use: the earliest tick after which it grows no
 * faster than it does at the end; UINT32_MAX = it has not ended yet. */
uint32_t sonde_growth_warm_up(const struct sonde_curve *total);

/* All of a heap profile: the mark if there was none, each site's verdict, slope and growth, and the
 * samples of kind LEAKED:
 *   the process has ended    what is still in use; after a scan only what nothing points to
 *   it was marked            what has been added since the mark and is still in use
 *   otherwise                the same since the end of warm-up (where there was none to be found,
 *                            since the start), of sites whose verdict is leak
 * Again for the same profile: replaces what it said before. 0 or SONDE_ENOMEM. */
int sonde_growth_judge_profile(struct sonde_profile *p);

#endif
