/* timing.h - commands measured beside each other: `sonde bench cmd`.
 *
 * A case is a command with a number of copies that run at the same time. In every round each case
 * runs once, in an order that is drawn for the round; so what makes the machine slower for a while
 * does so for all cases alike, and they are compared round by round. Rounds go on until the mean of
 * every case is known to ±until, or the time or the number of rounds is used up.
 *
 * When that is the case is asked after 10, 11, 12 … rounds and then less and less often: whoever
 * stops at the first moment that looks narrow, stops at moments that are narrow by chance. For the
 * same reason a quarter more rounds follow once it looks narrow. The mean
 * and its interval are those of runs that are alike to their neighbours (sonde_estimate_runs);
 * test_rounds.c has what the intervals hold, stopping included. */
#ifndef SONDE_BENCH_CMD_TIMING_H
#define SONDE_BENCH_CMD_TIMING_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/stats.h"
#include "base/err.h"
#include "bench/cmd/spawn.h"

#define SONDE_TIMING_COMMANDS_MAX 64u
#define SONDE_TIMING_PARALLEL_MAX 32u
#define SONDE_TIMING_ROUNDS_MAX 100000u
#define SONDE_TIMING_WORDS_MAX 4096u
#define SONDE_TIMING_NAME_MAX 80
#define SONDE_TIMING_SHELL_RUNS 40u   /* of nothing, at first; and one in each round */

/* One command. */
struct sonde_timing_command {
    char name[SONDE_TIMING_NAME_MAX + 1];
    const char *text;        /* as it was given, or its words joined; borrowed */
    char *path;              /* owned: the program; of the shell if shell is set */
    char **argv;             /* owned, with its strings */
    int shell;               /* sh -c text: start-up of the shell is subtracted */
};

struct sonde_timing_options {
    const struct sonde_timing_command *commands;
    size_t command_count;
    const struct sonde_timing_command *prepare; /* before every run, not measured; NULL = none */
    const char *input;       /* standard input of the commands; NULL = /dev/null */
    uint32_t parallel[SONDE_TIMING_PARALLEL_MAX]; /* copies; at least one number */
    size_t parallel_count;
    uint64_t warmup;         /* rounds that are not counted */
    uint64_t rounds_min, rounds_max;
    double until;            /* half of the interval by the mean: 0.01; 0 = rounds_min is all */
    double duration_s;       /* no round begins later, once there are rounds_min */
    double settle_s;         /* until does not end it earlier: what happens now and then (other
                              * load, a timer) is not in a few runs of a short command */
    double timeout_s;        /* of a run; 0 = none */
    int ignore_failure, show_output;
    uint64_t seed;
    void (*progress)(void *arg, double share, const char *state); /* NULL = none */
    void *progress_arg;
};

struct sonde_timing_case {
    size_t command;
    uint32_t copies;
    struct sonde_spawn_use *runs; /* owned: one a round */
    size_t run_count, run_cap;
    uint64_t failures;       /* runs that did not end with 0 */
    uint64_t first_us;       /* how long the first warm-up run took; 0 = there was none */
};

struct sonde_timing_bench {
    struct sonde_timing_case *cases; /* owned: commands by copies, copies varying faster */
    size_t case_count;
    size_t rounds;           /* all cases have so many runs */
    double *shell_s[3];      /* owned: wall, user, system of a shell that does nothing */
    size_t shell_count, shell_cap[3];
    struct sonde_counters counters;
    double elapsed_s;
    int interrupted;         /* the signal; 0 = it came to its end */
    int narrow;              /* every mean is known to ±until */
};

/* Words of a command line as a shell would see them, without a shell: blanks, quotes, backslashes;
 * what only a shell can do ($, *, |, …) is an error. argv is owned by the caller. */
int sonde_timing_words(const char *text, char ***argv, struct sonde_err *err);
void sonde_timing_words_free(char **argv);

/* text for a shell, or as words. name: NULL = the text. */
int sonde_timing_command_init(struct sonde_timing_command *c, const char *name, const char *text,
                              int shell, struct sonde_err *err);
