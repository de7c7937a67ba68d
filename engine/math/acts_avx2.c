/* acts_avx2.c - floats to what weights are multiplied with, 8 at a time. */
#include "math/kernel_variants.h"
#include "math/lanes_avx2.h"

LANES_INLINE __m256i quantize_8(const float *x, float by)
{
    const __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), _mm256_set1_ps(by)));
    return _mm256_min_epi32(_mm256_max_epi32(v, _mm256_set1_epi32(-127)), _mm256_set1_epi32(127));
}

LANES_INLINE int32_t quantize(const float *x, uint32_t n, float by, int8_t *q)
{
    __m256i sums = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n; i += 32) {
        const __m256i a = quantize_8(x + i, by), b = quantize_8(x + i + 8, by);
        const __m256i c = quantize_8(x + i + 16, by), d = quantize_8(x + i + 24, by);
        const __m256i ab = _mm256_add_epi32(a, b), cd = _mm256_add_epi32(c, d);
        sums = _mm256_add_epi32(sums, _mm256_add_epi32(ab, cd));
        /* Packing works in halves: put the quarters back in order. */
        const __m256i low = _mm256_packs_epi32(a, b), high = _mm256_packs_epi32(c, d);
        const __m256i bytes = _mm256_packs_epi16(low, high);
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256((__m256i *)(void *)(q + i), _mm256_permutevar8x32_epi32(bytes, order));
    }
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

#include "math/acts_lanes.h"

void acts_from_floats_avx2(enum weight_type type, const float *x, uint32_t cols, void *out)
{
    acts_from_floats(type, x, cols, out);
}
