/* profiler_private.h - what the files of the profiler share. */
#ifndef SONDE_AGENT_PROFILER_PRIVATE_H
#define SONDE_AGENT_PROFILER_PRIVATE_H

#include <time.h>

#include "base/lock.h"
#include "base/thread.h"
#include "profile/symbol/symbolize.h"
#include "agent/profiler.h"
#include "agent/profiler_request.h"
#include "agent/capture.h"

enum { PROFILER_PROCESSES_MAX = 64 }; /* looked at, at a time */

struct profiler_watched {
    uint32_t pid;
    struct sonde_heap_reader *heap_reader;
};

/* profiler_heap.c */
struct profiler_heap {
    struct sonde_lock lock;              /* of all of this, also while a profile is taken */
    struct profiler_watched running;   /* runs anyway; its heap_reader is NULL = none */
    struct profiler_watched watched[PROFILER_PROCESSES_MAX]; /* ours */
    size_t count;
    struct sonde_symbolizer *symbolizer; /* kept, it remembers files; NULL */
};

void profiler_heap_init(struct profiler_heap *h);
void profiler_heap_release(struct profiler_heap *h);
/* Heaps that are profiled are watched from now on. */
void profiler_heap_watch(struct sonde_profiler *p);
/* What those processes allocated in that time, into a profile. *count: of how many it is known. */
int profiler_heap_window(struct sonde_profiler *p, uint64_t from_ns, uint64_t to_ns,
                         struct sonde_profile *into, int *count);

/* What of heaps belongs to a profile of [from_ns, to_ns): as they are now, and what was allocated
 * then. Nothing is profiled: nothing is added. */
int profiler_heap_add(struct sonde_profiler *p, uint64_t from_ns, uint64_t to_ns,
                      struct sonde_profile *into);

/* profiler_pool.c: engines that all captures share, and the thread that takes samples from them.
 * Locks are taken in this order: pool, profiler, model. */
struct profiler_source {
    uint32_t pid;                      /* 0 = the engine that runs anyway */
    struct sonde_cpu *cpu;
    struct sonde_cpu_cursor cursor;
    uint64_t from_ns;                  /* what it has before that is of its predecessor */
};

struct profiler_pool {
    struct sonde_lock lock;              /* of all here, and of samples of captures */
    struct sonde_cond wake;
    struct sonde_capture *captures[SONDE_CAPTURES_MAX];
    size_t count;
    struct profiler_source sources[PROFILER_PROCESSES_MAX];
    size_t source_count;
    double rate_hz;                    /* of sources that are ours */
    int off;                           /* they are switched off */
    uint64_t changes;                  /* see struct sonde_sampling */
    uint32_t refused[PROFILER_PROCESSES_MAX]; /* could not be sampled: are not tried again … */
    size_t refused_count;              /* … until the next begins */
    struct sonde_err why;              /* the last of them */
    int why_rc;
    struct sonde_worker worker;
    struct sonde_lock naming;            /* of the symbolizer: held for seconds, alone or last */
    struct sonde_symbolizer *symbolizer;
    struct sonde_capture *told;         /* who is told of requests; the model's lock */
};

struct sonde_capture {
    struct sonde_capture_options o;     /* complete */
    int gpu_burst;                      /* GPUs are read more often for it */
    uint64_t from_ns;
    struct sonde_profile *samples;     /* the pool's lock */
    uint64_t dropped;                  /* samples, for lack of memory */
    uint64_t slice_ns;                 /* 0 = samples are as they came */
    struct sonde_profile *heap;        /* alike: of one that is gone; NULL = none */
    struct sonde_profile *spans;       /* with requests; the model's lock, as what follows */
    uint64_t dropped_spans;
    int was_told;                      /* of a request */
    struct sonde_model_listener listener;
    struct sonde_capture *next_told;
};

void profiler_pool_init(struct profiler_pool *q);
void profiler_pool_stop(struct sonde_profiler *p);     /* the thread, and engines */
void profiler_pool_release(struct sonde_profiler *p);
/* Adds t, and sees to it that what it wants is sampled. */
int profiler_pool_add(struct sonde_profiler *p, struct sonde_capture *t, struct sonde_err *err);
void profiler_pool_remove(struct sonde_profiler *p, struct sonde_capture *t);
/* What engines have seen until now, to those that want it. Asserts the pool's lock. */
void profiler_pool_drain(struct sonde_profiler *p);
/* The engine that runs anyway is another one: has returned when the old one is not used. */
void profiler_pool_use(struct sonde_profiler *p, struct sonde_cpu *cpu);

