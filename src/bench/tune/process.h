/* process.h - a program that is started for a trial and is gone after it, whatever happens: in a
 * process group of its own, which is ended as a whole, and killed by the kernel if we are.
 *
 * A thread reads what it prints, so that it never waits for us, and keeps the last of it: that is
 * what explains a failure. */
#ifndef SONDE_BENCH_TUNE_PROCESS_H
#define SONDE_BENCH_TUNE_PROCESS_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/thread.h"

#define SONDE_TUNE_OUTPUT_KEPT ((size_t)256 << 10) /* bytes, the last */

struct sonde_tune_process {
    pid_t pid;               /* also of its group; 0 = none, or it has ended */
    int status;              /* as of wait(2), once it has ended */
    struct rusage used;
    int out_fd;
    int ended;               /* atomic: the thread may stop when there is nothing more to read */
    struct sonde_thread reader;
    char *output;            /* owned: ring of SONDE_TUNE_OUTPUT_KEPT; the thread's until it ends */
    uint64_t output_len;     /* of all that was printed */
};

/* cpus: to pin to (cpus.h); "" = not. SONDE_EINVAL: the program cannot be run; SONDE_EIO. */
int sonde_tune_process_start(struct sonde_tune_process *p, char *const *argv, const char *cpus,
                             struct sonde_err *err);

/* 1 if it has ended; status is set then. */
int sonde_tune_process_ended(struct sonde_tune_process *p);

/* Peak of resident memory, and proportional set size now, of all processes of its group; 0 = cannot
 * be read. */
void sonde_tune_process_memory(const struct sonde_tune_process *p, uint64_t *rss, uint64_t *pss);

/* Ends the group: asks, waits up to grace_s, kills. The output can be read from then on. */
void sonde_tune_process_stop(struct sonde_tune_process *p, double grace_s);
void sonde_tune_process_release(struct sonde_tune_process *p); /* stops too; a zeroed one is fine */

/* What it printed last, at most size - 1 bytes; after it was stopped. Returns its length. */
size_t sonde_tune_process_output(const struct sonde_tune_process *p, char *out, size_t size);
/* Its last lines with text on one line, cut to fit: what went wrong. */
void sonde_tune_process_last_words(const struct sonde_tune_process *p, char *out, size_t size);

#endif
