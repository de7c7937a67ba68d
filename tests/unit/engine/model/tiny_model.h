/* tiny_model.h - small random models for tests of model/, written as a file and loaded, with
 * faults. */
#ifndef TESTS_UNIT_ENGINE_TINY_MODEL_H
#define TESTS_UNIT_ENGINE_TINY_MODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/gguf_write.h"
#include "model/model.h"

struct tiny_model {
    const char *arch;            /* NULL = llama */
    enum weight_type type;
    uint32_t layers, embd, heads, heads_kv, ff, vocab, rope_dims; /* 0 = as below */
    float epsilon;               /* 0 = 1e-5 */
    int tied, rope_factors, scales;
    /* faults */
    const char *skip;            /* a tensor or key that is left out */
    const char *wrong_shape, *wrong_type, *extra, *not_finite; /* tensors */
    const char *scaling;         /* of RoPE */
    float scaling_factor;
    uint32_t experts, unknown_type;
    float negative_epsilon;
};

struct tiny_writer { struct gguf_writer *w; struct tiny_model m; uint64_t random; int data; };

static float tiny_random(struct tiny_writer *t) /* −1 to 1 */
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (float)((int32_t)(t->random >> 32)) * 0x1p-31f;
}

static int tiny_is(const char *a, const char *b) { return a && b && !strcmp(a, b); }

/* First round: what there is; second: its numbers. */
static void tiny_tensor(struct tiny_writer *t, const char *name, enum weight_type type,
                        uint32_t cols, uint32_t rows, float size)
{
    if (tiny_is(t->m.skip, name)) return;
    if (tiny_is(t->m.wrong_type, name)) type = WEIGHT_F16;
    if (tiny_is(t->m.wrong_shape, name)) rows *= 2;
    const uint64_t bytes = weight_bytes(type, cols, rows);
    const uint64_t dims[] = { cols, rows };
    if (!t->data) {
        const uint32_t told = tiny_is(t->m.wrong_type, name) && t->m.unknown_type
                                  ? t->m.unknown_type : (uint32_t)type;
        gguf_write_tensor(t->w, (struct gguf_text){ name, strlen(name) }, told, dims,
                          rows == 1 ? 1 : 2, bytes);
        return;
    }
    float *x = malloc(cols * sizeof(*x));
    unsigned char *row = malloc(weight_row_bytes(type, cols));
    if (!x || !row) abort();
    const float scale = size * 0.6f;
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < cols; i++) {
            x[i] = rows == 1 ? 1 + 0.2f * tiny_random(t) : size * tiny_random(t);
        }
        if (tiny_is(t->m.not_finite, name)) x[cols - 1] = NAN;
        weight_row_from_floats(type, x, cols, scale, row);
        gguf_write_data(t->w, row, weight_row_bytes(type, cols));
    }
    if (type == WEIGHT_I2_S) {
        const float tail[8] = { tiny_is(t->m.not_finite, name) ? NAN : scale };
        gguf_write_data(t->w, tail, sizeof(tail));
    }
    free(x);
    free(row);
}

static void tiny_matrix(struct tiny_writer *t, uint32_t layer, const char *name, uint32_t cols,
                        uint32_t rows)
{
    char full[64];
    snprintf(full, sizeof(full), "blk.%u.%s.weight", layer, name);
    tiny_tensor(t, full, t->m.type, cols, rows, 1.7f / sqrtf((float)cols));
    snprintf(full, sizeof(full), "blk.%u.%s.scale", layer, name);
    if (t->m.scales) tiny_tensor(t, full, WEIGHT_F32, 1, 1, 1);
}

static void tiny_norm(struct tiny_writer *t, uint32_t layer, const char *name, uint32_t cols)
{
    char full[64];
    snprintf(full, sizeof(full), "blk.%u.%s.weight", layer, name);
    tiny_tensor(t, full, WEIGHT_F32, cols, 1, 1);
}

