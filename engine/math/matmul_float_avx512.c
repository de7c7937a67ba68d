/* matmul_float_avx512.c - products of F32 and F16 weights.
 *
 *   tile: 4 rows × 6 tokens, a vector of 16 sums for each of the 24 outputs; lane i adds up columns
 *         i, i + 16, … and the lanes are added at the end. A step over 16 columns is 10 loads and 24
 *         multiply-adds. Fewer rows or tokens have a smaller tile: the same sums in the same order.
 *
 * Tokens go in blocks whose activations stay in the second-level cache while all rows pass. */
#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/lanes_avx512.h"

enum { TILE_ROWS = 4, TILE_TOKENS = 6, TOKENS_BYTES = 384 * 1024 };

struct tile {
    const char *w;               /* the first row of weights */
    uint64_t w_bytes;            /* to the next row */
    const char *x;
    size_t x_bytes;
    uint32_t cols;
    float *out;
    size_t out_stride;
};

LANES_INLINE __m512 weights_load(int f16, const char *row, uint32_t at)
{
    if (f16) return lanes_from_f16((const uint16_t *)(const void *)row + at);
    return _mm512_loadu_ps((const float *)(const void *)row + at);
}

LANES_INLINE __m512 weights_load_first(int f16, const char *row, uint32_t at, __mmask16 mask)
{
    if (f16) return lanes_from_f16_first((const uint16_t *)(const void *)row + at, mask);
    return _mm512_maskz_loadu_ps(mask, (const float *)(const void *)row + at);
}

LANES_INLINE void tile_run(const struct tile *tile, int f16, int rows, int tokens)
{
    const struct tile p = *tile;
    __m512 sum[TILE_ROWS][TILE_TOKENS];
    for (int r = 0; r < rows; r++) {
        for (int t = 0; t < tokens; t++) sum[r][t] = _mm512_setzero_ps();
    }
    uint32_t at = 0;
    for (; at + 16 <= p.cols; at += 16) {
        __m512 w[TILE_ROWS];
        for (int r = 0; r < rows; r++) w[r] = weights_load(f16, p.w + (uint64_t)r * p.w_bytes, at);
        for (int t = 0; t < tokens; t++) {
            const __m512 x = _mm512_loadu_ps((const float *)(const void *)(p.x + (size_t)t * p.x_bytes) + at);
            for (int r = 0; r < rows; r++) sum[r][t] = _mm512_fmadd_ps(w[r], x, sum[r][t]);
        }
    }
    if (at < p.cols) {
        const __mmask16 mask = lanes_first(p.cols - at);
        for (int r = 0; r < rows; r++) {
            const __m512 w = weights_load_first(f16, p.w + (uint64_t)r * p.w_bytes, at, mask);
            for (int t = 0; t < tokens; t++) {
                const float *x = (const float *)(const void *)(p.x + (size_t)t * p.x_bytes) + at;
                sum[r][t] = _mm512_fmadd_ps(w, _mm512_maskz_loadu_ps(mask, x), sum[r][t]);
            }
        }
    }
    for (int t = 0; t < tokens; t++) {
        for (int r = 0; r < rows; r++) p.out[(size_t)t * p.out_stride + (size_t)r] = lanes_sum(sum[r][t]);
    }
}

#define TILE(f16, rows, tokens)                                                                       \
    static void tile_##f16##_##rows##_##tokens(const struct tile *t) { tile_run(t, f16, rows, tokens); }
#define TILES(f16, rows)                                                                              \
    TILE(f16, rows, 1) TILE(f16, rows, 2) TILE(f16, rows, 3) TILE(f16, rows, 4) TILE(f16, rows, 5)    \
    TILE(f16, rows, 6)
#define TILE_NAMES(f16, rows)                                                                         \
    { tile_##f16##_##rows##_1, tile_##f16##_##rows##_2, tile_##f16##_##rows##_3,                      \
      tile_##f16##_##rows##_4, tile_##f16##_##rows##_5, tile_##f16##_##rows##_6 }

TILES(0, 1)
TILES(0, 4)
TILES(1, 1)
TILES(1, 4)

/* By type (F32, F16), rows (1, 4), tokens. */
static void (*const tiles[2][2][TILE_TOKENS])(const struct tile *) = {
    { TILE_NAMES(0, 1), TILE_NAMES(0, 4) },
    { TILE_NAMES(1, 1), TILE_NAMES(1, 4) },
};

void matmul_float_avx512(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                         uint32_t count, float *out, size_t out_stride)
{
    const size_t x_bytes = acts_row_bytes(w->type, w->cols);
    uint32_t block = (uint32_t)(TOKENS_BYTES / x_bytes) / TILE_TOKENS * TILE_TOKENS;
    if (!block) block = TILE_TOKENS;
    for (uint32_t first = 0; first < count; first += block) {
        const uint32_t last = count - first > block ? first + block : count;
        for (uint32_t r = begin; r < end;) {
            const uint32_t rows = end - r >= TILE_ROWS ? TILE_ROWS : 1;
            for (uint32_t t = first; t < last;) {
                const uint32_t tokens = last - t < TILE_TOKENS ? last - t : TILE_TOKENS;
                const struct tile tile = { (const char *)w->data + r * w->row_bytes, w->row_bytes,
                                           (const char *)acts + t * x_bytes, x_bytes, w->cols,
                                           out + t * out_stride + r, out_stride };
                tiles[w->type == WEIGHT_F16][rows == TILE_ROWS][tokens - 1](&tile);
                t += tokens;
            }
            r += rows;
        }
    }
}
