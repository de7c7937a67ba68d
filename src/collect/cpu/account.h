/* account.h - what samples weigh, held against the CPU time that the kernel says their process
 * used.
 *
 * A perf event's timer stands still while its thread is off the CPU. Where threads leave it every
 * few microseconds and timers are late, as in virtual machines, some percent of the samples are
 * missing, and of several processes that take turns one gets too many and another too few. The
 * kernel's own account is right to a tick. So several times a second samples of a process that are
 * off by more than ticks explain are weighed anew, all that came since the last time alike: how
 * much time a process used is for the kernel to say, where it went is for the samples.
 *
 * While sampling is paused (to measure what it costs, docs/own-cost.md) the kernel's account goes
 * on and no sample comes. What a process used meanwhile is given to its next samples, at most
 * doubling them: a pause of two seconds is made up for in the two seconds after it.
 *
 * Rejected: weights that make up for any difference. Where more than OFF_MAX is missing, samples
 * were not taken at all, of threads that end before their first one, and that is for the user to
 * know. */
#ifndef SONDE_COLLECT_CPU_ACCOUNT_H
#define SONDE_COLLECT_CPU_ACCOUNT_H

#include "profile/profile.h"

struct sonde_cpu_account_row {
    uint32_t pid;
    int gone;                /* it has ended: these are its last samples */
    uint64_t cpu_ns;         /* of the process when it was looked at last */
    uint64_t raw_ns;         /* that the samples at hand weigh */
    double carry_ns;         /* that it used, and that is in no weight yet; negative: too much is */
    double factor;           /* of the last time: for those of a process that is gone */
    double gap_ns;           /* that it used in pauses, and that is in no weight yet */
    double gap_share;        /* of it, by which samples at hand weigh more */
    double used_all_ns, raw_all_ns; /* since the beginning */
};

struct sonde_cpu_account {
    int user_only;           /* time in the kernel is not sampled */
    /* CPU time of a process: that in user code or all of it. Not 0 = it is gone. For tests to
     * replace. */
    int (*read)(uint32_t pid, int user_only, uint64_t *ns);
    struct sonde_cpu_account_row *rows; /* owned */
    uint32_t count, cap;
    uint32_t first;          /* sample from which on weights are as they were taken */
    uint64_t time_ns;        /* of the last look, CLOCK_MONOTONIC */
    int paused;
};

void sonde_cpu_account_init(struct sonde_cpu_account *a, int user_only, uint64_t now_ns);
void sonde_cpu_account_release(struct sonde_cpu_account *a);

/* Sampling of a process that ran before begins. */
void sonde_cpu_account_begin(struct sonde_cpu_account *a, uint32_t pid);

/* 1 if it is time to: the more processes, the less often. */
int sonde_cpu_account_is_due(const struct sonde_cpu_account *a, uint64_t now_ns);
/* Weigh samples of p that have come since the last time. Memory that is short leaves them as they
 * are. */
void sonde_cpu_account_settle(struct sonde_cpu_account *a, struct sonde_profile *p,
                              uint64_t now_ns);

/* Sampling is paused: samples of p get their final weights. It goes on. */
void sonde_cpu_account_pause(struct sonde_cpu_account *a, struct sonde_profile *p, uint64_t now_ns);
void sonde_cpu_account_resume(struct sonde_cpu_account *a, uint64_t now_ns);

/* p has no samples any more. */
void sonde_cpu_account_emptied(struct sonde_cpu_account *a);

#endif
