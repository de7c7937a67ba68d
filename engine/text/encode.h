/* encode.h - a tokenizer's insides, shared by its files; others see tokenizer.h. */
#ifndef ENGINE_TEXT_ENCODE_H
#define ENGINE_TEXT_ENCODE_H

#include "sonde/engine.h"
#include "text/merges.h"
#include "text/profile.h"
#include "text/specials.h"
#include "text/split.h"
#include "text/tokenizer.h"
#include "text/vocab.h"
#include "text/word_cache.h"

enum { WORD_CACHE_SLOTS = 1 << 15 }; /* 2 MiB */

struct tokenizer {
    struct vocab vocab;
    const struct split *split;   /* of a byte-level vocabulary */
    struct merges merges;
    uint32_t byte_symbols[256];  /* of a byte alone, SYMBOL_NONE: there is none */
    int32_t byte_tokens[256];    /* SentencePiece: what a byte of an unknown character is; or -1 */
    unsigned char glue[256];     /* SentencePiece: a token goes on with a space after this byte */
    struct word_cache cache;
    struct specials specials, user_defined; /* to look for with TOKENIZE_SPECIAL, and without */
    char *chat_template;         /* of the file, or NULL */
    struct profile profile;
    struct sonde_tokenizer sonde;
};

/* One call of tokenizer_encode: where tokens go, room that its steps use, what was counted. */
struct encode {
    const struct tokenizer *t;
    int32_t *tokens;
    size_t max, count;
    struct merge_work work;
    uint32_t *units;             /* byte-level: of the part at hand */
    char *text;                  /* the part at hand: valid, or with its spaces escaped */
    size_t text_room;            /* bytes of a part that units and text have room for */
    size_t at;                   /* byte-level: in text, where the next word starts */
    uint64_t lookups, cache_hits, cache_misses, words_long, words_long_bytes;
};

static inline void encode_push(struct encode *e, int32_t token)
{
    if (e->count < e->max) e->tokens[e->count] = token;
    e->count++;
}

/* Room for a part of so many bytes. 0, or -1: out of memory. */
int encode_reserve(struct encode *e, size_t bytes);

/* Tokens of a word: from the cache, or by symbols_of (which fills e->work.nodes; 1: it has pushed
 * the tokens already) and merging, after which fallback says what a symbol that is no token
 * becomes. 0, or -1: out of memory. */
struct encode_word {
    /* What the word is cached by, if not by itself; more than WORD_CACHE_BYTES: it does not fit. */
    size_t (*pack)(const char *word, size_t bytes, char out[WORD_CACHE_BYTES]);
    int (*symbols_of)(struct encode *e, const char *word, size_t bytes);
    void (*fallback)(struct encode *e, const char *text, size_t bytes);
};
int encode_word(struct encode *e, const struct encode_word *how, const char *word, size_t bytes);

/* Byte-level BPE. */
int bpe_load(struct tokenizer *t, const struct gguf *g, struct fail *why);
int bpe_encode(struct encode *e, const char *text, size_t bytes);

/* SentencePiece. space: one is put before the text. */
int sentencepiece_load(struct tokenizer *t, struct fail *why);
int sentencepiece_encode(struct encode *e, const char *text, size_t bytes, int space);

#endif
