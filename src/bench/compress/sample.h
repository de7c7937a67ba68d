/* sample.h - data to compress when there is no file at hand: made up from a seed, in the layouts
 * and with the distributions that inference moves about.
 *
 * It is made up: what it is like is in the table's texts and in docs/bench-compress.md, with how
 * the ratios compare with those of real data. A file, or a tensor of a GGUF, is better evidence. */
#ifndef SONDE_BENCH_COMPRESS_SAMPLE_H
#define SONDE_BENCH_COMPRESS_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_SAMPLES(X)                                                                        \
    X(kv, F16, "KV cache: keys and values of one layer, token after token; keys drift slowly "  \
      "and have a few channels that are far off")                                               \
    X(weights, BF16, "weights: normal with a scale for each row, and some outliers")            \
    X(activations, F16, "activations behind a gate: most near 0, a few channels huge")          \
    X(embeddings, F32, "embeddings: unit vectors in clusters")                                  \
    X(text, NONE, "prose of made-up words, by frequency and by what preceded")                  \
    X(json, NONE, "chat completions as an API logs them, one object on a line")
#define SONDE_SAMPLE_TYPES(X) X(F32, "f32") X(F16, "f16") X(BF16, "bf16") X(Q8_0, "q8_0") \
    X(Q4_0, "q4_0")

enum sonde_sample_type {
    SONDE_SAMPLE_NONE,               /* bytes, not numbers */
#define SONDE__X(id, name) SONDE_SAMPLE_##id,
    SONDE_SAMPLE_TYPES(SONDE__X)
#undef SONDE__X
    SONDE_SAMPLE_TYPE_COUNT
};

struct sonde_compress_sample {
    const char *name, *summary;
    enum sonde_sample_type type;     /* what it is stored as if nothing is asked for */
};
extern const struct sonde_compress_sample sonde_compress_samples[]; /* ends with name NULL */
const struct sonde_compress_sample *sonde_compress_sample_find(const char *name); /* or NULL */
/* SONDE_SAMPLE_TYPE_COUNT: there is none. */
enum sonde_sample_type sonde_sample_type_find(const char *name);
const char *sonde_sample_type_name(enum sonde_sample_type type); /* "" of none */

/* Fills out. type: NONE = the sample's own; of text and json no other. */
void sonde_compress_sample_make(const struct sonde_compress_sample *s,
                                enum sonde_sample_type type, uint64_t seed, char *out,
                                size_t bytes);

#endif