/* Words that are given; text is borrowed. */
int sonde_timing_command_words(struct sonde_timing_command *c, const char *name, const char *text,
                               char *const *words, struct sonde_err *err);
void sonde_timing_command_release(struct sonde_timing_command *c);

/* 0: there are rounds, maybe fewer than asked for if it was interrupted, maybe none. SONDE_EINVAL:
 * something cannot be run; SONDE_EIO: a command failed or took too long, with a sentence. *b is to
 * be released in any case. */
int sonde_timing_run(const struct sonde_timing_options *o, struct sonde_timing_bench *b,
                     struct sonde_err *err);
void sonde_timing_bench_release(struct sonde_timing_bench *b);

/* ---- What came of it ------------------------------------------------------------------------- */

enum sonde_timing_metric {
    SONDE_TIMING_WALL, SONDE_TIMING_USER, SONDE_TIMING_SYSTEM, SONDE_TIMING_RSS,
    SONDE_TIMING_FAULTS_MAJOR, SONDE_TIMING_FAULTS_MINOR, SONDE_TIMING_VOLUNTARY,
    SONDE_TIMING_INVOLUNTARY, SONDE_TIMING_READ,
    SONDE_TIMING_WAITED, SONDE_TIMING_INSTRUCTIONS, SONDE_TIMING_CYCLES, SONDE_TIMING_METRICS,
};

/* The mean of a shell that does nothing, of wall, user or system; 0 for others and where none is
 * subtracted. */
double sonde_timing_shell_mean(const struct sonde_timing_bench *b, enum sonde_timing_metric metric);

/* One value a round, of the first count, less the shell: out has room for them. 0 where a run was
 * shorter than the shell alone. */
void sonde_timing_values(const struct sonde_timing_options *o, const struct sonde_timing_bench *b,
                         const struct sonde_timing_case *c, enum sonde_timing_metric metric,
                         double *out);

/* An estimate of sonde_estimate_runs of n runs, with the degrees of freedom that it has if what it
 * says of neighbours is an estimate too. */
struct sonde_estimate sonde_timing_degrees(struct sonde_estimate e, size_t n);
/* The mean of n values in the order of rounds. */
struct sonde_estimate sonde_timing_mean(const double *values, size_t n);
/* Half of its 95 % interval; INFINITY = not known. */
double sonde_timing_half(const struct sonde_estimate *e);

/* Whether to look after so many rounds if the means are known well enough. */
int sonde_timing_looks(size_t rounds, size_t rounds_min);
/* And when one has: whether to stop, the widest half of an interval being that. *stop_at: 0 at the
 * beginning. The first time that it is narrow may be by chance, so a quarter more rounds follow,
 * and then it has to be narrow still. */
int sonde_timing_enough(size_t rounds, double width, double until, size_t *stop_at);

/* One command beside another, round by round: how many times as long b takes as a. pairs: out of
 * how many pairs this one was chosen. */
struct sonde_timing_ratio {
    double value, low, high;     /* 95 % interval; NaN = not known */
    double p;                    /* of no difference, times pairs */
    double smallest;             /* relative difference that would be seen in nine of ten */
};
struct sonde_timing_ratio sonde_timing_compare(const double *a, const double *b, size_t n,
                                               size_t pairs);

/* ---- Outliers -------------------------------------------------------------------------------- */

/* Beyond 5 robust standard deviations of the median, and by 2 % of it. They stay in the figures. */
struct sonde_timing_outlier {
    size_t run;                  /* index */
    double wall_s, relative;     /* of the median: 0.3 = 30 % longer */
    char reason[160];
};
#define SONDE_TIMING_OUTLIERS_MAX 1000u

/* Of runs whose wall times are in walls. *out is owned by the caller. */
int sonde_timing_outliers(const struct sonde_spawn_use *runs, const double *walls, size_t n,
                          struct sonde_timing_outlier **out, size_t *count);

#endif
