/* state.h - what this copy of the library knows about its process and segment. Private.
 *
 * A process may hold several copies (libsonde.so, and libsonde.a inside a plugin). They find the
 * same segment by its name and exec id and share one mapping of it; everything that must be
 * common to them is in the segment, everything here is a copy's own.
 *
 * Locks, by rank: 1 gate.open_lock (this copy), 2 header.define_lock (all copies). Both hold
 * the owner's tid, are never waited for on a path that records, and are held behind a shield
 * (shield.c), so that no handler or cancellation takes their owner away. Waiting for them ends
 * after SONDE__LOCK_WAIT_MS all the same. A forked child starts with a wiped gate and a segment
 * of its own: no fork hook for locks is needed.
 */
#ifndef SONDE_RECORD_STATE_H
#define SONDE_RECORD_STATE_H

#include <stdint.h>

#include "segment/segment.h"

#define SONDE__LOCK_WAIT_MS 2000
#define SONDE__SERIES_MAX_DEFAULT 2000u /* per family */

struct sonde__shield {        /* what shield.c puts back */
    uint64_t signals;         /* the thread's signal mask */
    int cancel;               /* its cancel state */
};

struct sonde__state {
    char *base;               /* the mapping; NULL = none yet. Never unmapped while it is ours */
    struct sonde__header *h;  /* = base */
    uint32_t pid;             /* the process that opened it */
    uint32_t forked;          /* the process that fork() made last, as a child */
    uint32_t copy;            /* this copy's number in the segment */
    int user;                 /* sonde_enable: 1 on, -1 off, 0 = nobody said */
    int error;                /* why opening failed; 0 = it has not */
    int silent;               /* the program has given up system calls: make none any more */
    int filters_seen;         /* this copy would know if it had: libsonde_preload's */
    int opening;              /* in the middle of it: base may be half made … */
    char *opening_base;       /* … and was this before */
    int env_read;             /* env_trace is valid */
    struct sonde_trace env_trace; /* TRACEPARENT; zero = none */
    struct sonde__shield open_shield, define_shield; /* of the locks' holders */
    uint64_t block_full_until, block_full_bytes; /* so much was not to be had: see sonde__rest */
    uint64_t define_until;    /* nothing new can be defined … */
    uint32_t define_failed;   /* … after so many that could not, one after the other … */
    int define_reason;        /* … for this reason: SONDE__DROP_… */
    uint64_t reap_at_ticks;   /* dead owners are looked for at most every 10 ms */
    uint64_t tick0, mono0_ns; /* clock: first instant of the calibration */
    uint64_t tick_ns_q32;
    uint64_t checked_ns;      /* CLOCK_MONOTONIC of the last calibration */
    uint32_t tsc;             /* valid once clock_ready */
    uint32_t clock_ready;
    char path[256];           /* of the segment … */
    uint64_t file_dev, file_ino; /* … and which file that is */
    char dir[192], name[64];  /* what sonde_open was asked for; "" = default */
    uint64_t bytes_max;
    uint32_t series_max, lanes_max;
};

extern struct sonde__state sonde__g __attribute__((visibility("hidden")));

/* ---- open.c ------------------------------------------------------------------------------- */

/* Open unless open. 0: recording is on. SONDE_EOFF; SONDE_EBUSY: this thread is opening right
 * now; or why it cannot be opened (the gate is then OFF). Sets up the calling thread's TLS. */
int sonde__ensure_open(void);

/* From now on this copy records nothing, and no copy in this process makes a system call, not even
 * at the end: what others can record without, they do. */
void sonde__silence(void);

/* 1 if the program may have given up system calls, for all that can be told without making one. */
int sonde__maybe_sandboxed(void);

/* Only have the clock running: recording may be off. */
void sonde__clock_ensure(void);

/* ---- shield.c ----------------------------------------------------------------------------- */

/* Between up and down this thread runs no handler of an asynchronous signal and is not
 * cancelled. Syscalls only. */
void sonde__shield_up(struct sonde__shield *s);
void sonde__shield_down(const struct sonde__shield *s);

/* Copy an options struct whose first field is its size: a shorter one is filled with zeros, of a
 * longer one (a newer header) the unknown tail must be zero. SONDE_EINVAL otherwise. */
int sonde__take_options(void *out, size_t known, const void *in);

/* ---- file.c ------------------------------------------------------------------------------- */

/* Make this process's segment, or join the one another copy made: sets base, h, copy and path.
 * from: the parent's segment after a fork, whose definitions are taken over; else NULL. It is
 * not unmapped. */
