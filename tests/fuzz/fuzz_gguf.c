/* fuzz_gguf.c - a model's file, from its first byte to a model and a tokenizer in use: the reader
 * is asked for all that the file claims to have, and what loads has to work. */
#include <string.h>

#include "base/buddy.h"
#include "file/gguf.h"
#include "file/weight.h"
#include "model/model.h"
#include "text/tokenizer.h"

/* ---- Seeds: two whole models, too small to say anything -------------------------------------- */

struct seed { const char *data; unsigned long len; };
static struct seed fuzz_seeds[2];

struct seed_bytes { char data[3800]; unsigned long len; };

static void seed_put(struct seed_bytes *b, const void *data, size_t bytes)
{
    if (b->len + bytes > sizeof(b->data)) __builtin_trap();
    memcpy(b->data + b->len, data, bytes);
    b->len += bytes;
}

static void seed_u32(struct seed_bytes *b, uint32_t v) { seed_put(b, &v, sizeof(v)); }
static void seed_u64(struct seed_bytes *b, uint64_t v) { seed_put(b, &v, sizeof(v)); }

static void seed_text(struct seed_bytes *b, const char *text)
{
    seed_u64(b, strlen(text));
    seed_put(b, text, strlen(text));
}

static void seed_key(struct seed_bytes *b, const char *arch, const char *key, uint32_t type)
{
    seed_u64(b, strlen(arch) + strlen(key));
    seed_put(b, arch, strlen(arch));
    seed_put(b, key, strlen(key));
    seed_u32(b, type);
}

static void seed_texts(struct seed_bytes *b, const char *key, const char *const *texts,
                       uint64_t count)
{
    seed_key(b, "", key, GGUF_ARRAY);
    seed_u32(b, GGUF_STRING);
    seed_u64(b, count);
    for (uint64_t i = 0; i < count; i++) seed_text(b, texts[i]);
}

enum { EMBD = 4, VOCAB = 8, SPM_PAIRS = 13, BPE_PAIRS = 13 };

static void seed_pairs(struct seed_bytes *b, const char *arch, int spm)
{
    static const char *const spm_tokens[VOCAB] = {
        "<unk>", "<s>", "</s>", "a", "b", "ab", "\xe2\x96\x81", "<0x41>",
    };
    static const char *const bpe_tokens[VOCAB] = {
        "a", "b", "ab", "\xc4\xa0", "\xc4\xa0\x61\x62", "1", "<s>", "</s>",
    };
    static const char *const merges[] = { "a b", "\xc4\xa0 ab" };
    static const struct { const char *key; uint32_t value; } numbers[] = {
        { ".block_count", 1 },    { ".embedding_length", EMBD },  { ".feed_forward_length", 4 },
        { ".context_length", 8 }, { ".attention.head_count", 2 }, { ".attention.head_count_kv", 1 },
    };
    const float epsilon = 1e-5f;
    seed_key(b, "", "general.architecture", GGUF_STRING);
    seed_text(b, arch);
    for (size_t i = 0; i < 6; i++) {
        seed_key(b, arch, numbers[i].key, GGUF_U32);
        seed_u32(b, numbers[i].value);
    }
    seed_key(b, arch, ".attention.layer_norm_rms_epsilon", GGUF_F32);
    seed_put(b, &epsilon, sizeof(epsilon));
    seed_key(b, "", "tokenizer.ggml.model", GGUF_STRING);
    seed_text(b, spm ? "llama" : "gpt2");
    seed_texts(b, "tokenizer.ggml.tokens", spm ? spm_tokens : bpe_tokens, VOCAB);
    if (!spm) {
        seed_key(b, "", "tokenizer.ggml.pre", GGUF_STRING);
        seed_text(b, "gpt-2");
        seed_texts(b, "tokenizer.ggml.merges", merges, 2);
    }
    static const int32_t spm_types[VOCAB] = { 2, 3, 3, 1, 1, 1, 1, 6 };
    static const int32_t bpe_types[VOCAB] = { 1, 1, 1, 1, 1, 1, 3, 3 };
    seed_key(b, "", "tokenizer.ggml.token_type", GGUF_ARRAY);
    seed_u32(b, GGUF_I32);
    seed_u64(b, VOCAB);
    seed_put(b, spm ? spm_types : bpe_types, sizeof(spm_types));
    if (!spm) return;
    const float scores[VOCAB] = { 0, 0, 0, -2, -3, -1, -4, 0 };
    seed_key(b, "", "tokenizer.ggml.scores", GGUF_ARRAY);
    seed_u32(b, GGUF_F32);
    seed_u64(b, VOCAB);
    seed_put(b, scores, sizeof(scores));
    seed_key(b, "", "tokenizer.ggml.bos_token_id", GGUF_U32);
    seed_u32(b, 1);
}

