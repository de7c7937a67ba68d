/* knobs.h - from a command line and what its program says of itself to a space of settings
 * (analyze/tune/space.h), and from a setting back to a command line.
 *
 * A knob is set in one of these ways, in this order:
 *
 *   place     {NAME} stands in the command: it is replaced
 *   option    the program knows an option for it: the value behind it is replaced where the command
 *             has it, else both are added at the end; the level "default" takes it out
 *   flag      an option without a value: "on" and "off" are with it and without, or with --no-…
 *   CPUs      the knob "pin": CPUs that the program may run on ("none", "0", "0-3+8")
 *
 * What the command says is where the search starts; where it says nothing, what the program takes
 * if nothing is said, as far as its help tells. */
#ifndef SONDE_BENCH_TUNE_KNOBS_H
#define SONDE_BENCH_TUNE_KNOBS_H

#include "analyze/tune/space.h"
#include "base/err.h"
#include "bench/tune/option_help.h"

#define SONDE_TUNE_LEVEL_DEFAULT "default" /* the option is not given */
#define SONDE_TUNE_LEVEL_NOT_PINNED "none"
#define SONDE_TUNE_ARGS_MAX 4096u

enum sonde_tune_way {
    SONDE_TUNE_BY_PLACE, SONDE_TUNE_BY_OPTION, SONDE_TUNE_BY_FLAG, SONDE_TUNE_BY_CPUS
};

struct sonde_tune_setter {
    enum sonde_tune_way way;
    struct sonde_tune_option options[2]; /* by option or flag; of the second name_count may be 0 */
    char off[SONDE_TUNE_OPTION_NAME_MAX + 1]; /* by flag: what "off" is said with; "" = nothing */
    char unsaid[SONDE_TUNE_NAME_MAX + 1]; /* the level that the program has if nothing is said */
    uint8_t given;                       /* the command has it */
};

struct sonde_tune_knobs {
    struct sonde_tune_space space;
    struct sonde_tune_setter setters[SONDE_TUNE_KNOBS_MAX];
    struct { char name[SONDE_TUNE_NAME_MAX + 1], why[128]; } left_out[16]; /* and why */
    size_t left_out_count;
};

struct sonde_tune_knobs_options {
    char *const *argv;           /* the command; borrowed, as is all here */
    size_t argc;
    const struct sonde_tune_options_known *known; /* what its help says */
    const char *const *knobs;    /* "threads=1,2,4" or "threads" */
    size_t knob_count;
    const char *const *fixed;    /* "batch=512" */
    size_t fixed_count;
    const char *only;            /* "threads,slots": no others are tried; NULL = all */
    uint32_t concurrency;        /* of the load; 0 = there is none */
    uint32_t cpus;               /* that may be used; 0 = ask */
};

/* SONDE_EINVAL and why: a level or name that cannot be, a knob that cannot be set, too many
 * points. */
int sonde_tune_knobs_init(struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *o,
                          struct sonde_err *err);

/* The command at a point: NULL-terminated, to be freed with sonde_tune_argv_free. port: what {port}
 * becomes, and --port if the program has that and the command says neither; 0 = none. cpus: what to
 * pin to; "" = not. NULL = no memory. */
char **sonde_tune_argv(const struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *o,
                       uint32_t point, uint16_t port, char cpus[SONDE_TUNE_NAME_MAX + 1]);
void sonde_tune_argv_free(char **argv);

/* "threads=4 slots=8": what a point is, or what differs from another (UINT32_MAX = none). Returns
 * out. */
#define SONDE_TUNE_WORDS_BYTES 512
const char *sonde_tune_words(const struct sonde_tune_space *s, uint32_t point, uint32_t other,
                             char out[SONDE_TUNE_WORDS_BYTES]);

/* 1 if the command says where to listen: {port}, or its option. *port: the number; 0 = {port}. */
int sonde_tune_says_port(char *const *argv, size_t argc, uint16_t *port);

#endif
