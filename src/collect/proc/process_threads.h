/* process_threads.h - the threads of one process, read once a tick.
 *
 * Of a process with many threads SONDE_THREADS_LISTED have series of their own, the busiest
 * ones; the others are summed up as tid="other", by what each used while it had no series, so
 * that the increase over all tids of a process is always what its threads used, each once.
 * A thread keeps its place until another has used far more: labels that change every tick
 * would be of no use to anyone.
 *
 * At most SONDE_THREADS_READ threads are read in a tick, those without series in turn. */
#ifndef SONDE_COLLECT_PROC_PROCESS_THREADS_H
#define SONDE_COLLECT_PROC_PROCESS_THREADS_H

#include "model/model.h"
#include "collect/proc/procfs.h"

#define SONDE_THREADS_LISTED 256u
#define SONDE_THREADS_READ 512u

enum sonde_thread_count { /* what a thread's counters are; indexes of the arrays below */
    SONDE_THREAD_USER, SONDE_THREAD_SYSTEM,           /* clock ticks */
    SONDE_THREAD_VOLUNTARY, SONDE_THREAD_INVOLUNTARY, /* context switches */
    SONDE_THREAD_COUNTS
};

/* In the order of sonde_thread_state's values. */
enum sonde_thread_state {
    SONDE_THREAD_RUNNING, SONDE_THREAD_SLEEPING, SONDE_THREAD_DISK, SONDE_THREAD_STOPPED,
    SONDE_THREAD_ENDED, SONDE_THREAD_IDLE, SONDE_THREAD_STATES
};
extern const char *const sonde_thread_state_name[SONDE_THREAD_STATES];

struct sonde_process_thread; /* private to process_threads.c */

struct sonde_process_threads {
    int from_zero;       /* set by the caller before the first read: the process itself is new */
    struct sonde_process_thread *thread; /* owned; in the kernel's order */
    size_t count, cap;
    size_t cursor;
    size_t listed;       /* threads with series */
    size_t turn;         /* the first thread without series that is due, counted among those */
    uint64_t tick;
    uint64_t other[SONDE_THREAD_COUNTS];
    struct sonde_model_series *other_series[SONDE_THREAD_COUNTS];

    /* Results. */
    uint64_t switches[2];                 /* voluntary, involuntary, of all threads seen */
    uint32_t states[SONDE_THREAD_STATES]; /* threads in each, as read last */
    uint64_t run_delay_ns;                /* runnable but not running, of all threads seen */
    uint64_t io_delay;                    /* clock ticks waiting for block I/O, alike; 0 also where
                                             the kernel does not account for delays */
    int scheduled;                        /* the kernel keeps such statistics */
    uint32_t cpus_allowed;                /* of the main thread; 0 = not known */
    struct { int found; uint64_t shared_bytes, swap_bytes; } memory; /* from the main thread */
};

/* What the reading needs; the caller's. */
struct sonde_process_reader {
    struct sonde_model *model;
    struct sonde_procfs_buf *buf;
    int *fds_left;   /* files that may yet be kept open: reading those is twice as fast */
};

/* Read the threads of process, whose folder of /proc dir_fd is, and set their series. */
void sonde_process_threads_read(struct sonde_process_threads *t,
                                const struct sonde_process_reader *r,
                                struct sonde_model_process *process, int dir_fd);

/* Take all their series out of the model and free them; the results stay. */
void sonde_process_threads_drop(struct sonde_process_threads *t,
                                const struct sonde_process_reader *r);

/* Free; series are left alone (the model has dropped them, or is about to be). */
void sonde_process_threads_release(struct sonde_process_threads *t,
                                   const struct sonde_process_reader *r);

#endif
