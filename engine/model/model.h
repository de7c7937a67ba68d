/* model.h - hyperparameters and tensors of a model of the architectures llama and bitnet. */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <stdint.h>

#include "base/buddy.h"
#include "base/fail.h"
#include "file/gguf.h"
#include "file/weight.h"

enum model_arch { MODEL_LLAMA, MODEL_BITNET };

struct model_layer {
    const float *attn_norm, *ffn_norm;
    const float *attn_sub_norm, *ffn_sub_norm;  /* bitnet, else NULL */
    struct weight q, k, v, o, gate, up, down;
    float q_scale, k_scale, v_scale, o_scale, gate_scale, up_scale, down_scale; /* bitnet; 1 = none */
};

struct model {
    enum model_arch arch;
    char name[64];               /* general.name, else the file's */
    char type[16];               /* what most of its weights are: "Q8_0" */
    uint32_t layers, embd, heads, heads_kv, head_dim, ff, vocab, context, rope_dims;
    float rope_base, rope_scale, norm_epsilon;
    const float *rope_factors;   /* rope_dims / 2 of them (Llama 3), or NULL */
    struct weight tok_embd, output;
    const float *output_norm;
    struct model_layer *layer;
    uint64_t weight_bytes;
    struct gguf *file;           /* owned */
};

/* Takes over the file on success. weights: the pool that tensors are copied to. */
int model_load(struct gguf *g, struct buddy *weights, struct model **out, struct fail *why);
void model_destroy(struct model *m);

#endif
