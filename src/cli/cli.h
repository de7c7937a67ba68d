/* cli.h - the frame of the `sonde` command: one subcommand = one cmd_<name>.c that defines a
 * `const struct sonde_command sonde_cmd_<name>` + one row in cmd_list.h. Options, help and error
 * messages come from the command's tables.
 *
 * Settings: the JSON file of --config (else of $SONDE_CONFIG), then SONDE_* in the environment,
 * then flags in the order they were given. All of that is done when a command's run() is called:
 *
 *     struct top_values { uint64_t pid; double window_s; };
 *     static const struct sonde_cli_opt options[] = {
 *         { .name = "pid", .letter = 'p', .type = SONDE_OPT_UINT, .value = "PID", .min = 1,
 *           .max = 4194304, .help = "this process only",
 *           .offset = offsetof(struct top_values, pid) },
 *         SONDE_OPT_DIR,
 *         { .name = NULL },
 *     };
 *     static int run(struct sonde_cli *cli) { const struct top_values *v = cli->values; … }
 *     const struct sonde_command sonde_cmd_top = { .name = "top", …, .run = run };
 *
 * Exit status: what run() returns; 0 = fine, SONDE_EXIT_FAIL, SONDE_EXIT_USAGE for bad input, or
 * SONDE_EXIT_LIMIT where all went well and a limit that was given (--fail-on) is broken.
 */
#ifndef SONDE_CLI_CLI_H
#define SONDE_CLI_CLI_H

#include <stddef.h>
#include <stdint.h>

#include "infer/tracker.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "collect/collector.h"
#include "collect/cpu/cpu.h"
#include "serve/http/server.h"

enum { SONDE_EXIT_OK = 0, SONDE_EXIT_FAIL = 1, SONDE_EXIT_USAGE = 2, SONDE_EXIT_LIMIT = 3 };

enum sonde_cli_opt_type {
    SONDE_OPT_FLAG,    /* int at offset: how often it was given; no value */
    SONDE_OPT_STR,     /* const char * at offset, borrowed from argv; choices, if set */
    SONDE_OPT_LIST,    /* struct sonde_cli_list at offset: may be given several times */
    SONDE_OPT_UINT,    /* uint64_t at offset, min … max */
    SONDE_OPT_NUM,     /* double at offset, min … max */
    SONDE_OPT_SPLIT,   /* int at offset: operands before it, and one; once; no value */
    SONDE_OPT_SETTING, /* value goes to the setting; without .value, .fixed does */
};

struct sonde_cli_list {
    const char **item; /* the array is owned by the sonde_cli, the strings by argv */
    size_t count;
};

struct sonde_cli_opt {
    const char *name;       /* long name without dashes; NULL ends the table */
    char letter;            /* short name; 0 = none */
    enum sonde_cli_opt_type type;
    const char *value;      /* what the value is called in help: "FILE"; NULL = takes none */
    const char *implied;    /* what the value is if none is given: it then takes one only as
                               --name=VALUE; NULL = it needs one */
    const char *help;       /* one line, lower case, no full stop */
    size_t offset;          /* of the field in the command's values */
    const char *choices;    /* STR: "a|b|c"; NULL = anything */
    double min, max;        /* UINT, NUM */
    const char *setting;    /* SETTING: "section.key" */
    const char *fixed;      /* SETTING without a value: what it is set to */
};

/* Options several commands have. */
#define SONDE_OPT_DIR                                                                          \
    { .name = "dir", .type = SONDE_OPT_SETTING, .value = "DIR", .setting = "agent.dir",        \
      .help = "directory of segments (default $SONDE_DIR, else /dev/shm/sonde-<uid>)" }
#define SONDE_OPT_STRIP                                                                        \
    { .name = "strip", .type = SONDE_OPT_SETTING, .setting = "agent.strip", .fixed = "true",   \
      .help = "without paths, arguments, command lines, host and user names" }
#define SONDE_OPT_LISTEN                                                                       \
    { .name = "listen", .letter = 'l', .type = SONDE_OPT_SETTING, .value = "ADDRESS:PORT",     \
      .setting = "server.listen", .help = "where to serve HTTP; port 0 = any free one" }
