/* random.h - numbers that look random and follow from a seed: the same on every machine, so that a
 * load can be sent again byte for byte. SplitMix64; every request has a stream of its own, made of
 * the seed and its number, so that what it holds does not depend on who was made before it. */
#ifndef SONDE_BENCH_HTTP_RANDOM_H
#define SONDE_BENCH_HTTP_RANDOM_H

#include <stdint.h>

#include "base/hash.h"

struct sonde_load_random { uint64_t state; };

static inline struct sonde_load_random sonde_load_random_of(uint64_t seed, uint64_t stream)
{
    return (struct sonde_load_random){ sonde_hash_u64(seed + SONDE_HASH_MUL) ^
                                       sonde_hash_u64(stream * SONDE_HASH_MUL + 1) };
}

static inline uint64_t sonde_load_random_u64(struct sonde_load_random *r)
{
    r->state += SONDE_HASH_MUL;
    return sonde_hash_u64(r->state);
}

/* In (0, 1): never either end, so that its logarithm is finite. */
static inline double sonde_load_random_unit(struct sonde_load_random *r)
{
    return ((double)(sonde_load_random_u64(r) >> 11) + 0.5) * 0x1p-53;
}

/* Below n > 0; the bias is n / 2^64. */
static inline uint32_t sonde_load_random_below(struct sonde_load_random *r, uint32_t n)
{
    return (uint32_t)(((__uint128_t)sonde_load_random_u64(r) * n) >> 64);
}

double sonde_load_random_normal(struct sonde_load_random *r);
/* Mean 1, variance 1 / shape; shape > 0. */
double sonde_load_random_gamma(struct sonde_load_random *r, double shape);

#endif
