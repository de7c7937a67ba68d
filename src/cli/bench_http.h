/* bench_http.h - private to the files of `sonde bench http`: its options, what is made of them. */
#ifndef SONDE_CLI_BENCH_HTTP_H
#define SONDE_CLI_BENCH_HTTP_H

#include "bench/http/bench.h"
#include "cli/bench_output.h"
#include "cli/cli.h"
#include "cli/progress.h"

struct bench_http_values {
    struct sonde_cli_bench_output out;
    /* what is asked */
    const char *api, *model, *prompt, *max_tokens, *prompts, *replay, *speed, *key_env;
    struct sonde_cli_list header;
    struct sonde_bench_trust trust;
    uint64_t prefix_tokens, prefix_count, turns, seed;
    int no_stream, keep_eos, no_probe;
    /* when */
    double rate;
    const char *arrival, *stages, *ramp;
    uint64_t concurrency, connections, threads;
    const char *duration, *until, *warmup;
    uint64_t requests;
    const char *timeout, *first_timeout;
    const char *cancel;
    int no_keep_alive, spin;
    /* what is made of it */
    const char *slo, *sweep, *find, *share, *records, *agent;
    int no_agent;
};

/* What was asked for, checked: everything the runs need. */
struct bench_http {
    const struct sonde_cli *cli;
    const struct bench_http_values *v;
    struct sonde_load_plan plan;
    struct sonde_load_probe_options probe;
    struct sonde_load_target target;
    struct sonde_load_trace trace;
    const char **headers;             /* owned, and its last but NULL: the key's */
    char *key_header;                 /* owned; NULL = none */
    struct sonde_cli_bench_output out; /* that of the options, limits as figures are called */
    char **limits;                    /* owned */
    double share;                     /* of requests that have to meet the objectives */
    struct sonde_progress progress;
    int interrupted;
};

/* bench_http_plan.c: tell and return the exit status. */
int bench_http_plan(struct bench_http *b);
void bench_http_release(struct bench_http *b);

/* bench_http_sweep.c: several loads, one after the other; the exit status. */
int bench_http_sweep(struct bench_http *b);
int bench_http_find(struct bench_http *b);

/* One load; on failure it is told and the exit status returned. */
int bench_http_once(struct bench_http *b, const char *what, struct sonde_load_bench *out,
                    struct sonde_bench_result *result);

#endif
