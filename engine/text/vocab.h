/* vocab.h - the tokens of a GGUF file: texts, bytes, kinds, and which of them mean something.
 *
 * Every token has a text, as the file has it, and a piece: the bytes that it stands for. They
 * differ for byte-level vocabularies, where a character of the text stands for a byte, and for
 * SentencePiece, where U+2581 is a space. Token i is symbol i of symbols, whose key is what words
 * are looked up by: the piece where a text is made of bytes, the text for SentencePiece. */
#ifndef ENGINE_TEXT_VOCAB_H
#define ENGINE_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "file/gguf.h"
#include "text/symbols.h"

enum { /* kinds and attributes, as bits */
    TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 4, TOKEN_USER_DEFINED = 8,
    TOKEN_UNUSED = 16, TOKEN_BYTE = 32,
    TOKEN_END = 64,              /* generation ends with it */
    TOKEN_STRIP_LEFT = 128, TOKEN_STRIP_RIGHT = 256, /* it swallows white space beside it */
};

enum { VOCAB_TOKENS_MAX = 1 << 24, VOCAB_TEXT_BYTES_MAX = 1 << 14 };

struct vocab_token {
    uint32_t text, text_bytes;   /* in texts */
    uint32_t piece, piece_bytes; /* in pieces */
    float score;
    uint32_t kind;
};

struct vocab {
    int byte_level;              /* gpt2, else SentencePiece */
    struct vocab_token *tokens;
    uint32_t count;
    char *texts, *pieces;
    struct symbols symbols;
    int32_t bos, eos, unknown;   /* -1: none */
    int adds_bos, adds_eos, adds_space;
};

/* What its kind and its file have as defaults has to be in v already: byte_level, bos, eos,
 * unknown, adds_…; 0, or -1 and why. */
int vocab_load(struct vocab *v, const struct gguf *g, struct fail *why);
void vocab_release(struct vocab *v);

static inline const char *vocab_text(const struct vocab *v, uint32_t token)
{
    return v->texts + v->tokens[token].text;
}
/* The token with this very text, or -1. Walks through all: for loading. */
int32_t vocab_token_of_text(const struct vocab *v, const char *text);

/* Marks tokens whose texts have a meaning (ends of generation and the like) as llama.cpp does. */
void vocab_meanings_find(struct vocab *v, const struct gguf *g);

#endif
