/* bpe.c - byte-level BPE ("gpt2"): words are bytes, merged by rank.
 *
 * The file writes bytes as characters ("Ġthe"); that is undone when it is loaded, so a word of the
 * input is looked up as it is. A string that merges go through without being a token is a symbol
 * beyond the tokens. */
#include "text/encode.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

/* The bytes that a part of a merge stands for; 0: a character in it stands for none. */
static size_t bytes_of(const char *text, size_t bytes, char *out)
{
    size_t to = 0;
    for (size_t i = 0; i < bytes;) {
        uint32_t point;
        i += unicode_decode(text + i, bytes - i, &point);
        const int byte = unicode_byte_of(point);
        if (byte < 0) return 0;
        out[to++] = (char)byte;
    }
    return to;
}

/* "left right": room has two bytes for each of the text. 0, or -1: out of memory. */
static int merge_add(struct tokenizer *t, const struct gguf_text *text, uint32_t rank, char *room)
{
    const char *space = text->bytes > 1 ? memchr(text->at + 1, ' ', text->bytes - 1) : NULL;
    if (!space) return 0;
    const size_t first = (size_t)(space - text->at);
    const size_t left = bytes_of(text->at, first, room);
    const size_t right = bytes_of(space + 1, text->bytes - first - 1, room + left);
    if (!left || !right) return 0; /* no word has such a part */
    struct symbols *s = &t->vocab.symbols;
    const struct merge_pair pair = {
        .left = symbols_add(s, room, left), .right = symbols_add(s, room + left, right),
        .rank = rank, .merged = symbols_add(s, room, left + right) };
    if (pair.left == SYMBOL_NONE || pair.right == SYMBOL_NONE || pair.merged == SYMBOL_NONE) {
        return -1;
    }
    return merges_add(&t->merges, &pair);
}

int bpe_load(struct tokenizer *t, const struct gguf *g, struct fail *why)
{
    struct gguf_array list;
    if (!gguf_get_array(g, "tokenizer.ggml.merges", GGUF_STRING, &list)) {
        return fail_set(why, "tokenizer: the file has no merges (tokenizer.ggml.merges)");
    }
    if (list.count > VOCAB_TOKENS_MAX) {
        return fail_set(why, "tokenizer: %llu merges; at most %d are supported",
                        (unsigned long long)list.count, VOCAB_TOKENS_MAX);
    }
    if (merges_init(&t->merges, (uint32_t)list.count)) goto no_memory;
    for (int byte = 0; byte < 256; byte++) {
        const char key = (char)byte;
        t->byte_symbols[byte] = symbols_add(&t->vocab.symbols, &key, 1);
        if (t->byte_symbols[byte] == SYMBOL_NONE) goto no_memory;
    }
    struct gguf_walk walk = gguf_walk_begin(&list);
    struct gguf_text text;
    char room[2 * VOCAB_TEXT_BYTES_MAX];
    for (uint32_t rank = 0; gguf_walk_next(&walk, &text); rank++) {
        if (text.bytes > VOCAB_TEXT_BYTES_MAX) {
            return fail_set(why, "tokenizer: a merge has %zu bytes; at most %d are supported",
                            text.bytes, VOCAB_TEXT_BYTES_MAX);
        }
        if (merge_add(t, &text, rank, room)) goto no_memory;
    }
    return 0;
no_memory:
    return fail_set(why, "tokenizer: out of memory");
}

static int bpe_word_symbols(struct encode *e, const char *word, size_t bytes)
{
    const struct tokenizer *t = e->t;
    if (t->split->ignore_merges) {
        e->lookups++;
        const uint32_t symbol = symbols_find(&t->vocab.symbols, word, bytes);
        if (symbol < t->vocab.count) {
            encode_push(e, (int32_t)symbol);
            return 1;
        }
    }
    for (size_t i = 0; i < bytes; i++) {
        e->work.nodes[i].symbol = t->byte_symbols[(unsigned char)word[i]];
        e->work.nodes[i].bytes = 1;
    }
    e->work.count = bytes;
    return 0;
}

/* llama.cpp looks for the bytes of the characters that stand for the bytes: those of ASCII are
 * found. */
static void bpe_word_fallback(struct encode *e, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        const uint32_t symbol = byte > 0x20 && byte < 0x7F ? e->t->byte_symbols[byte] : SYMBOL_NONE;
        e->lookups++;
        if (symbol < e->t->vocab.count) encode_push(e, (int32_t)symbol);
    }
}

static int word_encode(void *context, const uint32_t *units, size_t count)
{
    static const struct encode_word how = { NULL, bpe_word_symbols, bpe_word_fallback };
    struct encode *e = context;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += unit_bytes(units[i]);
    const char *word = e->text + e->at;
    e->at += bytes;
    return encode_word(e, &how, word, bytes);
}

int bpe_encode(struct encode *e, const char *text, size_t bytes)
{
    if (encode_reserve(e, bytes)) return -1;
    size_t valid_bytes;
    const size_t count = unicode_units(text, bytes, e->units, e->text, &valid_bytes);
    e->at = 0;
    return split_words(e->t->split, e->units, count, word_encode, e);
}
