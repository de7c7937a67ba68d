/* vocab.c - reading a vocabulary; see vocab.h. */
#include "text/vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

static uint32_t vocab_kind_of(int32_t type)
{
    switch (type) {
    case 1: return TOKEN_NORMAL;
    case 2: return TOKEN_UNKNOWN;
    case 3: return TOKEN_CONTROL;
    case 4: return TOKEN_USER_DEFINED;
    case 5: return TOKEN_UNUSED;
    case 6: return TOKEN_BYTE;
    default: return 0;
    }
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "<0x0A>" is one byte; what does not look like that stays as it is. */
static size_t byte_piece(const char *text, size_t bytes, char *out)
{
    if (bytes == 6 && !memcmp(text, "<0x", 3) && hex_value(text[3]) >= 0 &&
        hex_value(text[4]) >= 0) {
        out[0] = (char)(hex_value(text[3]) << 4 | hex_value(text[4]));
        return 1;
    }
    memcpy(out, text, bytes);
    return bytes;
}

/* U+2581 is a space. */
static size_t space_piece(const char *text, size_t bytes, char *out)
{
    size_t to = 0;
    for (size_t i = 0; i < bytes;) {
        if (bytes - i >= 3 && !memcmp(text + i, "\xE2\x96\x81", 3)) {
            out[to++] = ' ';
            i += 3;
        } else {
            out[to++] = text[i++];
        }
    }
    return to;
}

/* Characters that stand for bytes; *all is 0 if one does not, which then is itself. */
static size_t level_piece(const char *text, size_t bytes, char *out, int *all)
{
    size_t to = 0;
    *all = 1;
    for (size_t i = 0; i < bytes;) {
        uint32_t point;
        const size_t took = unicode_decode(text + i, bytes - i, &point);
        const int byte = unicode_byte_of(point);
        if (byte >= 0) {
            out[to++] = (char)byte;
        } else {
            memcpy(out + to, text + i, took);
            to += took;
            *all = 0;
        }
        i += took;
    }
    return to;
}

/* The key of a token in symbols: of byte-level vocabularies the bytes that the text stands for. */
static int token_symbol_add(struct vocab *v, uint32_t token, const struct gguf_text *text,
                            char *room)
{
    uint32_t symbol;
    if (v->byte_level) {
        int all;
        const size_t bytes = level_piece(text->at, text->bytes, room, &all);
        symbol = all ? symbols_add(&v->symbols, room, bytes) : symbols_skip(&v->symbols);
    } else {
        symbol = symbols_add(&v->symbols, text->at, text->bytes);
    }
    return symbol == SYMBOL_NONE ? -2 : symbol == token ? 0 : -1;
}

static size_t token_piece_write(const struct vocab *v, const struct vocab_token *t, char *out)
{
    const char *text = v->texts + t->text;
    int all;
    if (t->kind & (TOKEN_CONTROL | TOKEN_UNKNOWN | TOKEN_USER_DEFINED)) {
        memcpy(out, text, t->text_bytes);
        return t->text_bytes;
    }
    if (t->kind & TOKEN_NORMAL) {
        return v->byte_level ? level_piece(text, t->text_bytes, out, &all)
                             : space_piece(text, t->text_bytes, out);
    }
    return t->kind & TOKEN_BYTE ? byte_piece(text, t->text_bytes, out) : 0;
}

static int tokens_read(struct vocab *v, const struct gguf_array *list, struct fail *why)
{
    struct gguf_walk walk = gguf_walk_begin(list);
    struct gguf_text text;
    size_t used = 0, total = 0, longest = 32;
    while (gguf_walk_next(&walk, &text)) {
        if (text.bytes > VOCAB_TEXT_BYTES_MAX) {
            return fail_set(why, "tokenizer: a token has %zu bytes; at most %d are supported",
                            text.bytes, VOCAB_TEXT_BYTES_MAX);
        }
        total += text.bytes < 32 ? 32 : text.bytes; /* those that are empty get a name */
        if (text.bytes > longest) longest = text.bytes;
    }
    if (total > UINT32_MAX / 2) return fail_set(why, "tokenizer: the tokens have %zu bytes", total);
    v->texts = malloc(total + 1);
    char *room = malloc(longest);
    int rc = v->texts && room ? 0 : -2;
    walk = gguf_walk_begin(list);
    for (uint32_t i = 0; !rc && gguf_walk_next(&walk, &text); i++) {
        char empty[32];
        if (!text.bytes) {
            text.bytes = (size_t)snprintf(empty, sizeof(empty), "[EMPTY_%u]", i);
            text.at = empty;
        }
        memcpy(v->texts + used, text.at, text.bytes);
        v->tokens[i].text = (uint32_t)used;
        v->tokens[i].text_bytes = (uint32_t)text.bytes;
        used += text.bytes;
        rc = token_symbol_add(v, i, &text, room);
        if (rc == -1) fail_set(why, "tokenizer: token %u is there twice", i);
    }
    free(room);
    return rc == -2 ? fail_set(why, "tokenizer: out of memory") : rc;
}

static int kinds_read(struct vocab *v, const struct gguf *g, struct fail *why)
{
    struct gguf_array types, scores;
    const int have_types = gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_I32, &types);
    const int have_floats = gguf_get_array(g, "tokenizer.ggml.scores", GGUF_F32, &scores);
    const int have_ints = !have_floats &&
                          gguf_get_array(g, "tokenizer.ggml.scores", GGUF_I32, &scores);
    if (have_types && types.count < v->count) {
        return fail_set(why, "tokenizer: %u tokens, but only %llu token types", v->count,
                        (unsigned long long)types.count);
    }
    if ((have_floats || have_ints) && scores.count < v->count) {
        return fail_set(why, "tokenizer: %u tokens, but only %llu scores", v->count,
                        (unsigned long long)scores.count);
    }
    for (uint32_t i = 0; i < v->count; i++) {
        int32_t number = 1; /* may not be aligned in the file */
        if (have_types) memcpy(&number, (const char *)types.items + 4 * (size_t)i, 4);
        v->tokens[i].kind = vocab_kind_of(number);
        if (have_floats) {
            memcpy(&v->tokens[i].score, (const char *)scores.items + 4 * (size_t)i, 4);
            if (isnan(v->tokens[i].score)) {
                return fail_set(why, "tokenizer: the score of token %u is not a number", i);
            }
        } else if (have_ints) {
            memcpy(&number, (const char *)scores.items + 4 * (size_t)i, 4);
            v->tokens[i].score = (float)number;
        }
    }
    return 0;
}

