/* attention.c - see attention.h.
 *
 * A piece of work is some tokens of one sequence that follow each other × one head of keys and
 * values, with all the query heads that share it: a page of keys is read once for all of them while
 * it is in the first cache. Each query's scores, softmax and weighted sum are its own, page by page
 * in the same order, so the cutting changes no result. Scores of all positions are kept (not the
 * running maximum of flash attention): contexts here are thousands, which fits the second cache,
 * and the sum is exact in one order.
 *
 * Weights of values are rounded to f16, as llama.cpp without flash attention does: behind attention
 * comes a conversion to int8, where a number that is off by little may fall to the other side of a
 * rounding, and after some layers that is a difference in the second digit of a logit. With the
 * same rounding both engines agree in four, until one of them falls to the other side. */
#include "model/attention.h"

#include <math.h>
#include <string.h>

size_t attention_scores(const struct model *m, uint32_t context)
{
    return (size_t)ATTENTION_BLOCK * (m->heads / m->heads_kv) * context;
}

void attention_plan(struct attention *a, const struct attention_row *rows, uint32_t count)
{
    a->blocks_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct attention_block *last = a->blocks_count ? &a->blocks[a->blocks_count - 1] : NULL;
        if (last && last->count < ATTENTION_BLOCK && rows[i].slot == rows[last->row].slot) {
            last->count++;
        } else {
            a->blocks[a->blocks_count++] = (struct attention_block){ i, 1 };
        }
    }
}

struct attention_job {
    const struct attention *a;
    const struct attention_row *rows;
    uint32_t layer;
    const uint16_t *q;
    float *out;
};

/* Positions of the page that begins at `from` which a row sees. */
static uint32_t page_visible(const struct attention_row *row, uint32_t from)
{
    const uint32_t end = row->position + 1;
    if (end <= from) return 0;
    return end - from < KV_PAGE ? end - from : KV_PAGE;
}

static uint32_t block_end(const struct attention_row *rows, const struct attention_block *b)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        if (rows[b->row + i].position >= end) end = rows[b->row + i].position + 1;
    }
    return end;
}

static void block_scores(const struct attention_job *j, const struct attention_block *b,
                         uint32_t head, float *scores)
{
    const struct attention *a = j->a;
    const struct model *m = a->m;
    const uint32_t group = m->heads / m->heads_kv, n = m->head_dim, slot = j->rows[b->row].slot;
    const uint32_t end = block_end(j->rows, b);
    const float scale = 1.0f / sqrtf((float)n);
    for (uint32_t from = 0; from < end; from += KV_PAGE) {
        const uint16_t *keys = kv_key(a->kv, slot, j->layer, head, from);
        for (uint32_t i = 0; i < b->count; i++) {
            const uint32_t visible = page_visible(&j->rows[b->row + i], from);
            for (uint32_t g = 0; visible && g < group; g++) {
                const uint16_t *q = j->q + ((size_t)(b->row + i) * m->heads + head * group + g) * n;
                float *to = scores + (size_t)(i * group + g) * a->context + from;
                a->ops->scores_f16(q, keys, visible, n, scale, to);
            }
        }
    }
}

static void block_values(const struct attention_job *j, const struct attention_block *b,
                         uint32_t head, const float *scores)
{
    const struct attention *a = j->a;
    const struct model *m = a->m;
    const uint32_t group = m->heads / m->heads_kv, n = m->head_dim, slot = j->rows[b->row].slot;
    const uint32_t end = block_end(j->rows, b);
    for (uint32_t from = 0; from < end; from += KV_PAGE) {
        const uint16_t *values = kv_value(a->kv, slot, j->layer, head, from);
        for (uint32_t i = 0; i < b->count; i++) {
            const uint32_t visible = page_visible(&j->rows[b->row + i], from);
            for (uint32_t g = 0; visible && g < group; g++) {
                float *out = j->out + ((size_t)(b->row + i) * m->heads + head * group + g) * n;
                const float *by = scores + (size_t)(i * group + g) * a->context + from;
                a->ops->weighted_sum_f16(values, by, visible, n, out);
            }
        }
    }
}

/* To the nearest number that f16 has, ties to even; all are from 0 to 1. Where f16 has 11 digits,
 * 13 of the 24 here are rounded away; below 2^-14 its numbers are multiples of 2^-24, as are those
 * of f32 between a half and one. */
static void weights_round(float *weights, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits, small_bits;
        const float small = (weights[i] + 0.5f) - 0.5f;
        memcpy(&bits, &weights[i], sizeof(bits));
        memcpy(&small_bits, &small, sizeof(small_bits));
        const uint32_t rounded = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
        const uint32_t is_small = (uint32_t)((int32_t)(bits - 0x38800000u) >> 31); /* below 2^-14 */
        bits = (small_bits & is_small) | (rounded & ~is_small);
        memcpy(&weights[i], &bits, sizeof(bits));
    }
}

static void attention_piece(void *arg, uint32_t piece, uint32_t thread)
{
    const struct attention_job *j = arg;
    const struct attention *a = j->a;
    const struct model *m = a->m;
    const struct attention_block *b = &a->blocks[piece / m->heads_kv];
    const uint32_t head = piece % m->heads_kv, group = m->heads / m->heads_kv;
    float *scores = a->scores + thread * attention_scores(m, a->context);

    block_scores(j, b, head, scores);
    for (uint32_t i = 0; i < b->count; i++) {
        const uint32_t visible = j->rows[b->row + i].position + 1;
        for (uint32_t g = 0; g < group; g++) {
            float *weights = scores + (size_t)(i * group + g) * a->context;
            a->ops->softmax(weights, visible);
            weights_round(weights, visible);
        }
        memset(j->out + ((size_t)(b->row + i) * m->heads + head * group) * m->head_dim, 0,
               (size_t)group * m->head_dim * sizeof(float));
    }
    block_values(j, b, head, scores);
}

void attention_run(struct attention *a, const struct attention_row *rows, uint32_t layer,
                   const uint16_t *q, float *out)
{
    struct attention_job job = { a, rows, layer, q, out };
    team_run(a->team, a->blocks_count * a->m->heads_kv, attention_piece, &job);
}
