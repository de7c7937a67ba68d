/* attention.h - what each token looks at: softmax(q · kᵀ / √n) · v over the positions up to its
 * own. */
#ifndef ENGINE_MODEL_ATTENTION_H
#define ENGINE_MODEL_ATTENTION_H

#include "math/kernel.h"
#include "math/team.h"
#include "model/kv.h"
#include "model/model.h"

enum { ATTENTION_BLOCK = 8 };    /* tokens of a piece of work at most */

struct attention_row { uint32_t slot, position; };

struct attention {
    const struct model *m;
    struct kv *kv;
    struct team *team;
    const struct kernel_ops *ops;
    uint32_t context;
    float *scores;               /* attention_scores() of them for each thread, borrowed */
    struct attention_block { uint32_t row, count; } *blocks; /* room for as many as rows,
                                                              * borrowed */
    uint32_t blocks_count;
};

/* Numbers that one thread needs for scores. */
size_t attention_scores(const struct model *m, uint32_t context);

/* Cuts rows into pieces of work: once for all layers with the same rows. */
void attention_plan(struct attention *a, const struct attention_row *rows, uint32_t count);

/* q: f16, heads × head_dim for each row, rotated; out likewise, f32. */
void attention_run(struct attention *a, const struct attention_row *rows, uint32_t layer,
                   const uint16_t *q, float *out);

#endif
