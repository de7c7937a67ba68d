/* lanes_avx512.h - vectors of 16 floats, for the code that is the same for 16 and for 8
 * (lanes_avx2.h has the same names), and what only files with AVX-512 use. */
#ifndef ENGINE_MATH_LANES_AVX512_H
#define ENGINE_MATH_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define LANES_VEC __m512
#define LANES_SUMS __m512d /* half as many doubles */
#define LANES_INLINE static inline __attribute__((always_inline))

/* The first n of 16 lanes; n ≤ 16. */
LANES_INLINE __mmask16 lanes_mask(uint32_t n) { return (__mmask16)((1u << n) - 1); }

LANES_INLINE __m512 lanes_set(float v) { return _mm512_set1_ps(v); }
LANES_INLINE __m512 lanes_load(const float *at) { return _mm512_loadu_ps(at); }
LANES_INLINE void lanes_store(float *at, __m512 v) { _mm512_storeu_ps(at, v); }

/* Of n numbers, n ≤ 16: no more are read or written, and the other lanes are 0. */
LANES_INLINE __m512 lanes_load_first(const float *at, uint32_t n)
{
    return _mm512_maskz_loadu_ps(lanes_mask(n), at);
}
LANES_INLINE void lanes_store_first(float *at, __m512 v, uint32_t n)
{
    _mm512_mask_storeu_ps(at, lanes_mask(n), v);
}
LANES_INLINE __m512 lanes_keep_first(__m512 v, uint32_t n)
{
    return _mm512_maskz_mov_ps(lanes_mask(n), v);
}

LANES_INLINE __m512 lanes_from_f16(const uint16_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}
LANES_INLINE __m512 lanes_from_f16_first(const uint16_t *at, uint32_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_mask(n), at));
}
LANES_INLINE void lanes_to_f16_first(uint16_t *at, __m512 v, uint32_t n)
{
    _mm256_mask_storeu_epi16(at, lanes_mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
/* To f16 and back. */
LANES_INLINE __m512 lanes_round_f16(__m512 v)
{
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE __m512 lanes_add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
LANES_INLINE __m512 lanes_sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
LANES_INLINE __m512 lanes_mul(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
LANES_INLINE __m512 lanes_div(__m512 a, __m512 b) { return _mm512_div_ps(a, b); }
LANES_INLINE __m512 lanes_min(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
LANES_INLINE __m512 lanes_max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
LANES_INLINE __m512 lanes_magnitude(__m512 a) { return _mm512_abs_ps(a); }
LANES_INLINE __m512 lanes_fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
LANES_INLINE __m512 lanes_round(__m512 a) { return _mm512_roundscale_ps(a, 0); }
/* a · 2^n for whole n. */
LANES_INLINE __m512 lanes_times_power(__m512 a, __m512 n) { return _mm512_scalef_ps(a, n); }
/* Whether a lane equals v: a bit each. */
LANES_INLINE uint32_t lanes_equal(__m512 a, float v)
{
    return _mm512_cmp_ps_mask(a, lanes_set(v), _CMP_EQ_OQ);
}

/* All lanes, in an order that is the same everywhere. */
LANES_INLINE float lanes_sum(__m512 v)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 p = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_movehdup_ps(p)));
}
/* The sums of 16 vectors at once, times a number: each added up in the order of lanes_sum. */
#define LANES_MANY 16
LANES_INLINE void lanes_sum_many(const __m512 v[16], float by, float *out)
{
    __m512 q[4]; /* in quarter k the four sums of v[4 · k + i], still to be added */
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(v[i], v[4 + i], 0x44),
                                       _mm512_shuffle_f32x4(v[i], v[4 + i], 0xee));
        const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(v[8 + i], v[12 + i], 0x44),
                                       _mm512_shuffle_f32x4(v[8 + i], v[12 + i], 0xee));
        q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    const __m512 l = _mm512_add_ps(_mm512_unpacklo_ps(q[0], q[1]), _mm512_unpackhi_ps(q[0], q[1]));
    const __m512 h = _mm512_add_ps(_mm512_unpacklo_ps(q[2], q[3]), _mm512_unpackhi_ps(q[2], q[3]));
    const __m512d ld = _mm512_castps_pd(l), hd = _mm512_castps_pd(h);
    const __m512 sums = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ld, hd)),
                                      _mm512_castpd_ps(_mm512_unpackhi_pd(ld, hd)));
    lanes_store(out, lanes_mul(sums, lanes_set(by)));
}

LANES_INLINE float lanes_largest(__m512 v) { return _mm512_reduce_max_ps(v); }

LANES_INLINE __m512d lanes_sums_zero(void) { return _mm512_setzero_pd(); }
LANES_INLINE __m512d lanes_sums_add(__m512d sums, __m512 v)
{
    sums = _mm512_add_pd(sums, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
    return _mm512_add_pd(sums, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}
LANES_INLINE double lanes_sums_all(__m512d v)
{
    const __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#endif
