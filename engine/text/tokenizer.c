/* tokenizer.c - loading by the kind of vocabulary, encoding, pieces; see tokenizer.h.
 *
 *   text → parts (specials.c) → words (split.c, or at spaces) → cache, or symbols → merges → tokens
 *
 * An encode has its room on the heap for as long as it lasts; tokenizers are only read after
 * loading, but for the cache of words and the counts, which are atomic. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "text/encode.h"

/* Positions of merges have 31 bits, spaces become three bytes. */
enum { ENCODE_BYTES_MAX = 1 << 29 };

static int tokenizer_text_is(const struct gguf_text *text, const char *word)
{
    return text->bytes == strlen(word) && !memcmp(text->at, word, text->bytes);
}

static int split_choose(struct tokenizer *t, const struct gguf *g, struct fail *why)
{
    struct gguf_text pre = { "default", 7 };
    gguf_get_text(g, "tokenizer.ggml.pre", &pre);
    t->split = split_named(pre.at, pre.bytes);
    if (t->split) return 0;
    return fail_set(why,
                    "tokenizer: the pre-tokenizer '%.*s' (tokenizer.ggml.pre) is not supported",
                    pre.bytes < 64 ? (int)pre.bytes : 64, pre.at);
}

/* The kind of vocabulary, with what files leave out. */
static int kind_choose(struct tokenizer *t, const struct gguf *g, struct fail *why)
{
    struct gguf_text model;
    if (!gguf_get_text(g, "tokenizer.ggml.model", &model)) {
        return fail_set(why, "tokenizer: the file has none (tokenizer.ggml.model)");
    }
    struct vocab *v = &t->vocab;
    v->unknown = -1;
    if (tokenizer_text_is(&model, "llama")) {
        v->bos = 1;
        v->eos = 2;
        v->unknown = 0;
        v->adds_bos = v->adds_space = 1;
        return 0;
    }
    if (tokenizer_text_is(&model, "gpt2")) {
        if (split_choose(t, g, why)) return -1;
        v->byte_level = 1;
        v->eos = 11;
        v->bos = t->split->no_default_bos ? -1 : 11;
        v->adds_bos = t->split->adds_bos;
        return 0;
    }
    return fail_set(why, "tokenizer: vocabularies of the kind '%.*s' (tokenizer.ggml.model) are "
                    "not supported; 'llama' (SentencePiece) and 'gpt2' (byte-level BPE) are",
                    model.bytes < 64 ? (int)model.bytes : 64, model.at);
}

static int chat_template_copy(struct tokenizer *t, const struct gguf *g, struct fail *why)
{
    struct gguf_text text;
    if (!gguf_get_text(g, "tokenizer.chat_template", &text)) return 0;
    t->chat_template = strndup(text.at, text.bytes);
    return t->chat_template ? 0 : fail_set(why, "tokenizer: out of memory");
}

static int tokenizer_fill(struct tokenizer *t, const struct gguf *g, struct fail *why)
{
    if (kind_choose(t, g, why) || vocab_load(&t->vocab, g, why)) return -1;
    if (t->vocab.byte_level ? bpe_load(t, g, why) : sentencepiece_load(t, why)) return -1;
    const uint32_t special = TOKEN_CONTROL | TOKEN_UNKNOWN;
    if (specials_init(&t->specials, &t->vocab, special | TOKEN_USER_DEFINED, 0) ||
        specials_init(&t->user_defined, &t->vocab, TOKEN_USER_DEFINED, special) ||
        word_cache_init(&t->cache, WORD_CACHE_SLOTS)) {
        return fail_set(why, "tokenizer: out of memory");
    }
    return chat_template_copy(t, g, why);
}

int tokenizer_load(const struct gguf *g, struct tokenizer **out, struct fail *why)
{
    struct tokenizer *t = calloc(1, sizeof(*t));
    if (!t) return fail_set(why, "tokenizer: out of memory");
    profile_init(&t->profile);
    if (tokenizer_fill(t, g, why)) {
        tokenizer_destroy(t);
        return -1;
    }
    sonde_tokenizer_define(&t->sonde, tokenizer_model(t));
    *out = t;
    return 0;
}

void tokenizer_destroy(struct tokenizer *t)
{
    if (!t) return;
    vocab_release(&t->vocab);
    merges_release(&t->merges);
    specials_release(&t->specials);
    specials_release(&t->user_defined);
    word_cache_release(&t->cache);
    profile_release(&t->profile);
    free(t->chat_template);
    free(t);
}

