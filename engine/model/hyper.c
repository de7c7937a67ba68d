/* hyper.c - the numbers that describe a model, from the metadata of its file, and whether they can
 * be true: what is computed later divides by them, makes room by them and loops to them. */
#include "model/hyper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct model_form forms[] = {
    { .name = "llama", .arch = MODEL_LLAMA },
    { .name = "bitnet", .arch = MODEL_BITNET, .rope_halves = 1, .sub_norms = 1, .tied = 1 },
    /* BitNet b1.58 2B4T, as Microsoft's own conversions call it */
    { .name = "bitnet-b1.58", .arch = MODEL_BITNET, .rope_halves = 1, .sub_norms = 1, .relu2 = 1 },
    { .name = "bitnet-25", .arch = MODEL_BITNET, .rope_halves = 1, .sub_norms = 1, .relu2 = 1 },
};

/* Far above any model that a CPU can run, far below where products of two overflow. */
enum { LAYERS_MAX = 1024, EMBD_MAX = 1 << 16, HEADS_MAX = 1024, HEAD_DIM_MAX = 1024,
       FF_MAX = 1 << 19, VOCAB_MAX = 1 << 22, CONTEXT_MAX = 1 << 24 };

struct hyper { const struct gguf *g; const char *arch; struct fail *why; };

static const char *hyper_key(const struct hyper *h, const char *name, char key[128])
{
    snprintf(key, 128, "%s.%s", h->arch, name);
    return key;
}

/* A number from 1 to max; fallback 0: it has to be there. */
static int hyper_u32(const struct hyper *h, const char *name, uint32_t fallback, uint32_t max,
                     uint32_t *out)
{
    char key[128];
    if (!gguf_get_u32(h->g, hyper_key(h, name, key), out)) {
        *out = fallback;
        if (!fallback) return fail_set(h->why, "the model has no number %s", key);
    }
    if (*out < 1 || *out > max) {
        return fail_set(h->why, "%s is %u, which is not from 1 to %u", key, *out, max);
    }
    return 0;
}

static int hyper_f32(const struct hyper *h, const char *name, float fallback, float min, float max,
                     float *out)
{
    char key[128];
    if (!gguf_get_f32(h->g, hyper_key(h, name, key), out)) {
        *out = fallback;
        if (!(fallback > 0)) return fail_set(h->why, "the model has no number %s", key);
    }
    if (!(*out >= min && *out <= max)) { /* neither is NaN */
        return fail_set(h->why, "%s is %g, which is not from %g to %g", key, (double)*out,
                        (double)min, (double)max);
    }
    return 0;
}

static int hyper_form(const struct gguf *g, struct model *m, struct fail *why)
{
    struct gguf_text arch;
    if (!gguf_get_text(g, "general.architecture", &arch)) {
        return fail_set(why, "the file has no general.architecture: is it a model?");
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strlen(forms[i].name) != arch.bytes || memcmp(forms[i].name, arch.at, arch.bytes)) {
            continue;
        }
        m->form = &forms[i];
        m->arch = forms[i].arch;
        return 0;
    }
    return fail_set(why,
                    "the architecture %.*s is not supported: llama, bitnet and bitnet-b1.58 are",
                    (int)(arch.bytes < 64 ? arch.bytes : 64), arch.at);
}

