/* kernel_avx512.c - the variant for CPUs with AVX-512 (F, BW, VL, DQ, VNNI). */
#include <math.h>

#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/lanes_avx512.h"

static int usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

static void multiply(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                     uint32_t count, float *out, size_t out_stride)
{
    if (w->type == WEIGHT_F32 || w->type == WEIGHT_F16) {
        matmul_float_avx512(w, begin, end, acts, count, out, out_stride);
    } else {
        matmul_int_avx512(w, begin, end, acts, count, out, out_stride);
    }
}

/* The lanes that are there at i of n. */
LANES_INLINE __mmask16 mask_at(uint32_t i, uint32_t n) { return lanes_first(n - i < 16 ? n - i : 16); }

/* e^x = 2^n · e^r with n = round(x / ln 2) and |r| ≤ ln 2 / 2; ln 2 in two parts so that r is exact,
 * e^r by a polynomial (Cephes'). Off by less than 2 units in the last place; infinity above 88.7, 0
 * below −103.9, and what is not a number stays so. */
LANES_INLINE __m512 lanes_exp(__m512 x)
{
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-105.0f), x));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)), 0);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    return _mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
}

LANES_INLINE __m512d add_as_double(__m512d sum, __m512 v)
{
    sum = _mm512_add_pd(sum, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
    return _mm512_add_pd(sum, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}

static void rms_norm(const float *x, const float *gain, uint32_t n, float epsilon, float *out)
{
    __m512d sums = _mm512_setzero_pd();
    for (uint32_t i = 0; i < n; i += 16) {
        const __m512 v = _mm512_maskz_loadu_ps(mask_at(i, n), x + i);
        sums = add_as_double(sums, _mm512_mul_ps(v, v));
    }
    const float by = 1.0f / sqrtf((float)(lanes_sum_double(sums) / n) + epsilon);
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] * by * gain[i];
}

static void add(float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] += y[i];
}

static void scale(float *x, float by, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] *= by;
}

static void silu_mul(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = mask_at(i, n);
        const __m512 g = _mm512_maskz_loadu_ps(mask, gate + i), u = _mm512_maskz_loadu_ps(mask, up + i);
        const __m512 e = lanes_exp(_mm512_sub_ps(_mm512_setzero_ps(), g));
        const __m512 silu = _mm512_div_ps(g, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
        _mm512_mask_storeu_ps(gate + i, mask, _mm512_mul_ps(silu, u));
    }
}

static void relu2_mul(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const float v = gate[i] > 0 ? gate[i] : 0;
        gate[i] = v * v * up[i];
    }
}

static void f16_from_floats(const float *x, uint32_t n, uint16_t *out)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = mask_at(i, n);
        const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        _mm256_mask_storeu_epi16(out + i, mask, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
}

static void softmax(float *x, uint32_t n)
{
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = mask_at(i, n);
        most = _mm512_mask_max_ps(most, mask, most, _mm512_maskz_loadu_ps(mask, x + i));
    }
    most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    __m512d sums = _mm512_setzero_pd();
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = mask_at(i, n);
        const __m512 e = lanes_exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), most));
        _mm512_mask_storeu_ps(x + i, mask, e);
        sums = add_as_double(sums, _mm512_maskz_mov_ps(mask, e));
    }
    scale(x, (float)(1 / lanes_sum_double(sums)), n);
}

/* ---- Attention --------------------------------------------------------------------------------- */

/* q times 4 or 1 keys: each has its own sums, which are added up in the same order either way. */
LANES_INLINE void keys_dot(const uint16_t *q, const uint16_t *keys, uint32_t n, int count, float out[4])
{
    __m512 sum[4];
    for (int k = 0; k < count; k++) sum[k] = _mm512_setzero_ps();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512 v = lanes_from_f16(q + i);
        for (int k = 0; k < count; k++) {
            sum[k] = _mm512_fmadd_ps(v, lanes_from_f16(keys + (size_t)k * n + i), sum[k]);
        }
    }
    if (i < n) {
        const __mmask16 mask = lanes_first(n - i);
        const __m512 v = lanes_from_f16_first(q + i, mask);
        for (int k = 0; k < count; k++) {
            const __m512 key = lanes_from_f16_first(keys + (size_t)k * n + i, mask);
            sum[k] = _mm512_fmadd_ps(v, key, sum[k]);
        }
    }
    for (int k = 0; k < count; k++) out[k] = lanes_sum(sum[k]);
}

static float dot_f16(const uint16_t *a, const uint16_t *b, uint32_t n)
{
    float dot[4];
    keys_dot(a, b, n, 1, dot);
    return dot[0];
}

static void scores_f16(const uint16_t *q, const uint16_t *keys, uint32_t positions, uint32_t head_dim,
                       float by, float *out)
{
    uint32_t i = 0;
    float dot[4];
    for (; i + 4 <= positions; i += 4) {
        keys_dot(q, keys + (size_t)i * head_dim, head_dim, 4, dot);
        for (uint32_t k = 0; k < 4; k++) out[i + k] = dot[k] * by;
    }
    for (; i < positions; i++) out[i] = dot_f16(q, keys + (size_t)i * head_dim, head_dim) * by;
}

static void add_f16(float *acc, const uint16_t *v, float by, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 mask = mask_at(i, n);
        const __m512 sum = _mm512_fmadd_ps(lanes_from_f16_first(v + i, mask), _mm512_set1_ps(by),
                                           _mm512_maskz_loadu_ps(mask, acc + i));
        _mm512_mask_storeu_ps(acc + i, mask, sum);
    }
}

static void weighted_sum_f16(const uint16_t *values, const float *weights, uint32_t positions,
                             uint32_t head_dim, float *acc)
{
    uint32_t at = 0;
    for (; at + 64 <= head_dim; at += 64) {
        __m512 sum[4];
        for (int k = 0; k < 4; k++) sum[k] = _mm512_loadu_ps(acc + at + 16 * k);
        for (uint32_t i = 0; i < positions; i++) {
            const uint16_t *v = values + (size_t)i * head_dim + at;
            const __m512 w = _mm512_set1_ps(weights[i]);
            for (int k = 0; k < 4; k++) sum[k] = _mm512_fmadd_ps(lanes_from_f16(v + 16 * k), w, sum[k]);
        }
        for (int k = 0; k < 4; k++) _mm512_storeu_ps(acc + at + 16 * k, sum[k]);
    }
    if (at == head_dim) return;
    for (uint32_t i = 0; i < positions; i++) {
        add_f16(acc + at, values + (size_t)i * head_dim + at, weights[i], head_dim - at);
    }
}

const struct kernel_ops kernel_avx512 = {
    .name = "avx512",
    .usable = usable,
    .acts_bytes = acts_row_bytes,
    .acts_from_floats = acts_from_floats_avx512,
    .matmul = multiply,
    .row_to_floats = weight_row_to_floats,
    .rms_norm = rms_norm,
    .add = add,
    .scale = scale,
    .silu_mul = silu_mul,
    .relu2_mul = relu2_mul,
    .f16_from_floats = f16_from_floats,
    .dot_f16 = dot_f16,
    .softmax = softmax,
    .add_f16 = add_f16,
    .scores_f16 = scores_f16,
    .weighted_sum_f16 = weighted_sum_f16,
};