int sonde__file_open(const struct sonde__header *from);

/* The process ends: remove the file unless an agent is there to read it. */
void sonde__file_remove(void);

/* ---- clock.c ------------------------------------------------------------------------------ */

void sonde__clock_start(void);    /* choose and calibrate, once per process image */
void sonde__clock_recheck(void);  /* refine with the longer baseline; cheap, slow paths only */
uint64_t sonde__mono_ns(void);
uint64_t sonde__real_ns(void);

/* ---- grow.c ------------------------------------------------------------------------------- */

/* Make [off, off + len) of the segment safe to touch. SONDE_ENOSPC if there is no room. */
int sonde__populate(uint64_t off, uint64_t len);

/* Hand out a block of size bytes, zeroed, 64-byte aligned; their offset from the segment's
 * start, or 0. No lock, so also from signal handlers. */
uint64_t sonde__block_take(uint64_t size);
/* The same, on pages of its own of which only *ready_bytes are populated: the rest cannot be
 * accessed until the caller has populated it. */
uint64_t sonde__block_take_bare(uint64_t size, uint64_t *ready_bytes);

/* Take bytes of populated pages off the account: the attempt they belong to failed, and the
 * next one counts them again. */
void sonde__populate_undo(uint64_t bytes);

void sonde__drop(int reason);     /* SONDE__DROP_… */

/* There was no room: do not try again until then, some time from now. Is that so still? */
void sonde__rest(uint64_t *until);
int sonde__resting(const uint64_t *until);

/* ---- lane.c ------------------------------------------------------------------------------- */

void sonde__thread_setup(void);   /* rng, tid, inherited trace; idempotent */
void sonde__thread_forget(void);  /* its lane, which is another process's, and all of that */

/* Where this thread may add: *shared = 0 its own lane's cells, 1 a shared lane's (locked adds).
 * NULL: recording is off. */
char *sonde__lane_get(int *shared);

/* The ring of that lane, made on first use; NULL = no memory (counted). */
struct sonde__ring *sonde__lane_ring(char *cells);

/* Give back the lanes this copy holds: it is being unloaded. */
void sonde__lanes_release(void);

/* ---- record_hot.c ------------------------------------------------------------------------- */

/* A record of this type (SONDE__REC_…) with the words of r to whichever ring this thread may
 * use. */
void sonde__ring_put(const struct sonde__span_rec *r, uint64_t type);

/* ---- define.c ----------------------------------------------------------------------------- */

int sonde__define_lock(int wait); /* 0, SONDE_EBUSY */
void sonde__define_unlock(void);

/* This thread holds it: for SONDE_MUST. */
static inline int sonde__define_held(void)
{
    return __atomic_load_n(&sonde__g.h->define_lock, __ATOMIC_RELAXED) == sonde__tls.tid;
}

/* Rebuild the indexes of a segment whose tables were copied from a parent process. */
int sonde__define_reindex(void);

/* The series with this name, type and these label values, without a lock. SONDE_ENOENT;
 * SONDE_EEXIST: the name is of another type. The segment is open. */
int sonde__series_find(enum sonde_type type, const char *name, const char *const *values,
                       uint32_t *out);

/* Text of a family's name, NUL-terminated, in the segment; "" for an unknown id. */
const char *sonde__family_name(uint32_t id);

/* Another copy may have found out. */
static inline int sonde__silent(void)
{
    return sonde__g.silent ||
           (sonde__g.h && __atomic_load_n(&sonde__g.h->silent, __ATOMIC_RELAXED));
}

static inline char *sonde__at(uint64_t off) { return sonde__g.base + off; }

static inline struct sonde__family *sonde__family_at(uint32_t id)
{
    return (struct sonde__family *)(void *)sonde__at(sonde__g.h->family_off) + id;
}

static inline struct sonde__series *sonde__series_at(uint32_t id)
{
    return (struct sonde__series *)(void *)sonde__at(sonde__g.h->series_off) + id;
}

static inline char *sonde__str_at(struct sonde__str s)
{
    return sonde__at(sonde__g.h->string_off) + s.off;
}

static inline char *sonde__lane_cells(uint32_t lane)
{
    return sonde__at(sonde__lane_at(sonde__g.h, lane)) + SONDE__CELLS_OFF;
}

static inline struct sonde__lane *sonde__lane_of(char *cells)
{
    return (struct sonde__lane *)(void *)(cells - SONDE__CELLS_OFF);
}

#endif
