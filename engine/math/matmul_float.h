/* matmul_float.h - products of F32 and F16 weights; the code of matmul_float_avx2.c and _avx512.c,
 * which say before what a vector is (lanes_*.h) and how large a tile:
 *
 *   tile: TILE_ROWS × TILE_TOKENS outputs, a vector of sums for each; lane i adds up columns i,
 *         i + LANES, … and the lanes are added at the end. Fewer rows or tokens have a smaller
 *         tile: the same sums in the same order.
 *
 * Tokens go in blocks whose activations stay in the second-level cache while all rows pass. */
#include "math/acts.h"

enum { TOKENS_BYTES = 384 * 1024 };

struct tile {
    const char *w;               /* the first row of weights */
    uint64_t w_bytes;            /* to the next row */
    const char *x;
    size_t x_bytes;
    uint32_t cols;
    float *out;
    size_t out_stride;
    const char *ahead;           /* rows that are read later: to be fetched on the way */
};

/* n numbers of a row of weights, from column `at` on. */
LANES_INLINE LANES_VEC weights_load(int f16, const char *row, uint32_t at, uint32_t n)
{
    if (f16) {
        const uint16_t *h = (const uint16_t *)(const void *)row + at;
        return n == LANES ? lanes_from_f16(h) : lanes_from_f16_first(h, n);
    }
    const float *f = (const float *)(const void *)row + at;
    return n == LANES ? lanes_load(f) : lanes_load_first(f, n);
}

LANES_INLINE void tile_step(const struct tile *p, int f16, int rows, int tokens, uint32_t at,
                            uint32_t n, LANES_VEC sum[][TILE_TOKENS])
{
    LANES_VEC w[TILE_ROWS];
    for (int r = 0; r < rows; r++) w[r] = weights_load(f16, p->w + (uint64_t)r * p->w_bytes, at, n);
    for (int t = 0; t < tokens; t++) {
        const float *x = (const float *)(const void *)(p->x + (size_t)t * p->x_bytes) + at;
        const LANES_VEC v = n == LANES ? lanes_load(x) : lanes_load_first(x, n);
        for (int r = 0; r < rows; r++) sum[r][t] = lanes_fma(w[r], v, sum[r][t]);
    }
}

LANES_INLINE void tile_run(const struct tile *tile, int f16, int rows, int tokens)
{
    const struct tile p = *tile;
    LANES_VEC sum[TILE_ROWS][TILE_TOKENS];
    for (int r = 0; r < rows; r++) {
        for (int t = 0; t < tokens; t++) sum[r][t] = lanes_set(0);
    }
    uint32_t at = 0;
    for (; at + LANES <= p.cols; at += LANES) {
        /* Several rows at once are several short streams, which CPUs do not see coming; the next
         * rows are one. */
        const uint32_t bytes = (uint32_t)rows * (f16 ? 2 : 4); /* of a column */
        const char *ahead = p.ahead + (size_t)at * bytes;
        for (uint32_t i = 0; i < LANES * bytes; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T1);
        tile_step(&p, f16, rows, tokens, at, LANES, sum);
    }
    if (at < p.cols) tile_step(&p, f16, rows, tokens, at, p.cols - at, sum);
    for (int t = 0; t < tokens; t++) {
        float *out = p.out + (size_t)t * p.out_stride;
        for (int r = 0; r < rows; r++) out[r] = lanes_sum(sum[r][t]);
    }
}

/* By type (F32, F16) and rows (one, TILE_ROWS), a function for every count of tokens. */
#define TILE(f16, rows, tokens)                                                                   \
    static void tile_##f16##_##rows##_##tokens(const struct tile *t)                              \
    {                                                                                             \
        tile_run(t, f16, (rows) ? TILE_ROWS : 1, tokens);                                         \
    }
#define TILE_EACH(f16, tokens) TILE(f16, 0, tokens) TILE(f16, 1, tokens)
#define TILE_NAMES(tokens)                                                                        \
    { { tile_0_0_##tokens, tile_0_1_##tokens }, { tile_1_0_##tokens, tile_1_1_##tokens } }
#define TILE_COUNT(tokens) TILE_EACH(0, tokens) TILE_EACH(1, tokens)
TILE_COUNTS

static void (*const tiles[TILE_TOKENS][2][2])(const struct tile *) = { TILE_TABLE };

static void matmul_float(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
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
                const char *row = (const char *)w->data + r * w->row_bytes;
                const struct tile tile = { row, w->row_bytes, (const char *)acts + t * x_bytes,
                                           x_bytes, w->cols, out + t * out_stride + r, out_stride,
                                           t == first ? row + rows * w->row_bytes : row };
                tiles[tokens - 1][w->type == WEIGHT_F16][rows == TILE_ROWS](&tile);
                t += tokens;
            }
            r += rows;
        }
    }
}
