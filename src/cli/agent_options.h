/* agent_options.h - the options of an agent (agent/agent.h), from settings and flags: what `serve`,
 * `run`, `record` and `attach` share about stores, exporters, OTLP, destinations and continuous
 * profiling. */
#ifndef SONDE_CLI_AGENT_OPTIONS_H
#define SONDE_CLI_AGENT_OPTIONS_H

#include "agent/agent.h"
#include "cli/cli.h"

/* ---- Flags ----------------------------------------------------------------------------------- */

#define SONDE_OPT_STORE                                                                        \
    { .name = "store", .type = SONDE_OPT_SETTING, .value = "FILE", .setting = "storage.path",  \
      .help = "keep every reading in this file, beyond the end of sonde" }

#define SONDE_OPT_SCRAPE(values, field)                                                          \
    { .name = "scrape", .type = SONDE_OPT_LIST, .value = "URL", .offset = offsetof(values, field), \
      .help = "read this exporter too, as Prometheus does; may be given several times" }

/* A const char * in a command's values: the rate, "" = as the settings say, NULL = not given. */
#define SONDE_OPT_CONTINUOUS(values, field)                                                      \
    { .name = "continuous", .type = SONDE_OPT_STR, .value = "HZ", .implied = "",                 \
      .offset = offsetof(values, field),                                                         \
      .help = "take profiles all the time, into the store (default 19 samples a second)" }

#define SONDE_OPT_NO_CONTINUOUS(values, field)                                                   \
    { .name = "no-continuous", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field),        \
      .help = "keep no profiles of the last hours in memory" }

#define SONDE_OPT_PUSH                                                                           \
    { .name = "otlp", .type = SONDE_OPT_SETTING, .value = "URL", .setting = "push.otlp",         \
      .help = "send metrics, traces and profiles to this OTLP/HTTP collector; env = as "         \
              "OTEL_EXPORTER_OTLP_ENDPOINT says" },                                              \
    { .name = "remote-write", .type = SONDE_OPT_SETTING, .value = "URL",                         \
      .setting = "push.remote_write", .help = "send metrics to this Prometheus, or what takes "  \
              "its remote write" },                                                              \
    { .name = "pyroscope", .type = SONDE_OPT_SETTING, .value = "URL",                            \
      .setting = "push.pyroscope", .help = "send profiles to this Pyroscope" }

/* ---- All of an agent's ----------------------------------------------------------------------- */

enum { SONDE_CLI_KINDS_MAX = 4 };
#define SONDE_CLI_SPOOL_MAX 4096

/* What a command wants of the settings. */
struct sonde_cli_agent_wants {
    int http;                            /* it is asked: a temporary store, OTLP, sessions, marks,
                                            alerts */
    int keep;                            /* the store, destinations, alerts */
    const char *run_name;                /* in the store; NULL = none */
    const struct sonde_cli_list *scrape; /* exporters, besides those of the settings; NULL = not
                                            even those, and no OTLP */
};

/* Options, and what they borrow. */
struct sonde_cli_agent {
    struct sonde_agent_options options;
    struct sonde_store_options store, temporary;
    struct sonde_buf store_config;
    struct sonde_scrape_targets targets;
    struct sonde_otlp_options otlp;
    struct sonde_regressions_options regressions;
    struct sonde_push_options push;
    struct sonde_push_target push_targets[SONDE_CLI_KINDS_MAX];
    struct sonde_buf headers[SONDE_CLI_KINDS_MAX];
    size_t header_count;
    char spool[SONDE_CLI_SPOOL_MAX];
    struct sonde_alerts_options alerts;
    struct sonde_alert_shipped shipped;
    char alerts_state[SONDE_CLI_SPOOL_MAX];
    struct sonde_own_cost_settings own_cost;
};

/* As settings and flags say. Reports what is wrong and returns the exit status. Release it in any
 * case, once the agent is open. */
int sonde_cli_agent_options(const struct sonde_cli *cli, const struct sonde_cli_agent_wants *wants,
                            struct sonde_cli_agent *out);
void sonde_cli_agent_release(struct sonde_cli_agent *a);

/* For sonde_agent_options.missing: reports a part that must not be missing and returns the exit
 * status. SONDE_EXIT_OK for what any agent goes on without, which is logged. */
int sonde_cli_agent_missing(const struct sonde_cli *cli, enum sonde_agent_part part, int rc,
                            const struct sonde_err *err);

/* How findings are looked for, as settings say; borrows from cli. */
struct sonde_finding_options sonde_cli_rules(const struct sonde_cli *cli);

/* ---- Parts of it ----------------------------------------------------------------------------- */

/* As settings and --continuous say. SONDE_EXIT_OK, or reports what is wrong. */
int sonde_cli_continuous(const struct sonde_cli *cli, const char *rate,
                         struct sonde_continuous_options *o);

/* Where nobody asked for it, o becomes what costs next to nothing: profiles of the last hours, in
 * memory, of what is sampled and profiled anyway: the CPU at this rate (0 = it is not), heaps. */
void sonde_cli_continuous_recent(struct sonde_continuous_options *o, double rate_hz, int heap);

/* How changes of series are found, from the settings. */
struct sonde_change_options sonde_cli_change_options(const struct sonde_cli *cli);

/* What is to be kept, from the settings. */
struct sonde_store_retention sonde_cli_retention(const struct sonde_cli *cli);

/* The run file at path, which is p, as a profile of the store. name: anything; what a name cannot
 * have becomes "_". */
int sonde_cli_store_profile(struct sonde_store *s, const char *path, const struct sonde_profile *p,
                            const char *name, struct sonde_err *err);

/* Headers for one kind of destination: the file that the settings name, and the token of
 * SONDE_<KIND>_TOKEN, one per line into out. 0 or SONDE_E…. */
int sonde_cli_push_headers(const struct sonde_cli *cli, const char *kind, struct sonde_buf *out,
                           struct sonde_err *err);

/* Each destination that the settings name, *count of them. */
int sonde_cli_push_each(const struct sonde_cli *cli,
                        void (*each)(const struct sonde_push_target *t, const char *labels,
                                     void *arg),
                        void *arg, size_t *count, struct sonde_err *err);

/* Alerts as the settings have them, without the model. shipped and state: room that o borrows.
 * 0 = alerts are off. */
int sonde_cli_alerts(const struct sonde_cli *cli, struct sonde_alerts_options *o,
                     struct sonde_alert_shipped *shipped, char state[SONDE_CLI_SPOOL_MAX]);

/* The folder in which what cannot be sent waits; NULL = in memory. */
const char *sonde_cli_push_spool(const struct sonde_cli *cli, char out[SONDE_CLI_SPOOL_MAX]);

#endif
