/* matmul_int_avx2.c - products of quantized weights: Q8_0, Q4_0, TQ2_0, I2_S.
 *
 * One row of weights times 4 tokens at a time. Of a block, VPMADDUBSW multiplies 32 unsigned bytes
 * with 32 signed ones and adds pairs to 16 bits; no pair overflows: weights go in as magnitudes (≤
 * 128) with their signs put on the activations (≤ 127). The 8 sums of a block are exact; times its
 * scales they are added up as floats, block by block, lane by lane. Ternary weights count from 0:
 * what that adds is Σ activations (acts.h has it), taken off the sum of the whole block. (Taken off
 * one of 8 floats, the others' rounding would be that of numbers which are much larger than their
 * sum.)
 *
 * Turning weights so that a lane is a row, as matmul_int_avx512.c does it, pays by VPDPBUSD and 32
 * registers, which these CPUs have not. */
#include <string.h>

#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/lanes_avx2.h"

enum { TILE_TOKENS = 4, TOKENS_BYTES = 20 * 1024 }; /* activations stay in the first-level cache */

LANES_INLINE __m256i bytes_load(const void *at) { return _mm256_loadu_si256((const __m256i *)at); }

/* Bytes of a block of weights, and columns of what is decoded at once: a part. */
LANES_INLINE uint32_t part_cols(enum weight_type type)
{
    return type == WEIGHT_Q8_0 || type == WEIGHT_Q4_0 ? 32 : 128;
}

/* The weights of a part: one vector for 32 columns. */
LANES_INLINE void part_load(enum weight_type type, const unsigned char *row, uint32_t col,
                            __m256i w[4])
{
    if (type == WEIGHT_Q8_0) {
        w[0] = bytes_load(row + (uint64_t)col / 32 * 34 + 2);
    } else if (type == WEIGHT_Q4_0) {
        const void *at = row + (uint64_t)col / 32 * 18 + 2;
        const __m128i b = _mm_loadu_si128((const __m128i *)at);
        const __m256i both = _mm256_set_m128i(_mm_srli_epi16(b, 4), b);
        const __m256i codes = _mm256_and_si256(both, _mm256_set1_epi8(15));
        w[0] = _mm256_sub_epi8(codes, _mm256_set1_epi8(8));
    } else {
        const int tq2 = type == WEIGHT_TQ2_0;
        __m256i b = bytes_load(row + (tq2 ? (uint64_t)col / 256 * 66 + col % 256 / 4 : col / 4));
        for (int i = 0; i < 4; i++) {
            w[tq2 ? i : 3 - i] = _mm256_and_si256(b, _mm256_set1_epi8(3));
            b = _mm256_srli_epi16(b, 2);
        }
    }
}

/* 8 sums of products of a part: Σ of all is that of the part. */
LANES_INLINE __m256i part_dot(enum weight_type type, const __m256i w[4], const int8_t *q)
{
    __m256i pairs;
    if (part_cols(type) == 32) {
        pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w[0]), _mm256_sign_epi8(bytes_load(q), w[0]));
    } else {
        pairs = _mm256_maddubs_epi16(w[0], bytes_load(q));
        for (uint32_t i = 1; i < part_cols(type) / 32; i++) {
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[i], bytes_load(q + 32 * i)));
        }
    }
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

LANES_INLINE __m256i first_lane(int32_t v) { return _mm256_zextsi128_si256(_mm_cvtsi32_si128(v)); }

LANES_INLINE float scale_load(enum weight_type type, const unsigned char *row, uint32_t block)
{
    const uint64_t at = type == WEIGHT_Q8_0   ? (uint64_t)block * 34
                        : type == WEIGHT_Q4_0 ? (uint64_t)block * 18
                                              : (uint64_t)block * 66 + 64;
    uint16_t h;
    memcpy(&h, row + at, sizeof(h));
    return _cvtsh_ss(h);
}

