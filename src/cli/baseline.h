/* baseline.h - what `sonde baseline` and `sonde check` share: where a baseline is, sets of runs
 * with the facts of each, and runs that are recorded here and now. */
#ifndef SONDE_CLI_BASELINE_H
#define SONDE_CLI_BASELINE_H

#include "analyze/compare.h"
#include "analyze/run_facts.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "store/baseline/baseline.h"

#define SONDE_OPT_BASELINE_DIR                                                                 \
    { .name = "dir", .type = SONDE_OPT_SETTING, .value = "DIR", .setting = "baseline.dir",     \
      .help = "folder of baselines (default ~/.local/state/sonde/baselines)" }

/* Embedded in a command's values: how CMD is recorded. */
struct sonde_cli_recording {
    double duration_s, rate_hz;
    const char *heap;
    int off_cpu;
};
#define SONDE_OPT_RECORDING(values, field)                                                       \
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.1,  \
      .max = 86400, .offset = offsetof(values, field.duration_s),                                \
      .help = "how long to sample: a URL (default 10), or CMD, which is stopped then" },         \
    { .name = "rate", .letter = 'F', .type = SONDE_OPT_NUM, .value = "HZ", .min = 1,             \
      .max = 10000, .offset = offsetof(values, field.rate_hz),                                   \
      .help = "of CMD: samples per second of a thread's CPU time (default 1000)" },              \
    { .name = "heap", .type = SONDE_OPT_STR, .value = "BYTES|full", .implied = "",               \
      .offset = offsetof(values, field.heap),                                                    \
      .help = "of CMD: also its memory, as `sonde record` does" },                               \
    { .name = "off-cpu", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.off_cpu),      \
      .help = "of CMD: also where threads wait" }

/* The part of runs, and what a request is. */
#define SONDE_OPT_RUN_PART(values, field)                                                      \
    { .name = "span", .letter = 's', .type = SONDE_OPT_STR, .value = "GLOB",                   \
      .offset = offsetof(values, field.span), .help = "spans of such a name are requests" },   \
    { .name = "from", .type = SONDE_OPT_STR, .value = "SECONDS",                               \
      .offset = offsetof(values, field.from),                                                  \
      .help = "runs only from here on: seconds since the start, -SECONDS ago, or unix time" }, \
    { .name = "to", .type = SONDE_OPT_STR, .value = "SECONDS",                                 \
      .offset = offsetof(values, field.to), .help = "only up to here, alike" }

/* Where the baseline of that name is: a name with a slash is a path. Tells and returns
 * SONDE_EXIT_USAGE. */
#define SONDE_CLI_BASELINE_PATH 4096
int sonde_cli_baseline_dir(const struct sonde_cli *cli, char out[SONDE_CLI_BASELINE_PATH]);
int sonde_cli_baseline_path(const struct sonde_cli *cli, const char *name,
                            char out[SONDE_CLI_BASELINE_PATH]);
int sonde_cli_baseline_load(const struct sonde_cli *cli, const char *name,
                            struct sonde_baseline **out);

/* Runs to be compared. */
struct sonde_cli_runs {
    struct sonde_profile **profiles;   /* owned */
    struct sonde_compare_run *runs;
    struct sonde_run_facts *facts;
    size_t count, cap, runs_cap, facts_cap;
};
void sonde_cli_runs_release(struct sonde_cli_runs *r);

/* Takes p, also on failure. */
int sonde_cli_runs_take(const struct sonde_cli *cli, struct sonde_cli_runs *r,
                        struct sonde_profile *p, const struct sonde_cli_filter *filter);
int sonde_cli_runs_load(struct sonde_cli *cli, struct sonde_cli_runs *r, const char *target,
                        double duration_s, const struct sonde_cli_filter *filter);
/* span: what requests are; NULL = as the baseline says. */
int sonde_cli_runs_baseline(const struct sonde_cli *cli, struct sonde_cli_runs *r,
                            const struct sonde_baseline *b, const char *span);

/* Run argv once under `sonde record` and load what it recorded. CMD's output goes to the standard
 * error. What went wrong is told. */
int sonde_cli_record_run(struct sonde_cli *cli, char **argv, const struct sonde_cli_recording *how,
                         struct sonde_profile **out);

/* What follows "--", or NULL; *operands: those before it. */
char **sonde_cli_command_of(const struct sonde_cli *cli, int *operands);

#endif
