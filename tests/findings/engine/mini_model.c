/* mini_model.c - forward passes. Eight tokens go through a matrix at once, so that each weight
 * is read once for them: as with real models a pass over eight costs little more than one over
 * a single token. */
#include <math.h>

#include "mini_model.h"

/* Two vectors of four: wider ones than the machine has would go through memory. */
typedef float lane4 __attribute__((vector_size(16)));
struct lane8 { lane4 low, high; };

static inline float lane_get(const struct lane8 *x, unsigned l) { return l < 4 ? x->low[l]
    : x->high[l - 4]; }

static inline void lane_set(struct lane8 *x, unsigned l, float value)
{
    if (l < 4) x->low[l] = value;
    else x->high[l - 4] = value;
}

/* The dot product of a row and eight columns. */
static inline struct lane8 row_multiply(const float *row, const struct lane8 *in)
{
    struct lane8 sum = { { 0 }, { 0 } };
    for (unsigned c = 0; c < MINI_DIM; c++) {
        sum.low += row[c] * in[c].low;
        sum.high += row[c] * in[c].high;
    }
    return sum;
}

static float layers[MINI_LAYERS][MINI_DIM][MINI_DIM], embed[MINI_VOCAB][MINI_DIM];

void mini_model_make(uint64_t *random)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(float); i++) {
        (&layers[0][0][0])[i] = ((float)bench_uniform(random) - 0.5f) / 6;
    }
    for (size_t i = 0; i < sizeof(embed) / sizeof(float); i++) {
        (&embed[0][0])[i] = (float)bench_uniform(random) - 0.5f;
    }
}

size_t mini_model_bytes(void) { return sizeof(layers) + sizeof(embed); }

BENCH_NOINLINE static void layer_multiply(const float weights[MINI_DIM][MINI_DIM],
                                          const struct lane8 *in, struct lane8 *out)
{
    for (unsigned r = 0; r < MINI_DIM; r++) out[r] = row_multiply(weights[r], in);
}

BENCH_NOINLINE static void layer_activate(struct lane8 *x)
{
    for (unsigned r = 0; r < MINI_DIM; r++) {
        for (unsigned l = 0; l < MINI_LANES; l++) {
            const float value = lane_get(&x[r], l);
            lane_set(&x[r], l, value / (1 + fabsf(value)));
        }
    }
}

BENCH_NOINLINE static void head_multiply(const struct lane8 *x, struct mini_lane *lanes,
                                         unsigned count)
{
    for (unsigned t = 0; t < MINI_VOCAB; t++) {
        const struct lane8 sum = row_multiply(embed[t], x);
        for (unsigned l = 0; l < count; l++) {
            if (lanes[l].logits) lanes[l].logits[t] = lane_get(&sum, l);
        }
    }
}

static void group_pass(struct mini_lane *lanes, unsigned count, unsigned copies)
{
    struct lane8 in[MINI_DIM], out[MINI_DIM];
    int asked = 0;
    for (unsigned r = 0; r < MINI_DIM; r++) {
        for (unsigned l = 0; l < MINI_LANES; l++) {
            const struct mini_lane *lane = &lanes[l < count ? l : 0];
            lane_set(&in[r], l, embed[lane->token][r] + (lane->mean ? lane->mean[r] / 4 : 0));
        }
    }
    for (unsigned k = 0; k < copies * MINI_LAYERS; k++) {
        layer_multiply((const float(*)[MINI_DIM])layers[k % MINI_LAYERS], in, out);
        layer_activate(out);
        memcpy(in, out, sizeof(in));
    }
    for (unsigned l = 0; l < count; l++) {
        for (unsigned r = 0; lanes[l].kv && r < MINI_DIM; r++) lanes[l].kv[r] = lane_get(&in[r], l);
        asked |= lanes[l].logits != NULL;
    }
    if (asked) head_multiply(in, lanes, count);
}

void mini_model_pass(struct mini_lane *lanes, unsigned count, unsigned copies)
{
    for (unsigned i = 0; i < count; i += MINI_LANES) {
        group_pass(lanes + i, count - i < MINI_LANES ? count - i : MINI_LANES, copies ? copies : 1);
    }
}
