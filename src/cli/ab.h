/* ab.h - private to the files of `sonde ab`: its options, and its two kinds of arms. */
#ifndef SONDE_CLI_AB_H
#define SONDE_CLI_AB_H

#include "bench/ab/pairs.h"
#include "bench/trust.h"
#include "cli/baseline.h"
#include "cli/bench_output.h"
#include "cli/cli.h"
#include "cli/progress.h"

#define SONDE_CLI_AB_RUNS_MAX 200u

struct ab_values {
    struct sonde_cli_bench_output out;
    struct sonde_cli_recording recording;
    const char *a, *b, *detect, *on, *shell, *prepare, *input;
    const char *api, *model, *prompt, *max_tokens;
    struct sonde_cli_list header;
    struct sonde_bench_trust trust;
    double max_time_s, timeout_s;
    uint64_t max_runs, warmup, seed, record_runs, requests, concurrency;
    int record, ignore_failure, show_output, no_stream;
};

/* ab.c, as the next two: limits, seed and --detect, and the figure of --on among those that o has.
 * Tells and returns the exit status. */
int sonde_cli_ab_plan(const struct sonde_cli *cli, struct sonde_pairs_options *o);

/* The result, before the first pair; and after the last, with what sonde_pairs_run said. Tell and
 * return the exit status. */
int sonde_cli_ab_begin(const struct sonde_cli *cli, uint64_t seed, struct sonde_bench_result *r);
int sonde_cli_ab_end(const struct sonde_cli *cli, int rc, const struct sonde_err *err,
                     const struct sonde_pairs *p, struct sonde_bench_result *r);

/* ab_http.c: --a URL --b URL; the exit status. */
int sonde_cli_ab_http(struct sonde_cli *cli);

#endif
