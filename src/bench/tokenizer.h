/* tokenizer.h - how fast a vocabulary turns text into tokens and back: `sonde-engine tokenize
 * --bench` run as a program, and what it printed as rows.
 *
 * The tokenizer is the engine's, which the agent does not link: the engine is a program that
 * sonde watches like any other, and its libraries are not the agent's to have. So it is run, as
 * found beside this program or in PATH, and its JSON is validated like that of a stranger. */
#ifndef SONDE_BENCH_TOKENIZER_H
#define SONDE_BENCH_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/result.h"

#define SONDE_TOKENIZER_ROWS_MAX 256u
#define SONDE_TOKENIZER_TURNS_MAX 100u
#define SONDE_TOKENIZER_SLOWEST_MAX 10u

struct sonde_tokenizer_row {
    char kind[16];               /* "text", "code", "json", "unicode", "input" */
    uint64_t length;             /* of an input, in bytes */
    uint64_t inputs, bytes, tokens, trips, trips_same, cache_hits, cache_misses, words_long;
    double encode[SONDE_TOKENIZER_TURNS_MAX], decode[SONDE_TOKENIZER_TURNS_MAX]; /* tokens/s */
    size_t encode_count, decode_count;
    double encode_bytes_per_s;
};

struct sonde_tokenizer_slow { uint64_t bytes, tokens, merges; double seconds; };

struct sonde_tokenizer_bench {
    char tokenizer[16];          /* "llama", "gpt2" */
    uint64_t vocabulary;
    struct sonde_tokenizer_row *rows; /* owned */
    size_t count, cap;
    struct sonde_tokenizer_slow slowest[SONDE_TOKENIZER_SLOWEST_MAX];
    size_t slow_count;
};

struct sonde_tokenizer_options {
    const char *engine;          /* the program; NULL = find it */
    const char *model, *lengths, *kinds, *input; /* the last three: NULL = its defaults */
    double seconds;
    uint32_t turns;
    void (*tell)(void *arg, double share, const char *state); /* NULL = nobody listens */
    void *arg;
};

/* SONDE_ENOENT: no program; SONDE_EINVAL: it refused, and has said why on the standard error;
 * SONDE_EIO: it failed or printed something else. */
int sonde_tokenizer_run(const struct sonde_tokenizer_options *o, struct sonde_tokenizer_bench *out,
                        struct sonde_err *err);
/* What the program printed: 0 or SONDE_EIO, *out is to be released in any case. */
int sonde_tokenizer_parse(const char *text, size_t len, struct sonde_tokenizer_bench *out,
                          struct sonde_err *err);
void sonde_tokenizer_release(struct sonde_tokenizer_bench *b);

int sonde_tokenizer_result(const struct sonde_tokenizer_bench *b, struct sonde_bench_result *r);

#endif