static void tiny_tensors(struct tiny_writer *t)
{
    const struct tiny_model *m = &t->m;
    const int bitnet = !strncmp(m->arch, "bitnet", 6);
    const int ternary = m->type == WEIGHT_TQ2_0 || m->type == WEIGHT_I2_S;
    const enum weight_type around = ternary ? WEIGHT_F16 : m->type;
    const uint32_t kv = m->embd / m->heads * m->heads_kv;
    tiny_tensor(t, "token_embd.weight", around, m->embd, m->vocab, 1);
    tiny_tensor(t, "output_norm.weight", WEIGHT_F32, m->embd, 1, 1);
    if (!bitnet && !m->tied) tiny_tensor(t, "output.weight", around, m->embd, m->vocab, 0.5f);
    if (m->rope_factors) tiny_tensor(t, "rope_freqs.weight", WEIGHT_F32, m->rope_dims / 2, 1, 1);
    if (m->extra) tiny_tensor(t, m->extra, WEIGHT_F32, m->embd, 1, 1);
    for (uint32_t i = 0; i < m->layers; i++) {
        tiny_norm(t, i, "attn_norm", m->embd);
        tiny_norm(t, i, "ffn_norm", m->embd);
        if (bitnet) tiny_norm(t, i, "attn_sub_norm", m->embd);
        if (bitnet) tiny_norm(t, i, "ffn_sub_norm", m->ff);
        tiny_matrix(t, i, "attn_q", m->embd, m->embd);
        tiny_matrix(t, i, "attn_k", m->embd, kv);
        tiny_matrix(t, i, "attn_v", m->embd, kv);
        tiny_matrix(t, i, "attn_output", m->embd, m->embd);
        tiny_matrix(t, i, "ffn_gate", m->embd, m->ff);
        tiny_matrix(t, i, "ffn_up", m->embd, m->ff);
        tiny_matrix(t, i, "ffn_down", m->ff, m->embd);
    }
}

static void tiny_key(struct tiny_writer *t, const char *name, uint32_t value)
{
    char key[96];
    snprintf(key, sizeof(key), "%s.%s", t->m.arch, name);
    if (value && !tiny_is(t->m.skip, name)) gguf_write_u32(t->w, key, value);
}

static void tiny_keys(struct tiny_writer *t)
{
    const struct tiny_model *m = &t->m;
    char key[96];
    if (!tiny_is(m->skip, "general.architecture")) {
        gguf_write_text(t->w, "general.architecture", m->arch);
    }
    gguf_write_text(t->w, "general.name", "tiny\nmodel");
    tiny_key(t, "block_count", m->layers);
    tiny_key(t, "embedding_length", m->embd);
    tiny_key(t, "feed_forward_length", m->ff);
    tiny_key(t, "context_length", 512);
    tiny_key(t, "attention.head_count", m->heads);
    tiny_key(t, "attention.head_count_kv", m->heads_kv);
    tiny_key(t, "rope.dimension_count", m->rope_dims);
    tiny_key(t, "expert_count", m->experts);
    snprintf(key, sizeof(key), "%s.rope.scaling.type", m->arch);
    if (m->scaling) gguf_write_text(t->w, key, m->scaling);
    snprintf(key, sizeof(key), "%s.rope.scaling.factor", m->arch);
    if (m->scaling_factor != 0) gguf_write_f32(t->w, key, m->scaling_factor);
    snprintf(key, sizeof(key), "%s.attention.layer_norm_rms_epsilon", m->arch);
    gguf_write_f32(t->w, key, m->epsilon);
}

/* As the file of this; -1: why. What is left 0 is set. */
static int tiny_open(const struct tiny_model *model, struct gguf **out, struct fail *why)
{
    struct tiny_writer t = { .m = *model, .random = 1 };
    struct tiny_model *m = &t.m;
    if (!m->arch) m->arch = "llama";
    if (!m->layers) m->layers = 2;
    if (!m->embd) m->embd = 256;
    if (!m->heads) m->heads = 8;
    if (!m->heads_kv) m->heads_kv = 4;
    if (!m->ff) m->ff = 256;
    if (!m->vocab) m->vocab = 97;
    if (!m->rope_dims) m->rope_dims = m->embd / m->heads;
    if (!(m->epsilon > 0)) m->epsilon = 1e-5f;
    if (m->negative_epsilon < 0) m->epsilon = m->negative_epsilon;

    char path[] = "/tmp/engine-tiny-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0) return fail_set(why, "mkstemp");
    close(fd);
    int rc = gguf_write_begin(path, &t.w, why);
    if (!rc) {
        tiny_keys(&t);
        tiny_tensors(&t);
        t.data = 1;
        tiny_tensors(&t);
        rc = gguf_write_finish(t.w, why);
    }
    if (!rc) rc = gguf_open(path, out, why);
    unlink(path);
    return rc;
}

#endif
