/* acts.h - activations, converted to what weights are multiplied with.
 *
 *   F32, F16    float[cols]; for F16 each was rounded to f16 and back: the same numbers as f16, and
 *               no conversion in the inner loop
 *   the others  int8 q[cols] │ float d[blocks] │ int32 sum[blocks]    each part filled to 64 bytes
 *               block: 32 for Q8_0 and Q4_0, 256 for TQ2_0, the row for I2_S
 *               x = d·q (I2_S: x = q/d); sum = Σ q of the block, which makes up for weights that
 *               kernels use as unsigned bytes: Σ (w + k)·q = Σ w·q + k·Σ q
 *
 * Not as llama.cpp has it in memory (a scale before every 32 numbers): here numbers are aligned. */
#ifndef ENGINE_MATH_ACTS_H
#define ENGINE_MATH_ACTS_H

#include <stddef.h>
#include <stdint.h>

#include "file/weight.h"

/* Numbers that share a scale; 0: floats. */
static inline uint32_t acts_block(enum weight_type type, uint32_t cols)
{
    switch (type) {
    case WEIGHT_Q8_0:
    case WEIGHT_Q4_0: return 32;
    case WEIGHT_TQ2_0: return 256;
    case WEIGHT_I2_S: return cols;
    default: return 0;
    }
}

/* Whether both types are multiplied with the same activations. */
static inline int acts_same(enum weight_type a, enum weight_type b)
{
    return a == b || (acts_block(a, 0) == 32 && acts_block(b, 0) == 32);
}

static inline size_t acts_up64(size_t n) { return (n + 63) & ~(size_t)63; }

static inline size_t acts_row_bytes(enum weight_type type, uint32_t cols)
{
    const uint32_t block = acts_block(type, cols);
    if (!block) return acts_up64((size_t)cols * sizeof(float));
    return acts_up64(cols) + 2 * acts_up64((size_t)cols / block * 4);
}

struct acts {
    int8_t *q;
    float *d;
    int32_t *sum;
    uint32_t block, blocks;
};

static inline struct acts acts_of(enum weight_type type, uint32_t cols, const void *row)
{
    const uint32_t block = acts_block(type, cols), blocks = cols / block;
    char *at = (char *)(uintptr_t)row;
    float *d = (float *)(void *)(at + acts_up64(cols));
    int32_t *sum = (int32_t *)(void *)((char *)d + acts_up64((size_t)blocks * 4));
    return (struct acts){ (int8_t *)at, d, sum, block, blocks };
}

#endif
