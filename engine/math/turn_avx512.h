/* turn_avx512.h - 16 rows of quantized weights, turned so that a lane is a row.
 *
 *   w[j] = │ row 0: columns 4j … 4j+3 │ row 1: columns 4j … 4j+3 │ … │ row 15 │      unsigned bytes
 *
 * Weights count from 0: Q8_0 + 128, Q4_0 + 8, ternary + 1 (weight_offset). */
#ifndef ENGINE_MATH_TURN_AVX512_H
#define ENGINE_MATH_TURN_AVX512_H

#include <string.h>

#include "file/weight.h"
#include "math/lanes_avx512.h"

enum { GROUP_ROWS = 16 };

/* Rows of weights, and where their outputs go. Of a matrix of fewer rows than 16 each is a group of
 * its own, in all lanes (stride 0). */
struct row_group {
    const unsigned char *rows;
    uint64_t stride;
    const unsigned char *ahead;  /* what is read later, as many bytes: to be fetched on the way */
    float *out;                  /* of the first token */
    __mmask16 mask;              /* of outputs that are wanted */
};

LANES_INLINE const void *row_at(const struct row_group *g, int row, uint64_t at)
{
    return g->rows + (uint64_t)row * g->stride + at;
}

LANES_INLINE __m256i row_load(const struct row_group *g, int row, uint64_t at)
{
    return _mm256_loadu_si256((const __m256i *)row_at(g, row, at));
}

LANES_INLINE __m128i row_load_half(const struct row_group *g, int row, uint64_t at)
{
    return _mm_loadu_si128((const __m128i *)row_at(g, row, at));
}

/* 32 bytes of each of 16 rows, from byte `at` on, to 8 vectors of 4 bytes of each. */
LANES_INLINE void turn_32(const struct row_group *g, uint64_t at, __m512i w[8])
{
    __m512i a[8], b[8];
    for (int i = 0; i < 8; i++) {
        const int row = i + (i & 4);
        const __m512i low = _mm512_castsi256_si512(row_load(g, row, at));
        a[i] = _mm512_inserti64x4(low, row_load(g, row + 4, at), 1);
    }
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        w[i] = _mm512_shuffle_i64x2(a[i], a[i + 4], 0x88);
        w[i + 4] = _mm512_shuffle_i64x2(a[i], a[i + 4], 0xdd);
    }
}

/* The same with 16 bytes, to 4 vectors. */
LANES_INLINE void turn_16(const struct row_group *g, uint64_t at, __m512i w[4])
{
    __m512i a[4], b[4];
    for (int i = 0; i < 4; i++) {
        a[i] = _mm512_castsi128_si512(row_load_half(g, i, at));
        a[i] = _mm512_inserti32x4(a[i], row_load_half(g, i + 4, at), 1);
        a[i] = _mm512_inserti32x4(a[i], row_load_half(g, i + 8, at), 2);
        a[i] = _mm512_inserti32x4(a[i], row_load_half(g, i + 12, at), 3);
    }
    for (int i = 0; i < 4; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    w[0] = _mm512_unpacklo_epi64(b[0], b[2]);
    w[1] = _mm512_unpackhi_epi64(b[0], b[2]);
    w[2] = _mm512_unpacklo_epi64(b[1], b[3]);
    w[3] = _mm512_unpackhi_epi64(b[1], b[3]);
}

/* Columns that are turned at once, as bytes are shared by them: 32, of ternary weights 128. */
LANES_INLINE uint32_t step_cols(enum weight_type type)
{
    return type == WEIGHT_Q8_0 || type == WEIGHT_Q4_0 ? 32 : 128;
}

/* Bytes of 16 rows that a step reads. (Scales included: of two steps of TQ2_0 half each.) */
LANES_INLINE uint32_t step_bytes(enum weight_type type)
{
    if (type == WEIGHT_Q8_0) return GROUP_ROWS * 34;
    if (type == WEIGHT_Q4_0) return GROUP_ROWS * 18;
    return GROUP_ROWS * (type == WEIGHT_TQ2_0 ? 33 : 32);
}

LANES_INLINE void step_turn(const struct row_group *g, enum weight_type type, uint32_t col,
                            __m512i raw[8])
{
    /* 16 rows at once are 16 short streams, which CPUs do not see coming. But the next rows are all
     * the bytes behind these, in one stream. */
    const unsigned char *ahead = g->ahead + (uint64_t)(col / step_cols(type)) * step_bytes(type);
    for (uint32_t i = 0; i < step_bytes(type); i += 64) {
        _mm_prefetch((const char *)ahead + i, _MM_HINT_T1);
    }
    if (type == WEIGHT_Q8_0) turn_32(g, (uint64_t)col / 32 * 34 + 2, raw);
    else if (type == WEIGHT_Q4_0) turn_16(g, (uint64_t)col / 32 * 18 + 2, raw);
    else if (type == WEIGHT_TQ2_0) turn_32(g, (uint64_t)col / 256 * 66 + col % 256 / 4, raw);
    else turn_32(g, col / 4, raw);
}

/* Of ternary weights each 2 bits of a byte are a part of 32 columns: the n-th from below is this.
 * */
LANES_INLINE uint32_t step_part(enum weight_type type, uint32_t n)
{
    return type == WEIGHT_I2_S ? 3 - n : n;
}

/* The j-th vector of 4 columns of the next part: to be called for j = 0 … 7, part after part. */
LANES_INLINE __m512i step_next(enum weight_type type, __m512i raw[8], int j)
{
    if (type == WEIGHT_Q8_0) return _mm512_xor_si512(raw[j], _mm512_set1_epi8((char)0x80));
    if (type == WEIGHT_Q4_0) {
        const __m512i low = _mm512_set1_epi8(15);
        if (j < 4) return _mm512_and_si512(raw[j], low);
        return _mm512_and_si512(_mm512_srli_epi16(raw[j - 4], 4), low);
    }
    const __m512i w = _mm512_and_si512(raw[j], _mm512_set1_epi8(3));
    raw[j] = _mm512_srli_epi16(raw[j], 2);
    return w;
}

LANES_INLINE int32_t weight_offset(enum weight_type type)
{
    return type == WEIGHT_Q8_0 ? 128 : type == WEIGHT_Q4_0 ? 8 : 1;
}

/* The scales of one block of 16 rows. */
LANES_INLINE __m512 scales_load(const struct row_group *g, enum weight_type type, uint32_t block)
{
    const uint64_t at = type == WEIGHT_Q8_0   ? (uint64_t)block * 34
                        : type == WEIGHT_Q4_0 ? (uint64_t)block * 18
                                              : (uint64_t)block * 66 + 64;
    short d[GROUP_ROWS];
    for (int i = 0; i < GROUP_ROWS; i++) {
        memcpy(&d[i], row_at(g, i, at), sizeof(d[i]));
    }
    return _mm512_cvtph_ps(_mm256_set_epi16(d[15], d[14], d[13], d[12], d[11], d[10], d[9], d[8],
                                            d[7], d[6], d[5], d[4], d[3], d[2], d[1], d[0]));
}

#endif
