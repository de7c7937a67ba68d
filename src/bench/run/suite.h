/* suite.h - the benchmarks of a program, measured: `sonde bench run`.
 *
 * What one process measures again and again is known very well and may still be off by several per
 * cent for all of them: where its stack, heap and code lie was drawn when it began. So the program
 * is started again and again, and what counts as one observation is a process: in each, every case
 * runs a few times in an order that is drawn anew, and its time is that of all of them by their
 * iterations. Processes are started until every case is known to ±until. */
#ifndef SONDE_BENCH_RUN_SUITE_H
#define SONDE_BENCH_RUN_SUITE_H

#include "analyze/stats.h"
#include "analyze/usl.h"
#include "base/buf.h"
#include "bench/result.h"
#include "bench/run/program.h"

#define SONDE_SUITE_PROCESSES_MAX 1000u

struct sonde_suite_options {
    const char *path;        /* of the program */
    const char *filter;      /* part of a name, or a pattern with *, ? or [; NULL = all */
    double until;            /* 0 = processes_min is all */
    uint64_t processes_min, processes_max;
    uint64_t samples;        /* of a case in a process */
    double sample_s;         /* how long a sample should take */
    double duration_s;       /* no process is started later, once there are processes_min */
    double timeout_s;        /* of one sample */
    int show_output;
    uint64_t seed;
    void (*progress)(void *arg, double share, const char *state); /* NULL = none */
    void *progress_arg;
};

struct sonde_suite_case {
    struct sonde_program_case of;
    uint64_t iterations;     /* of a sample; 0 = it failed */
    char failed[160];        /* why; "" = it did not */
    uint64_t bytes, items;   /* by iteration of a thread */
    double *real_s, *cpu_s;  /* owned: of each process, all samples */
    double *count;           /* owned: and their iterations */
};

struct sonde_suite {
    struct sonde_suite_case *cases; /* owned */
    size_t case_count;
    size_t processes;
    double elapsed_s;
    int interrupted, narrow;
};

/* Only the cases, without running any. SONDE_EINVAL: this is not a program of benchmarks, or none
 * is left by the filter. */
int sonde_suite_list(const struct sonde_suite_options *o, struct sonde_suite *s,
                     struct sonde_err *err);
/* 0: maybe interrupted, maybe without a process. To be released in any case. */
int sonde_suite_run(const struct sonde_suite_options *o, struct sonde_suite *s,
                    struct sonde_err *err);
void sonde_suite_release(struct sonde_suite *s);

/* Seconds an iteration of a thread takes. */
struct sonde_estimate sonde_suite_time(const struct sonde_suite *s, size_t which);

/* How cases that differ by their threads scale: of the group that case number first begins; 0, or
 * SONDE_EINVAL where there are fewer than three, or it does not begin one. */
int sonde_suite_scaling(const struct sonde_suite *s, size_t first, uint64_t seed,
                        struct sonde_usl *out);

int sonde_suite_result(const struct sonde_suite_options *o, const struct sonde_suite *s,
                       struct sonde_bench_result *out);
void sonde_suite_text(const struct sonde_suite_options *o, const struct sonde_suite *s, int width,
                      int ascii, struct sonde_buf *out);
void sonde_suite_markdown(const struct sonde_suite *s, struct sonde_buf *out);

#endif
