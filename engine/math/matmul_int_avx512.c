/* matmul_int_avx512.c - products of quantized weights: Q8_0, Q4_0, TQ2_0, I2_S.
 *
 * A lane is a row of weights (turn_avx512.h): VPDPBUSD multiplies 4 columns of 16 rows with 4
 * activations that are the same in all lanes, and adds to 16 sums. So a block's sum is whole in its
 * lane, no lanes are added up at the end, and the scales of a block are multiplied once for 16
 * outputs. That weights count from 0 adds offset · Σ activations, which acts.h has.
 *
 * Turning costs about as much as multiplying with 5 tokens. For up to 4 tokens it is done in
 * registers on the way; for more, 32 rows × 512 columns are turned to a panel on the stack (16 KiB:
 * it stays in the first-level cache) and all tokens pass by it, 6 at a time, their sums waiting in
 * `out` from panel to panel. Rejected: weights that are turned when the model is loaded. The file
 * could not be used as it is, for a few percent at a batch of 64. */
#include <string.h>

#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/turn_avx512.h"

enum {
    PANEL_GROUPS = 2,
    PANEL_COLS = 512,
    TILE_TOKENS = 6,
    FEW_TOKENS = 4,
};

LANES_INLINE __m512i quad_load(const int8_t *q) /* 4 activations, in all lanes */
{
    int32_t four;
    memcpy(&four, q, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* A block is done: its sums, less what counting weights from 0 added, by its scales to the
 * output's. */
LANES_INLINE __m512 block_add(__m512i dots, int32_t excess, __m512 scales, float d, __m512 sums)
{
    const __m512 dot = _mm512_cvtepi32_ps(_mm512_sub_epi32(dots, _mm512_set1_epi32(excess)));
    return _mm512_fmadd_ps(dot, _mm512_mul_ps(scales, _mm512_set1_ps(d)), sums);
}

/* A whole row of I2_S is done. */
LANES_INLINE __m512 row_finish(__m512i dots, int32_t excess, float d, float scale)
{
    const __m512 dot = _mm512_cvtepi32_ps(_mm512_sub_epi32(dots, _mm512_set1_epi32(excess)));
    return _mm512_mul_ps(_mm512_div_ps(dot, _mm512_set1_ps(d)), _mm512_set1_ps(scale));
}

/* Tokens that are multiplied together. */
struct token_set {
    struct acts acts;            /* of the first */
    size_t acts_bytes, out_stride;
    size_t skip;                 /* outputs before those of the first */
    float scale;                 /* I2_S */
};

LANES_INLINE const void *token_at(const struct token_set *x, const void *of_first, int token)
{
    return (const char *)of_first + (size_t)token * x->acts_bytes;
}

LANES_INLINE float *token_out(const struct row_group *g, const struct token_set *x, int token)
{
    return g->out + x->skip + (size_t)token * x->out_stride;
}

/* ---- Few tokens ------------------------------------------------------------------------------ */

/* Multiplies the columns of one step with all tokens. Two sums each: one would wait for itself. */
LANES_INLINE void step_dots(const struct row_group *g, enum weight_type type, uint32_t col,
                            const struct token_set *x, int tokens, __m512i dots[][2])
{
    __m512i raw[8];
    step_turn(g, type, col, raw);
    for (uint32_t n = 0; n < step_cols(type) / 32; n++) {
        const int8_t *q = x->acts.q + col + 32 * step_part(type, n);
        for (int j = 0; j < 8; j++) {
            const __m512i w = step_next(type, raw, j);
            for (int t = 0; t < tokens; t++) {
                const __m512i four = quad_load((const int8_t *)token_at(x, q, t) + 4 * j);
                dots[t][j & 1] = _mm512_dpbusd_epi32(dots[t][j & 1], w, four);
            }
        }
    }
}

LANES_INLINE void group_few(const struct row_group *group, enum weight_type type,
                            const struct token_set *set, int tokens)
{
    const struct row_group rows = *group, *g = &rows; /* copies: in registers, not read again */
    const struct token_set copy = *set, *x = &copy;
    const uint32_t block = type == WEIGHT_I2_S ? x->acts.block : acts_block(type, 0);
    __m512 sums[FEW_TOKENS];
    for (int t = 0; t < tokens; t++) sums[t] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < x->acts.blocks; b++) {
        __m512i dots[FEW_TOKENS][2];
        for (int t = 0; t < tokens; t++) dots[t][0] = dots[t][1] = _mm512_setzero_si512();
        for (uint32_t i = 0; i < block; i += step_cols(type)) {
            step_dots(g, type, b * block + i, x, tokens, dots);
        }
        const __m512 scales = type == WEIGHT_I2_S ? sums[0] : scales_load(g, type, b);
        for (int t = 0; t < tokens; t++) {
            const __m512i dot = _mm512_add_epi32(dots[t][0], dots[t][1]);
            const int32_t sum = ((const int32_t *)token_at(x, x->acts.sum, t))[b];
            const float d = ((const float *)token_at(x, x->acts.d, t))[b];
            if (type == WEIGHT_I2_S) sums[t] = row_finish(dot, sum, d, x->scale);
            else sums[t] = block_add(dot, weight_offset(type) * sum, scales, d, sums[t]);
        }
    }
    for (int t = 0; t < tokens; t++) _mm512_mask_storeu_ps(token_out(g, x, t), g->mask, sums[t]);
}

#define FEW(type, tokens)                                                                         \
    static void few_##type##_##tokens(const struct row_group *g, const struct token_set *x)       \
    {                                                                                             \
        group_few(g, WEIGHT_##type, x, tokens);                                                   \
    }
#define FEW_EACH(type) FEW(type, 1) FEW(type, 2) FEW(type, 3) FEW(type, 4)
#define FEW_NAMES(type) { few_##type##_1, few_##type##_2, few_##type##_3, few_##type##_4 }

FEW_EACH(Q8_0)
FEW_EACH(Q4_0)
FEW_EACH(TQ2_0)
FEW_EACH(I2_S)

static void group_multiply(const struct row_group *g, const struct weight *w, const void *acts,
                           uint32_t count, size_t out_stride)
{
    static void (*const few[][FEW_TOKENS])(const struct row_group *, const struct token_set *) = {
        FEW_NAMES(Q8_0), FEW_NAMES(Q4_0), FEW_NAMES(TQ2_0), FEW_NAMES(I2_S)
    };
    const int type = w->type == WEIGHT_Q8_0    ? 0
                     : w->type == WEIGHT_Q4_0  ? 1
                     : w->type == WEIGHT_TQ2_0 ? 2
                                               : 3;
    const struct token_set x = { .acts = acts_of(w->type, w->cols, acts),
                                 .acts_bytes = acts_row_bytes(w->type, w->cols),
                                 .out_stride = out_stride, .scale = w->scale };
    few[type][count - 1](g, &x);
}

/* ---- Panels ---------------------------------------------------------------------------------- */

struct panel {
    __m512i w[PANEL_COLS / 4][PANEL_GROUPS];
    __m512 scales[PANEL_COLS / 32][PANEL_GROUPS];
    struct row_group group[PANEL_GROUPS];
    uint32_t col, cols;          /* what is in it now */
    int ends;                    /* and these are the last */
    uint32_t block;              /* columns that share a scale */
    int32_t offset;
};

LANES_INLINE void panel_turn(struct panel *p, int k, enum weight_type type)
{
    const struct row_group *g = &p->group[k];
    for (uint32_t at = 0; at < p->cols; at += step_cols(type)) {
        __m512i raw[8];
        step_turn(g, type, p->col + at, raw);
        for (uint32_t n = 0; n < step_cols(type) / 32; n++) {
            const uint32_t first = at / 4 + 8 * step_part(type, n);
            for (int j = 0; j < 8; j++) p->w[first + (uint32_t)j][k] = step_next(type, raw, j);
        }
    }
    if (type == WEIGHT_I2_S) return;
    for (uint32_t b = 0; b < p->cols / p->block; b++) {
        p->scales[b][k] = scales_load(g, type, p->col / p->block + b);
    }
}

static void panel_fill(struct panel *p, enum weight_type type)
{
    for (int k = 0; k < PANEL_GROUPS; k++) {
        switch (type) {
        case WEIGHT_Q8_0: panel_turn(p, k, WEIGHT_Q8_0); break;
        case WEIGHT_Q4_0: panel_turn(p, k, WEIGHT_Q4_0); break;
        case WEIGHT_TQ2_0: panel_turn(p, k, WEIGHT_TQ2_0); break;
        default: panel_turn(p, k, WEIGHT_I2_S); break;
        }
    }
}

/* Adds the products of some columns. */
LANES_INLINE void panel_dots(const struct panel *p, const struct token_set *x, uint32_t at,
                             uint32_t cols, int tokens, __m512i dots[][TILE_TOKENS])
{
    const int8_t *q = x->acts.q + p->col + at;
    for (uint32_t i = 0; i < cols; i += 8) {
        for (uint32_t j = i; j < i + 8; j += 4) {
            const __m512i *w = p->w[(at + j) / 4];
            const __m512i w0 = w[0], w1 = w[1];
            for (int t = 0; t < tokens; t++) {
                const __m512i four = quad_load((const int8_t *)token_at(x, q, t) + j);
                dots[0][t] = _mm512_dpbusd_epi32(dots[0][t], w0, four);
                dots[1][t] = _mm512_dpbusd_epi32(dots[1][t], w1, four);
            }
        }
    }
}

/* Weights with scales by block. */
LANES_INLINE void tile_blocks(const struct panel *p, const struct token_set *x, int tokens)
{
    __m512 sums[PANEL_GROUPS][TILE_TOKENS];
    for (int k = 0; k < PANEL_GROUPS; k++) {
        const __mmask16 mask = p->col ? p->group[k].mask : 0;
        for (int t = 0; t < tokens; t++) {
            sums[k][t] = _mm512_maskz_loadu_ps(mask, token_out(&p->group[k], x, t));
        }
    }
    uint32_t all = p->col / p->block;
    for (uint32_t at = 0, b = 0; at < p->cols; at += p->block, b++, all++) {
        __m512i dots[PANEL_GROUPS][TILE_TOKENS];
        for (int k = 0; k < PANEL_GROUPS; k++) {
            for (int t = 0; t < tokens; t++) dots[k][t] = _mm512_setzero_si512();
        }
        panel_dots(p, x, at, p->block, tokens, dots);
        for (int t = 0; t < tokens; t++) {
            const int32_t excess = p->offset * ((const int32_t *)token_at(x, x->acts.sum, t))[all];
            const float d = ((const float *)token_at(x, x->acts.d, t))[all];
            for (int k = 0; k < PANEL_GROUPS; k++) {
                sums[k][t] = block_add(dots[k][t], excess, p->scales[b][k], d, sums[k][t]);
            }
        }
    }
    for (int k = 0; k < PANEL_GROUPS; k++) {
        for (int t = 0; t < tokens; t++) {
            _mm512_mask_storeu_ps(token_out(&p->group[k], x, t), p->group[k].mask, sums[k][t]);
        }
    }
}

/* Weights with one scale: sums are integers to the end, and wait as such. */
LANES_INLINE void tile_rows(const struct panel *p, const struct token_set *x, int tokens)
{
    __m512i dots[PANEL_GROUPS][TILE_TOKENS];
    for (int k = 0; k < PANEL_GROUPS; k++) {
        const __mmask16 mask = p->col ? p->group[k].mask : 0;
        for (int t = 0; t < tokens; t++) {
            dots[k][t] = _mm512_maskz_loadu_epi32(mask, token_out(&p->group[k], x, t));
        }
    }
    panel_dots(p, x, 0, p->cols, tokens, dots);
    for (int t = 0; t < tokens; t++) {
        const int32_t excess = *(const int32_t *)token_at(x, x->acts.sum, t);
        const float d = *(const float *)token_at(x, x->acts.d, t);
        for (int k = 0; k < PANEL_GROUPS; k++) {
            float *out = token_out(&p->group[k], x, t);
            if (p->ends) {
                const __m512 v = row_finish(dots[k][t], excess, d, x->scale);
                _mm512_mask_storeu_ps(out, p->group[k].mask, v);
            } else {
                _mm512_mask_storeu_epi32(out, p->group[k].mask, dots[k][t]);
            }
        }
    }
}

#define TILE(kind, tokens)                                                                        \
    static void tile_##kind##_##tokens(const struct panel *p, const struct token_set *x)       \
    {                                                                                             \
        tile_##kind(p, x, tokens);                                                                \
    }
#define TILES(kind)                                                                               \
    TILE(kind, 1) TILE(kind, 2) TILE(kind, 3) TILE(kind, 4) TILE(kind, 5) TILE(kind, 6)
#define TILE_NAMES(kind)                                                                          \
    { tile_##kind##_1, tile_##kind##_2, tile_##kind##_3, tile_##kind##_4, tile_##kind##_5,        \
      tile_##kind##_6 }

TILES(blocks)
TILES(rows)

static void (*const tiles[2][TILE_TOKENS])(const struct panel *, const struct token_set *) = {
    TILE_NAMES(blocks), TILE_NAMES(rows)
};

static void panel_multiply(struct panel *p, const struct weight *w, const void *acts,
                           uint32_t count, size_t out_stride)
{
    struct token_set x = { .acts_bytes = acts_row_bytes(w->type, w->cols),
                           .out_stride = out_stride, .scale = w->scale };
    p->block = acts_block(w->type, w->cols);
    p->offset = weight_offset(w->type);
    for (p->col = 0; p->col < w->cols; p->col += p->cols) {
        p->cols = w->cols - p->col < PANEL_COLS ? w->cols - p->col : PANEL_COLS;
        panel_fill(p, w->type);
        p->ends = p->col + p->cols == w->cols;
        for (uint32_t t = 0; t < count;) {
            const uint32_t tokens = count - t < TILE_TOKENS ? count - t : TILE_TOKENS;
            x.acts = acts_of(w->type, w->cols, (const char *)acts + t * x.acts_bytes);
            x.skip = t * out_stride;
            tiles[w->type == WEIGHT_I2_S][tokens - 1](p, &x);
            t += tokens;
        }
    }
}

/* ---- Rows in groups -------------------------------------------------------------------------- */

/* The group of row r, and which rows of it come before `end`: how many from r on. ahead: in rows.
 * */
static uint32_t matmul_int_avx512_group_of(const struct weight *w, uint32_t r, uint32_t end,
                                           uint32_t ahead, float *out, struct row_group *g)
{
    const unsigned char *data = w->data;
    if (w->rows < GROUP_ROWS) {
        *g = (struct row_group){ data + r * w->row_bytes, 0, data, out + r, 1 };
        return 1;
    }
    /* The last group of the matrix begins earlier, so that all its rows are there. */
    const uint32_t first = r + GROUP_ROWS > w->rows ? w->rows - GROUP_ROWS : r;
    const uint32_t stop = end < first + GROUP_ROWS ? end : first + GROUP_ROWS;
    const __mmask16 mask = (__mmask16)(lanes_mask(stop - first) & ~lanes_mask(r - first));
    *g = (struct row_group){ data + first * w->row_bytes, w->row_bytes,
                             data + (first + ahead) * w->row_bytes, out + first, mask };
    return stop - r;
}

void matmul_int_avx512(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                       uint32_t count, float *out, size_t out_stride)
{
    struct panel p;
    const uint32_t ahead = count <= FEW_TOKENS ? GROUP_ROWS : PANEL_GROUPS * GROUP_ROWS;
    for (uint32_t r = begin; r < end;) {
        r += matmul_int_avx512_group_of(w, r, end, ahead, out, &p.group[0]);
        if (count <= FEW_TOKENS) {
            group_multiply(&p.group[0], w, acts, count, out_stride);
            continue;
        }
        if (r < end) {
            r += matmul_int_avx512_group_of(w, r, end, ahead, out, &p.group[1]);
        } else {
            p.group[1] = p.group[0];
            p.group[1].mask = 0;
        }
        panel_multiply(&p, w, acts, count, out_stride);
    }
}
