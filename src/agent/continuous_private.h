/* continuous_private.h - what the files of continuous profiling share. */
#ifndef SONDE_AGENT_CONTINUOUS_PRIVATE_H
#define SONDE_AGENT_CONTINUOUS_PRIVATE_H


#include "agent/continuous.h"
#include "agent/capture.h"
#include "base/lock.h"
#include "base/thread.h"
#include "store/history.h"

/* Members of a change. */
enum {
    CONTINUOUS_ENABLED,
    CONTINUOUS_CPU,
    CONTINUOUS_MEMORY,
    CONTINUOUS_GPU,
    CONTINUOUS_RATE,
    CONTINUOUS_INTERVAL,
    CONTINUOUS_DURATION,
    CONTINUOUS_BURST,
    CONTINUOUS_MEMBERS
};

enum {
    CONTINUOUS_MINUTES_MAX = 256,  /* in memory, of all programs */
    CONTINUOUS_THREADS_MAX = 128,  /* whose CPU time is followed */
    CONTINUOUS_MARKS = 8,
};

/* ---- continuous_part.c: what was sampled, by program and minute ------------------------------ */

struct continuous_minute {
    char program[64];
    uint64_t start_ns;             /* of the minute, unix time */
    struct sonde_profile *profile;
    uint64_t id;                   /* in the store; 0 = not yet */
    int dirty;
};

struct continuous_parts {
    struct continuous_minute minutes[CONTINUOUS_MINUTES_MAX]; /* oldest first */
    size_t count;
    uint64_t written, samples, weight_ns;  /* parts, CPU samples and the time they stand for */
    uint64_t dropped, lost_records;        /* parts that could not be kept; samples, by engines */
    uint64_t heaps;
    double last_s;                 /* when something was written last; 0 = never */
};

/* ---- continuous_cost.c: what it costs -------------------------------------------------------- */

struct continuous_thread { int tid; uint64_t cpu_ns; };

struct continuous_mark { uint64_t mono_ns, agent_ns, samples, weight_ns; };

struct continuous_cost {
    struct continuous_thread threads[CONTINUOUS_THREADS_MAX];
    size_t thread_count;
    uint64_t agent_ns, children_ns, since_ns; /* since: CLOCK_MONOTONIC */
    double sample_ns;              /* 0 = not known … */
    char why[256];                 /* … and why not */
    int tried;
    struct continuous_mark marks[CONTINUOUS_MARKS]; /* a ring */
    uint64_t mark_count;
    struct continuous_series *series;
};

struct sonde_continuous {
    struct sonde_continuous_options o;
    struct sonde_store *memory;    /* instead of a store: o.store is this; NULL = there is one */

    struct sonde_lock lock;          /* of what follows, up to the thread's own */
    struct sonde_cond wake;           /* CLOCK_MONOTONIC, as is the next */
    struct sonde_cond written;        /* cut_done has changed */
    uint64_t cut_asked, cut_done;  /* how often what is sampled was asked for, and up to which of
                                      these it is written */
    uint64_t cut_ns;               /* CLOCK_MONOTONIC when it was last cut for that; 0 = never */
    struct sonde_continuous_settings settings;
    double burst_until_s, burst_hz; /* CLOCK_MONOTONIC; 0 = none */
    struct sonde_worker worker;
    int changed, abandoned;
    struct continuous_parts parts; /* minutes: the thread's own */
    struct continuous_cost cost;   /* threads and series alike */
    uint64_t merges, deleted;
    char problem[256];             /* what does not work now; "" = nothing */
    struct sonde_capture *capture;   /* set by the thread; looked at with the lock */
    int sampled_heaps;             /* at the last look; -1 = there was none yet */

    /* The thread's own. */
    double capture_hz;
    double started_s;              /* CLOCK_MONOTONIC */
    uint64_t taken_ns;             /* up to here samples are in parts */
    struct sonde_capture *heap_capture;
    double heap_due_s, tidy_due_s, cut_due_s; /* unix time */
    struct sonde_history history;
};

/* Samples of p in [from_ns, to_ns) into minutes; to_ns 0 = all that there are. p is changed. */
void continuous_take_in(struct sonde_continuous *c, struct sonde_profile *p, uint64_t from_ns,
                        uint64_t to_ns);
/* How heaps stand, one part for each program, and what was allocated since from_ns. */
void continuous_take_heaps(struct sonde_continuous *c, struct sonde_profile *p, uint64_t from_ns);
/* What has changed to the store, and minutes that are over out of memory. now_ns: unix time. */
void continuous_write(struct sonde_continuous *c, uint64_t now_ns);
void continuous_parts_release(struct sonde_continuous *c);
void continuous_problem(struct sonde_continuous *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Measures what a sample costs, once. */
void continuous_cost_try(struct sonde_continuous *c);
/* CPU time since the last look; children: also of processes that this one waited for meanwhile. */
void continuous_cost_look(struct sonde_continuous *c);
void continuous_cost_mark(struct sonde_continuous *c);
/* Series of the model. */
void continuous_cost_show(struct sonde_continuous *c);
/* Shares over the last minute or so: of one core, and of the CPU time of those that are sampled.
 * NaN = not known. lock held. */
double continuous_cost_agent(const struct continuous_cost *cost);
double continuous_cost_target(const struct continuous_cost *cost);
void continuous_cost_release(struct continuous_cost *cost);

#endif
