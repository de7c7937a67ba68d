/* math_hot.c - logarithm and exponential for sampling, without libm, which the program may not
 * have. */
#include <string.h>

#include "preload/heap/heap.h"

#include "base/hot_banned.h"

#define LN2 0.69314718055994530942
#define CERTAIN 45.0 /* exp(-this) is less than a double can take from 1 */

/* 1 - exp(-x), x >= 0. By halving until the series is short, then doubling: with e = 1 - exp(-y),
 * 1 - exp(-2y) = e (2 - e). Relative error below 1e-14, also where x is tiny. */
static double heap_chance(double x)
{
    int halved = 0;
    if (x >= CERTAIN) return 1;
    while (x > 1.0 / 16) {
        x /= 2;
        halved++;
    }
    double e = 0;
    for (int k = 10; k >= 1; k--) e = x / k * (1 - e);
    while (halved--) e *= 2 - e;
    return e;
}

/* -ln(u) for 0 < u <= 1: u = m 2^e with 1 <= m < 2, and ln m = 2 artanh((m - 1) / (m + 1)). */
static double minus_log(double u)
{
    uint64_t bits;
    memcpy(&bits, &u, sizeof(bits));
    const int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((1ull << 52) - 1)) | 1023ull << 52;
    double m;
    memcpy(&m, &bits, sizeof(m));
    const double z = (m - 1) / (m + 1), z2 = z * z;
    double sum = 0;
    for (int k = 31; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
    return -(exponent * LN2 + 2 * z * sum);
}

/* SplitMix64. */
uint64_t sonde__heap_seed(uint64_t seed, uint64_t thread)
{
    uint64_t z = seed + (thread + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (z ^ z >> 31) | 1;
}

uint64_t sonde__heap_draw(uint64_t *rng, uint64_t mean)
{
    SONDE_MUST(mean && *rng);
    uint64_t x = *rng;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *rng = x;
    const uint32_t theirs = sonde__arch_float_begin();
    const uint64_t random = sonde__arch_float_here(x * 0x2545f4914f6cdd1dull >> 11);
    const double u = (double)(random + 1) * 0x1p-53; /* (0, 1] */
    /* Rounded down: one less than rounded up. */
    const uint64_t n = sonde__arch_float_here(
        (uint64_t)(minus_log(u) * (double)sonde__arch_float_here(mean)));
    sonde__arch_float_end(theirs);
    return n;
}

static uint64_t heap_math_rounded(double v) { return sonde__arch_float_here((uint64_t)(v + 0.5)); }

struct sonde__heap_weight sonde__heap_weigh(uint64_t size, uint64_t mean)
{
    SONDE_MUST(mean);
    const uint32_t theirs = sonde__arch_float_begin();
    const double s = (double)sonde__arch_float_here(size);
    const double p = heap_chance((s + 1) / (double)sonde__arch_float_here(mean));
    const double var = (1 - p) / (p * p);
    const struct sonde__heap_weight w = { heap_math_rounded(65536 / p),
                                          p < 1 ? heap_math_rounded(s / p) : size,
                                          heap_math_rounded(var * s * s / 4096),
                                          heap_math_rounded(var) };
    sonde__arch_float_end(theirs);
    return w;
}
