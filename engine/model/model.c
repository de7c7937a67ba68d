/* model.c - the tensors of a model: found, checked, and copied into one block of a pool.
 *
 *   block │ token_embd │ output_norm │ blk.0.attn_norm │ blk.0.attn_q │ …   each at a multiple of
 *   64
 *
 * They are copied and not used from the mapped file, so that their memory is counted where it is
 * looked for, the first request does not wait for a disk, and rows are aligned whatever the file's
 * alignment is. The list of what goes where is made first and copied second: a model that lacks its
 * last tensor is refused before the first gigabyte is copied. */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hyper.h"

enum { TENSORS_OF_LAYER = 18, TENSORS_OF_MODEL = 4 };

/* A tensor, and which field of the model it is for: one of the two. */
struct model_piece {
    const struct gguf_tensor *tensor;
    struct weight *weight;
    const float **floats;
};

struct model_loader {
    const struct gguf *g;
    struct model *m;
    struct fail *why;
    struct model_piece *pieces;
    size_t count, max;
};

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + MODEL_WEIGHT_ALIGN - 1) & ~(uint64_t)(MODEL_WEIGHT_ALIGN - 1);
}

uint64_t model_bytes_needed(const struct gguf *g)
{
    uint64_t sum = MODEL_WEIGHT_ALIGN; /* vector loads may touch what is behind the last one */
    for (uint64_t i = 0; i < gguf_tensor_count(g); i++) {
        sum += align_up(gguf_tensor_at(g, i)->bytes);
    }
    return sum;
}

uint64_t model_pool_bytes(const struct gguf *g)
{
    const uint64_t needed = model_bytes_needed(g);
    uint64_t power = 4096;
    while (power < needed && power < UINT64_MAX / 2) power *= 2;
    return power;
}

/* ---- What is needed -------------------------------------------------------------------------- */

static const char *tensor_type_name(const struct gguf_tensor *t, char text[24])
{
    const struct weight_kind *kind = weight_kind(t->type);
    if (kind) return kind->name;
    snprintf(text, 24, "of the type %u", t->type);
    return text;
}

/* *out NULL if it is not there. */
static int tensor_find(const struct model_loader *l, const char *name, uint64_t cols, uint64_t rows,
                       int required, const struct gguf_tensor **out)
{
    *out = gguf_tensor_named(l->g, name);
    if (!*out) return required ? fail_set(l->why, "the model has no tensor %s", name) : 0;
    const uint64_t *dims = (*out)->dims;
    if (dims[0] == cols && dims[1] == rows && dims[2] == 1 && dims[3] == 1) return 0;
    return fail_set(l->why, "the tensor %s is %llu × %llu, but should be %llu × %llu", name,
                    (unsigned long long)dims[0], (unsigned long long)dims[1],
                    (unsigned long long)cols, (unsigned long long)rows);
}

static void model_loader_piece_add(struct model_loader *l, struct model_piece piece)
{
    if (l->count < l->max) l->pieces[l->count++] = piece;
}

static int tensor_floats(struct model_loader *l, const char *name, uint64_t count, int required,
                         const float **out)
{
    const struct gguf_tensor *t;
    *out = NULL;
    if (tensor_find(l, name, count, 1, required, &t)) return -1;
    if (!t) return 0;
    if (t->type != WEIGHT_F32) {
        char text[24];
        return fail_set(l->why, "the tensor %s is %s, but should be F32", name,
                        tensor_type_name(t, text));
    }
    model_loader_piece_add(l, (struct model_piece){ t, NULL, out });
    return 0;
}

static int model_loader_tensor_weight(struct model_loader *l, const char *name, uint32_t cols,
                                      uint32_t rows, int required, struct weight *out)
{
    const struct gguf_tensor *t;
    if (tensor_find(l, name, cols, rows, required, &t)) return -1;
    if (!t) return 0;
    const struct weight_kind *kind = weight_kind(t->type);
    char text[24];
    if (!kind) {
        return fail_set(l->why, "the tensor %s is %s, which is not supported: F32, F16, Q8_0, "
                        "Q4_0, TQ2_0 and I2_S are", name, tensor_type_name(t, text));
    }
    if (cols % kind->block || t->bytes < weight_bytes(kind->type, cols, rows)) {
        return fail_set(l->why, "the tensor %s has rows of %u numbers, which is not a multiple of "
                        "the %u of a block of %s", name, cols, kind->block, kind->name);
    }
    *out = (struct weight){ .type = kind->type, .cols = cols, .rows = rows,
                            .row_bytes = weight_row_bytes(kind->type, cols), .scale = 1 };
    model_loader_piece_add(l, (struct model_piece){ t, out, NULL });
    return 0;
}

