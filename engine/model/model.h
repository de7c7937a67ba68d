/* model.h - hyperparameters and tensors of a model of the architectures llama and bitnet.
 *
 * All of it is checked when it is loaded: every shape against the hyperparameters, hyperparameters
 * against limits and each other, types, and that there is no tensor that would be passed over (a
 * bias that is not added gives a model that talks nonsense, and nobody knows why). */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <stdint.h>

#include "base/buddy.h"
#include "base/fail.h"
#include "file/gguf.h"
#include "file/weight.h"

enum model_arch { MODEL_LLAMA, MODEL_BITNET };

/* What an architecture does its own way; one row of a table in hyper.c. */
struct model_form {
    const char *name;            /* general.architecture */
    enum model_arch arch;
    int rope_halves;             /* pairs are (i, i + n/2), not (2i, 2i + 1) */
    int sub_norms;               /* a norm before each of the projections back to the residual */
    int relu2;                   /* gate is max(x, 0)², not SiLU */
    int tied;                    /* output is always the embedding */
};

struct model_layer {
    const float *attn_norm, *ffn_norm;
    const float *attn_sub_norm, *ffn_sub_norm;  /* bitnet, else NULL */
    struct weight q, k, v, o, gate, up, down;
    /* Bitnet; 1 = none. */
    float q_scale, k_scale, v_scale, o_scale, gate_scale, up_scale, down_scale;
};

struct model {
    enum model_arch arch;
    const struct model_form *form;
    char name[64];               /* general.name, else the file's */
    char type[16];               /* what most of its weights are: "Q8_0" */
    uint32_t layers, embd, heads, heads_kv, head_dim, ff, vocab, context, rope_dims;
    float rope_base, rope_scale, norm_epsilon;
    const float *rope_factors;   /* rope_dims / 2 of them (Llama 3), or NULL */
    struct weight tok_embd, output;
    const float *output_norm;
    struct model_layer *layer;
    uint64_t weight_bytes;
    struct buddy *pool;          /* borrowed */
    void *block;                 /* all tensors, of the pool */
};

enum { MODEL_WEIGHT_ALIGN = 64 };

/* Of the pool "weights", for all tensors of this file, in one block: a pool's blocks are powers of
 * two, and one of them wastes addresses only (nobody touches its end), where one for each tensor
 * would waste up to half of the pool. A pool for this model has model_pool_bytes() of them. */
uint64_t model_bytes_needed(const struct gguf *g);
uint64_t model_pool_bytes(const struct gguf *g);

/* Closes the file on success. weights: the pool that tensors are copied to; it has to stay for
 * as long as the model, which gives its block back. */
int model_load(struct gguf *g, struct buddy *weights, struct model **out, struct fail *why);
void model_destroy(struct model *m);

#endif
