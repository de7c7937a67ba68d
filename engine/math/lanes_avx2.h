/* lanes_avx2.h - vectors of 8 floats: the names of lanes_avx512.h. */
#ifndef ENGINE_MATH_LANES_AVX2_H
#define ENGINE_MATH_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define LANES_VEC __m256
#define LANES_SUMS __m256d
#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE __m256i lanes_mask(uint32_t n) /* the first n of 8 lanes; n ≤ 8 */
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

LANES_INLINE __m256 lanes_set(float v) { return _mm256_set1_ps(v); }
LANES_INLINE __m256 lanes_load(const float *at) { return _mm256_loadu_ps(at); }
LANES_INLINE void lanes_store(float *at, __m256 v) { _mm256_storeu_ps(at, v); }

LANES_INLINE __m256 lanes_load_first(const float *at, uint32_t n)
{
    return _mm256_maskload_ps(at, lanes_mask(n));
}
LANES_INLINE void lanes_store_first(float *at, __m256 v, uint32_t n)
{
    _mm256_maskstore_ps(at, lanes_mask(n), v);
}
LANES_INLINE __m256 lanes_keep_first(__m256 v, uint32_t n)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(lanes_mask(n)));
}

LANES_INLINE __m256 lanes_from_f16(const uint16_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}
LANES_INLINE __m256 lanes_from_f16_first(const uint16_t *at, uint32_t n)
{
    uint16_t all[8] = { 0 };
    memcpy(all, at, n * sizeof(*at));
    return lanes_from_f16(all);
}
LANES_INLINE void lanes_to_f16_first(uint16_t *at, __m256 v, uint32_t n)
{
    uint16_t all[8];
    _mm_storeu_si128((__m128i *)(void *)all, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    memcpy(at, all, n * sizeof(*at));
}
LANES_INLINE __m256 lanes_round_f16(__m256 v)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE __m256 lanes_add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
LANES_INLINE __m256 lanes_sub(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }
LANES_INLINE __m256 lanes_mul(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
LANES_INLINE __m256 lanes_div(__m256 a, __m256 b) { return _mm256_div_ps(a, b); }
LANES_INLINE __m256 lanes_min(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }
LANES_INLINE __m256 lanes_max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
LANES_INLINE __m256 lanes_magnitude(__m256 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
LANES_INLINE __m256 lanes_fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
LANES_INLINE __m256 lanes_round(__m256 a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* In two halves, so that exponents of small results do not wrap around; |n| < 250. */
LANES_INLINE __m256 lanes_times_power(__m256 a, __m256 n)
{
    const __m256i all = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(all, 1);
    const __m256i rest = _mm256_sub_epi32(all, half), bias = _mm256_set1_epi32(127);
    const __m256i x = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i y = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(x)), _mm256_castsi256_ps(y));
}
LANES_INLINE uint32_t lanes_equal(__m256 a, float v)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, lanes_set(v), _CMP_EQ_OQ));
}

LANES_INLINE float lanes_sum(__m256 v)
{
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 p = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_movehdup_ps(p)));
}
#define LANES_MANY 8
LANES_INLINE void lanes_sum_many(const __m256 v[8], float by, float *out)
{
    __m256 q[4]; /* in half k the four sums of v[4 · k + i], still to be added */
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_add_ps(_mm256_permute2f128_ps(v[i], v[4 + i], 0x20),
                             _mm256_permute2f128_ps(v[i], v[4 + i], 0x31));
    }
    const __m256 l = _mm256_add_ps(_mm256_unpacklo_ps(q[0], q[1]), _mm256_unpackhi_ps(q[0], q[1]));
    const __m256 h = _mm256_add_ps(_mm256_unpacklo_ps(q[2], q[3]), _mm256_unpackhi_ps(q[2], q[3]));
    const __m256d ld = _mm256_castps_pd(l), hd = _mm256_castps_pd(h);
    const __m256 sums = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ld, hd)),
                                      _mm256_castpd_ps(_mm256_unpackhi_pd(ld, hd)));
    lanes_store(out, lanes_mul(sums, lanes_set(by)));
}

LANES_INLINE float lanes_largest(__m256 v)
{
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 p = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(p, _mm_movehdup_ps(p)));
}

LANES_INLINE __m256d lanes_sums_zero(void) { return _mm256_setzero_pd(); }
LANES_INLINE __m256d lanes_sums_add(__m256d sums, __m256 v)
{
    sums = _mm256_add_pd(sums, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
    return _mm256_add_pd(sums, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}
LANES_INLINE double lanes_sums_all(__m256d v)
{
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#endif
