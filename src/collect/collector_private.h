/* collector_private.h - what the files of the collector share.
 *
 * Locks: collector.lock before model.lock. */
#ifndef SONDE_COLLECT_COLLECTOR_PRIVATE_H
#define SONDE_COLLECT_COLLECTOR_PRIVATE_H

#include "base/buf.h"
#include "base/lock.h"
#include "base/thread.h"
#include "collect/collector.h"
#include "collect/discover.h"
#include "collect/preload_targets.h"
#include "collect/proc/probe.h"

#define COLLECTOR_REFUSALS 64u
#define COLLECTOR_PROBES 16u
#define COLLECTOR_WATCHED 256u

/* A file in the directory of segments. */
struct entry {
    char name[48];
    struct sonde_segment_name id;
    struct sonde_segment *segment;        /* NULL: refused, not wanted, or read for the last time */
    struct sonde_model_process *process;  /* NULL: never had one, or forgotten */
    int seen;                             /* in the last scan */
    int wanted;                           /* had a process in the model */
    uint32_t group;                       /* of processes that it was started in */
    int named;                            /* a name that came after the segment is the process's */
    uint64_t pid_ns;                      /* of its process, 0 = not known */
    int elsewhere;                        /* its process is in another namespace, or boot */
    int left_alone;                       /* the file is not ours to remove */
    int ended;                            /* its process is gone, or went on as another image */
    double ended_s;
    uint64_t ended_ns;                    /* the same by CLOCK_MONOTONIC */
    uint64_t mono0_ns;                    /* when its segment was made */
    struct sonde_buf last;                /* its segment's state when that was closed */
};

/* agent.state: collector_state.c */
struct state {
    struct sonde_buf bytes;               /* of the last one; its memory is used again */
    uint64_t activity;                    /* of the model, then */
    uint64_t written_ns, cost_ns;         /* CLOCK_MONOTONIC; 0 = never */
    uint64_t touched_ns;                  /* its age was set; 0 = not since it was written */
    uint64_t unsaved;                     /* records of a ring that were drained since, at most */
    int refused;                          /* the last was not written, which has been told */
    int loaded;                           /* counts go on from one, and nothing was read since */
    uint64_t lost;                        /* records of all processes, as it says */
};

struct watched {
    uint32_t pid;
    uint64_t start;                       /* 0 = not looked at yet */
    struct sonde_model_process *process;  /* NULL: a segment tells about it */
    double ended_s;
};

struct probe { const struct sonde_probe_ops *ops; void *state; };

/* Series about the agent itself. */
struct self {
    struct sonde_model_series *series, *tick_seconds, *refused, *missed, *cpu, *memory;
};

struct sonde_collector {
    struct sonde_lock lock;                 /* all below but model, which has its own */
    struct sonde_model *model;
    struct sonde_infer_tracker *tracker;  /* owned; under the model's lock; NULL = none */
    struct sonde_preload_readers readers; /* who else in this process reads segments; own lock */
    void (*on_tick)(struct sonde_model *m, void *arg); /* NULL = nobody wants it */
    void *on_tick_arg;
    char dir[256];
    double interval_s, retain_s;
    uint32_t pid;
    uint32_t group;                       /* process group of pid, 0 = does not count */
    uint64_t pid_start;                   /* start time of pid */
    int agent, scans;
    uint64_t created_ticks;               /* when, as processes' start times are told */
    int lock_fd;                          /* agent.lock, -1 = not held */
    uint64_t lock_dev, lock_ino;          /* of the directory it is in */
    int dir_default;                      /* nobody said which */
    int dir_refused;                      /* said so already */
    uint64_t dir_changed_ns;              /* of the directory, when a drain last looked */
    struct sonde_tick_clock clock;
    struct sonde__here here;
    struct entry *entries;
    size_t entry_count, entry_cap;
    struct watched watched[COLLECTOR_WATCHED];
    size_t watched_count;
    struct sonde_gpu *gpu;                /* owned; under the model's lock; NULL = not read */
    struct probe probes[COLLECTOR_PROBES];
    size_t probe_count;
    struct sonde_collector_refusal refusals[COLLECTOR_REFUSALS];
    uint64_t refused;                     /* ever */
    uint64_t missed;                      /* processes without room for a segment, ever … */
    uint64_t missed_bytes;                /* … and how long the file was that counts them */
    struct self self;
    struct state state;

    struct sonde_thread thread;
    struct sonde_cond wake;
    int stopping;
};

/* Processes that found no room since the last look; asserts c->lock. */
void collector_missed_look(struct sonde_collector *c);
/* These assert c->lock and the model's write lock. */
void collector_entries_step(struct sonde_collector *c, double now_s);
void collector_watched_step(struct sonde_collector *c, double now_s);
void collector_entries_drain(struct sonde_collector *c);
/* Most records that the last drain found in a ring. */
uint32_t collector_entries_fullest(const struct sonde_collector *c);
void collector_entries_free(struct sonde_collector *c);

/* ---- collector_state.c ---- */

/* After the first scan, before anything is read; as above. */
void collector_state_load(struct sonde_collector *c, int dirfd);
/* After the first read, as above: what was overwritten while there was no agent is worth a
 * warning. */
void collector_state_tell_lost(struct sonde_collector *c);
/* After a drain; asserts c->lock, and that the model's is free. now: whenever the last was. */
void collector_state_save(struct sonde_collector *c, int now);
/* e->segment is about to be closed: e->last is where the next agent would begin. */
void collector_state_entry(struct entry *e);

#endif
