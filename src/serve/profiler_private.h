/* profiler_private.h - what the files of the profiler share. */
#ifndef SONDE_SERVE_PROFILER_PRIVATE_H
#define SONDE_SERVE_PROFILER_PRIVATE_H

#include <pthread.h>

#include "profile/symbolize.h"
#include "serve/profiler.h"
#include "serve/profiler_request.h"

enum { PROFILER_PROCESSES_MAX = 64 }; /* looked at, at a time */

struct profiler_watched {
    uint32_t pid;
    struct sonde_mem *mem;
};

/* profiler_heap.c */
struct profiler_heap {
    pthread_mutex_t lock;              /* of all of this, also while a profile is taken */
    struct profiler_watched running;   /* runs anyway; its mem is NULL = none */
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

/* profiler_request.c */
struct profiler_engine {
    uint32_t pid;
    struct sonde_cpu *cpu;
    uint64_t since_ns;                 /* unix time */
};

struct profiler_request;

struct profiler_requests {
    pthread_mutex_t lock;              /* of the next block. Nothing else is locked while it is held:
                                          whoever tells of requests may hold the model's */
    pthread_cond_t wake;
    struct profiler_request *list[2 * SONDE_REQUEST_PROFILES_MAX + 2]; /* oldest first */
    size_t count, done;                /* in all, and those that are done */
    size_t bytes;                      /* of profiles */
    int stopping, has_thread;
    uint64_t idle_ns;                  /* CLOCK_MONOTONIC: when engines stop */
    pthread_t thread;

    /* Its thread's own. */
    struct profiler_engine engines[PROFILER_PROCESSES_MAX];
    size_t engine_count;
    struct sonde_err why;              /* the last one that could not be started */
    struct sonde_symbolizer *symbolizer;
};

void profiler_requests_init(struct profiler_requests *q);
void profiler_requests_stop(struct sonde_profiler *p);    /* the thread; what is done stays */
void profiler_requests_release(struct sonde_profiler *p);

/* profiler_cut.c */

/* See to it that processes are sampled. Unix time since when all of them are; 1 = always were. */
uint64_t profiler_cut_start(struct sonde_profiler *p);
/* Not for requests any more. */
void profiler_cut_stop(struct sonde_profiler *p);
/* The request has ended: fill in its profile (NULL: no memory) and notes. */
void profiler_cut(struct sonde_profiler *p, struct sonde_request_profile *r, uint64_t sampled_ns);

struct sonde_profiler {
    struct sonde_profiler_options o;
    pthread_mutex_t lock;
    pthread_cond_t wake;   /* cancelled, or no longer in use */
    struct sonde_cpu *cpu; /* runs anyway; NULL = none */
    struct sonde_symbolizer *symbolizer; /* of who is busy; kept, it remembers files; NULL */
    int busy, cancelled;
    int in_use;            /* how many read cpu */
    struct profiler_heap heap;
    struct profiler_requests requests;
};

/* The engine that runs anyway, until it is given back; NULL = there is none. */
struct sonde_cpu *profiler_cpu_take(struct sonde_profiler *p);
void profiler_cpu_give(struct sonde_profiler *p);

/* Add the spans, or the inference requests, that the model still has and that end after from_ns. */
int profiler_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile);
int profiler_requests(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile);

/* Processes of the model that run; ended: also those that it remembers. */
size_t profiler_processes(struct sonde_profiler *p, int ended, uint32_t *pids, size_t max);

#endif