#define SONDE_OPT_INTERVAL                                                                     \
    { .name = "interval", .letter = 'i', .type = SONDE_OPT_SETTING, .value = "SECONDS",        \
      .setting = "agent.interval_seconds", .help = "time between readings (default 1)" }

struct sonde_agent;
struct sonde_cli;

struct sonde_command {
    const char *name;
    const char *summary;       /* one line for `sonde help` */
    const char *usage;         /* what follows `sonde <name> `; "" = nothing */
    const char *details;       /* paragraphs for `sonde help <name>`, wrapped; NULL = none */
    const struct sonde_cli_opt *options; /* own ones; NULL = none. The common ones are added. */
    size_t values_size;        /* of the struct that options point into */
    int operands_max;          /* more operands are an error; -1 = any number */
    unsigned stop_at_operand : 1;   /* options end at the first operand (it is a command) */
    unsigned command_after_dashes : 1; /* what follows -- may be a command, of any length */
    unsigned stderr_is_theirs : 1;  /* on stderr log errors only, unless -v is given */
    unsigned measures : 1;          /* settings that do nothing are told at the start */
    unsigned bad_config_ok : 1;     /* run with defaults and cli->config_err filled */
    int (*run)(struct sonde_cli *cli); /* returns the exit status */
    /* Commands of its own (`sonde bench http`), NULL-terminated, each with a whole name ("bench
     * http"): then it has nothing else but name, summary, usage and details. NULL = none. */
    const struct sonde_command *const *parts;
};

struct sonde_cli {
    const struct sonde_command *command;
    void *values;              /* command->values_size bytes, zero where no option was given */
    char **operands;           /* NULL-terminated */
    int operand_count;
    int operands_plain;        /* operands before --; -1 = there is none */
    struct sonde_config_values config;
    const char *config_path;   /* NULL = no file */
    struct sonde_err config_err; /* bad_config_ok only; "" = the settings are good */
    int verbose, quiet;        /* times -v and -q were given */
    const char *log_path;      /* NULL = log to stderr */
    struct sonde_cli_setting { /* flags that set settings, in order */
        const char *key, *value, *origin;
    } *settings;
    size_t setting_count;
};

/* NULL-terminated; NULL if there is none of that name. */
extern const struct sonde_command *const sonde_commands[];
const struct sonde_command *sonde_command_find(const char *name);
/* The command of command's own that is called so: "http" for "bench http". */
const struct sonde_command *sonde_command_part(const struct sonde_command *command,
                                               const char *name);

/* All of `sonde argv[1] …` but what is of the process itself (main.c); returns the exit status. */
int sonde_cli_main(int argc, char **argv, char **envp);

/* ---- opt.c -------------------------------------------------------------------------------- */

extern const struct sonde_cli_opt sonde_cli_common_options[];

/* Parse argv[0 … argc) (without the command's name) into cli; argv is permuted. Returns
 * SONDE_EXIT_OK, SONDE_EXIT_USAGE after telling why on stderr, or -1 if --help was given. */
int sonde_cli_parse(struct sonde_cli *cli, int argc, char **argv);

/* File, environment, flags. Tells and returns SONDE_EXIT_USAGE on failure. */
int sonde_cli_load_config(struct sonde_cli *cli, char *const *envp);

/* 1 if a flag (--listen, --set server.listen=…) set it. */
int sonde_cli_was_set(const struct sonde_cli *cli, const char *setting);

void sonde_cli_release(struct sonde_cli *cli);

/* The one of NULL-terminated names that text was probably meant to be, or NULL. */
const char *sonde_cli_suggest(const char *text, const char *const *names);

/* ---- cmd_help.c --------------------------------------------------------------------------- */

void sonde_cli_print_help(const struct sonde_command *command); /* NULL = the overview */

/* ---- util.c: what commands share ----------------------------------------------------------- */

/* "sonde COMMAND: …" and a newline on stderr. Return their exit status, so that a command can
 * `return sonde_cli_fail(cli, …)`. usage adds a pointer to the command's help. */
