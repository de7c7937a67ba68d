/* forward.h - one forward pass over a batch of tokens of several sequences.
 *
 * A token's logits are the same to the bit whatever else is in the batch, however its sequence was
 * cut into batches and on however many threads. */
#ifndef ENGINE_MODEL_FORWARD_H
#define ENGINE_MODEL_FORWARD_H

#include <stdint.h>

#include "math/matmul.h"
#include "model/kv.h"
#include "model/model.h"

struct forward_token {
    int32_t token;
    uint32_t slot, position;     /* room is reserved; tokens of a slot are in order of position */
    uint32_t wants_logits;
};

struct forward;

/* Tokens of a pass that may want logits: one for each slot, or this many if that is more. */
enum { FORWARD_LOGITS_MIN = 64 };
uint32_t forward_logits_max(const struct forward *f);

/* Products whose weights the device keeps are computed there from now on. -1: it has no room for
 * what a pass needs, and why. */
struct device;
int forward_use_device(struct forward *f, struct device *d, struct fail *why);

/* Bytes that forward_create will use, and that a pool of them needs (blocks are rounded up to
 * powers of two; what is behind their ends takes no memory). */
struct forward_bytes { uint64_t used, pool; };
struct forward_bytes forward_bytes_needed(const struct model *m, uint32_t slots, uint32_t context,
                                          uint32_t threads, const struct kernel_ops *ops,
                                          uint32_t batch_max);

/* batch_max: tokens in one pass. Scratch comes from the pool "activations". */
int forward_create(const struct model *m, struct kv *kv, struct team *team,
                   const struct kernel_ops *ops, struct buddy *activations, uint32_t batch_max,
                   struct forward **out, struct fail *why);
void forward_destroy(struct forward *f);

/* Computes; the i-th row of logits (vocab floats, borrowed until the next pass) is of the i-th
 * token that wants them. */
void forward_run(struct forward *f, const struct forward_token *tokens, uint32_t count,
                 const float **logits);

/* Times by layer and operation, on demand: while on, every pass adds to them. */
enum forward_op {
    FORWARD_NORM, FORWARD_QKV, FORWARD_ROPE, FORWARD_ATTENTION, FORWARD_ATTN_OUT,
    FORWARD_FFN_UP, FORWARD_ACTIVATION, FORWARD_FFN_DOWN, FORWARD_EMBED, FORWARD_LOGITS, FORWARD_OPS
};
const char *forward_op_name(enum forward_op op);
void forward_times_enable(struct forward *f, int on);
/* ns and calls since the last enable(1), of one layer (layer == layers: embedding and logits) */
void forward_times(const struct forward *f, uint32_t layer, enum forward_op op, uint64_t *ns,
                   uint64_t *calls);

#endif
