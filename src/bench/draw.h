/* draw.h - random numbers for what benchmarks make up: the same for the same seed on every machine.
 * splitmix64: one word of state, any of which is good; not for secrets. */
#ifndef SONDE_BENCH_DRAW_H
#define SONDE_BENCH_DRAW_H

#include <math.h>
#include <stdint.h>

#include "base/hash.h"

struct sonde_draw { uint64_t state; };

static inline uint64_t sonde_draw_u64(struct sonde_draw *d)
{
    return sonde_hash_u64(d->state += 0x9e3779b97f4a7c15ull);
}

static inline double sonde_draw_uniform(struct sonde_draw *d) /* in (0, 1) */
{
    return ((double)(sonde_draw_u64(d) >> 11) + 0.5) / 9007199254740992.0;
}

/* 0 … n - 1; n > 0. The upper half of a product: its bias, n / 2^64, does not matter here. */
static inline uint64_t sonde_draw_below(struct sonde_draw *d, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)sonde_draw_u64(d) * n) >> 64);
}

static inline double sonde_draw_normal(struct sonde_draw *d) /* Box and Muller */
{
    const double r = sqrt(-2 * log(sonde_draw_uniform(d)));
    return r * cos(6.283185307179586 * sonde_draw_uniform(d));
}

#endif