int sonde_cli_fail(const struct sonde_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int sonde_cli_usage(const struct sonde_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* 1 if fd is a terminal that shows colours and NO_COLOR is not set. */
int sonde_cli_colour(int fd);

/* What is made of inference events, from the settings. */
struct sonde_infer_options sonde_cli_infer_options(const struct sonde_cli *cli);

/* A decimal number: 0 or SONDE_EINVAL. strtod() also accepts blanks, hexadecimal, "inf", "nan". */
int sonde_cli_number(const char *text, double *out);

/* Options of a collector from the settings; strings are borrowed until it is created. */
struct sonde_gpu_options sonde_cli_gpu_options(const struct sonde_cli *cli);
struct sonde_collector_options sonde_cli_collector_options(const struct sonde_cli *cli);

/* An agent of nothing but a collector, for commands that look and end: never started, its collector
 * is stepped by hand. pid: 0 = all processes; probes: also what /proc says, as the settings have
 * it. */
int sonde_cli_reader_open(const struct sonde_cli *cli, uint32_t pid, int probes,
                          struct sonde_agent **out, struct sonde_err *err);

/* Options of an engine from the settings, without pid. */
struct sonde_cpu_options sonde_cli_cpu_options(const struct sonde_cli *cli);

/* The directory of segments that the settings name, or the default. -1: does not fit. */
int sonde_cli_dir(const struct sonde_cli *cli, char *out, size_t out_size);

/* On stderr, unless quiet: settings that were given and do nothing, on one line. */
void sonde_cli_tell_void(const struct sonde_cli *cli);

/* Who may ask, TLS, limits and how flame graphs look, from the settings; token: room for one, which
 * o borrows. */
int sonde_cli_server_options(const struct sonde_cli *cli, struct sonde_server_options *o,
                             char token[SONDE_TOKEN_MAX + 1], struct sonde_err *err);

/* What every request to an agent carries: a handle of libcurl's (CURL *). The token is that of
 * SONDE_TOKEN, and SSL_CERT_FILE says whom to trust besides the system's. */
void sonde_cli_curl(void *curl);

/* What to do about a request that failed with this CURLcode, to put behind the reason; "" = nothing
 * better is known. */
const char *sonde_cli_curl_hint(int code);

/* "http://…" or "https://…" */
int sonde_cli_is_url(const char *text);
/* 1 if it is the URL of an agent itself, not of something that it has. */
int sonde_cli_is_agent(const char *text);

/* GET url (at most max bytes) with libcurl; appends the body to out, which is empty and gets
 * its cap from max. SONDE_EACCES with what the server said: a status other than 200 and 201.
 * SONDE_EIO with the reason: no connection, no answer in timeout_s, next to nothing for half a
 * minute beyond the time that timeout_s leaves to make the answer, too long. */
int sonde_cli_fetch(const char *url, size_t max, double timeout_s, struct sonde_buf *out,
                    struct sonde_err *err);

/* The same by POST without a body; accept: what kind of answer is wanted, NULL = any. */
int sonde_cli_post(const char *url, const char *accept, size_t max, double timeout_s,
                   struct sonde_buf *out, struct sonde_err *err);

/* And with one. */
int sonde_cli_post_body(const char *url, const char *body, size_t max, double timeout_s,
                        struct sonde_buf *out, struct sonde_err *err);

/* DELETE, alike. */
int sonde_cli_delete(const char *url, size_t max, double timeout_s, struct sonde_buf *out,
                     struct sonde_err *err);

#define SONDE_CLI_FETCH_S 60 /* timeout for what is answered at once; what takes time to make has
                              * more */

/* url's part before any path, query or trailing slash, with path appended. -1: does not fit. */
int sonde_cli_url(char *out, size_t out_size, const char *url, const char *path);

/* A process id: 0 and *out, or -1. */
int sonde_cli_parse_pid(const char *text, uint32_t *out);

/* ---- output.c ----------------------------------------------------------------------------- */

/* b to path, which a reader sees as it was or whole; NULL or "-" is the standard output. Tells
 * and returns the exit status. */
int sonde_cli_write(const struct sonde_cli *cli, const char *path, const struct sonde_buf *b);

/* All folders that path is in, for the user alone; path is not "". */
void sonde_cli_make_folders(const char *path);

/* Columns of the terminal that the standard output is, or 0: what goes to a file or pipe is not
 * cut. */
int sonde_cli_width(void);

#endif
