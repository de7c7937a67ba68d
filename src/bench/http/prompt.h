/* prompt.h - texts of a wanted number of tokens, lengths drawn from a distribution, and prompts
 * from a file.
 *
 * A text is made of common English words, chosen at random: no two prompts begin alike, unless they
 * are to (prefixes), so nothing is found in a cache that would not be in use. How many tokens a
 * word is, and how many a chat's template adds, only the server knows: calibrate from two prompts
 * that it counted. Until then a word is taken for a token.
 *
 *   tokens = fixed + per_word * words
 *
 * Rejected: a tokenizer of our own. It would have to be that of the model, and to count while
 * sending steals the CPU from what is measured. */
#ifndef SONDE_BENCH_HTTP_PROMPT_H
#define SONDE_BENCH_HTTP_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/http/random.h"

#define SONDE_LOAD_TOKENS_MAX 4000000u

enum sonde_load_length_kind {
    SONDE_LOAD_LENGTH_CONSTANT, SONDE_LOAD_LENGTH_UNIFORM, SONDE_LOAD_LENGTH_NORMAL,
    SONDE_LOAD_LENGTH_LOGNORMAL
};
struct sonde_load_length {
    enum sonde_load_length_kind kind;
    double a, b;     /* the value; from, to; mean, deviation; median, deviation of the logarithm */
};

/* "128", "64..512" or "uniform:64..512", "normal:256,64", "lognormal:256,0.5" (median, sigma).
 * SONDE_EINVAL and why. */
int sonde_load_length_parse(const char *text, struct sonde_load_length *out, struct sonde_err *err);
/* At least 1, at most SONDE_LOAD_TOKENS_MAX. */
uint32_t sonde_load_length_draw(const struct sonde_load_length *l, struct sonde_load_random *r);
double sonde_load_length_mean(const struct sonde_load_length *l);

struct sonde_load_calibration {
    double fixed, per_word;  /* 0, 1 unless known */
    int known;               /* the server has counted */
};
/* From what the server counted of two prompts; SONDE_EINVAL: it cannot be so. */
int sonde_load_calibrate(struct sonde_load_calibration *c, uint32_t words_a, uint32_t tokens_a,
                         uint32_t words_b, uint32_t tokens_b);
/* Words for so many tokens, at least 1; fixed: with what a template adds. */
uint32_t sonde_load_words(const struct sonde_load_calibration *c, uint32_t tokens, int fixed);

/* Appends so many words, a blank before each but the first of out. */
void sonde_load_prompt_words(struct sonde_load_random *r, uint32_t words, struct sonde_buf *out);

#endif
