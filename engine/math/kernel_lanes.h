/* kernel_lanes.h - what a forward pass needs beside matrix products; the code of kernel_avx2.c and
 * kernel_avx512.c, which say before what a vector is (lanes_*.h). */
#include <math.h>

#include "math/kernel_loops.h"

/* How many numbers of n are in the vector that begins at i. */
LANES_INLINE uint32_t lanes_at(uint32_t i, uint32_t n) { return n - i < LANES ? n - i : LANES; }

/* e^x = 2^n · e^r with n = round(x / ln 2) and |r| ≤ ln 2 / 2; ln 2 in two parts so that r is
 * exact, e^r by a polynomial (Cephes'). Off by less than 2 units in the last place; infinity above
 * 88.7, 0 below −103.9, and what is not a number stays so. */
LANES_INLINE LANES_VEC lanes_exp(LANES_VEC x)
{
    x = lanes_min(lanes_set(89.0f), lanes_max(lanes_set(-105.0f), x));
    const LANES_VEC n = lanes_round(lanes_mul(x, lanes_set(0x1.715476p+0f)));
    LANES_VEC r = lanes_fma(n, lanes_set(-0.693359375f), x);
    r = lanes_fma(n, lanes_set(2.12194440e-4f), r);
    LANES_VEC p = lanes_set(1.9875691500e-4f);
    p = lanes_fma(p, r, lanes_set(1.3981999507e-3f));
    p = lanes_fma(p, r, lanes_set(8.3334519073e-3f));
    p = lanes_fma(p, r, lanes_set(4.1665795894e-2f));
    p = lanes_fma(p, r, lanes_set(1.6666665459e-1f));
    p = lanes_fma(p, r, lanes_set(5.0000001201e-1f));
    p = lanes_fma(p, lanes_mul(r, r), r);
    return lanes_times_power(lanes_add(p, lanes_set(1.0f)), n);
}

static void rms_norm(const float *x, const float *gain, uint32_t n, float epsilon, float *out)
{
    LANES_SUMS sums = lanes_sums_zero();
    for (uint32_t i = 0; i < n; i += LANES) {
        const LANES_VEC v = lanes_load_first(x + i, lanes_at(i, n));
        sums = lanes_sums_add(sums, lanes_mul(v, v));
    }
    const float by = 1.0f / sqrtf((float)(lanes_sums_all(sums) / n) + epsilon);
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] * by * gain[i];
}

static void silu_mul(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t k = lanes_at(i, n);
        const LANES_VEC g = lanes_load_first(gate + i, k);
        const LANES_VEC e = lanes_exp(lanes_sub(lanes_set(0), g));
        const LANES_VEC silu = lanes_div(g, lanes_add(lanes_set(1), e));
        lanes_store_first(gate + i, lanes_mul(silu, lanes_load_first(up + i, k)), k);
    }
}

static void f16_from_floats(const float *x, uint32_t n, uint16_t *out)
{
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t k = lanes_at(i, n);
        lanes_to_f16_first(out + i, lanes_load_first(x + i, k), k);
    }
}

static void softmax(float *x, uint32_t n)
{
    LANES_VEC all = lanes_set(-INFINITY);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) all = lanes_max(lanes_load(x + i), all);
    float most = lanes_largest(all);
    for (; i < n; i++) most = x[i] > most ? x[i] : most;

    LANES_SUMS sums = lanes_sums_zero();
    for (i = 0; i < n; i += LANES) {
        const uint32_t k = lanes_at(i, n);
        const LANES_VEC e = lanes_exp(lanes_sub(lanes_load_first(x + i, k), lanes_set(most)));
        lanes_store_first(x + i, e, k);
        sums = lanes_sums_add(sums, lanes_keep_first(e, k));
    }
    scale(x, (float)(1 / lanes_sums_all(sums)), n);
}

/* ---- Attention ------------------------------------------------------------------------------- */

LANES_INLINE void keys_step(const uint16_t *q, const uint16_t *keys, uint32_t n, uint32_t i,
                            uint32_t k, int count, LANES_VEC sum[])
{
    const LANES_VEC v = k == LANES ? lanes_from_f16(q + i) : lanes_from_f16_first(q + i, k);
    for (int j = 0; j < count; j++) {
        const uint16_t *key = keys + (size_t)j * n + i;
        const LANES_VEC w = k == LANES ? lanes_from_f16(key) : lanes_from_f16_first(key, k);
        sum[j] = lanes_fma(v, w, sum[j]);
    }
}

/* q times LANES_MANY keys or one: each has its own sums. */
LANES_INLINE void keys_multiply(const uint16_t *q, const uint16_t *keys, uint32_t n, int count,
                                LANES_VEC sum[])
{
    for (int j = 0; j < count; j++) sum[j] = lanes_set(0);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) keys_step(q, keys, n, i, LANES, count, sum);
    if (i < n) keys_step(q, keys, n, i, n - i, count, sum);
}

static float dot_f16(const uint16_t *a, const uint16_t *b, uint32_t n)
{
    LANES_VEC sum[1];
    keys_multiply(a, b, n, 1, sum);
    return lanes_sum(sum[0]);
}

static void scores_f16(const uint16_t *q, const uint16_t *keys, uint32_t positions,
                       uint32_t head_dim, float by, float *out)
{
    uint32_t i = 0;
    for (; i + LANES_MANY <= positions; i += LANES_MANY) {
        LANES_VEC sum[LANES_MANY];
        keys_multiply(q, keys + (size_t)i * head_dim, head_dim, LANES_MANY, sum);
        lanes_sum_many(sum, by, out + i);
    }
    for (; i < positions; i++) out[i] = dot_f16(q, keys + (size_t)i * head_dim, head_dim) * by;
}

static void add_f16(float *acc, const uint16_t *v, float by, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t k = lanes_at(i, n);
        const LANES_VEC sum = lanes_load_first(acc + i, k), x = lanes_from_f16_first(v + i, k);
        lanes_store_first(acc + i, lanes_fma(x, lanes_set(by), sum), k);
    }
}

/* In strips of 4 vectors, whose sums stay in registers while the positions pass. */
static void weighted_sum_f16(const uint16_t *values, const float *weights, uint32_t positions,
                             uint32_t head_dim, float *acc)
{
    uint32_t at = 0;
    for (; at + 4 * LANES <= head_dim; at += 4 * LANES) {
        LANES_VEC sum[4];
        for (int j = 0; j < 4; j++) sum[j] = lanes_load(acc + at + LANES * j);
        for (uint32_t i = 0; i < positions; i++) {
            const uint16_t *v = values + (size_t)i * head_dim + at;
            const LANES_VEC w = lanes_set(weights[i]);
            for (int j = 0; j < 4; j++) {
                sum[j] = lanes_fma(lanes_from_f16(v + LANES * j), w, sum[j]);
            }
        }
        for (int j = 0; j < 4; j++) lanes_store(acc + at + LANES * j, sum[j]);
    }
    if (at == head_dim) return;
    for (uint32_t i = 0; i < positions; i++) {
        add_f16(acc + at, values + (size_t)i * head_dim + at, weights[i], head_dim - at);
    }
}
