/* engine.h - what the series of sonde/engine.h say of an inference engine: its devices and their
 * operations, its memory pools and how fragmented they are, its tokenizers and what to do about
 * them. One way for a live agent (the series of its model) and for a recording (those kept with the
 * profile): reports, HTTP and terminals show the same.
 *
 * Figures are since each program began. What is not known is NaN. */
#ifndef SONDE_ANALYZE_ENGINE_H
#define SONDE_ANALYZE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "profile/final.h"
#include "sonde/engine.h"

struct sonde_model;
struct sonde_profile;

struct sonde_engine_time {           /* seconds of something that was done `count` times */
    uint64_t count;
    double sum_s, mean_s, p50_s, p99_s, max_s;
};

struct sonde_engine_who { const char *program; uint32_t pid; };

/* ---- Devices ------------------------------------------------------------------------------- */

struct sonde_engine_op {
    const char *operation;
    struct sonde_engine_time time;
    double share;                    /* of the time of all operations of all devices */
};

struct sonde_engine_fallback { const char *reason; uint64_t count; };

struct sonde_engine_device {
    struct sonde_engine_who who;
    const char *device;
    int gpu;
    uint64_t operations, fallbacks;
    double seconds, share;
    double used_bytes, total_bytes, efficiency; /* used by total */
    struct sonde_engine_op *ops;     /* most time first */
    struct sonde_engine_fallback *reasons; /* most first */
    uint32_t op_count, reason_count;
};

/* ---- Pools --------------------------------------------------------------------------------- */

struct sonde_engine_pool {
    struct sonde_engine_who who;
    const char *pool;                /* NULL = all of them */
    int detailed;                    /* more than its bytes in use is told */
    double used_bytes, peak_bytes, capacity_bytes, requested_bytes, free_block_bytes;
    uint64_t failures;
    struct sonde_engine_time allocation, release;
    double external, internal;       /* fragmentation, 0 … 1: of what is free, what cannot be had in
                                        one piece; of what is used, what nobody asked for */
};

/* ---- Tokenizers ---------------------------------------------------------------------------- */

/* Never a constant text: each is made of the figures that call for it, and there is none while
 * fewer than SONDE_ENGINE_ADVICE_MIN inputs were encoded. Names are for programs: append only. */
#define SONDE_ENGINE_ADVICES(X)                                                                \
    X(CACHE_MISSES, "cache_misses")                                                            \
    X(NO_CACHE, "no_cache")                                                                    \
    X(LONG_INPUTS, "long_inputs")                                                              \
    X(LOOKUPS, "lookups")

enum sonde_engine_advice_kind {
#define SONDE__X(id, name) SONDE_ENGINE_ADVICE_##id,
    SONDE_ENGINE_ADVICES(SONDE__X)
#undef SONDE__X
    SONDE_ENGINE_ADVICE_COUNT
};
enum { SONDE_ENGINE_ADVICE_MIN = 100 };

const char *sonde_engine_advice_name(enum sonde_engine_advice_kind k);

struct sonde_engine_advice {
    enum sonde_engine_advice_kind kind;
    char text[320];
};

struct sonde_engine_length {         /* inputs of a class of lengths */
    const char *label;               /* bytes: "65-256" */
    uint64_t bytes_min, bytes_max;
    struct sonde_engine_time time;
    double share;                    /* of the time of all encodes */
};

struct sonde_engine_tokenizer {
    struct sonde_engine_who who;
    const char *tokenizer;
    uint64_t bytes, tokens, lookups, merges, cache_hits, cache_misses;
    struct sonde_engine_time encode, decode;
    double tokens_per_s, bytes_per_token, lookups_per_token, merges_per_token, hit_ratio;
    struct sonde_engine_length lengths[SONDE_TOKENIZER_CLASSES]; /* count 0: there were none */
    int slowest;                     /* of lengths: where the longest encode was; -1 = none */
    struct sonde_engine_advice advice[SONDE_ENGINE_ADVICE_COUNT];
    uint32_t advice_count;
};

/* Told of by the file that owns it: analyze/engine_tokenizer.c. */
void sonde_engine_advise(struct sonde_engine_tokenizer *t);

/* ---- All of it ----------------------------------------------------------------------------- */

struct sonde_engine {
    struct sonde_engine_device *devices;       /* most time first */
    struct sonde_engine_pool *pools;           /* most in use first */
    struct sonde_engine_tokenizer *tokenizers; /* most time first */
    uint32_t device_count, pool_count, tokenizer_count;
    uint64_t cpu_operations, gpu_operations, fallbacks;
    double device_seconds;
    struct sonde_engine_pool all_pools;
    int several;                               /* programs: say whose each is */
};

/* Of these series; texts are borrowed from them. *out is NULL if there is nothing to say. 0 or
 * SONDE_ENOMEM. */
int sonde_engine_build(const struct sonde_final_series *series, size_t count,
                       struct sonde_engine **out);
void sonde_engine_destroy(struct sonde_engine *e); /* NULL is fine */

/* Of what m knows now (read lock, asserted, until the engine is destroyed). */
int sonde_engine_of_model(const struct sonde_model *m, struct sonde_engine **out);

#endif
