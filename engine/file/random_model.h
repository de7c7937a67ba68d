/* random_model.h - a model with random weights that behaves like a real one: activations keep their
 * size through the layers, attention has favourites, and one token is clearly the most likely. What
 * it says makes no sense; it takes the time and the memory that a model of its size takes.
 *
 * The same arguments give the same bytes on every machine: random numbers are integers, and of
 * floating point only operations are used whose result is defined to the last bit. */
#ifndef ENGINE_FILE_RANDOM_MODEL_H
#define ENGINE_FILE_RANDOM_MODEL_H

#include <stdint.h>

#include "base/fail.h"
#include "file/random_vocab.h"
#include "file/weight.h"

struct random_model_size {
    const char *name;            /* "tiny" */
    uint32_t layers, embd, heads, heads_kv, ff, vocab, context;
};

/* NULL: there is no such. */
const struct random_model_size *random_model_size_named(const char *name);

enum random_model_arch { RANDOM_MODEL_LLAMA, RANDOM_MODEL_BITNET };

struct random_model {
    const struct random_model_size *size;
    enum random_model_arch arch;
    enum weight_type type;       /* of the matrices; embeddings are F16 where this is ternary */
    const struct random_vocab *vocab;
    uint64_t seed;
};

int random_model_write(const struct random_model *m, const char *path, struct fail *why);

#endif
