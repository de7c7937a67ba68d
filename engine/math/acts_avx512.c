/* acts_avx512.c - floats to what weights are multiplied with, 16 at a time. */
#include "math/kernel_variants.h"
#include "math/lanes_avx512.h"

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

#include "math/acts_lanes.h"

void acts_from_floats_avx512(enum weight_type type, const float *x, uint32_t cols, void *out)
{
    acts_from_floats(type, x, cols, out);
}
