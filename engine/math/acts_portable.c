/* acts_portable.c - floats to what weights are multiplied with (acts.h), one number at a time.
 *
 * The roundings are those of ggml's x86 code: multiply by 127/max (not divide by the scale), round
 * to the nearest, ties to even; the scale of a block of 32 is kept as f16. */
#include <math.h>
#include <string.h>

#include "math/acts.h"
#include "math/kernel_variants.h"

/* Not-a-number becomes −127 rather than undefined behaviour: a broken model gives broken text. */
static int8_t acts_round(float v)
{
    if (!(v > -127.0f)) return -127;
    return v > 127.0f ? 127 : (int8_t)lrintf(v);
}

static int32_t acts_quantize(const float *x, uint32_t n, float by, int8_t *q)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        q[i] = acts_round(x[i] * by);
        sum += q[i];
    }
    return sum;
}

/* The number of the largest magnitude, the first of equals. */
static float acts_extreme(const float *x, uint32_t n)
{
    float most = 0, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            at = x[i];
        }
    }
    return at;
}

static void acts_block_32(const float *x, int8_t *q, float *d, int32_t *sum)
{
    const float most = fabsf(acts_extreme(x, 32));
    *d = weight_f16_to_float(weight_f16_from_float(most / 127.0f));
    *sum = acts_quantize(x, 32, most != 0 ? 127.0f / most : 0, q);
}

/* Scaled by the extreme with its sign, to −127: ggml's Q8_K. */
static void acts_block_256(const float *x, int8_t *q, float *d, int32_t *sum)
{
    const float extreme = acts_extreme(x, 256);
    if (extreme == 0) {
        memset(q, 0, 256);
        *d = 0;
        *sum = 0;
        return;
    }
    const float by = -127.0f / extreme;
    *sum = acts_quantize(x, 256, by, q);
    *d = 1 / by;
}

void acts_from_floats_portable(enum weight_type type, const float *x, uint32_t cols, void *out)
{
    float *floats = out;
    if (type == WEIGHT_F32) {
        memcpy(floats, x, (size_t)cols * sizeof(*x));
    } else if (type == WEIGHT_F16) {
        for (uint32_t i = 0; i < cols; i++) {
            floats[i] = weight_f16_to_float(weight_f16_from_float(x[i]));
        }
    } else {
        const struct acts a = acts_of(type, cols, out);
        for (uint32_t b = 0; b < a.blocks; b++) {
            const uint32_t at = b * a.block;
            if (type == WEIGHT_TQ2_0) {
                acts_block_256(x + at, a.q + at, &a.d[b], &a.sum[b]);
            } else if (type == WEIGHT_I2_S) { /* BitNet's floor, so that zeros can be divided by */
                a.d[b] = 127.0f / fmaxf(fabsf(acts_extreme(x, cols)), 1e-5f);
                a.sum[b] = acts_quantize(x, cols, a.d[b], a.q);
            } else {
                acts_block_32(x + at, a.q + at, &a.d[b], &a.sum[b]);
            }
        }
    }
}
