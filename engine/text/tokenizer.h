/* tokenizer.h - text to tokens and back, by the vocabulary of a GGUF file: SentencePiece ("llama")
 * and byte-level BPE ("gpt2", with the pre-tokenizers that tokenizer.ggml.pre names).
 *
 * Counts what it does for sonde (sonde/engine.h): look-ups, merges, cache hits, tokens, bytes, times
 * by length of the input. Never keeps or tells text of the input: its cache of words is in memory
 * only and bounded. Thread-safe after it is loaded. */
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
       TOKENIZE_BOS = 2     /* add it where the vocabulary says so */ };

/* Tokens of text, at most max; *count is how many there are, also when that is more than max (then
 * the first max are written). 0, or -1: out of memory. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, unsigned flags,
                     int32_t *tokens, size_t max, size_t *count);

/* Bytes of one token into out (at most size; not terminated); how many it has in all. Control tokens
 * have none unless special. Pieces may end inside of a character: see utf8 holding back in run/. */
size_t tokenizer_piece(const struct tokenizer *t, int32_t token, int special, char *out, size_t size);

/* The prompt of a chat by the file's template where it is one that is known (chatml, llama2, llama3,
 * zephyr), else a plain one. Returns malloc'd text. */
struct chat_message { const char *role, *content; };
char *tokenizer_chat(const struct tokenizer *t, const struct chat_message *messages, size_t count);

#endif
