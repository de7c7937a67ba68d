/* tune.h - a search for the best setting of a command, from beginning to end: the race
 * (analyze/tune/) asks, trials answer, each is kept in the journal at once. */
#ifndef SONDE_BENCH_TUNE_TUNE_H
#define SONDE_BENCH_TUNE_TUNE_H

#include "analyze/tune/race.h"
#include "bench/figure.h"
#include "bench/result.h"
#include "bench/tune/journal.h"
#include "bench/tune/trial.h"

/* What the model of analyze/predict/ said of slots and batches before the search; what it expects
 * is in the space. */
struct sonde_tune_guide {
    int asked;                           /* there was something to ask it */
    uint32_t requests, steps;            /* that it was fitted on; 0 = it says nothing: */
    char why[512];
};

struct sonde_tune_options {
    const struct sonde_tune_plan *plan;  /* borrowed, as is all here */
    const struct sonde_tune_knobs *knobs;
    const struct sonde_tune_knobs_options *command;
    const struct sonde_tune_guide *guide; /* NULL = there was none */
    uint32_t trials_max;                 /* 0 = as many as suit */
    uint32_t all;                        /* no search: every setting so many times */
    double min_gain;
    uint64_t seed;
    const char *journal;                 /* path */
    int fresh;                           /* what it holds is not continued */
    /* Before each trial, and after it with past. NULL = nobody looks. */
    void (*progress)(void *arg, const struct sonde_tune_step *step, size_t number, uint32_t max,
                     const struct sonde_tune_past *past);
    void *arg;
};

struct sonde_tune_found {
    struct sonde_tune_answer answer;
    struct sonde_tune_history history;
    size_t resumed;                      /* trials that were in the journal */
    uint32_t points, trials_max;
    int stopped;                         /* before it was done */
};

/* 0, also if it was stopped; SONDE_EINVAL, SONDE_EIO, SONDE_ENOMEM and why. */
int sonde_tune_run(const struct sonde_tune_options *o, struct sonde_tune_found *out,
                   struct sonde_err *err);
void sonde_tune_found_release(struct sonde_tune_found *f);

/* The recommended command as a shell would take it. */
void sonde_tune_command_text(const struct sonde_tune_options *o, uint32_t point,
                             struct sonde_buf *out);

/* Figures, and members of its own (trials, knobs, answer), into the result. */
int sonde_tune_result(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                      struct sonde_bench_result *r);
/* What a person reads. */
void sonde_tune_text(const struct sonde_tune_options *o, const struct sonde_tune_found *f,
                     const struct sonde_bench_view *v, struct sonde_buf *out);

#endif
