/* kernel_portable.c - the variant for any CPU, in plain C. */
#include <math.h>

#include "math/acts.h"
#include "math/kernel_loops.h"
#include "math/kernel_variants.h"

static int usable(void) { return 1; }

static void rms_norm(const float *x, const float *gain, uint32_t n, float epsilon, float *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)(x[i] * x[i]);
    const float by = 1.0f / sqrtf((float)(sum / n) + epsilon);
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] * by * gain[i];
}

static void silu_mul(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void f16_from_floats(const float *x, uint32_t n, uint16_t *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = weight_f16_from_float(x[i]);
}

static float dot_f16(const uint16_t *a, const uint16_t *b, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += weight_f16_to_float(a[i]) * weight_f16_to_float(b[i]);
    return sum;
}

static void softmax(float *x, uint32_t n)
{
    float most = -INFINITY;
    for (uint32_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - most);
        sum += (double)x[i];
    }
    scale(x, (float)(1 / sum), n);
}

static void add_f16(float *acc, const uint16_t *v, float by, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) acc[i] += weight_f16_to_float(v[i]) * by;
}

static void scores_f16(const uint16_t *q, const uint16_t *keys, uint32_t positions,
                       uint32_t head_dim, float by, float *out)
{
    for (uint32_t i = 0; i < positions; i++) {
        out[i] = dot_f16(q, keys + (size_t)i * head_dim, head_dim) * by;
    }
}

static void weighted_sum_f16(const uint16_t *values, const float *weights, uint32_t positions,
                             uint32_t head_dim, float *acc)
{
    for (uint32_t i = 0; i < positions; i++) {
        add_f16(acc, values + (size_t)i * head_dim, weights[i], head_dim);
    }
}

const struct kernel_ops kernel_portable = KERNEL_OPS(portable, matmul_portable);
