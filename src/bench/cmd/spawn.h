/* spawn.h - a command run once, or several copies of it at the same time, and measured from its
 * exec to its end.
 *
 *   sonde            runner (fork, in a process group of its own)      the command
 *   reads /proc/stat
 *   fork  ---------> counters opened; vfork ------------------------>  clock, getrusage(2), exec
 *   waits for signals  waits, takes the time, schedstat, wait4(2) <--  ends
 *   /proc/stat  <----  all of it in memory that both share
 *
 * Why a runner: the kernel begins a program's peak of memory with that of the process that called
 * exec (Linux, exec_mmap), so after posix_spawn from a program of 12 MB no command would be below
 * 12 MB. The runner is a fork, whose memory is but what we have written to. What it costs to start
 * it is before the clock begins: that is read in the child, right before exec, and what the child
 * has used by then is subtracted. Its end is seen by a process that waits for nothing else.
 * Rejected: posix_spawn and a clock around it, which measures our own size too. */
#ifndef SONDE_BENCH_CMD_SPAWN_H
#define SONDE_BENCH_CMD_SPAWN_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "bench/cmd/counters.h"

#define SONDE_SPAWN_COPIES_MAX 1024u

/* What all copies of a run used. */
struct sonde_spawn_use {
    double wall_s;            /* from the first exec to the last end */
    double user_s, system_s;  /* with that of the processes that it waited for, as all below */
    double waited_s;          /* ready to run, without a CPU: its first thread, and then we who
                               * wait for its end; NaN = not known */
    uint64_t rss_bytes;       /* peak: of one process, the largest */
    int rss_floor;            /* it is not above what the runner had: it may be less */
    uint64_t faults_major, faults_minor;
    uint64_t switches_voluntary, switches_involuntary;
    uint64_t read_bytes;      /* from disks */
    double counts[SONDE_COUNTERS]; /* NaN = not counted */
    int status;               /* as of wait(2), of the first copy that did not end with 0 */
    double stolen_s;          /* CPU time that the host took meanwhile, of all CPUs: 10 ms steps */
    double others_s;          /* CPU time that others used meanwhile, in such steps */
};

enum sonde_spawn_end {
    SONDE_SPAWN_DONE,
    SONDE_SPAWN_TIMEOUT,      /* it was ended, as all its group */
    SONDE_SPAWN_INTERRUPTED,  /* and so it was, since somebody wants us to end */
};

struct sonde_spawn_options {
    const char *path;         /* of the program */
    char *const *argv;
    const char *input;        /* standard input; NULL = /dev/null */
    uint32_t copies;
    double timeout_s;         /* 0 = none */
    int show_output;          /* standard output and error are ours; else dropped */
};

struct sonde_spawn {
    struct spawn_slot *slots; /* shared with the runners */
    pid_t *runners;           /* 0 = none */
    uint32_t slot_count;
    int null_fd;
    struct sonde_counters counters;
    sigset_t found_mask;      /* as it was */
    struct sigaction found[4];
    int interrupted;          /* the signal; 0 = none came */
};

/* From here to release the signals that end a process are blocked, in threads started meanwhile
 * too. copies: as many as any run will have. */
int sonde_spawn_init(struct sonde_spawn *s, uint32_t copies, struct sonde_err *err);
void sonde_spawn_release(struct sonde_spawn *s); /* one that is all zero is fine */

/* 0 and *end, and with SONDE_SPAWN_DONE *out. SONDE_EINVAL: it cannot be run, with a sentence;
 * SONDE_EIO, SONDE_ENOMEM: no process could be made. */
int sonde_spawn_run(struct sonde_spawn *s, const struct sonde_spawn_options *o,
                    enum sonde_spawn_end *end, struct sonde_spawn_use *out, struct sonde_err *err);

/* Where the program that a shell would run under this name is: 0, or SONDE_EINVAL and a sentence.
 * out is owned by the caller. */
int sonde_spawn_find(const char *name, char **out, struct sonde_err *err);

#endif
