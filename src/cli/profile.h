/* profile.h - what the commands that read profiles share: where one comes from, and which part of
 * it is looked at. */
#ifndef SONDE_CLI_PROFILE_H
#define SONDE_CLI_PROFILE_H

#include "cli/cli.h"
#include "profile/profile.h"

/* Embedded in a command's values; SONDE_OPT_FILTER(struct report_values, filter) is its options. */
struct sonde_cli_filter {
    const char *type, *span, *thread, *trace, *from, *to;
    const char *phase, *request, *slowest;
    int workers;
};

#define SONDE_CLI_TYPES                                                                        \
    "cpu|off-cpu|live|peak|leaked|alloc|temporary|samples|wall|runnable|gpu|gpu-wait"
#define SONDE_OPT_FILTER(values, field) SONDE_OPT_TYPE(values, field),                         \
    SONDE_OPT_FILTER_BUT_TYPE(values, field)
#define SONDE_OPT_TYPE(values, field)                                                          \
    { .name = "type", .letter = 't', .type = SONDE_OPT_STR, .value = "TYPE",                   \
      .choices = SONDE_CLI_TYPES, .offset = offsetof(values, field.type),                      \
      .help = "samples of this type (default: the first there is)" }
#define SONDE_OPT_FILTER_BUT_TYPE(values, field)                                                   \
    { .name = "span", .letter = 's', .type = SONDE_OPT_STR, .value = "GLOB",                       \
      .offset = offsetof(values, field.span), .help = "only inside spans of such a name" },        \
    { .name = "trace", .type = SONDE_OPT_STR, .value = "ID",                                       \
      .offset = offsetof(values, field.trace),                                                     \
      .help = "only inside spans of this trace (32 hexadecimal digits, or a UUID)" },              \
    { .name = "thread", .type = SONDE_OPT_STR, .value = "GLOB|TID",                                \
      .offset = offsetof(values, field.thread), .help = "only threads of such a name or id" },     \
    { .name = "from", .type = SONDE_OPT_STR, .value = "SECONDS",                                   \
      .offset = offsetof(values, field.from),                                                      \
      .help = "only from here on: seconds since the start, -SECONDS ago, or unix time" },          \
    { .name = "to", .type = SONDE_OPT_STR, .value = "SECONDS",                                     \
      .offset = offsetof(values, field.to), .help = "only up to here, alike" },                    \
    { .name = "phase", .type = SONDE_OPT_STR, .value = "NAME",                                     \
      .offset = offsetof(values, field.phase),                                                     \
      .help = "only this phase of inference: prefill, decode, sample, ..." },                      \
    { .name = "request", .type = SONDE_OPT_STR, .value = "ID",                                     \
      .offset = offsetof(values, field.request),                                                   \
      .help = "only this inference request: the engine's id of it, or its trace id" },             \
    { .name = "slowest", .type = SONDE_OPT_STR, .value = "N|PERCENT%",                             \
      .offset = offsetof(values, field.slowest),                                                   \
      .help = "only the slowest inference requests: so many, or such a part of them" },            \
    { .name = "workers", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.workers),        \
      .help = "with these: also threads that have no span of their own in that time" }

#define SONDE_CLI_SELECT_DETAILS                                                               \
    "Of an inference engine (`sonde help record`), --phase shows one phase, --request one "    \
    "request, --slowest 1% the slowest of them; they can be combined with each other and with " \
    "the rest. What was computed in a batch counts by tokens. Threads of a pool have no span " \
    "that says what they work for; --workers counts them in where it is sure.\n"               \
    "\n"

/* The filter for p. Strings are borrowed from v. SONDE_EXIT_OK, or tells what is wrong. */
int sonde_cli_filter(const struct sonde_cli *cli, const struct sonde_cli_filter *v,
                     const struct sonde_profile *p, struct sonde_profile_filter *out);

/* How long to sample what is no file. */
#define SONDE_OPT_DURATION(values, field)                                                      \
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.1, \
      .max = 86400, .offset = offsetof(values, field),                                         \
      .help = "how long to sample: a PID or URL (default 10), or CMD (default: to its end)" }

/* 1 if samples of this type are bytes; NULL is not. */
int sonde_cli_is_memory(const char *type);

/* 1 if target is STORE:NAME, and STORE a file that is there. */
int sonde_cli_in_store(const char *target);

/* target: a file (run, pprof, folded, …; a store: the history in it); STORE:NAME, a profile of a
 * store by its name or id; "-"; the URL of an agent, which then samples for duration_s (0 = 10), or
 * answers from its history if filter->from or to are unix times or negative; or of a profile; a
 * process id, which is sampled here. filter says what of
 * it is wanted: the heap if its type is one of memory, and of that only the phase and the requests
 * that it names; NULL = all. SONDE_EXIT_OK, or tells and
 * returns SONDE_EXIT_USAGE for what is no profile, SONDE_EXIT_FAIL for what failed. */
int sonde_cli_profile(struct sonde_cli *cli, const char *target, double duration_s,
                      const struct sonde_cli_filter *filter, struct sonde_profile **out);

/* A file, or "-", of any format, told how to read it; says what there is to say about it. Frames
 * that are only addresses are looked up in the files they are of, if those are here. Exit status as
 * above. */
struct sonde_import;
int sonde_cli_import(const struct sonde_cli *cli, const char *path, struct sonde_import *how,
                     struct sonde_profile **out);

/* The same of a command, which is run: its input, output and exit status are its own. use gets the
 * profile when it is complete (after duration_s, or when the command has ended), and may not keep
 * it. stop: end the command then. Returns the command's exit status, or what use returned if the
 * command's is 0. */
int sonde_cli_profile_command(struct sonde_cli *cli, char **argv, double duration_s, int stop,
                              const struct sonde_cli_filter *filter,
                              int (*use)(struct sonde_cli *cli, struct sonde_profile *p));

#endif
