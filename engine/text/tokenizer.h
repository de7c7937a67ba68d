/* tokenizer.h - text to tokens and back, by the vocabulary of a GGUF file: SentencePiece ("llama")
 * and byte-level BPE ("gpt2", with the pre-tokenizers that tokenizer.ggml.pre names).
 *
 * Counts what it does for sonde (sonde/engine.h): look-ups, merges, cache hits, tokens, bytes,
 * times by length of the input. Never keeps or tells text of the input: its cache of words is in
 * memory only and bounded. Thread-safe after it is loaded. */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "file/gguf.h"

struct tokenizer;

/* The file may be closed afterwards: what is needed is copied. */
int tokenizer_load(const struct gguf *g, struct tokenizer **out, struct fail *why);
void tokenizer_destroy(struct tokenizer *t); /* NULL is fine */

uint32_t tokenizer_size(const struct tokenizer *t);
/* -1: the vocabulary has none */
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);
int tokenizer_adds_bos(const struct tokenizer *t);
int tokenizer_is_end(const struct tokenizer *t, int32_t token); /* any end of generation */
const char *tokenizer_model(const struct tokenizer *t);         /* "llama", "gpt2" */

enum { TOKENIZE_SPECIAL = 1 /* texts of control tokens are those tokens */,
       TOKENIZE_BOS = 2     /* add it, and the end of text, where the vocabulary says so */ };

/* Tokens of text, at most max; *count is how many there are, also when that is more than max (then
 * the first max are written). 0, or -1: out of memory. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, unsigned flags,
                     int32_t *tokens, size_t max, size_t *count);

/* Bytes of one token into out (at most size; not terminated); how many it has in all. Control
 * tokens have none unless special. Pieces may end inside of a character: see utf8 holding back in
 * run/. */
size_t tokenizer_piece(const struct tokenizer *t, int32_t token, int special, char *out,
                       size_t size);

/* ---- What it did: counts and times, never text ---------------------------------------------- */

struct tokenizer_counts {
    uint64_t encodes, bytes, tokens, ns;
    uint64_t lookups;            /* of symbols and pairs */
    uint64_t merges;
    uint64_t cache_hits, cache_misses; /* words */
    uint64_t words_long, words_long_bytes; /* those that the cache does not keep */
    uint64_t cache_slots, cache_used;
};
void tokenizer_counts(const struct tokenizer *t, struct tokenizer_counts *out);

enum { TOKENIZER_SLOWEST = 10 };
struct tokenizer_slow { uint64_t bytes, tokens, ns, merges; };
/* The encodes that took longest, the longest first; returns how many. */
size_t tokenizer_slowest(const struct tokenizer *t, struct tokenizer_slow out[TOKENIZER_SLOWEST]);

/* What the figures suggest, each sentence with its numbers; none where there is too little to go
 * by. slowest are the first slow_count that tokenizer_slowest gave. Returns how many. */
enum { TOKENIZER_ADVICE_MAX = 5 };
struct tokenizer_advice { char text[240]; };
size_t tokenizer_advice(const struct tokenizer_counts *c, const struct tokenizer_slow *slowest,
                        size_t slow_count, struct tokenizer_advice out[TOKENIZER_ADVICE_MAX]);

/* ---- Chats ---------------------------------------------------------------------------------- */

/* The prompt of a chat by the file's template where it is one that is known (chatml, llama2,
 * llama3, zephyr, phi3), else a plain one; it ends where the assistant's answer starts. Returns
 * malloc'd text, to be encoded with TOKENIZE_SPECIAL. NULL: out of memory. */
struct chat_message { const char *role, *content; };
char *tokenizer_chat(const struct tokenizer *t, const struct chat_message *messages, size_t count);

#endif
