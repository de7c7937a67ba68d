/* profiler_private.h - what the files of the profiler share. */
#ifndef SONDE_SERVE_PROFILER_PRIVATE_H
#define SONDE_SERVE_PROFILER_PRIVATE_H

#include <pthread.h>

#include "profile/symbolize.h"
#include "serve/profiler.h"

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

struct sonde_profiler {
    struct sonde_profiler_options o;
    pthread_mutex_t lock;
    pthread_cond_t wake;   /* cancelled, or no longer in use */
    struct sonde_cpu *cpu; /* runs anyway; NULL = none */
    struct sonde_symbolizer *symbolizer; /* of who is busy; kept, it remembers files; NULL */
    int busy, cancelled;
    int in_use;            /* cpu is being read */
    struct profiler_heap heap;
};

/* Add the spans and inference requests that the model still has and that end after from_ns. */
int profiler_add_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile);

/* Processes of the model that run; ended: also those that it remembers. */
size_t profiler_processes(struct sonde_profiler *p, int ended, uint32_t *pids, size_t max);

#endif