/* A matrix of a layer, and in BitNet's files the number that its product is multiplied with. */
static int layer_weight(struct model_loader *l, uint32_t i, const char *name, uint32_t cols,
                        uint32_t rows, struct weight *w, float *scale)
{
    char full[64];
    const struct gguf_tensor *t = NULL;
    snprintf(full, sizeof(full), "blk.%u.%s.weight", i, name);
    if (model_loader_tensor_weight(l, full, cols, rows, 1, w)) return -1;
    *scale = 1;
    if (l->m->arch != MODEL_BITNET) return 0;
    snprintf(full, sizeof(full), "blk.%u.%s.scale", i, name);
    if (tensor_find(l, full, 1, 1, 0, &t)) return -1;
    if (!t) return 0;
    if (t->type != WEIGHT_F32) return fail_set(l->why, "the tensor %s is not F32", full);
    memcpy(scale, t->data, sizeof(*scale));
    if (!isfinite(*scale)) return fail_set(l->why, "the tensor %s is not a finite number", full);
    model_loader_piece_add(l, (struct model_piece){ .tensor = t });
    return 0;
}

static int layer_floats(struct model_loader *l, uint32_t i, const char *name, uint32_t count,
                        int required, const float **out)
{
    char full[64];
    snprintf(full, sizeof(full), "blk.%u.%s.weight", i, name);
    return tensor_floats(l, full, count, required, out);
}

static int layer_plan(struct model_loader *l, uint32_t i)
{
    const struct model *m = l->m;
    struct model_layer *y = &m->layer[i];
    const uint32_t q = m->heads * m->head_dim, kv = m->heads_kv * m->head_dim;
    return layer_floats(l, i, "attn_norm", m->embd, 1, &y->attn_norm) ||
           layer_floats(l, i, "ffn_norm", m->embd, 1, &y->ffn_norm) ||
           (m->form->sub_norms && (layer_floats(l, i, "attn_sub_norm", q, 1, &y->attn_sub_norm) ||
                                   layer_floats(l,
                                                i, "ffn_sub_norm", m->ff, 1, &y->ffn_sub_norm))) ||
           layer_weight(l, i, "attn_q", m->embd, q, &y->q, &y->q_scale) ||
           layer_weight(l, i, "attn_k", m->embd, kv, &y->k, &y->k_scale) ||
           layer_weight(l, i, "attn_v", m->embd, kv, &y->v, &y->v_scale) ||
           layer_weight(l, i, "attn_output", q, m->embd, &y->o, &y->o_scale) ||
           layer_weight(l, i, "ffn_gate", m->embd, m->ff, &y->gate, &y->gate_scale) ||
           layer_weight(l, i, "ffn_up", m->embd, m->ff, &y->up, &y->up_scale) ||
           layer_weight(l, i, "ffn_down", m->ff, m->embd, &y->down, &y->down_scale) ? -1 : 0;
}

