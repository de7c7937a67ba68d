/* bench_options.h - options that commands of `sonde bench` share. */
#ifndef SONDE_CLI_BENCH_OPTIONS_H
#define SONDE_CLI_BENCH_OPTIONS_H

#include "cli/cli.h"

/* "1%", "±0.5%" or "2" as a share; text NULL = *out stays. Exit status. */
int sonde_cli_bench_percent(const struct sonde_cli *cli, const char *option, const char *text,
                            double *out);

/* given, or if that is 0 one that is another each time, short enough to be typed. */
uint64_t sonde_cli_bench_seed(uint64_t given);

#endif
