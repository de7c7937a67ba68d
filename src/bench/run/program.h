/* program.h - a program of benchmarks (include/sonde/bench.h) as a process that is told what to
 * run: the other side of the protocol that the header describes. What it answers may be
 * anything. */
#ifndef SONDE_BENCH_RUN_PROGRAM_H
#define SONDE_BENCH_RUN_PROGRAM_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define SONDE_PROGRAM_CASES_MAX 10000u
#define SONDE_PROGRAM_CASE_MAX 95     /* bytes of a name */
#define SONDE_PROGRAM_LINE_MAX 4096u

struct sonde_program_case {
    char name[SONDE_PROGRAM_CASE_MAX + 1];  /* "copy/64/threads:2" */
    char group[SONDE_PROGRAM_CASE_MAX + 1]; /* without its threads: "copy/64" */
    uint32_t index, threads;
};

struct sonde_program_sample {
    uint64_t iterations, real_ns, cpu_ns, bytes, items;
    char failed[160];        /* why the benchmark says that it cannot; "" = it could */
};

struct sonde_program {
    pid_t pid;               /* 0 = none */
    int to_fd, from_fd;
    int signal_fd;           /* of the signals that end us, which are blocked */
    double timeout_s;        /* of an answer */
    const char *path;        /* borrowed */
    char line[SONDE_PROGRAM_LINE_MAX];
    size_t len, used;        /* of line: read, and of it taken */
    int broken;              /* it does not answer as it should: it is not asked to end */
};

/* The signals that end us become readable here; -1 and a sentence. found: as the mask was. */
int sonde_program_signals(sigset_t *found, struct sonde_err *err);

/* Everything below returns 0, or 1: a signal came, and it is to end; or an error with a sentence,
 * SONDE_EINVAL if this is no program of benchmarks. */
int sonde_program_start(struct sonde_program *p, const char *path, const sigset_t *found,
                        int signal_fd, double timeout_s, int show_output, struct sonde_err *err);
/* *cases is owned by the caller, also after an error. */
int sonde_program_list(struct sonde_program *p, struct sonde_program_case **cases, size_t *count,
                       struct sonde_err *err);
int sonde_program_run(struct sonde_program *p, const struct sonde_program_case *c,
                      uint64_t iterations, struct sonde_program_sample *out, struct sonde_err *err);
/* It is asked to end, and killed if it does not. One that is all zero is fine. */
void sonde_program_stop(struct sonde_program *p);

/* A line of an answer, for tests: 0, or SONDE_EFORMAT. */
int sonde_program_parse_case(const char *line, size_t len, struct sonde_program_case *out);
int sonde_program_parse_sample(const char *line, size_t len, struct sonde_program_sample *out);

#endif
