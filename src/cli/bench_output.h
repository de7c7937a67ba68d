/* bench_output.h - what every command that makes a result (bench/result.h) does with it: writes it
 * as text, Markdown or JSON, keeps it under a name, puts it into a store, notes begin and end on
 * an agent's charts, and checks limits.
 *
 *   struct bench_x_values { struct sonde_cli_bench_output out; … };
 *   options: { SONDE_OPT_BENCH_OUTPUT(struct bench_x_values, out), …
 *
 *   int status = sonde_cli_bench_begin(cli, &v->out, "x"); before anything is run
 *   …
 *   sonde_bench_result_end(&r);
 *   return sonde_cli_bench_finish(cli, &v->out, &r, bench_x_text, &state);
 */
#ifndef SONDE_CLI_BENCH_OUTPUT_H
#define SONDE_CLI_BENCH_OUTPUT_H

#include "bench/figure.h"
#include "bench/result.h"
#include "bench/saved.h"
#include "cli/cli.h"

struct sonde_cli_bench_output {
    const char *format, *output, *save, *store, *mark;
    struct sonde_cli_list fail_on;
    int json;
};

#define SONDE_OPT_BENCH_DIR                                                                      \
    { .name = "results", .type = SONDE_OPT_SETTING, .value = "DIR", .setting = "bench.dir",      \
      .help = "folder of results that are kept (default ~/.local/state/sonde/bench)" }

#define SONDE_OPT_BENCH_OUTPUT(values, field)                                                    \
    SONDE_OPT_BENCH_OUTPUT_AS(values, field, "text|markdown|json")
/* With other formats, which the command writes itself. */
#define SONDE_OPT_BENCH_OUTPUT_AS(values, field, formats)                                        \
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",                 \
      .offset = offsetof(values, field.format), .choices = formats,                              \
      .help = "how it is written (default text)" },                                              \
    { .name = "json", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.json),            \
      .help = "write JSON" },                                                                    \
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE",                   \
      .offset = offsetof(values, field.output),                                                  \
      .help = "write to FILE; FILE.json is JSON, .md Markdown (default: standard output)" },     \
    { .name = "save", .type = SONDE_OPT_STR, .value = "NAME",                                    \
      .offset = offsetof(values, field.save),                                                    \
      .help = "keep the result under NAME, for `sonde bench compare`, beside earlier ones" },    \
    SONDE_OPT_BENCH_DIR,                                                                         \
    { .name = "store", .type = SONDE_OPT_STR, .value = "FILE",                                   \
      .offset = offsetof(values, field.store),                                                   \
      .help = "add the figures as series to the store FILE, which is made if need be" },         \
    { .name = "mark", .type = SONDE_OPT_STR, .value = "URL",                                     \
      .offset = offsetof(values, field.mark),                                                    \
      .help = "note begin and end on the charts of the agent at URL" },                          \
    { .name = "fail-on", .type = SONDE_OPT_LIST, .value = "LIMIT",                               \
      .offset = offsetof(values, field.fail_on),                                                 \
      .help = "exit status 3 if a figure is beyond: 'e2e_s.p99>2s', 'requests_per_s<50'" }

/* Checks what was asked for, so that a mistake does not cost the time of a benchmark, and notes the
 * beginning. what: "http http://…", for the note. Tells and returns the exit status. */
int sonde_cli_bench_begin(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                          const char *what);

/* Everything that was asked for, with a result that has ended. The first that fails is told, and
 * the rest is still done: a full store does not cost the JSON. text appends the
 * result for people; NULL = a table of its figures. Returns the exit status. */
int sonde_cli_bench_finish(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                           struct sonde_bench_result *r,
                           void (*text)(const struct sonde_bench_result *r,
                                        const struct sonde_bench_view *v, struct sonde_buf *out,
                                        void *arg),
                           void *arg);

/* All but the writing, for who writes it itself: --save, --store, --mark, --fail-on. */
int sonde_cli_bench_keep(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                         const struct sonde_bench_result *r);

/* "text", "markdown", "json" or what --format says. */
const char *sonde_cli_bench_form(const struct sonde_cli_bench_output *o);

/* ---- Results that were kept ------------------------------------------------------------------ */

#define SONDE_CLI_BENCH_PATH 4096
/* The folder of results, and where the result of that name is: what holds a slash or ends in .json
 * is a path. Tell and return SONDE_EXIT_USAGE. */
int sonde_cli_bench_dir(const struct sonde_cli *cli, char out[SONDE_CLI_BENCH_PATH]);
int sonde_cli_bench_path(const struct sonde_cli *cli, const char *name,
                         char out[SONDE_CLI_BENCH_PATH]);
/* NAME, FILE, NAME@N or FILE@N: all runs of it, or the Nth, from the end if N is negative (@-1 is
 * the last). Appends to *out. */
int sonde_cli_bench_load(const struct sonde_cli *cli, const char *name,
                         struct sonde_bench_saved *out);

#endif
