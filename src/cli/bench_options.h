/* bench_options.h - options that commands of `sonde bench` share. */
#ifndef SONDE_CLI_BENCH_OPTIONS_H
#define SONDE_CLI_BENCH_OPTIONS_H

#include "bench/trust.h"
#include "cli/cli.h"

/* "1%", "±0.5%" or "2" as a share; text NULL = *out stays. Exit status. */
int sonde_cli_bench_percent(const struct sonde_cli *cli, const char *option, const char *text,
                            double *out);

/* given, or if that is 0 one that is another each time, short enough to be typed. */
uint64_t sonde_cli_bench_seed(uint64_t given);

/* Of a struct sonde_bench_trust in values. */
#define SONDE_OPT_BENCH_TRUST(values, field)                                                     \
    { .name = "cacert", .type = SONDE_OPT_STR, .value = "FILE",                                  \
      .offset = offsetof(values, field.ca_file),                                                 \
      .help = "of https: trust these authorities (PEM) instead of the system's" },               \
    { .name = "insecure", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.insecure),    \
      .help = "of https: do not verify the certificate" }

/* Whether it can be used, and one of the URLs is https (each may be NULL). Tells and returns the
 * exit status. */
int sonde_cli_bench_trust(const struct sonde_cli *cli, const struct sonde_bench_trust *t,
                          const char *a, const char *b);

#endif
