/* continuous.h - profiling that is always on: a low rate all the time, or for a part of every
 * interval, a higher one in bursts that are asked for; what is seen goes into the history of the
 * store (store/history.h).
 *
 * A thread takes a profile (capture.h), ends it every flush_s, and begins the next before, so
 * that engines run through. What came out is added to the minute that it is of, one part for each
 * program, and that is written again: an agent that is killed loses what came since, at most
 * flush_s. The same thread does what is due in the history, one step at a time.
 *
 * What it costs is measured all along: CPU time of the threads that sample, and of this one, as the
 * kernel counts it; and what a sample costs who is sampled, which is tried out once
 * (collect/cpu/perf_cost.h). */
#ifndef SONDE_AGENT_CONTINUOUS_H
#define SONDE_AGENT_CONTINUOUS_H

#include "base/buf.h"
#include "base/err.h"
#include "collect/collector.h"
#include "agent/profiler.h"
#include "store/store.h"

#define SONDE_CONTINUOUS_RATE_MAX 10000
#define SONDE_CONTINUOUS_BURST_S_MAX 3600
#define SONDE_CONTINUOUS_BURST_HZ 999

struct sonde_continuous_settings {
    int enabled;
    int cpu, memory, gpu;      /* wanted; what cannot be is told */
    double rate_hz;            /* samples a second of CPU time */
    double interval_s;         /* heaps are looked at once in it */
    double duration_s;         /* the CPU is sampled so long in each interval, which begin at
                                  multiples of interval_s since 1970; >= interval_s or 0 = always */
};

struct sonde_continuous_options {
    struct sonde_collector *collector; /* all borrowed */
    struct sonde_profiler *profiler;   /* NULL = nothing can be sampled */
    const struct sonde_store_ops *store_ops;
    struct sonde_store *store;         /* NULL = there is none: some is kept in memory */
    int in_memory;                     /* though there is a store */
    struct sonde_continuous_settings settings;
    double flush_s;                    /* 0 = 10 */
    /* A minute of one program that nothing is added to any more; on the thread that samples,
     * borrowed. The last ones come before sonde_continuous_stop returns. NULL = nobody wants
     * them. */
    void (*on_minute)(const struct sonde_profile *p, void *arg);
    void *on_minute_arg;
    double cost_after_s;               /* what a sample costs is tried out so long after the
                                        * start */
    double minutes_s, hours_s;         /* history.h */
    uint64_t bytes_max;
};

struct sonde_continuous;

/* SONDE_EOFF: settings say enabled and nothing can be sampled; nothing is created. */
int sonde_continuous_create(const struct sonde_continuous_options *o, struct sonde_continuous **out,
                            struct sonde_err *err);
/* Writes what it has, and nothing is sampled any more. To be called while collector, profiler and
 * store are there. NULL is fine; twice too. */
void sonde_continuous_stop(struct sonde_continuous *c);
/* The same, but what is not written yet is dropped: nobody will read it. */
void sonde_continuous_abandon(struct sonde_continuous *c);
void sonde_continuous_destroy(struct sonde_continuous *c); /* NULL is fine */

/* What POST /admin/profile/continuous asks for: members that are not there change nothing. */
struct sonde_continuous_change {
    unsigned has;              /* 1 << SONDE_CONTINUOUS_… */
    struct sonde_continuous_settings settings;
    double burst_s, burst_hz;
};

/* A JSON object. SONDE_EINVAL and what is wrong with which member. */
int sonde_continuous_parse(const char *body, size_t len, struct sonde_continuous_change *out,
                           struct sonde_err *err);

/* SONDE_EINVAL: what came out would contradict itself. SONDE_EOFF: nothing can be sampled, or the
 * agent ends. SONDE_EBUSY: a burst, but it is not enabled. */
int sonde_continuous_apply(struct sonde_continuous *c, const struct sonde_continuous_change *change,
                           struct sonde_err *err);

/* What was sampled so far is in the store when it returns, as far as that works within seconds; not
 * more often than once a second. */
void sonde_continuous_flush(struct sonde_continuous *c);

/* Where its history is: the store, or memory. Lives as long as c. */
struct sonde_store *sonde_continuous_store(struct sonde_continuous *c,
                                           const struct sonde_store_ops **ops);

/* What sampling takes, computed rather than compared: the share of CPU time of those that are
 * sampled, over the last minute, and seconds per sample. NaN = not known, and why as far as that is
 * known. */
void sonde_continuous_cost(struct sonde_continuous *c, double *ratio, double *sample_s, char *why,
                           size_t why_size);

/* {"enabled","rate_hz","interval_seconds","duration_seconds","duty","cpu":{"wanted","active",
 *  "reason",…},"memory":{…},"gpu":{…},"burst":{…},"history":{…},"overhead":{…},"problem"} */
int sonde_continuous_json(struct sonde_continuous *c, struct sonde_buf *out, struct sonde_err *err);

#endif