static void seed_model(struct seed_bytes *b, const char *arch, int spm)
{
    static const struct { const char *name; uint32_t cols, rows; int bitnet; } tensors[] = {
        { "token_embd.weight", EMBD, VOCAB, 0 },      { "output_norm.weight", EMBD, 0, 0 },
        { "output.weight", EMBD, VOCAB, -1 },         { "blk.0.attn_norm.weight", EMBD, 0, 0 },
        { "blk.0.attn_q.weight", EMBD, EMBD, 0 },     { "blk.0.attn_k.weight", EMBD, 2, 0 },
        { "blk.0.attn_v.weight", EMBD, 2, 0 },        { "blk.0.attn_output.weight", EMBD, EMBD, 0 },
        { "blk.0.ffn_norm.weight", EMBD, 0, 0 },      { "blk.0.ffn_gate.weight", EMBD, 4, 0 },
        { "blk.0.ffn_up.weight", EMBD, 4, 0 },        { "blk.0.ffn_down.weight", 4, EMBD, 0 },
        { "blk.0.attn_sub_norm.weight", EMBD, 0, 1 }, { "blk.0.ffn_sub_norm.weight", 4, 0, 1 },
    };
    enum { TENSORS = sizeof(tensors) / sizeof(tensors[0]), SKIP_LLAMA = 1, SKIP_BITNET = -1 };
    const int skip = strcmp(arch, "bitnet") ? SKIP_LLAMA : SKIP_BITNET;
    uint64_t count = 0, offset = 0;
    for (int i = 0; i < TENSORS; i++) count += tensors[i].bitnet != skip;
    seed_put(b, "GGUF", 4);
    seed_u32(b, 3);
    seed_u64(b, count);
    seed_u64(b, spm ? SPM_PAIRS : BPE_PAIRS);
    seed_pairs(b, arch, spm);
    for (int i = 0; i < TENSORS; i++) {
        if (tensors[i].bitnet == skip) continue;
        const uint32_t rows = tensors[i].rows;
        seed_text(b, tensors[i].name);
        seed_u32(b, rows ? 2 : 1);
        seed_u64(b, tensors[i].cols);
        if (rows) seed_u64(b, rows);
        seed_u32(b, WEIGHT_F32);
        seed_u64(b, offset);
        offset += ((uint64_t)tensors[i].cols * 4 * (rows ? rows : 1) + 31) / 32 * 32;
    }
    while (b->len % 32) seed_put(b, "", 1);
    const float one = 1;
    for (uint64_t i = 0; i < offset; i += sizeof(one)) seed_put(b, &one, sizeof(one));
}

__attribute__((constructor)) static void seeds_make(void)
{
    static struct seed_bytes bytes[2];
    seed_model(&bytes[0], "llama", 1);
    seed_model(&bytes[1], "bitnet", 0);
    for (int i = 0; i < 2; i++) fuzz_seeds[i] = (struct seed){ bytes[i].data, bytes[i].len };
}

#include "fuzz/fuzz_seeds.h"

/* ---- The file -------------------------------------------------------------------------------- */

static void inside(const uint8_t *data, size_t size, const void *at, size_t bytes)
{
    const uint8_t *p = at;
    CHECK(p >= data && bytes <= size && p <= data + (size - bytes));
}

static void file_walk(const struct gguf *g, const uint8_t *data, size_t size)
{
    for (uint64_t i = 0; i < gguf_pair_count(g); i++) {
        struct gguf_text key, text;
        struct gguf_array array;
        const void *raw;
        size_t bytes;
        char name[256];
        gguf_pair(g, i, &key, &raw, &bytes);
        inside(data, size, key.at, key.bytes);
        inside(data, size, raw, bytes);
        if (key.bytes >= sizeof(name) || memchr(key.at, 0, key.bytes)) continue;
        memcpy(name, key.at, key.bytes);
        name[key.bytes] = '\0';
        if (gguf_get_text(g, name, &text)) inside(data, size, text.at, text.bytes);
        if (!gguf_get_array(g, name, GGUF_STRING, &array)) continue;
        struct gguf_walk w = gguf_walk_begin(&array);
        while (gguf_walk_next(&w, &text)) inside(data, size, text.at, text.bytes);
    }
    for (uint64_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        inside(data, size, t->data, t->bytes);
        CHECK(!t->bytes == !weight_kind(t->type));
    }
}

static void tokenizer_use(const struct gguf *g)
{
    static const char text[] = " ab ba<s>1 a\xc3\xa9\xff</s>";
    struct tokenizer *t;
    struct fail why = { "" };
    if (tokenizer_load(g, &t, &why)) {
        CHECK(why.text[0]);
        return;
    }
    int32_t tokens[64];
    size_t count;
    CHECK(!tokenizer_encode(t, text, sizeof(text) - 1, TOKENIZE_SPECIAL | TOKENIZE_BOS, tokens, 64,
                            &count));
    for (size_t i = 0; i < count && i < 64; i++) {
        char piece[64];
        CHECK(tokens[i] >= 0 && (uint32_t)tokens[i] < tokenizer_size(t));
        tokenizer_piece(t, tokens[i], 1, piece, sizeof(piece));
    }
    tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buddy *pool;
    struct gguf *g;
    struct model *m;
    struct fail why = { "" };
    if (!pool) CHECK(!buddy_create("fuzz", 1 << 20, 64, &pool, NULL));
    if (gguf_open_memory(data, size, "input", &g, &why)) {
        CHECK(why.text[0]);
        return 0;
    }
    file_walk(g, data, size);
    tokenizer_use(g);
    if (model_load(g, pool, &m, &why)) {
        CHECK(why.text[0]);
        gguf_close(g);
    } else {
        CHECK(m->layers && m->embd && m->heads && m->heads_kv && m->vocab);
        model_destroy(m);
    }
    struct buddy_stats s;
    buddy_stats(pool, &s);
    CHECK(!s.used_bytes); /* also after half a model */
    return 0;
}
