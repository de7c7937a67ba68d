/* perf_reader.h - records of the rings, one after the other in the order of time, into samples of a
 * profile: the state of processes and threads is followed, stacks are unwound and interned, blocked
 * time is taken from switches.
 *
 * Off-CPU. At a switch the kernel gives first the stack (a sample of the switch event), then that
 * the thread is off (a SWITCH record, which tells preemption from blocking), later that it is on
 * again. The time between is blocked time at that stack, or, of a thread that was preempted, time
 * it was runnable. An interval as long as a sampling period is a sample of count 1, from its time
 * for its weight; so are shorter ones while a thread has no more of them than periods. Where it
 * has, they are added up, and the one that fills a period gets the sum: a sampling of blocked time
 * as that of CPU time is one, whose total is exact. So a thread has at most two samples a
 * period. */
#ifndef SONDE_COLLECT_CPU_PERF_READER_H
#define SONDE_COLLECT_CPU_PERF_READER_H

#include "collect/cpu/engine.h"
#include "collect/cpu/perf_blocked.h"
#include "collect/perf/event.h"
#include "collect/cpu/perf_outer.h"
#include "collect/cpu/perf_parked.h"
#include "collect/cpu/perf_python_stack.h"
#include "collect/perf/record.h"
#include "collect/cpu/perf_task.h"
#include "collect/uprobe/returns.h"

struct sonde_perf_reader {
    struct sonde_profile *p;               /* borrowed */
    const struct sonde_perf_set *set;      /* borrowed */
    uint32_t pid;
    int children;
    int unnamed;                           /* the program was gone before it could be looked at: the
                                              first code it maps has its name */
    uint64_t period_ns;
    struct sonde_cpu_stacks *stacks;
    struct sonde_perf_tasks tasks;
    uint64_t unix_ns;                      /* to be added to CLOCK_MONOTONIC */
    double ns_per_count;                   /* of the clock event: 1, or the length of a cycle */
    struct sonde_cpu_counts counts;
    uint64_t ended;                        /* threads that have */
    uint64_t bad_records;                  /* that could not be understood */
    uint64_t seen, cut;                    /* stacks since the copy has its size; how many of them
                                              a larger one would have had more of */
    uint64_t needed[SONDE_PERF_STACK_STEPS]; /* whole stacks that needed so many steps of it, and
                                              a part of the next; beyond the largest copy aside */
    struct sonde_perf_outer *outer;        /* for that */
    struct sonde_perf_lot lot;             /* samples that wait until it can tell */
    uint64_t outer_ns;                     /* time of the last sample that needed it; 0 = none */
    uint64_t ips[SONDE_CPU_FRAMES_MAX];    /* of the last stack that was unwound … */
    uint64_t cfas[SONDE_CPU_FRAMES_MAX];
    size_t ips_count;                      /* … so many of each */
    struct sonde_perf_blocked asleep;      /* for looking */
    struct sonde_uprobe_returns *returns;  /* borrowed; NULL = there are no probes */
    struct sonde_perf_python_mix *mix;
    struct sonde_perf_python_samples python; /* that wait for the sample that follows them */
    uint64_t python_whole, python_missing; /* samples with frames of Python: with all of them, or
                                              some not read, not placed or without a name */
};

int sonde_perf_reader_init(struct sonde_perf_reader *r, struct sonde_profile *p,
                           const struct sonde_perf_set *set,
                           const struct sonde_cpu_options *options);
void sonde_perf_reader_release(struct sonde_perf_reader *r);

/* h: whole and aligned, see collect/perf/ring.h. */
void sonde_perf_reader_take(struct sonde_perf_reader *r, const struct perf_event_header *h);

/* Look again at samples that wait, if they are due at now_ns (CLOCK_MONOTONIC). UINT64_MAX: at all,
 * for the last time. */
void sonde_perf_reader_settle(struct sonde_perf_reader *r, uint64_t now_ns);

/* For off-CPU: threads that sleep already are blocked since now_ns (CLOCK_MONOTONIC). */
void sonde_perf_reader_blocked_since(struct sonde_perf_reader *r, uint64_t now_ns);

/* For off-CPU: look up from outside where threads are blocked whose stack did not come with the
 * switch. */
void sonde_perf_reader_sample_sleepers(struct sonde_perf_reader *r);

/* Ids of the profile's rows are void. Where threads are blocked is looked up again. */
void sonde_perf_reader_forget(struct sonde_perf_reader *r);

/* Samples of blocked time that has not ended, up to now_ns (CLOCK_MONOTONIC), and of what is still
 * added up. Changes nothing but the profile. */
void sonde_perf_reader_blocked_flush(struct sonde_perf_reader *r, uint64_t now_ns);

#endif
