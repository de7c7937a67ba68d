/* train_bpe.h - learning merges from words: byte pair encoding.
 *
 * The pair of neighbours that is there most often becomes a symbol of its own, again and again. The
 * same words give the same merges on every machine: of pairs that are as frequent the one with the
 * lower symbols comes first. */
#ifndef ENGINE_FILE_TRAIN_BPE_H
#define ENGINE_FILE_TRAIN_BPE_H

#include <stddef.h>
#include <stdint.h>

#define BPE_BARRIER UINT32_MAX   /* a symbol that merges with nothing */
#define BPE_SKIP (UINT32_MAX - 1) /* not this pair, but others */

struct bpe_word {
    uint32_t *symbols;           /* borrowed */
    uint32_t count;
    uint64_t times;              /* how often the text has it */
};

/* merged(arg, left, right) names the symbol that these two become, which may be one that is there
 * already (a + bc and ab + c), or BPE_SKIP, or BPE_BARRIER: enough. Pairs that are there only once
 * are not merged. 0, or -1: out of memory. */
int bpe_train(const struct bpe_word *words, size_t words_count,
              uint32_t (*merged)(void *arg, uint32_t left, uint32_t right), void *arg);

/* The words of a text as the pre-tokenizer of GPT-2 cuts them (letters, digits or other signs, each
 * with a space before; runs of white space), with how often they are there, in order of their first
 * appearance. Bytes above 127 count as letters: which of them are, is not worth a table here. */
struct bpe_text_word { const char *at; uint32_t bytes; uint64_t times; };
int bpe_words(const char *text, size_t bytes, struct bpe_text_word **out, size_t *count);

#endif
