/* random.h - random numbers for tests, the same in every run. */
#ifndef SONDE_TESTS_RANDOM_H
#define SONDE_TESTS_RANDOM_H

#include <math.h>
#include <stdint.h>

static uint64_t random_state;

static inline double random_uniform(void) /* (0, 1) */
{
    uint64_t x = (random_state += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double random_normal(void)
{
    return sqrt(-2 * log(random_uniform())) * cos(6.283185307179586 * random_uniform());
}

#endif