/* What is in the file and in no piece would be passed over in silence. */
static int loader_check_rest(const struct model_loader *l)
{
    if (l->count == gguf_tensor_count(l->g)) return 0;
    for (uint64_t i = 0; i < gguf_tensor_count(l->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(l->g, i);
        size_t k = 0;
        while (k < l->count && l->pieces[k].tensor != t) k++;
        if (k < l->count) continue;
        return fail_set(l->why, "the tensor %.*s is not one that the architecture %s has here: "
                        "biases, experts and the like are not supported",
                        (int)(t->name.bytes < 64 ? t->name.bytes : 64), t->name.at,
                        l->m->form->name);
    }
    return fail_set(l->why, "a tensor is in the model twice");
}

static int loader_plan(struct model_loader *l)
{
    struct model *m = l->m;
    if (model_loader_tensor_weight(l, "token_embd.weight", m->embd, m->vocab, 1, &m->tok_embd) ||
        tensor_floats(l, "output_norm.weight", m->embd, 1, &m->output_norm) ||
        (!m->form->tied &&
         model_loader_tensor_weight(l, "output.weight", m->embd, m->vocab, 0, &m->output)) ||
        (m->arch == MODEL_LLAMA &&
         tensor_floats(l, "rope_freqs.weight", m->rope_dims / 2, 0, &m->rope_factors))) return -1;
    for (uint32_t i = 0; i < m->layers; i++) {
        if (layer_plan(l, i)) return -1;
    }
    return loader_check_rest(l);
}

/* ---- Copying --------------------------------------------------------------------------------- */

static int piece_copy(const struct model_loader *l, const struct model_piece *p, char *to)
{
    const struct gguf_tensor *t = p->tensor;
    memcpy(to, t->data, t->bytes);
    if (p->floats) *p->floats = (const float *)to;
    if (!p->weight) return 0;
    p->weight->data = to;
    if (p->weight->type != WEIGHT_I2_S) return 0;
    memcpy(&p->weight->scale, to + p->weight->row_bytes * p->weight->rows, sizeof(float));
    if (isfinite(p->weight->scale)) return 0;
    return fail_set(l->why, "the scale of the tensor %.*s is not a finite number",
                    (int)(t->name.bytes < 64 ? t->name.bytes : 64), t->name.at);
}

static int floats_check(const struct model_loader *l, const struct model_piece *p)
{
    for (uint64_t i = 0; p->floats && i < p->tensor->dims[0]; i++) {
        if (isfinite((*p->floats)[i])) continue;
        return fail_set(l->why, "the tensor %.*s holds a number that is not finite",
                        (int)(p->tensor->name.bytes < 64 ? p->tensor->name.bytes : 64),
                        p->tensor->name.at);
    }
    return 0;
}

static int loader_copy(struct model_loader *l)
{
    struct model *m = l->m;
    m->weight_bytes = model_bytes_needed(l->g);
    buddy_prefer_huge_pages(m->pool);
    m->block = buddy_alloc(m->pool, m->weight_bytes);
    if (!m->block) {
        return fail_set(l->why, "the weights need %llu bytes, and there is no room for them: give "
                        "more memory or a smaller model", (unsigned long long)m->weight_bytes);
    }
    char *to = m->block;
    for (size_t i = 0; i < l->count; i++) {
        if (piece_copy(l, &l->pieces[i], to) || floats_check(l, &l->pieces[i])) return -1;
        to += align_up(l->pieces[i].tensor->bytes);
    }
    memset(to, 0, MODEL_WEIGHT_ALIGN);
    for (uint32_t i = 0; m->rope_factors && i < m->rope_dims / 2; i++) {
        if (!(m->rope_factors[i] > 0)) {
            return fail_set(l->why, "rope_freqs.weight holds a number ≤ 0");
        }
    }
    if (!m->output.data) m->output = m->tok_embd;
    return 0;
}

/* What most of the bytes in layers are. */
static void model_name_type(struct model *m)
{
    static const enum weight_type types[] = { WEIGHT_F32, WEIGHT_F16, WEIGHT_Q4_0,
                                              WEIGHT_Q8_0, WEIGHT_TQ2_0, WEIGHT_I2_S };
    uint64_t most = 0;
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < m->layers; i++) {
            const struct model_layer *y = &m->layer[i];
            const struct weight *ws[] = { &y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down };
            for (size_t n = 0; n < sizeof(ws) / sizeof(ws[0]); n++) {
                if (ws[n]->type == types[k]) bytes += ws[n]->row_bytes * ws[n]->rows;
            }
        }
        if (bytes <= most) continue;
        most = bytes;
        snprintf(m->type, sizeof(m->type), "%s", weight_kind(types[k])->name);
    }
}

int model_load(struct gguf *g, struct buddy *weights, struct model **out, struct fail *why)
{
    struct model *m = calloc(1, sizeof(*m));
    if (!m) return fail_set(why, "out of memory");
    m->pool = weights;
    struct model_loader l = { .g = g, .m = m, .why = why };
    if (hyper_read(g, m, why)) goto failed;

    m->layer = calloc(m->layers, sizeof(*m->layer));
    l.max = (size_t)m->layers * TENSORS_OF_LAYER + TENSORS_OF_MODEL;
    l.pieces = calloc(l.max, sizeof(*l.pieces));
    if (!m->layer || !l.pieces) {
        fail_set(why, "out of memory");
        goto failed;
    }
    if (loader_plan(&l) || loader_copy(&l)) goto failed;
    model_name_type(m);
    free(l.pieces);
    gguf_close(g); /* all of it is copied: it must not stay in memory a second time */
    *out = m;
    return 0;

failed:
    free(l.pieces);
    model_destroy(m);
    return -1;
}

void model_destroy(struct model *m)
{
    if (!m) return;
    buddy_free(m->pool, m->block);
    free(m->layer);
    free(m);
}