static int pieces_make(struct vocab *v, struct fail *why)
{
    size_t total = 1;
    for (uint32_t i = 0; i < v->count; i++) total += v->tokens[i].text_bytes;
    v->pieces = malloc(total);
    if (!v->pieces) return fail_set(why, "tokenizer: out of memory");
    size_t used = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        struct vocab_token *t = &v->tokens[i];
        t->piece = (uint32_t)used;
        t->piece_bytes = (uint32_t)token_piece_write(v, t, v->pieces + used);
        used += t->piece_bytes;
    }
    return 0;
}

/* The file's number of a token with a meaning; one that is out of range is as if it was not
 * there. */
static void id_read(const struct vocab *v, const struct gguf *g, const char *key, int32_t *id)
{
    uint32_t number;
    if (*id >= 0 && (uint32_t)*id >= v->count) *id = -1;
    if (gguf_get_u32(g, key, &number) && number < v->count) *id = (int32_t)number;
}

int vocab_load(struct vocab *v, const struct gguf *g, struct fail *why)
{
    struct gguf_array list;
    if (!gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &list) || !list.count) {
        return fail_set(why, "tokenizer: the file has no tokens (tokenizer.ggml.tokens)");
    }
    if (list.count > VOCAB_TOKENS_MAX) {
        return fail_set(why, "tokenizer: %llu tokens; at most %d are supported",
                        (unsigned long long)list.count, VOCAB_TOKENS_MAX);
    }
    v->count = (uint32_t)list.count;
    v->tokens = calloc(v->count, sizeof(*v->tokens));
    if (!v->tokens || symbols_init(&v->symbols, v->count)) {
        return fail_set(why, "tokenizer: out of memory");
    }
    if (tokens_read(v, &list, why) || kinds_read(v, g, why)) return -1;
    id_read(v, g, "tokenizer.ggml.bos_token_id", &v->bos);
    id_read(v, g, "tokenizer.ggml.eos_token_id", &v->eos);
    id_read(v, g, "tokenizer.ggml.unknown_token_id", &v->unknown);
    gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &v->adds_bos);
    gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &v->adds_eos);
    gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &v->adds_space);
    vocab_meanings_find(v, g);
    return pieces_make(v, why);
}

void vocab_release(struct vocab *v)
{
    free(v->tokens);
    free(v->texts);
    free(v->pieces);
    symbols_release(&v->symbols);
    memset(v, 0, sizeof(*v));
}
