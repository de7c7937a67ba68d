/* bench_form.h - what `sonde bench compress`, `cache` and `tokenizer` share: values of options with
 * units and lists, a file to measure with, and how a result leaves: text, JSON, Markdown or CSV. */
#ifndef SONDE_CLI_BENCH_FORM_H
#define SONDE_CLI_BENCH_FORM_H

#include <stddef.h>
#include <stdint.h>

#include "bench/result.h"
#include "cli/bench_output.h"
#include "cli/cli.h"
#include "present/table.h"

#define SONDE_BENCH_FORM_MAX 64u /* items of a list */

struct sonde_bench_form_values { struct sonde_cli_bench_output out; };
#define SONDE_OPT_BENCH_FORM(values, field)                                                      \
    SONDE_OPT_BENCH_OUTPUT_AS(values, field.out, "text|json|markdown|csv")

/* Numbers with units, all of them finite and not negative: 0 or SONDE_EINVAL.
 *   bytes    512, 64K, 64KiB (1024), 64kB (1000), 1M, 4GiB …
 *   rate     bytes per second: 125MB/s, 1Gbit/s, 100Mbit
 *   share    5%, 0.05 */
int sonde_bench_bytes_parse(const char *text, size_t len, uint64_t *out);
int sonde_bench_rate_parse(const char *text, double *out);
int sonde_bench_share_parse(const char *text, double *out);

/* "4K,64K,whole": word becomes 0; NULL = no such word. Says what is wrong and returns
 * SONDE_EXIT_USAGE, or 0. */
int sonde_bench_list_parse(const struct sonde_cli *cli, const char *option, const char *text,
                           const char *word, uint64_t min, uint64_t max,
                           uint64_t out[SONDE_BENCH_FORM_MAX], size_t *count);

/* Checks what was asked for, as sonde_cli_bench_begin. */
int sonde_bench_form_check(const struct sonde_cli *cli, const struct sonde_bench_form_values *v);

/* The result in the form that was asked for. head and tail: lines of text around the table; as
 * Markdown each is a paragraph. Releases all three, and returns the exit status. */
int sonde_bench_form_write(const struct sonde_cli *cli, const struct sonde_bench_form_values *v,
                           const struct sonde_bench_result *r, struct sonde_buf *head,
                           struct sonde_table *table, struct sonde_buf *tail);

/* A line for each reason why a result is not valid. */
void sonde_bench_form_doubts(const struct sonde_bench_result *r, struct sonde_buf *out);

/* Opens a file to be measured with: it is there, may be read and is a file. Says and returns -1
 * otherwise. Does not wait for a FIFO's writer. */
int sonde_bench_file_open(const struct sonde_cli *cli, const char *path, uint64_t *bytes);

#endif
