/* random_model.c - the models of random_model.h.
 *
 * How large weights are: with inputs of size 1 (root mean square; that is what a norm makes) and
 * weights of standard deviation s/√n the outputs have size s. Sublayers are to give about 1, scores
 * of attention should differ by about 2 between positions, and logits by about 3 between tokens.
 * Every row draws from a generator of its own, seeded by its tensor's name: a model with one layer
 * more begins with the same layers.
 *
 * Of a thousand random logits the best two are often closer than two implementations are that round
 * differently. So every token has a successor, which the output likes for the token's own
 * embedding: it leads clearly, and the context still decides now and then. (Not in BitNet, whose
 * output is its embedding.)
 *
 * BitNet's matrices are ternary by birth: −s, 0 or s, whatever type they are written as, with an s
 * that F16 holds exactly, so all types of it are the same model. */
#include "file/random_model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf_write.h"

static const struct random_model_size sizes[] = {
    /* name    layers embd heads kv  ff   vocab  context */
    { "tiny",   2,    256,  8,  2,  512, 1024, 4096 },
    { "small",  4,    512,  8,  2, 1280, 4096, 4096 },
    { "medium", 8,   1024, 16,  4, 2816, 6144, 4096 },
};

const struct random_model_size *random_model_size_named(const char *name)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (!strcmp(sizes[i].name, name)) return &sizes[i];
    }
    return NULL;
}

/* ---- Random numbers ------------------------------------------------------------------------ */

static uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Nearly normal with standard deviation 1: the sum of four even ones. */
static float random_normal(uint64_t *state)
{
    const uint64_t r = random_next(state);
    const int32_t sum =
        (int32_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
    return (float)(sum - 131070) * (1.0f / 37837.0f); /* 65536/√3 */
}

static uint64_t random_state(uint64_t seed, const char *name)
{
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

enum tensor_fill {
    FILL_NORMAL,                 /* weights */
    FILL_TERNARY,
    FILL_NORM,                   /* gains of a norm: near 1 */
    FILL_EMBEDDING,              /* a row a token, rows of different lengths */
    FILL_OUTPUT,                 /* the same, and liking the token before */
};

struct model_tensor {
    char name[48];
    enum weight_type type;
    enum tensor_fill fill;
    uint32_t cols, rows;
    uint32_t dims_count;
    float deviation;
};

struct model_list {
    struct model_tensor *tensors;
    size_t count, room;
    uint32_t *before;            /* the token that each one succeeds; NO_TOKEN */
    float *embedding;            /* room for a row */
};
#define NO_TOKEN UINT32_MAX
enum { SUCCESSOR_LOGIT = 22 };

static void random_model_list_add(struct model_list *l, enum weight_type type,
                                  enum tensor_fill fill, uint32_t cols, uint32_t rows, float size,
                                  const char *format, ...) __attribute__((format(printf, 7, 8)));

static void random_model_list_add(struct model_list *l, enum weight_type type,
                                  enum tensor_fill fill, uint32_t cols, uint32_t rows, float size,
                                  const char *format, ...)
{
    struct model_tensor *t = &l->tensors[l->count++];
    va_list args;
    va_start(args, format);
    vsnprintf(t->name, sizeof(t->name), format, args);
    va_end(args);
    t->type = type;
    t->fill = fill;
    t->cols = cols;
    t->rows = rows;
    t->dims_count = fill == FILL_NORM ? 1 : 2;
    t->deviation = size / sqrtf((float)cols);
}

static int random_model_type_is_ternary(enum weight_type type)
{
    return type == WEIGHT_TQ2_0 || type == WEIGHT_I2_S;
}

static void layer_add(struct model_list *l, const struct random_model *m, unsigned i)
{
    const struct random_model_size *s = m->size;
    const uint32_t n = s->embd, kv = s->embd / s->heads * s->heads_kv, ff = s->ff;
    const int bitnet = m->arch == RANDOM_MODEL_BITNET;
    const enum weight_type t = m->type;
    const enum tensor_fill f =
        bitnet || random_model_type_is_ternary(t) ? FILL_TERNARY : FILL_NORMAL;
    /* BitNet's embeddings are its output too: its layers have to be louder than they are, or every
     * token would predict itself. */
    const float loud = bitnet ? 3 : 1;
    random_model_list_add(l, WEIGHT_F32, FILL_NORM, n, 1, 0, "blk.%u.attn_norm.weight", i);
    random_model_list_add(l, t, f, n, n, 1.5f, "blk.%u.attn_q.weight", i);
    random_model_list_add(l, t, f, n, kv, 1.5f, "blk.%u.attn_k.weight", i);
    random_model_list_add(l, t, f, n, kv, 1, "blk.%u.attn_v.weight", i);
    if (bitnet) {
        random_model_list_add(l, WEIGHT_F32, FILL_NORM, n, 1, 0, "blk.%u.attn_sub_norm.weight", i);
    }
    random_model_list_add(l, t, f, n, n, bitnet ? loud : 1.5f, "blk.%u.attn_output.weight", i);
    random_model_list_add(l, WEIGHT_F32, FILL_NORM, n, 1, 0, "blk.%u.ffn_norm.weight", i);
    random_model_list_add(l, t, f, n, ff, 1, "blk.%u.ffn_gate.weight", i);
    random_model_list_add(l, t, f, n, ff, 1, "blk.%u.ffn_up.weight", i);
    if (bitnet) {
        random_model_list_add(l, WEIGHT_F32, FILL_NORM, ff, 1, 0, "blk.%u.ffn_sub_norm.weight", i);
    }
    /* silu(gate)·up of normal numbers has size 0.6 */
    random_model_list_add(l, t, f, ff, n, bitnet ? loud : 1 / 0.6f, "blk.%u.ffn_down.weight", i);
}

static void model_add(struct model_list *l, const struct random_model *m)
{
    const struct random_model_size *s = m->size;
    const uint32_t vocab = random_vocab_size(m->vocab);
    const int bitnet = m->arch == RANDOM_MODEL_BITNET;
    const enum weight_type t = random_model_type_is_ternary(m->type) ? WEIGHT_F16 : m->type;
    random_model_list_add(l, t, bitnet ? FILL_EMBEDDING : FILL_NORMAL, s->embd, vocab,
                          bitnet ? 4 : sqrtf((float)s->embd), "token_embd.weight");
    for (unsigned i = 0; i < s->layers; i++) layer_add(l, m, i);
    random_model_list_add(l, WEIGHT_F32, FILL_NORM, s->embd, 1, 0, "output_norm.weight");
    if (!bitnet) random_model_list_add(l, t, FILL_OUTPUT, s->embd, vocab, 3, "output.weight");
}

/* ---- Numbers ------------------------------------------------------------------------------- */

/* Of one token: some are liked more than others, and odd ones hardly at all. */
static float token_length(const struct random_model *m, uint32_t token, uint64_t *state)
{
    const float between = (float)(random_next(state) >> 40) * 0x1p-24f;
    return random_vocab_is_odd(m->vocab, token) ? 0.2f : 0.7f + 0.6f * between;
}

/* The largest of the three values: what has this deviation if all are as likely, as F16 has it. */
static float random_model_ternary_magnitude(const struct model_tensor *t)
{
    return weight_f16_to_float(weight_f16_from_float(t->deviation * 1.2247449f)); /* √(3/2) */
}

static void row_fill(const struct random_model *m, const struct model_tensor *t, uint32_t row,
                     float *out)
{
    uint64_t state = random_state(m->seed, t->name) + row * 0xd1342543de82ef95u;
    const float magnitude = random_model_ternary_magnitude(t);
    float deviation = t->deviation;
    if (t->fill == FILL_EMBEDDING || t->fill == FILL_OUTPUT) {
        deviation *= token_length(m, row, &state);
    }
    for (uint32_t i = 0; i < t->cols; i++) {
        switch (t->fill) {
        case FILL_NORM: out[i] = 1 + 0.1f * random_normal(&state); break;
        case FILL_TERNARY:
            out[i] = (float)((int)((random_next(&state) >> 32) * 3 >> 32) - 1) * magnitude;
            break;
        case FILL_NORMAL:
        case FILL_EMBEDDING:
        case FILL_OUTPUT: out[i] = random_normal(&state) * deviation; break;
        }
    }
}

/* All tokens but odd ones in a circle, in random order (Sattolo's shuffle: one circle, not
 * several). */
static int successors_draw(const struct random_model *m, struct model_list *l)
{
    const uint32_t vocab = random_vocab_size(m->vocab);
    uint64_t state = random_state(m->seed, "successors");
    uint32_t *circle = malloc(vocab * sizeof(*circle)), count = 0;
    l->before = malloc(vocab * sizeof(*l->before));
    l->embedding = malloc(m->size->embd * sizeof(*l->embedding));
    const int rc = circle && l->before && l->embedding ? 0 : -1;
    for (uint32_t i = 0; i < vocab && !rc; i++) {
        l->before[i] = NO_TOKEN;
        if (!random_vocab_is_odd(m->vocab, i)) circle[count++] = i;
    }
    for (uint32_t i = count; i-- > 1 && !rc;) {
        const uint32_t k = (uint32_t)((random_next(&state) >> 32) * i >> 32), kept = circle[i];
        circle[i] = circle[k];
        circle[k] = kept;
    }
    for (uint32_t i = 0; i < count && !rc; i++) l->before[circle[(i + 1) % count]] = circle[i];
    free(circle);
    return rc;
}

/* The last norm's output holds a token's own embedding in a share of 1 to what layers added. */
static void row_succeed(const struct random_model *m, const struct model_list *l, uint32_t token,
                        float *out)
{
    const struct model_tensor *embeddings = &l->tensors[0];
    if (l->before[token] == NO_TOKEN) return;
    row_fill(m, embeddings, l->before[token], l->embedding);
    const float size = sqrtf(1 + 1.6f * (float)m->size->layers);
    const float by = SUCCESSOR_LOGIT * size / (float)embeddings->cols;
    for (uint32_t i = 0; i < embeddings->cols; i++) out[i] += l->embedding[i] * by;
}

static int tensor_write(const struct random_model *m, const struct model_list *l,
                        const struct model_tensor *t, struct gguf_writer *w)
{
    const uint64_t row_bytes = weight_row_bytes(t->type, t->cols);
    float *numbers = malloc(t->cols * sizeof(*numbers));
    unsigned char *row = malloc(row_bytes);
    const int rc = numbers && row ? 0 : -1;
    const float scale = random_model_ternary_magnitude(t);
    for (uint32_t i = 0; i < t->rows && !rc; i++) {
        row_fill(m, t, i, numbers);
        if (t->fill == FILL_OUTPUT) row_succeed(m, l, i, numbers);
        weight_row_from_floats(t->type, numbers, t->cols, scale, row);
        gguf_write_data(w, row, row_bytes);
    }
    if (t->type == WEIGHT_I2_S && !rc) {
        float tail[8] = { scale };
        gguf_write_data(w, tail, sizeof(tail));
    }
    free(numbers);
    free(row);
    return rc;
}

/* ---- The file ------------------------------------------------------------------------------ */

static void key_u32(struct gguf_writer *w, const char *arch, const char *key, uint32_t value)
{
    char full[96];
    snprintf(full, sizeof(full), "%s.%s", arch, key);
    gguf_write_u32(w, full, value);
}

static void key_f32(struct gguf_writer *w, const char *arch, const char *key, float value)
{
    char full[96];
    snprintf(full, sizeof(full), "%s.%s", arch, key);
    gguf_write_f32(w, full, value);
}

static int pairs_write(const struct random_model *m, struct gguf_writer *w)
{
    const struct random_model_size *s = m->size;
    const char *arch = m->arch == RANDOM_MODEL_BITNET ? "bitnet" : "llama";
    const struct weight_kind *kind = weight_kind(m->type);
    char name[64];
    snprintf(name, sizeof(name), "%s-%s-%s", arch, s->name, kind->name);
    gguf_write_text(w, "general.architecture", arch);
    gguf_write_text(w, "general.type", "model");
    gguf_write_text(w, "general.name", name);
    gguf_write_u32(w, "general.file_type", kind->file_type);
    gguf_write_u32(w, "general.quantization_version", 2);
    key_u32(w, arch, "vocab_size", random_vocab_size(m->vocab));
    key_u32(w, arch, "context_length", s->context);
    key_u32(w, arch, "embedding_length", s->embd);
    key_u32(w, arch, "block_count", s->layers);
    key_u32(w, arch, "feed_forward_length", s->ff);
    key_u32(w, arch, "attention.head_count", s->heads);
    key_u32(w, arch, "attention.head_count_kv", s->heads_kv);
    key_f32(w, arch, "attention.layer_norm_rms_epsilon", 1e-5f);
    key_u32(w, arch, "rope.dimension_count", s->embd / s->heads);
    key_f32(w, arch, "rope.freq_base", 10000);
    if (m->arch == RANDOM_MODEL_BITNET) {
        gguf_write_text(w, "bitnet.rope.scaling.type", "linear");
        gguf_write_f32(w, "bitnet.rope.scaling.factor", 1);
    }
    return random_vocab_write(m->vocab, w);
}

static int model_write(const struct random_model *m, const struct model_list *l,
                       struct gguf_writer *w)
{
    if (pairs_write(m, w)) return -1;
    for (size_t i = 0; i < l->count; i++) {
        const struct model_tensor *t = &l->tensors[i];
        const uint64_t dims[2] = { t->cols, t->rows };
        gguf_write_tensor(w, (struct gguf_text){ t->name, strlen(t->name) }, t->type, dims,
                          t->dims_count, weight_bytes(t->type, t->cols, t->rows));
    }
    for (size_t i = 0; i < l->count; i++) {
        if (tensor_write(m, l, &l->tensors[i], w)) return -1;
    }
    return 0;
}

int random_model_write(const struct random_model *m, const char *path, struct fail *why)
{
    struct model_list list = { .room = (size_t)m->size->layers * 11 + 3 };
    struct gguf_writer *w;
    list.tensors = calloc(list.room, sizeof(*list.tensors));
    int rc = list.tensors && !successors_draw(m, &list) ? 0
                                                        : fail_set(why, "%s: out of memory", path);
    if (!rc) {
        model_add(&list, m);
        rc = gguf_write_begin(path, &w, why);
    }
    if (!rc && model_write(m, &list, w)) {
        gguf_write_abandon(w);
        rc = fail_set(why, "%s: out of memory", path);
    } else if (!rc) {
        rc = gguf_write_finish(w, why);
    }
    free(list.tensors);
    free(list.before);
    free(list.embedding);
    return rc;
}
