/* trial.h - one trial: the program is started with a setting, measured and stopped.
 *
 *   a server   started, waited for (GET ready_path), sent a closed loop of requests for warmup_s
 * and
 *              block_s; only what came in the block is counted. The same seed makes the same
 * requests
 *              in each trial
 *   a command  run once to its end: its time, or a number that it prints
 *
 * Tokens of an answer that was under way at an edge of the block are counted by the share of the
 * time between its first and last token that lies in it: a block need not wait for slow answers,
 * so a setting that is forty times slower costs no more time than the others. */
#ifndef SONDE_BENCH_TUNE_TRIAL_H
#define SONDE_BENCH_TUNE_TRIAL_H

#include <regex.h>

#include "analyze/tune/race.h"
#include "bench/http/measure.h"
#include "bench/http/probe.h"
#include "bench/tune/knobs.h"

#define SONDE_TUNE_OBJECTIVES(X)                                                                \
    X(TOKENS, "tokens", "tokens/s", 0, 0)       /* output tokens per second */                  \
    X(REQUESTS, "requests", "1/s", 0, 0)        /* answers per second */                        \
    X(GOODPUT, "goodput", "1/s", 0, 0)          /* answers per second that meet the SLO */      \
    X(TTFT, "ttft", "s", 1, 0)                  /* median time to the first token */            \
    X(LATENCY, "latency", "s", 1, 0)            /* median time to the end of an answer */       \
    X(WALL, "wall", "s", 1, 1)                  /* of a command: how long it runs */            \
    X(METRIC, "metric", "", 0, 1)               /* of a command: a number that it prints */
enum sonde_tune_objective {
#define SONDE__X(id, name, unit, less, command) SONDE_TUNE_OBJECTIVE_##id,
    SONDE_TUNE_OBJECTIVES(SONDE__X)
#undef SONDE__X
    SONDE_TUNE_OBJECTIVE_COUNT
};
#define SONDE_TUNE_OBJECTIVE_NAMES "tokens|requests|goodput|ttft|latency|wall|metric"
int sonde_tune_objective_find(const char *name); /* -1 = there is none */
const char *sonde_tune_objective_name(enum sonde_tune_objective o);
const char *sonde_tune_objective_unit(enum sonde_tune_objective o);
int sonde_tune_objective_less(enum sonde_tune_objective o);
int sonde_tune_objective_of_command(enum sonde_tune_objective o);

struct sonde_tune_plan {
    enum sonde_tune_objective objective;
    int less;                    /* less of the objective is better */
    int server;                  /* a server, not a command */
    uint16_t port;               /* that the command names; 0 = any that is free */
    const char *ready_path;      /* "/health" */
    int api;                     /* enum sonde_load_api; -1 = find out */
    const char *model;           /* NULL = find out */
    struct sonde_load_length prompt, output; /* tokens */
    uint32_t concurrency;
    double warmup_s, block_s;
    double start_s;              /* for a server to be ready, for a command to end */
    struct sonde_load_slo slo;
    double slo_share;            /* of the answers that must meet it */
    uint64_t memory_bytes;       /* peak at most; 0 = any */
    const regex_t *metric;       /* whose first group is the number */
    uint64_t seed;
    int (*stopped)(void *arg);   /* 1 = end now */
    void *arg;
};

/* NaN, 0: not known, or does not apply. */
struct sonde_tune_figures {
    double value;                /* of the objective */
    double tokens_per_s, requests_per_s, goodput_per_s;
    double ttft_s, ttft_p95_s, itl_s, e2e_s, e2e_p95_s; /* medians unless said */
    double good_ratio;           /* answers that meet the SLO */
    double ready_s;              /* from start to ready */
    double wall_s, cpu_s;        /* of a command */
    double client_cpu_ratio;     /* of one CPU, that the load itself took */
    uint64_t requests, failed;
    uint64_t rss_bytes, pss_bytes;
    char reason[320];            /* why it failed or broke a constraint; "" = it did not */
};

struct sonde_tune_trials {       /* what all of them share */
    const struct sonde_tune_plan *plan;
    const struct sonde_tune_knobs *knobs;
    const struct sonde_tune_knobs_options *command;
    char *const *under;          /* what starts the server, as `sonde record --`; NULL = nothing */
    struct sonde_load_target target; /* once known */
    int target_known;
};

/* One trial. 0 and *outcome and out; SONDE_EBUSY: it was stopped; SONDE_ENOMEM. */
int sonde_tune_try(struct sonde_tune_trials *t, uint32_t point, enum sonde_tune_outcome *outcome,
                   struct sonde_tune_figures *out, struct sonde_err *err);

/* What the program prints for --help (of much, the last SONDE_TUNE_OUTPUT_KEPT bytes):
 * "sonde-engine serve" is asked `sonde-engine serve --help`. Not an error if it prints nothing. */
int sonde_tune_help_ask(char *const *argv, size_t argc, struct sonde_tune_options_known *out,
                        struct sonde_err *err);

#endif
