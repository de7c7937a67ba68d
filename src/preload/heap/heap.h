/* heap.h - the heap profiler in the process: it stands in front of the allocator and of mmap, and
 * keeps the totals of every stack that has allocated in the segment (segment/heap.h).
 *
 * Sampled. Each thread counts down bytes, drawn from an exponential distribution, so that every
 * byte has the same chance to be the one at which an allocation is looked at. All others cost a
 * comparison, a subtraction and a jump. What was sampled is in a table of addresses; a free looks
 * at one bit of a filter first, which is nearly always zero. Bytes are counted with one more for
 * each call: so the countdown moves with every allocation.
 *
 * Full. The countdown stays at 0 and the filter's one word has all bits set: everything takes the
 * slow way.
 * A thread remembers the stacks it has seen lately and finds by comparing words that it is in one
 * of them again (stack.h), adds to rows that it alone writes, and keeps blocks in a table whose
 * parts belong to stretches of addresses, which threads hardly share (live.h).
 *
 * The slow way is taken by one call a thread at a time (busy): what a signal handler does in the
 * middle of it goes straight to the allocator and is counted. Locks are held for an instant, with
 * busy set, and never while anything outside is called. Freed blocks leave the tables before the
 * allocator gets them, since another thread may have the address the next instant.
 *
 * fork. What decides whether anything is done at all, and all locks, are in memory that the kernel
 * empties in a child (MADV_WIPEONFORK), however the child was made. Thus a child does nothing, at
 * no cost, unless the atfork handler starts it anew (children=1).
 *
 * Rejected: headers in front of blocks (alignment and malloc_usable_size would change, and blocks
 * from before could not be told); a record of every event for the agent to match (an allocation
 * takes less time than telling of it); the allocators' own hooks (each has others, or none). */
#ifndef SONDE_PRELOAD_HEAP_HEAP_H
#define SONDE_PRELOAD_HEAP_HEAP_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/preload.h"
#include "preload/walk/walk.h"
#include "segment/heap.h"
#include "segment/never.h"
#include "unwind/arch_here.h"

/* ---- real.c: the allocator behind us ----------------------------------------------------- */

struct sonde__heap_real {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
};

/* For what the fast ways use: a declaration alone does not say that it is in this library, and
 * would be reached by way of the global offset table. */
#define SONDE__HEAP_HERE __attribute__((visibility("hidden")))

/* Never NULL: until they are found, functions that find them. */
extern struct sonde__heap_real sonde__heap_real SONDE__HEAP_HERE;

/* ---- State ----------------------------------------------------------------------------------- */

#define SONDE__HEAP_FILTER_FIRST (1u << 8) /* words; it grows up to … */
#define SONDE__HEAP_FILTER (1u << 12)   /* … this many */
#define SONDE__HEAP_OFF (1ull << 63)    /* a countdown that never ends */
#define SONDE__HEAP_PASSING 2u          /* busy in a function of the allocator's that may call us */

/* Zero in a child that was forked. */
struct sonde__heap_gate {
    uint32_t filter_mask;       /* 0: only the first word counts */
    uint32_t mode;              /* SONDE__HEAP_SAMPLED, SONDE__HEAP_FULL; 0 = off */
    uint32_t missed;            /* 1: calls went past us, in handlers. Blocks may be known that are
                                   not there any more */
    uint32_t closed;            /* 1: nothing new is recorded (sandbox.h) */
    uint32_t node_lock;         /* nodes, sites, modules, lanes */
    uint32_t thread_lock;       /* threads' blocks that are free */
    uint32_t side_lock;         /* side records of the live table */
    uint32_t map_lock;          /* mappings */
    uint32_t filter_lock;       /* to change the filter */
    uint32_t filter_used;       /* blocks in it */
    uint32_t peak_lock;         /* tried, never waited for */
    uint32_t arena_lock;        /* so is this */
    uint64_t filter[SONDE__HEAP_FILTER] __attribute__((aligned(64))); /* sampled addresses: a bit by
                                   hash. At first all that a free looks at is in one page */
    uint8_t filter_count[SONDE__HEAP_FILTER * 64]; /* of each bit, up to 255, which stays */
} __attribute__((aligned(SONDE__PAGE)));

extern struct sonde__heap_gate sonde__heap_gate SONDE__HEAP_HERE;

/* A larger mask adds bits to the number of the word and changes none of those before. */
static inline uint64_t sonde__heap_filter_word(uint64_t addr)
{
    _Static_assert(SONDE__HEAP_FILTER <= 1u << (32 - 19), "the hash has as many bits");
    return (uint32_t)addr * 0x9e3779b1u >> 19 & sonde__heap_gate.filter_mask;
}

static inline uint32_t sonde__heap_filter_bit(uint64_t addr) { return addr >> 4 & 63; }

