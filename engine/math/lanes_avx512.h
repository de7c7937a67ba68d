/* lanes_avx512.h - small things that all files with AVX-512 need. */
#ifndef ENGINE_MATH_LANES_AVX512_H
#define ENGINE_MATH_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define LANES_INLINE static inline __attribute__((always_inline))

/* The first n of 16 lanes; n ≤ 16. */
LANES_INLINE __mmask16 lanes_first(uint32_t n) { return (__mmask16)((1u << n) - 1); }

/* All lanes added up, in an order that is the same everywhere. */
LANES_INLINE float lanes_sum(__m512 v)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 p = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_movehdup_ps(p)));
}

LANES_INLINE double lanes_sum_double(__m512d v)
{
    const __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

/* 16 numbers of f16 as floats; those that the mask leaves out are not read and are 0. */
LANES_INLINE __m512 lanes_from_f16(const uint16_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

LANES_INLINE __m512 lanes_from_f16_first(const uint16_t *at, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at));
}

#endif
