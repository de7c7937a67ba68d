/* continuous.h - what `serve` and `run` share about continuous profiling (serve/continuous.h). */
#ifndef SONDE_CLI_CONTINUOUS_H
#define SONDE_CLI_CONTINUOUS_H

#include "cli/cli.h"
#include "serve/continuous.h"

/* A const char * in a command's values: the rate, "" = as the settings say, NULL = not given. */
#define SONDE_OPT_CONTINUOUS(values, field)                                                      \
    { .name = "continuous", .type = SONDE_OPT_STR, .value = "HZ", .implied = "",                 \
      .offset = offsetof(values, field),                                                         \
      .help = "take profiles all the time, into the store (default 19 samples a second)" }

/* As settings and option say; o->collector, profiler and store are the caller's. SONDE_EXIT_OK, or
 * tells what is wrong. */
int sonde_cli_continuous(const struct sonde_cli *cli, const char *rate,
                         struct sonde_continuous_options *o);

#endif