struct sonde__heap_state {
    struct sonde__heap *area;    /* in the segment */
    struct sonde__chunk *ring;
    uint64_t own_low, own_high; /* code of this library */
    uint64_t allocator_low, allocator_high; /* the module that the real malloc is in */
    uint64_t start_ns;          /* of the coarse clock */
    uint32_t pid, depth_max;
    uint64_t mean;
    uint64_t seed;
    uint64_t threads;           /* that ever drew: seeds differ by it */
    struct mallinfo2 (*mallinfo2)(void); /* NULL: not glibc's allocator */
};

extern struct sonde__heap_state sonde__heap_state;

struct sonde__heap_tls {
    uint64_t countdown;         /* bytes and calls until the slow way is taken */
    uint64_t last;              /* ~ the newest allocation known … */
    uint64_t last_countdown;    /* … and the countdown behind it */
    struct sonde__heap_thread *self; /* full mode; NULL = none yet, or the thread has ended */
    uint64_t rng;               /* 0 = the thread has not been here */
    uint64_t allocs, bytes;     /* it made; units of rows */
    uint32_t tid;
    uint32_t busy;
    uint32_t rounds;            /* of destructors, at its end */
    uint32_t ended;
    uint32_t probed;            /* we were called while busy */
    uint32_t waited;            /* heap.c: it has been told when to begin */
#ifndef NDEBUG
    uint32_t held;              /* locks: a bit for each rank */
#endif
};

extern __thread struct sonde__heap_tls sonde__heap_tls
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Put in front of what must not see a handler of this thread, and behind it. */
static inline void sonde__heap_busy(uint32_t busy)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    sonde__heap_tls.busy = busy;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void sonde__heap_count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- heap.c: beginning and end --------------------------------------------------------------- */

void sonde__heap_start(void);
void sonde__heap_start_later(void);     /* a child: when it has allocated something */
void sonde__heap_sandboxed(void);       /* system calls are given up: what has not begun does not */
void sonde__heap_thread_off(void);      /* this thread is not looked at any more, to its end */
void sonde__heap_forked(int again);     /* in a child */
void sonde__heap_stop(void);            /* the program ends, as far as we can tell */

void sonde__heap_decided(void);          /* whether there will be a start is known */
int sonde__heap_is_decided(void);

/* The mode, at the first call of a thread or when nothing is decided yet. */
uint32_t sonde__heap_wake(void);

/* ---- memory.c ---------------------------------------------------------------------------- */

/* Zeroed pages of our own, that a forked child finds empty. NULL: there are none. */
void *sonde__heap_pages(uint64_t bytes);
void sonde__heap_pages_give(void *pages, uint64_t bytes);
/* The ith of all: where; 0 = that was the last, UINT64_MAX = there is none here. */
uint64_t sonde__heap_own(uint32_t i, uint64_t *bytes);

/* ---- Locks ----------------------------------------------------------------------------------- */

/* A thread that holds a lock may take one of a higher rank, not of the same or a lower one: so no
 * two threads can wait for each other, and none for itself. Today each is taken alone. Debug builds
 * keep the ranks that a thread holds and stop where the order is broken; in release builds a rank
 * costs nothing. docs/design/guarantees.md says what each lock is held for. */
enum sonde__heap_rank {
    SONDE__HEAP_RANK_ARENA,     /* tried; the allocator's own locks are taken under it */
    SONDE__HEAP_RANK_PEAK,      /* tried */
    SONDE__HEAP_RANK_MAP,
    SONDE__HEAP_RANK_THREAD,
    SONDE__HEAP_RANK_SHARD,     /* of the live table: one at a time */
    SONDE__HEAP_RANK_SIDE,
    SONDE__HEAP_RANK_FILTER,
    SONDE__HEAP_RANK_NODE
};

static inline void sonde__heap_rank_enter(enum sonde__heap_rank rank)
{
#ifdef NDEBUG
    (void)rank;
#else
    SONDE_MUST(!(sonde__heap_tls.held >> rank));
    SONDE_MUST(sonde__heap_tls.busy); /* or a handler would wait for its own thread */
    sonde__heap_tls.held |= 1u << rank;
#endif
}

static inline void sonde__heap_rank_leave(enum sonde__heap_rank rank)
{
#ifdef NDEBUG
    (void)rank;
#else
    SONDE_MUST(sonde__heap_tls.held >> rank & 1);
    sonde__heap_tls.held &= ~(1u << rank);
#endif
}

/* This thread holds the lock of that rank: for SONDE_MUST. */
#ifdef NDEBUG
#define SONDE__HEAP_HOLDS(rank) 1
#else
#define SONDE__HEAP_HOLDS(rank) (sonde__heap_tls.held >> (rank) & 1)
#endif

