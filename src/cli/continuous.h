/* continuous.h - what `serve` and `run` share about continuous profiling (agent/continuous.h). */
#ifndef SONDE_CLI_CONTINUOUS_H
#define SONDE_CLI_CONTINUOUS_H

#include "cli/cli.h"
#include "agent/continuous.h"

/* A const char * in a command's values: the rate, "" = as the settings say, NULL = not given. */
#define SONDE_OPT_CONTINUOUS(values, field)                                                      \
    { .name = "continuous", .type = SONDE_OPT_STR, .value = "HZ", .implied = "",                 \
      .offset = offsetof(values, field),                                                         \
      .help = "take profiles all the time, into the store (default 19 samples a second)" }

#define SONDE_OPT_NO_CONTINUOUS(values, field)                                                   \
    { .name = "no-continuous", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field),        \
      .help = "keep no profiles of the last hours in memory" }

/* As settings and option say; o->collector, profiler and store are the caller's. SONDE_EXIT_OK, or
 * tells what is wrong. */
int sonde_cli_continuous(const struct sonde_cli *cli, const char *rate,
                         struct sonde_continuous_options *o);

/* Where nobody asked for it, o becomes what costs next to nothing: profiles of the last hours, in
 * memory, of what is sampled and profiled anyway: the CPU at this rate (0 = it is not), heaps. */
void sonde_cli_continuous_recent(struct sonde_continuous_options *o, double rate_hz, int heap);

#endif