/* profiler_switch.c; both assert the pool's lock */
/* Every sample is wanted from now on, or engines have changed. */
void profiler_switch_on(struct sonde_profiler *p);
/* s is about to be given back, or stopped. */
void profiler_switch_leave(struct sonde_profiler *p, struct profiler_source *s);

/* capture.c */
/* A request has ended. Asserts the model's write lock. */
void captures_on_request(struct sonde_profiler *p, const struct sonde_infer_request *r);
/* The heap of the process that runs anyway is going. */
void captures_keep_heaps(struct sonde_profiler *p);

/* profiler_request.c */
struct profiler_engine {
    uint32_t pid;
    struct sonde_cpu *cpu;
    uint64_t since_ns;                 /* unix time */
};

struct profiler_request;

struct profiler_requests {
    struct sonde_lock lock;              /* of the next block. Nothing else is locked while it is
                                          held: whoever tells of requests may hold the model's */
    struct sonde_cond wake;
    struct profiler_request *list[2 * SONDE_REQUEST_PROFILES_MAX + 2]; /* oldest first */
    size_t count, done;                /* in all, and those that are done */
    size_t bytes;                      /* of profiles */
    struct sonde_worker worker;
    uint64_t idle_ns;                  /* CLOCK_MONOTONIC: when engines stop */

    /* Its thread's own. */
    struct profiler_engine engines[PROFILER_PROCESSES_MAX];
    size_t engine_count;
    struct sonde_err why;              /* the last one that could not be started */
    struct sonde_symbolizer *symbolizer;
};

void profiler_requests_init(struct profiler_requests *q);
void profiler_requests_stop(struct sonde_profiler *p);    /* the thread; what is done stays */
void profiler_requests_release(struct sonde_profiler *p);

/* request_profile.c */

/* See to it that processes are sampled. Unix time since when all of them are; 1 = always were. */
uint64_t request_engines_start(struct sonde_profiler *p);
/* Not for requests any more. */
void request_engines_stop(struct sonde_profiler *p);
/* ---- profiler_join.c ---- */

struct profiler_joined {
    const struct sonde_infer_request *request; /* the engine's; NULL = none is known, or by its
                                                * trace */
    uint32_t others;             /* that fit about as well */
};
/* Among all requests that are known. */
void profiler_join(const struct sonde_infer_request *const *list, size_t count,
                   const struct sonde_request_profile *r, struct profiler_joined *out);

/* The request has ended: fill in its profile (NULL: no memory) and notes. */
void request_profile_build(struct sonde_profiler *p, struct sonde_request_profile *r,
                           uint64_t sampled_ns);

struct sonde_profiler {
    struct sonde_profiler_options o;
    struct sonde_lock lock;
    struct sonde_cond wake;   /* cancelled, or no longer in use */
    struct sonde_cpu *cpu; /* runs anyway; NULL = none */
    int cancelled;
    int in_use;            /* how many read cpu */
    void (*annotate)(struct sonde_profile *profile, void *arg); /* NULL = nobody */
    void *annotate_arg;    /* both are set before captures begin */
    struct profiler_heap heap;
    struct profiler_pool pool;
    struct profiler_requests requests;
};

/* The engine that runs anyway, until it is given back; NULL = there is none. */
struct sonde_cpu *profiler_cpu_take(struct sonde_profiler *p);
void profiler_cpu_give(struct sonde_profiler *p);

/* 0, or SONDE_EOFF when cancelled, or when gone(client) says so; gone may be NULL. */
int profiler_pause(struct sonde_profiler *p, double seconds, int (*gone)(void *client),
                   void *client, struct sonde_err *err);

/* Add the spans, or the inference requests, that the model still has and that end after from_ns. */
int profiler_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile);
int profiler_requests(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile);

/* Processes of the model that run; ended: also those that it remembers. */
size_t profiler_processes(struct sonde_profiler *p, int ended, uint32_t *pids, size_t max);
int profiler_contains(const uint32_t *pids, size_t count, uint32_t pid);

#endif
