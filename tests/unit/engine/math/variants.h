/* variants.h - for tests of math/: every variant that is usable here, and numbers that are the same
 * on every run. */
#ifndef TESTS_ENGINE_MATH_VARIANTS_H
#define TESTS_ENGINE_MATH_VARIANTS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "math/kernel.h"

#define EACH_VARIANT(ops)                                                                         \
    for (const struct kernel_ops *const *each = kernel_all(), *ops; (ops = *each) != NULL; each++)\
        if (ops->usable())

static uint64_t numbers_state = 1;

static inline uint32_t number_next(void) /* splitmix64 */
{
    uint64_t z = numbers_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* −1 to 1, with an outlier here and there as activations have them. */
static inline float number_float(void)
{
    const float v = (float)(int32_t)number_next() * 0x1p-31f;
    return number_next() % 97 ? v : 20 * v;
}

static inline void numbers_fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = number_float();
}

static inline void *numbers_room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    if (!p) abort();
    return p;
}

#endif
