/* acts_avx512.c - floats to what weights are multiplied with (acts.h), 16 at a time; the same numbers
 * as acts_portable.c has. */
#include <string.h>

#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/lanes_avx512.h"

/* The largest magnitude; what is not a number is passed over. n is a multiple of 16. */
LANES_INLINE float magnitude_max(const float *x, uint32_t n)
{
    __m512 most = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        most = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i)), most);
    }
    return _mm512_reduce_max_ps(most);
}

/* The first number of that magnitude. */
static float magnitude_find(const float *x, uint32_t n, float magnitude)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __m512 v = _mm512_abs_ps(_mm512_loadu_ps(x + i));
        const __mmask16 found = _mm512_cmp_ps_mask(v, _mm512_set1_ps(magnitude), _CMP_EQ_OQ);
        if (found) return x[i + (uint32_t)__builtin_ctz(found)];
    }
    return magnitude;
}

LANES_INLINE int32_t quantize(const float *x, uint32_t n, float by, int8_t *q)
{
    const __m512i low = _mm512_set1_epi32(-127), high = _mm512_set1_epi32(127);
    __m512i sums = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i += 16) {
        __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(by)));
        v = _mm512_min_epi32(_mm512_max_epi32(v, low), high);
        sums = _mm512_add_epi32(sums, v);
        _mm_storeu_si128((__m128i *)(void *)(q + i), _mm512_cvtepi32_epi8(v));
    }
    return _mm512_reduce_add_epi32(sums);
}

static void row_round_f16(const float *x, uint32_t cols, float *out)
{
    for (uint32_t i = 0; i < cols; i += 16) {
        const __mmask16 mask = lanes_first(cols - i < 16 ? cols - i : 16);
        const __m256i h = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm512_mask_storeu_ps(out + i, mask, _mm512_cvtph_ps(h));
    }
}

static void blocks_32(const float *x, const struct acts *a)
{
    for (uint32_t b = 0; b < a->blocks; b++, x += 32) {
        const float most = magnitude_max(x, 32);
        a->d[b] = _cvtsh_ss(_cvtss_sh(most / 127.0f, _MM_FROUND_TO_NEAREST_INT));
        a->sum[b] = quantize(x, 32, most != 0 ? 127.0f / most : 0, a->q + 32 * b);
    }
}

static void blocks_256(const float *x, const struct acts *a)
{
    for (uint32_t b = 0; b < a->blocks; b++, x += 256) {
        const float most = magnitude_max(x, 256);
        const float by = most != 0 ? -127.0f / magnitude_find(x, 256, most) : 0;
        a->sum[b] = quantize(x, 256, by, a->q + 256 * b);
        a->d[b] = most != 0 ? 1 / by : 0;
    }
}

void acts_from_floats_avx512(enum weight_type type, const float *x, uint32_t cols, void *out)
{
    if (type == WEIGHT_F32) {
        memcpy(out, x, (size_t)cols * sizeof(*x));
    } else if (type == WEIGHT_F16) {
        row_round_f16(x, cols, out);
    } else {
        const struct acts a = acts_of(type, cols, out);
        if (type == WEIGHT_TQ2_0) {
            blocks_256(x, &a);
        } else if (type == WEIGHT_I2_S) {
            const float most = magnitude_max(x, cols);
            a.d[0] = 127.0f / (most > 1e-5f ? most : 1e-5f);
            a.sum[0] = quantize(x, cols, a.d[0], a.q);
        } else {
            blocks_32(x, &a);
        }
    }
}
