/* sentencepiece.c - SentencePiece's BPE ("llama"): characters, merged by score; U+2581 is a space.
 *
 * Any two neighbours whose concatenation is a token may merge. Which those are is known beforehand:
 * merges.h says how that becomes a table of pairs.
 *
 * Merging works on the whole text; but where no token has a space behind some other character (true
 * of nearly all), no merge goes across the begin of a run of spaces. The text is cut there, which
 * gives words that can be cached. Characters after which a token does go on with a space are in
 * glue. */
#include "text/encode.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

static const char space_text[3] = { '\xE2', '\x96', '\x81' };

static size_t sentencepiece_char_bytes(const char *text, size_t bytes)
{
    const size_t length = unicode_lead_bytes(text[0]);
    return length < bytes ? length : bytes;
}

static int char_is_space(const char *text, size_t bytes)
{
    return bytes >= 3 && !memcmp(text, space_text, 3);
}

/* Every character that occurs in a token is a symbol. */
static int chars_add(struct tokenizer *t, const char *text, size_t bytes)
{
    int after_space = 1;
    for (size_t i = 0; i < bytes;) {
        const size_t length = sentencepiece_char_bytes(text + i, bytes - i);
        const int is_space = char_is_space(text + i, length);
        if (symbols_add(&t->vocab.symbols, text + i, length) == SYMBOL_NONE) return -1;
        if (is_space && !after_space) t->glue[(unsigned char)text[i - 1]] = 1;
        after_space = is_space;
        i += length;
    }
    return 0;
}

/* Every way to cut the token in two symbols. */
static int pairs_add(struct tokenizer *t, uint32_t token, uint32_t rank)
{
    const struct vocab_token *v = &t->vocab.tokens[token];
    const char *text = vocab_text(&t->vocab, token);
    for (size_t i = sentencepiece_char_bytes(text, v->text_bytes); i < v->text_bytes;
         i += sentencepiece_char_bytes(text + i, v->text_bytes - i)) {
        const struct merge_pair pair = {
            .left = symbols_find(&t->vocab.symbols, text, i),
            .right = symbols_find(&t->vocab.symbols, text + i, v->text_bytes - i),
            .rank = rank, .merged = token };
        if (pair.left == SYMBOL_NONE || pair.right == SYMBOL_NONE) continue;
        if (merges_add(&t->merges, &pair)) return -1;
    }
    return 0;
}

struct score_order { float score; uint32_t token; };

static int score_compare(const void *a, const void *b)
{
    const float x = ((const struct score_order *)a)->score;
    const float y = ((const struct score_order *)b)->score;
    return (x < y) - (x > y);
}

/* The highest score first; tokens of the same score have the same rank. */
static int pairs_make(struct tokenizer *t)
{
    struct score_order *order = malloc(t->vocab.count * sizeof(*order));
    if (!order) return -1;
    for (uint32_t i = 0; i < t->vocab.count; i++) {
        order[i] = (struct score_order){ t->vocab.tokens[i].score, i };
    }
    qsort(order, t->vocab.count, sizeof(*order), score_compare);
    uint32_t rank = 0;
    int rc = 0;
    for (uint32_t i = 0; i < t->vocab.count && !rc; i++) {
        if (i && order[i].score < order[i - 1].score) rank++;
        rc = pairs_add(t, order[i].token, rank);
    }
    free(order);
    return rc;
}

/* What stands for a byte of an unknown character: "<0x0A>", else the byte itself, else unknown. */
static void bytes_find(struct tokenizer *t)
{
    static const char hex[] = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; byte++) {
        const char text[6] = { '<', '0', 'x', hex[byte >> 4], hex[byte & 15], '>' };
        const char key = (char)byte;
        t->byte_symbols[byte] = symbols_find(&t->vocab.symbols, &key, 1);
        uint32_t symbol = symbols_find(&t->vocab.symbols, text, sizeof(text));
        if (symbol >= t->vocab.count) symbol = t->byte_symbols[byte];
        t->byte_tokens[byte] = symbol < t->vocab.count ? (int32_t)symbol : t->vocab.unknown;
    }
}

int sentencepiece_load(struct tokenizer *t, struct fail *why)
{
    if (merges_init(&t->merges, t->vocab.count)) return fail_set(why, "tokenizer: out of memory");
    for (uint32_t i = 0; i < t->vocab.count; i++) {
        if (chars_add(t, vocab_text(&t->vocab, i), t->vocab.tokens[i].text_bytes)) {
            return fail_set(why, "tokenizer: out of memory");
        }
    }
    bytes_find(t);
    return pairs_make(t) ? fail_set(why, "tokenizer: out of memory") : 0;
}

/* With spaces as one byte, which is free: none is left in an escaped text. Indented code would not
 * fit otherwise. */
static size_t word_pack(const char *word, size_t bytes, char out[WORD_CACHE_BYTES])
{
    size_t to = 0;
    for (size_t i = 0; i < bytes; to++) {
        if (to == WORD_CACHE_BYTES) return WORD_CACHE_BYTES + 1;
        const int is_space = char_is_space(word + i, bytes - i);
        out[to] = is_space ? ' ' : word[i];
        i += is_space ? 3 : 1;
    }
    return to;
}

static int sentencepiece_word_symbols(struct encode *e, const char *word, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t length = sentencepiece_char_bytes(word + i, bytes - i);
        uint32_t symbol;
        if (length == 1) {
            symbol = e->t->byte_symbols[(unsigned char)word[i]];
        } else {
            e->lookups++;
            symbol = symbols_find(&e->t->vocab.symbols, word + i, length);
        }
        e->work.nodes[count].symbol = symbol;
        e->work.nodes[count++].bytes = (uint32_t)length;
        i += length;
    }
    e->work.count = count;
    return 0;
}

static void sentencepiece_word_fallback(struct encode *e, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const int32_t token = e->t->byte_tokens[(unsigned char)text[i]];
        e->lookups++;
        if (token >= 0) encode_push(e, token);
    }
}

static size_t sentencepiece_escape(const char *text, size_t bytes, int space, char *out)
{
    size_t to = 0;
    if (space) {
        memcpy(out, space_text, 3);
        to = 3;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == ' ') {
            memcpy(out + to, space_text, 3);
            to += 3;
        } else {
            out[to++] = text[i];
        }
    }
    return to;
}

int sentencepiece_encode(struct encode *e, const char *text, size_t bytes, int space)
{
    static const struct encode_word how = { word_pack, sentencepiece_word_symbols,
                                            sentencepiece_word_fallback };
    if (encode_reserve(e, bytes)) return -1;
    bytes = sentencepiece_escape(text, bytes, space, e->text);
    size_t word = 0;
    int after_space = 1; /* what is before the text does not matter */
    for (size_t at = 0; at < bytes;) {
        const size_t length = sentencepiece_char_bytes(e->text + at, bytes - at);
        const int is_space = char_is_space(e->text + at, length);
        if (is_space && !after_space && !e->t->glue[(unsigned char)e->text[at - 1]]) {
            if (encode_word(e, &how, e->text + word, at - word)) return -1;
            word = at;
        }
        after_space = is_space;
        at += length;
    }
    return word < bytes ? encode_word(e, &how, e->text + word, bytes - word) : 0;
}