/* 0, or -1: whoever holds it does not let go, for seconds. */
static inline int sonde__heap_lock(uint32_t *lock, enum sonde__heap_rank rank)
{
    sonde__heap_rank_enter(rank);
    const int rc = __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) ? sonde__spin_wait(lock) : 0;
    if (rc) sonde__heap_rank_leave(rank);
    return rc;
}

/* 0, or 1: somebody holds it. */
static inline uint32_t sonde__heap_trylock(uint32_t *lock, enum sonde__heap_rank rank)
{
    sonde__heap_rank_enter(rank);
    const uint32_t taken = __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
    if (taken) sonde__heap_rank_leave(rank);
    return taken;
}

static inline void sonde__heap_unlock(uint32_t *lock, enum sonde__heap_rank rank)
{
    sonde__heap_rank_leave(rank);
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- memory.c: time ----------------------------------------------------------------------- */

/* CLOCK_MONOTONIC_COARSE since the start, in units of 2^20 ns. */
uint32_t sonde__heap_coarse(void);

/* ---- math_hot.c -------------------------------------------------------------------------- */

struct sonde__heap_weight {      /* what a sampled allocation stands for; units of rows */
    uint64_t count, bytes, bytes_var, count_var;
};

/* The next countdown: P(countdown <= n) = 1 - exp(-(n + 1) / mean). */
uint64_t sonde__heap_draw(uint64_t *rng, uint64_t mean);
uint64_t sonde__heap_seed(uint64_t seed, uint64_t thread);
struct sonde__heap_weight sonde__heap_weigh(uint64_t size, uint64_t mean);

struct sonde__heap_block {       /* an allocation; where they are kept: live.h */
    uint64_t addr, size;
    uint64_t ticks;             /* when, if it is precise: sampled mode, or an event was told */
    uint32_t site;
    uint32_t coarse;            /* when, otherwise */
    uint32_t precise;
};

/* ---- node_hot.c: stacks as nodes, sites -------------------------------------------------- */

#define SONDE__HEAP_SITE_REST 1u         /* "callers unknown" */

int sonde__heap_nodes_init(void);
/* The node of ip (with its module) called by parent; 0 = there is no room. */
uint32_t sonde__heap_node(uint32_t parent, uint64_t ip);
uint64_t sonde__heap_tag(uint64_t ip);   /* with its module */
uint32_t sonde__heap_site(uint32_t node);    /* its site; SITE_REST if there is no room */
uint32_t sonde__heap_site_node(uint32_t site);

/* ---- row_hot.c: lanes and rows ----------------------------------------------------------- */

/* The row of a site in a lane, made if need be; NULL: no memory. Lane 0 has those of all sites. */
struct sonde__heap_row *sonde__heap_row(uint32_t lane, uint32_t site);
uint64_t *sonde__heap_directory(uint32_t lane);  /* of its rows; NULL: no memory */
uint32_t sonde__heap_lane_take(uint32_t tid);    /* 0 = none is free */
void sonde__heap_lane_give(uint32_t lane);

/* ---- stack_hot.c ------------------------------------------------------------------------- */

#define SONDE__HEAP_SLOTS 4096u
#define SONDE__HEAP_POOL (256u << 10)
#define SONDE__HEAP_NAMED 1024u

struct sonde__heap_frame {       /* of a stack that was walked */
    uint64_t ra;                /* where it goes on */
    uint64_t sp, bp;            /* then */
    uint32_t node;
    int32_t bp_at;              /* BP_LOADED: bp was read at sp + this */
    int32_t via_at;             /* VIA: sp was read at sp + this … */
    int16_t via_off;            /* … and this added to it */
    uint16_t flags;
};

/* Full mode: one a thread. Sampled mode: one a sample, for as long as it takes. */
struct sonde__heap_thread {
    struct sonde__heap_thread *next;
    struct sonde__heap_lane *lane;
    const uint64_t *directory;  /* of the lane's rows */
    uint32_t lane_index;        /* 0: locked adds */
    uint32_t tid;               /* who had it last */
    uint32_t unloads;           /* what is remembered is from then */
    uint32_t coarse, coarse_left, coarse_every; /* its clock, and calls until it is read again */
    uint32_t ticked;            /* the clock has moved */
    uint32_t pool_used;         /* in units of 64 bytes */
    struct { uint32_t from, at; uint64_t branch; } miss; /* where the next one to remember
                                                          * belongs */
    uint64_t event_countdown;
    int64_t live_delta;         /* not yet in the total, where it is added … */
    int64_t live_limit;         /* … when it is more than this, either way */
    uint64_t allocs, bytes;     /* of the lane, when it became this thread's */
    struct sonde__memory memory;/* the stack, as far as it is known to be there */
    uint32_t unmaps;            /* … when so many mappings had been taken away */
    uint32_t shadow_depth;
    int shadow_whole;           /* it was not cut for its depth */
    struct sonde__heap_frame *shadow, *fresh; /* depth_max each. The stack as last walked, outermost
                                   frame first; and those of a walk, innermost first */
    struct sonde__heap_named {   /* frames that have a node: the last of each kind, by hash */
        uint64_t ra;            /* 1 more: exact */
        uint32_t parent, node;  /* 0 = none */
    } named[SONDE__HEAP_NAMED];
    uint16_t slot[SONDE__HEAP_SLOTS];
    char pool[SONDE__HEAP_POOL] __attribute__((aligned(64)));
};

/* Walk from here, and remember. Returns the site; *row: its row in the thread's lane. */
uint32_t sonde__heap_walk(struct sonde__heap_thread *t, const struct sonde__caller *c,
                          struct sonde__heap_row **row);

/* ---- thread.c ---------------------------------------------------------------------------- */

void sonde__heap_threads_init(void);
/* The thread is here for the first time: number, random numbers, and being told of its end. */
void sonde__heap_thread_enter(void);
/* A block for the slow way; NULL = no memory. Give it back with the other. */
struct sonde__heap_thread *sonde__heap_thread_take(void);
void sonde__heap_lane_leave(struct sonde__heap_thread *t); /* for lane 0 */
void sonde__heap_thread_give(struct sonde__heap_thread *t);
void sonde__heap_thread_tell(void);      /* what this thread has allocated, to the ring */

/* ---- entry.c ----------------------------------------------------------------------------- */

/* Shall an allocation of n bytes be recorded? Takes them off the countdown. */
int sonde__heap_chosen(size_t n);

/* ---- map.c ------------------------------------------------------------------------------- */

extern uint32_t sonde__heap_unmaps;      /* mappings that were taken away, ever */
void sonde__heap_maps_init(void);
uint64_t sonde__heap_maps_count(void);
void sonde__heap_maps_each(void (*call)(void *arg, const struct sonde__heap_block *b), void *arg);

/* ---- peak_hot.c -------------------------------------------------------------------------- */

/* Add what a thread has kept back to the bytes in use, and note a peak. */
void sonde__heap_flush(struct sonde__heap_thread *t);

static inline void sonde__heap_live_add(struct sonde__heap_thread *t, int64_t bytes)
{
    t->live_delta += bytes;
    if (t->live_delta > t->live_limit || t->live_delta < -t->live_limit) sonde__heap_flush(t);
}

/* ---- arena.c ----------------------------------------------------------------------------- */

/* What the allocator says about itself, if it is time to ask. No lock of ours may be held. */
void sonde__heap_arena(void);

/* ---- row_hot.c: events ------------------------------------------------------------------- */

void sonde__heap_tell(uint32_t type, const uint64_t *words, uint32_t count); /* to the ring */
void sonde__heap_tell_alloc(const struct sonde__heap_block *b);
void sonde__heap_tell_free(const struct sonde__heap_block *b, uint64_t now);

/* ---- sampled_hot.c, full_hot.c ------------------------------------------------------- */

/* All with busy set. forget takes a block out: 1 if it was known. Unless it is put back, it is then
 * counted as freed. */
void sonde__heap_sampled_alloc(const struct sonde__caller *c, void *p, uint64_t size);
int sonde__heap_sampled_forget(void *p, struct sonde__heap_block *out);
void sonde__heap_sampled_freed(const struct sonde__heap_block *b);

void sonde__heap_full_alloc(const struct sonde__caller *c, void *p, uint64_t size);
void sonde__heap_full_free(void *p);     /* forget and freed in one */
int sonde__heap_full_forget(void *p, struct sonde__heap_block *out);
void sonde__heap_full_freed(const struct sonde__heap_block *b);

void sonde__heap_put_back(const struct sonde__heap_block *b);

/* Cells of the thread's own: one instruction, and no handler comes between. */
static inline void sonde__heap_add(uint64_t *cell, uint64_t v, int shared)
{
    if (shared) __atomic_fetch_add(cell, v, __ATOMIC_RELAXED);
    else *cell += v;
}

static inline uint64_t sonde__heap_ticks_us(uint64_t ticks)
{
    const uint64_t q32 = __atomic_load_n(&sonde__gate.tick_ns_q32, __ATOMIC_RELAXED);
    return (uint64_t)((unsigned __int128)ticks * q32 >> 32) / 1000;
}

/* Nothing was allocated by this thread since it was. */
static inline int sonde__heap_temporary(uint64_t addr)
{
    return sonde__heap_tls.last == ~addr &&
           sonde__heap_tls.last_countdown == sonde__heap_tls.countdown;
}

static inline void sonde__heap_newest(uint64_t addr)
{
    sonde__heap_tls.last = ~addr; /* hidden from the scan for lost blocks */
    sonde__heap_tls.last_countdown = sonde__heap_tls.countdown;
}

#endif
