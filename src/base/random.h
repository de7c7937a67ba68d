/* random.h - numbers that look random and are the same again from the same seed: for orders,
 * simulations and resampling, never for secrets. splitmix64: a counter whose steps are mixed, so
 * every seed is a good one, 0 too. */
#ifndef SONDE_BASE_RANDOM_H
#define SONDE_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

#include "base/hash.h"

static inline uint64_t sonde_random_u64(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15ull;
    return sonde_hash_u64(*seed);
}

/* 0 < result < 1 */
static inline double sonde_random_unit(uint64_t *seed)
{
    return ((double)(sonde_random_u64(seed) >> 12) + 0.5) * 0x1p-52;
}

/* 0 … count - 1; count is far below 2^52, so that the bias is none that could be seen. */
static inline uint64_t sonde_random_below(uint64_t *seed, uint64_t count)
{
    return (uint64_t)(sonde_random_unit(seed) * (double)count);
}

/* Standard normal, by Box and Muller. */
static inline double sonde_random_normal(uint64_t *seed)
{
    const double radius = sqrt(-2 * log(sonde_random_unit(seed)));
    return radius * cos(2 * 3.14159265358979323846 * sonde_random_unit(seed));
}

#endif
