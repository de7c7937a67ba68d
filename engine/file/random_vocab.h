/* random_vocab.h - the tokenizer of a model that make-model writes: trained on text for real, so
 * that its tokens look like those of models in use.
 *
 *   bpe   byte-level, as GPT-2's: 256 bytes, what merges make of them, four control tokens
 *   spm   as SentencePiece's in Llama 2: <unk> <s> </s>, 256 bytes to fall back to, pieces whose
 *         score is minus their rank, single characters */
#ifndef ENGINE_FILE_RANDOM_VOCAB_H
#define ENGINE_FILE_RANDOM_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "file/gguf_write.h"

enum random_vocab_kind { RANDOM_VOCAB_BPE, RANDOM_VOCAB_SPM };

struct random_vocab;

/* size tokens, or fewer if the text has not so many pairs that are there twice. */
int random_vocab_train(enum random_vocab_kind kind, const char *text, size_t bytes, uint32_t size,
                       struct random_vocab **out, struct fail *why);
void random_vocab_destroy(struct random_vocab *v); /* NULL is fine */

uint32_t random_vocab_size(const struct random_vocab *v);
/* One that a model should not come up with by itself: a control token, a part of a character. */
int random_vocab_is_odd(const struct random_vocab *v, uint32_t token);
/* The pairs tokenizer.…; -1: out of memory. */
int random_vocab_write(const struct random_vocab *v, struct gguf_writer *w);

#endif
