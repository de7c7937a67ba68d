/* push.h - where `serve` and `run` send what they know, as the settings say. */
#ifndef SONDE_CLI_PUSH_H
#define SONDE_CLI_PUSH_H

#include "cli/cli.h"
#include "push/push.h"

#define SONDE_OPT_PUSH                                                                           \
    { .name = "otlp", .type = SONDE_OPT_SETTING, .value = "URL", .setting = "push.otlp",         \
      .help = "send metrics, traces and profiles to this OTLP/HTTP collector; env = as "         \
              "OTEL_EXPORTER_OTLP_ENDPOINT says" },                                              \
    { .name = "remote-write", .type = SONDE_OPT_SETTING, .value = "URL",                         \
      .setting = "push.remote_write", .help = "send metrics to this Prometheus, or what takes "  \
              "its remote write" },                                                              \
    { .name = "pyroscope", .type = SONDE_OPT_SETTING, .value = "URL",                            \
      .setting = "push.pyroscope", .help = "send profiles to this Pyroscope" }

/* What the settings name, not started; *out is NULL if they name nothing. requests: each that ends
 * will be told. Tells and returns the exit status. */
int sonde_cli_push_open(const struct sonde_cli *cli, struct sonde_model *m, int requests,
                        struct sonde_push **out);

/* Send what is left and end it, while the model is there; for *p NULL nothing happens. */
void sonde_cli_push_close(const struct sonde_cli *cli, struct sonde_push **p);

/* Headers for one kind: the file that the settings name, and the token of SONDE_<KIND>_TOKEN, one a
 * line into out. 0 or SONDE_E…. */
int sonde_cli_push_headers(const struct sonde_cli *cli, const char *kind, struct sonde_buf *out,
                           struct sonde_err *err);

/* Each destination that the settings name, for who wants to look at it; *count of them. */
int sonde_cli_push_each(const struct sonde_cli *cli,
                        void (*each)(const struct sonde_push_target *t, const char *labels,
                                     void *arg),
                        void *arg, size_t *count, struct sonde_err *err);

/* The folder in which what cannot be sent waits; NULL = in memory. */
#define SONDE_CLI_SPOOL_MAX 4096
const char *sonde_cli_push_spool(const struct sonde_cli *cli, char out[SONDE_CLI_SPOOL_MAX]);

#endif
