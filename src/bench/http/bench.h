/* bench.h - one load from beginning to end: workload, sending, measures, verdict. What `sonde bench
 * http` does once, a sweep several times, and a comparison or a tuner in turns.
 *
 *   plan ──probe──▶ target ──run──▶ records ──▶ measures ──▶ figures, verdict (result.h) */
#ifndef SONDE_BENCH_HTTP_BENCH_H
#define SONDE_BENCH_HTTP_BENCH_H

#include "bench/http/load.h"
#include "bench/http/measure.h"
#include "bench/http/probe.h"
#include "bench/http/verdict.h"
#include "bench/http/workload.h"
#include "bench/result.h"

#define SONDE_LOAD_UNTIL_MAX_S 600.0 /* --until gives up after that, unless a duration is given */

struct sonde_load_plan {
    const char *const *headers;          /* borrowed, as is all here */
    struct sonde_bench_trust trust;      /* of a server behind https */
    int stream;
    struct sonde_load_length prompt, output;
    uint32_t prefix_tokens, prefix_count, turns;
    struct sonde_load_trace *trace;      /* NULL = prompts are made up */
    int replay;
    double speed;
    struct sonde_load_arrival arrival;   /* stage_count 0 = closed loop, or a replay */
    uint32_t concurrency;                /* of a closed loop; 0 = 1 */
    uint32_t connections;                /* of an open one at most; 0 = 10,000 */
    uint32_t threads;
    int spin, no_keep_alive;
    double duration_s;                   /* 0 = until requests are sent; with neither 30 s */
    uint64_t requests;                   /* 0 = any number */
    double until;                        /* 0.02: until intervals are ±2 %; 0 = not */
    double warmup_s;                     /* < 0 = find it */
    uint64_t warmup_requests;
    double timeout_s, first_timeout_s;   /* 0 = none */
    double drain_s;                      /* for what is under way at the end; 0 = 30 */
    double cancel_ratio;
    struct sonde_load_slo slo;
    uint64_t seed;
    /* About 10 times a second; share: of the run, 0 = not known. 1 = stop. NULL = nobody looks. */
    int (*progress)(void *arg, double share, const char *state);
    void *progress_arg;
};

struct sonde_load_bench {
    struct sonde_load_target target;
    struct sonde_load_result load;
    struct sonde_load_measures measures;
    struct sonde_load_remarks remarks;
    int open;
    double begin_unix_s;                 /* Unix time of load.begin_ns */
    uint64_t broken_turns;
    int narrow;                          /* --until: it was reached */
};

/* Zeros and defaults: streaming, 128 tokens each way, seed 1. */
void sonde_load_plan_init(struct sonde_load_plan *p);

/* Runs it and fills out; result gets the figures, the verdict and, with sonde_load_bench_json, the
 * members of its own. SONDE_EINVAL, SONDE_EIO, SONDE_ENOMEM and why. */
int sonde_load_bench_run(const struct sonde_load_plan *p, const struct sonde_load_target *target,
                         struct sonde_load_bench *out, struct sonde_bench_result *result,
                         struct sonde_err *err);
void sonde_load_bench_release(struct sonde_load_bench *b);

/* ---- bench_json.c ---------------------------------------------------------------------------- */

/* metrics, rates, requests, window, client … into result->extra. */
void sonde_load_bench_json(const struct sonde_load_plan *p, const struct sonde_load_bench *b,
                           struct sonde_bench_result *result);
/* One line of JSON for each request. */
void sonde_load_bench_records(const struct sonde_load_bench *b, struct sonde_buf *out);

/* ---- bench_text.c ---------------------------------------------------------------------------- */

/* What a person reads; width in cells. */
void sonde_load_bench_text(const struct sonde_load_plan *p, const struct sonde_load_bench *b,
                           const struct sonde_bench_result *result, int width, int ascii,
                           struct sonde_buf *out);

#endif