LANES_INLINE int32_t int_lanes_sum(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

struct int_tile {
    const unsigned char *row;
    struct acts acts;            /* of the first token */
    size_t acts_bytes;
    float *out;
    size_t out_stride;
    float scale;                 /* I2_S */
};

LANES_INLINE const void *token_at(const struct int_tile *p, const void *of_first, int token)
{
    return (const char *)of_first + (size_t)token * p->acts_bytes;
}

LANES_INLINE void tile_run(const struct int_tile *tile, enum weight_type type, int tokens)
{
    const struct int_tile p = *tile;
    const uint32_t block = type == WEIGHT_I2_S ? p.acts.block : acts_block(type, 0);
    __m256 sums[TILE_TOKENS];
    for (int t = 0; t < tokens; t++) sums[t] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < p.acts.blocks; b++) {
        __m256i dots[TILE_TOKENS];
        for (int t = 0; t < tokens; t++) dots[t] = _mm256_setzero_si256();
        for (uint32_t col = b * block; col < (b + 1) * block; col += part_cols(type)) {
            __m256i w[4];
            part_load(type, p.row, col, w);
            for (int t = 0; t < tokens; t++) {
                const int8_t *q = (const int8_t *)token_at(&p, p.acts.q, t) + col;
                dots[t] = _mm256_add_epi32(dots[t], part_dot(type, w, q));
            }
        }
        const float d = type == WEIGHT_I2_S ? 1 : scale_load(type, p.row, b);
        for (int t = 0; t < tokens; t++) {
            const float x = ((const float *)token_at(&p, p.acts.d, t))[b];
            const int32_t excess = ((const int32_t *)token_at(&p, p.acts.sum, t))[b];
            if (type == WEIGHT_I2_S) {
                const float dot = (float)(int_lanes_sum(dots[t]) - excess);
                p.out[(size_t)t * p.out_stride] = dot / x * p.scale;
            } else {
                if (type == WEIGHT_TQ2_0) dots[t] = first_lane(int_lanes_sum(dots[t]) - excess);
                const __m256 dot = _mm256_cvtepi32_ps(dots[t]);
                sums[t] = _mm256_fmadd_ps(dot, _mm256_set1_ps(d * x), sums[t]);
            }
        }
    }
    if (type == WEIGHT_I2_S) return;
    for (int t = 0; t < tokens; t++) p.out[(size_t)t * p.out_stride] = lanes_sum(sums[t]);
}

LANES_INLINE void tile_tokens(const struct int_tile *p, enum weight_type type, uint32_t tokens)
{
    if (tokens == 4) tile_run(p, type, 4);
    else if (tokens == 3) tile_run(p, type, 3);
    else if (tokens == 2) tile_run(p, type, 2);
    else tile_run(p, type, 1);
}

static void tile_q8_0(const struct int_tile *p, uint32_t n) { tile_tokens(p, WEIGHT_Q8_0, n); }
static void tile_q4_0(const struct int_tile *p, uint32_t n) { tile_tokens(p, WEIGHT_Q4_0, n); }
static void tile_tq2_0(const struct int_tile *p, uint32_t n) { tile_tokens(p, WEIGHT_TQ2_0, n); }
static void tile_i2_s(const struct int_tile *p, uint32_t n) { tile_tokens(p, WEIGHT_I2_S, n); }

void matmul_int_avx2(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                     uint32_t count, float *out, size_t out_stride)
{
    void (*const run)(const struct int_tile *, uint32_t) = w->type == WEIGHT_Q8_0    ? tile_q8_0
                                                           : w->type == WEIGHT_Q4_0  ? tile_q4_0
                                                           : w->type == WEIGHT_TQ2_0 ? tile_tq2_0
                                                                                     : tile_i2_s;
    const size_t bytes = acts_row_bytes(w->type, w->cols);
    uint32_t block = (uint32_t)(TOKENS_BYTES / bytes) / TILE_TOKENS * TILE_TOKENS;
    if (!block) block = TILE_TOKENS;
    for (uint32_t first = 0; first < count; first += block) {
        const uint32_t last = count - first > block ? first + block : count;
        for (uint32_t r = begin; r < end; r++) {
            for (uint32_t t = first; t < last; t += TILE_TOKENS) {
                const struct int_tile tile = {
                    (const unsigned char *)w->data + r * w->row_bytes,
                    acts_of(w->type, w->cols, (const char *)acts + t * bytes), bytes,
                    out + t * out_stride + r, out_stride, w->scale
                };
                run(&tile, last - t < TILE_TOKENS ? last - t : TILE_TOKENS);
            }
        }
    }
}