static int hyper_sizes(const struct hyper *h, struct model *m)
{
    char key[128];
    uint32_t value_dim, experts = 0;
    if (gguf_get_u32(h->g, hyper_key(h, "expert_count", key), &experts) && experts > 0) {
        return fail_set(h->why, "%s is %u: mixtures of experts are not supported", key, experts);
    }
    if (hyper_u32(h, "block_count", 0, LAYERS_MAX, &m->layers) ||
        hyper_u32(h, "embedding_length", 0, EMBD_MAX, &m->embd) ||
        hyper_u32(h, "feed_forward_length", 0, FF_MAX, &m->ff) ||
        hyper_u32(h, "context_length", 0, CONTEXT_MAX, &m->context) ||
        hyper_u32(h, "attention.head_count", 0, HEADS_MAX, &m->heads) ||
        hyper_u32(h, "attention.head_count_kv", m->heads, HEADS_MAX, &m->heads_kv)) return -1;
    if (m->heads % m->heads_kv) {
        return fail_set(h->why, "%u attention heads cannot share %u heads of keys and values",
                        m->heads, m->heads_kv);
    }
    const uint32_t dim = m->embd % m->heads ? 0 : m->embd / m->heads;
    if (hyper_u32(h, "attention.key_length", dim, HEAD_DIM_MAX, &m->head_dim) ||
        hyper_u32(h, "attention.value_length", dim, HEAD_DIM_MAX, &value_dim) ||
        hyper_u32(h, "rope.dimension_count", m->head_dim, HEAD_DIM_MAX, &m->rope_dims)) return -1;
    if (value_dim != m->head_dim) {
        return fail_set(h->why, "keys of %u and values of %u numbers a head are not supported",
                        m->head_dim, value_dim);
    }
    if (m->head_dim % 2 || m->rope_dims % 2 || m->rope_dims > m->head_dim) {
        return fail_set(h->why, "%u rotated dimensions of heads of %u: both have to be even, the "
                        "first not larger", m->rope_dims, m->head_dim);
    }
    return 0;
}

static int hyper_rope(const struct hyper *h, struct model *m)
{
    char key[128];
    struct gguf_text type;
    float factor;
    if (hyper_f32(h, "rope.freq_base", 10000, 1, 1e12f, &m->rope_base)) return -1;
    const int scaled = gguf_get_text(h->g, hyper_key(h, "rope.scaling.type", key), &type);
    const int none = scaled && type.bytes == 4 && !memcmp(type.at, "none", 4);
    if (scaled && !none && (type.bytes != 6 || memcmp(type.at, "linear", 6))) {
        return fail_set(h->why, "%s is %.*s: only none and linear are supported", key,
                        (int)(type.bytes < 32 ? type.bytes : 32), type.at);
    }
    if (hyper_f32(h, "rope.scale_linear", 1, 1e-3f, 1e6f, &factor) ||
        hyper_f32(h, "rope.scaling.factor", factor, 1e-3f, 1e6f, &factor)) return -1;
    m->rope_scale = none ? 1 : 1 / factor;
    return 0;
}

/* The vocabulary is as large as the embedding, and as the tokenizer where the file has one. */
static int hyper_vocab(const struct gguf *g, struct model *m, struct fail *why)
{
    const struct gguf_tensor *t = gguf_tensor_named(g, "token_embd.weight");
    if (!t) return fail_set(why, "the model has no tensor token_embd.weight");
    if (t->dims[1] < 1 || t->dims[1] > VOCAB_MAX) {
        return fail_set(why, "token_embd.weight has %llu tokens, which is not from 1 to %d",
                        (unsigned long long)t->dims[1], VOCAB_MAX);
    }
    m->vocab = (uint32_t)t->dims[1];
    struct gguf_array tokens;
    if (gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens) &&
        tokens.count != m->vocab) {
        return fail_set(why, "the vocabulary has %llu tokens, token_embd.weight %u",
                        (unsigned long long)tokens.count, m->vocab);
    }
    return 0;
}

int hyper_read(const struct gguf *g, struct model *m, struct fail *why)
{
    if (hyper_form(g, m, why)) return -1;
    const struct hyper h = { g, m->form->name, why };
    if (hyper_sizes(&h, m) || hyper_rope(&h, m) ||
        hyper_f32(&h, "attention.layer_norm_rms_epsilon", 0, 1e-12f, 0.1f, &m->norm_epsilon) ||
        hyper_vocab(g, m, why)) return -1;

    struct gguf_text name;
    if (!gguf_get_text(g, "general.name", &name) || !name.bytes) {
        name = (struct gguf_text){ m->form->name, strlen(m->form->name) };
    }
    for (size_t i = 0; i < name.bytes && i + 1 < sizeof(m->name); i++) {
        const unsigned char c = (unsigned char)name.at[i];
        m->name[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    return 0;
}