uint32_t tokenizer_size(const struct tokenizer *t) { return t->vocab.count; }
int32_t tokenizer_bos(const struct tokenizer *t) { return t->vocab.bos; }
int32_t tokenizer_eos(const struct tokenizer *t) { return t->vocab.eos; }
int tokenizer_adds_bos(const struct tokenizer *t) { return t->vocab.adds_bos && t->vocab.bos >= 0; }
const char *tokenizer_model(const struct tokenizer *t)
{
    return t->vocab.byte_level ? "gpt2" : "llama";
}

static const struct vocab_token *tokenizer_token_at(const struct tokenizer *t, int32_t token)
{
    return token >= 0 && (uint32_t)token < t->vocab.count ? &t->vocab.tokens[token] : NULL;
}

int tokenizer_is_end(const struct tokenizer *t, int32_t token)
{
    const struct vocab_token *v = tokenizer_token_at(t, token);
    return v && (v->kind & TOKEN_END);
}

size_t tokenizer_piece(const struct tokenizer *t, int32_t token, int special, char *out,
                       size_t size)
{
    const uint64_t start = sonde_ticks();
    const struct vocab_token *v = tokenizer_token_at(t, token);
    if (!v || (!special && (v->kind & (TOKEN_CONTROL | TOKEN_UNKNOWN)))) return 0;
    const size_t bytes = v->piece_bytes;
    if (size) memcpy(out, t->vocab.pieces + v->piece, bytes < size ? bytes : size);
    sonde_hist_record(t->sonde.decode, sonde_ticks_ns(sonde_ticks() - start));
    return bytes;
}

static int parts_encode(struct encode *e, const struct special_parts *parts, const char *text)
{
    int after_special = 1; /* the begin of the text counts as one */
    for (size_t i = 0; i < parts->count; i++) {
        const struct special_part *part = &parts->items[i];
        if (part->token >= 0) {
            encode_push(e, part->token);
            after_special = 1;
            continue;
        }
        const size_t bytes = part->end - part->at;
        const int rc = e->t->vocab.byte_level
            ? bpe_encode(e, text + part->at, bytes)
            : sentencepiece_encode(e, text + part->at, bytes,
                                   after_special && e->t->vocab.adds_space);
        if (rc) return rc;
        after_special = 0;
    }
    return 0;
}

/* To sonde, and to the tokenizer's own profile. */
static void encode_record(const struct tokenizer *t, const struct encode *e, size_t bytes,
                          uint64_t ns)
{
    const struct tokenizer_counts one = {
        .bytes = bytes, .tokens = e->count, .ns = ns, .lookups = e->lookups + e->work.lookups,
        .merges = e->work.merged, .cache_hits = e->cache_hits, .cache_misses = e->cache_misses,
        .words_long = e->words_long, .words_long_bytes = e->words_long_bytes };
    const struct sonde_tokenizer_encoded encoded = {
        .ns = ns, .bytes = bytes, .tokens = e->count, .lookups = one.lookups, .merges = one.merges,
        .cache_hits = one.cache_hits, .cache_misses = one.cache_misses };
    /* Counting is atomic, so a tokenizer that is const may be counted on. */
    profile_add((struct profile *)(uintptr_t)&t->profile, &one);
    sonde_tokenizer_encoded(&t->sonde, &encoded);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, unsigned flags,
                     int32_t *tokens, size_t max, size_t *count)
{
    const uint64_t start = sonde_ticks();
    if (bytes > ENCODE_BYTES_MAX) return -1;
    struct encode e = { .t = t, .tokens = tokens, .max = max };
    struct special_parts parts = { 0 };
    int rc = specials_cut(flags & TOKENIZE_SPECIAL ? &t->specials : &t->user_defined, text, bytes,
                          &parts);
    if ((flags & TOKENIZE_BOS) && tokenizer_adds_bos(t)) encode_push(&e, t->vocab.bos);
    if (!rc) rc = parts_encode(&e, &parts, text);
    if ((flags & TOKENIZE_BOS) && t->vocab.adds_eos && t->vocab.eos >= 0) {
        encode_push(&e, t->vocab.eos);
    }
    if (!rc) {
        *count = e.count;
        encode_record(t, &e, bytes, sonde_ticks_ns(sonde_ticks() - start));
    }
    special_parts_release(&parts);
    merge_work_release(&e.work);
    free(e.units);
    free(e.text);
    return rc;
}
