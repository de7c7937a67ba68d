/* private.h - what the files of the heap profiler's agent side share.
 *
 *   segment ─▶ struct heap_target ─▶ struct heap_sum ─▶ profile with heap facts
 *              (one image of a      (what all of them
 *               process)             add up to)
 *
 * While a process runs, its target keeps only what the segment does not: the growth of each site
 * (by its number), sampled events, names of threads, and which files its code was mapped from.
 * Stacks are looked at when a profile is asked for, or when the process has ended: then the target
 * is folded into a sum and forgotten. So memory follows the number of sites, and processes that
 * come and go leave only what they have in common with others: their stacks. */
#ifndef SONDE_COLLECT_HEAP_PRIVATE_H
#define SONDE_COLLECT_HEAP_PRIVATE_H

#include "base/intern.h"
#include "base/lock.h"
#include "base/thread.h"
#include "collect/heap/heap.h"
#include "collect/preload_targets.h"
#include "collect/proc/smaps.h"
#include "collect/tick_clock.h"
#include "profile/module.h"

#define HEAP_EVENTS_MAX (256u << 10)   /* kept of all targets; then every second one is dropped */
#define HEAP_THREADS_MAX 65536u        /* of a target */
#define HEAP_POOLS_MAX 64u             /* names in the facts */
#define HEAP_POINTS_MAX 2048u          /* of the curve */
#define HEAP_RATES 16u                 /* totals that rates are taken from, half a second apart */
#define HEAP_TICK_LAST_NS 1000000000u  /* between ticks, in the end */

/* ---- target.c: the growth of a site, in as little as it takes ---------------------------- */

struct heap_site {
    struct sonde_curve *series;  /* owned; NULL = it has been `last` ever since `first` */
    uint32_t first;               /* tick at which it was first seen, + 1; 0 = it was not */
    float last;
    float mark_bytes, mark_count; /* in use at the mark */
};

/* Bytes in use at tick; ticks come one after the other. SONDE_ENOMEM, once: it has no growth from
 * now on. b: memory of all series, and how much that may be. */
int heap_site_add(struct heap_site *s, uint32_t tick, double value, const struct sonde_budget *b);
/* Its growth up to and without tick, and ticks that become twice as long from tick (even) on. */
void heap_site_growth(const struct heap_site *s, uint32_t tick, struct sonde_curve *out);
void heap_site_coarsen(struct heap_site *s);
void heap_site_release(struct heap_site *s, const struct sonde_budget *b);

/* ---- target.c: one segment --------------------------------------------------------------- */

struct heap_event {
    uint64_t time_ns, size;       /* unix time */
    uint32_t node, tid;
};

struct heap_thread {
    uint32_t tid;
    int ended;                    /* bytes and allocs are all it did */
    uint64_t bytes, allocs;       /* allocs: in units of counts */
    uint64_t named_ns;            /* when the name was looked at; CLOCK_MONOTONIC */
    double seen_bytes, seen_allocs; /* scratch: of its events */
    char name[64];
};

struct heap_target {
    struct sonde_preload_target base; /* ours: its heap is profiled */
    struct sonde_segment_heap_info info;   /* as last read */
    struct sonde_segment_heap_totals totals;
    int broken;                   /* cannot be read any more: done with */
    int folded;                   /* ended, and added to the sum: done with */
    struct sonde_aspace *as;      /* code that the modules below do not have: JIT */
    struct sonde_module *modules; /* by number: copies, as they were when their code was mapped */
    uint32_t module_count, module_cap;
    uint32_t nodes_seen;          /* whose modules were looked at */
    struct heap_site *sites;       /* by number */
    uint32_t site_count, site_cap;
    struct heap_event *events;
    uint32_t event_count, event_cap;
    struct heap_thread *threads;
    uint32_t thread_count, thread_cap;
    struct sonde_map thread_index;
    uint64_t lost;                /* events */
    uint64_t rss_bytes, rss_peak_bytes, pss_bytes;
    struct sonde_smaps_pace pace;
    struct sonde_smaps smaps;     /* as last read */
};

struct heap_reader {               /* what reading a target needs */
    struct sonde_modules *modules;
    struct sonde_tick_clock clock;
    uint64_t now_ns;              /* CLOCK_MONOTONIC */
    uint32_t tick;                /* the next one */
    uint32_t times;               /* how many ticks the next reading stands for */
    struct sonde_budget series;   /* of all series */
    size_t series_bytes;
    uint64_t series_refused;      /* sites without growth, for lack of memory */
    uint32_t event_count;         /* of all targets */
    uint32_t event_shift;         /* one in 2^this is kept */
    uint64_t random;
};

/* How it stands, its modules and what is new in its ring. base.gone has been looked at. */
int heap_target_read(struct heap_reader *r, struct heap_target *t, struct sonde_err *err);
/* Where its memory is, once more before the end, if that is not dear. */
void heap_target_look_at_last(const struct heap_reader *r, struct heap_target *t);
/* Totals, and the growth of all sites, for r->times ticks from r->tick on. */
int heap_target_tick(struct heap_reader *r, struct heap_target *t, struct sonde_err *err);
/* What is in use now is what was in use at the mark. */
int heap_target_mark(struct heap_target *t, struct sonde_err *err);
/* Drop every second event. */
void heap_target_thin(struct heap_reader *r, struct heap_target *t);
void heap_target_release(struct heap_reader *r, struct heap_target *t);
/* Allocations out of units of counts. */
double heap_count(const struct heap_target *t, uint64_t units);
/* NULL: no memory, or too many. */
struct heap_thread *heap_target_thread(struct heap_target *t, uint32_t tid);

/* ---- stack.c: nodes into stacks ---------------------------------------------------------- */

struct heap_stacks {
    struct heap_target *t;
    struct sonde_profile *p;
    uint32_t *stack_of;           /* owned; by node; 0 = not known yet */
    uint32_t *module_of;          /* owned; by module */
    uint64_t mapping;             /* the last one of code without a module, … */
    uint32_t mapping_module;      /* … and its row */
};

/* For a target that was read just now. 0 or SONDE_ENOMEM; release it in both cases. */
int heap_stacks_init(struct heap_stacks *k, struct heap_target *t, struct sonde_profile *p);
void heap_stacks_release(struct heap_stacks *k);
/* The stack of a node that has been counted; 0 = no memory. *truncated: it does not reach the
 * thread's start. SONDE_EFORMAT: a node is damaged. */
int heap_stacks_get(struct heap_stacks *k, uint32_t node, uint32_t *stack, int *truncated,
                    struct sonde_err *err);

/* ---- sum.c: what targets add up to ------------------------------------------------------- */

/* Of a site, beside what struct sonde_heap_site says. Of each estimate the variance and the number
 * of samples behind it. */
struct heap_aux {
    double live_bytes_var, live_count_var, alloc_bytes_var, alloc_count_var;
    double live_samples, alloc_samples;
    double frees, lifetime_us, peak_count;
    /* Of processes that have ended: in use at their end, and at the mark. */
    double left_bytes, left_count, left_bytes_var, left_count_var, left_samples;
    double left_mark_bytes, left_mark_count;
    int truncated;                /* its stack is */
};

struct heap_sum {
    struct sonde_profile *p;
    struct sonde_heap *h;         /* its sites are in no order, their amounts without bounds */
    struct heap_aux *aux;          /* by site */
    uint32_t site_cap, aux_cap, thread_cap;
    struct sonde_map by_stack, by_thread;
    uint64_t stacks_refused;      /* sites without a stack, for lack of memory */
    uint32_t processes;           /* added */
    double peak_most;             /* of one of them: when its peak was is when the peak was */
};

int heap_sum_create(size_t bytes_max, struct heap_sum *out);
void heap_sum_release(struct heap_sum *s);
int heap_sum_copy(const struct heap_sum *from, struct heap_sum *out);
/* The site of a stack, with its aux at the same place; UINT32_MAX = no memory. */
uint32_t heap_sum_site(struct heap_sum *s, uint32_t stack);
struct sonde_heap_thread *heap_sum_thread(struct heap_sum *s, uint32_t thread);

/* Samples of all kinds but ALLOC, bounds of amounts, sites by size. left: what was in use when
 * processes ended counts as in use. The heap facts become the profile's. 0 or SONDE_ENOMEM. */
int heap_sum_finish(struct heap_sum *s, int left);

uint64_t heap_whole(double v);   /* rounded, and within what there is */

/* weight bytes and count events of a stack; a sample for each 2^32 of them. */
void heap_sum_sample(struct sonde_profile *p, const struct sonde_profile_sample *like, double bytes,
                     double count);

/* ---- build.c ------------------------------------------------------------------------------ */

struct heap_build_options {
    uint32_t tick;                /* the next one */
    uint32_t root;                /* pid of the process that is profiled */
    const struct sonde_tick_clock *clock;
    uint64_t now_ns;              /* unix time */
    const struct sonde_budget *series; /* of its series, which are used up and released; NULL =
                                          they are kept */
};

/* Add a target, which was read just now, to a sum. SONDE_EFORMAT: it is damaged, and parts of it
 * are missing. SONDE_ENOMEM: nothing was added. */
int heap_build(struct heap_target *t, const struct heap_build_options *o, struct heap_sum *into,
               struct sonde_err *err);

/* What an event stands for: how many of its size. */
double heap_inverse_chance(const struct heap_target *t, const struct heap_event *e);

/* target.c: add to p what events of [from_ns, to_ns) say; each of them was kept with a chance of
 * one in 2^shift. */
int heap_window(struct heap_target *t, uint32_t shift, uint64_t from_ns, uint64_t to_ns,
                struct sonde_profile *p, struct sonde_err *err);

/* ---- round.c: all of it ------------------------------------------------------------------ */

struct sonde_heap_reader {
    struct sonde_heap_reader_options options;   /* complete, but dir */
    char env[SONDE_PRELOAD_ENV_MAX];
    size_t env_size;
    struct sonde_thread thread;
    int wake_fd;

    struct sonde_lock lock;               /* of all that follows */
    int stopping;
    struct sonde_preload_targets found;       /* struct heap_target */
    struct heap_reader reader;
    struct heap_sum ended;               /* of processes that are done with */
    struct sonde_segment_heap_totals ended_totals; /* their counts whole */
    double left_bytes, left_count;      /* in use when processes ended */
    double ended_peak;
    uint64_t ended_lost, ended_sites;
    int any;                            /* a heap profile was seen */
    int root_ended;
    uint64_t start_ns, mark_ns;         /* unix time */

    uint64_t tick_ns;                   /* between ticks */
    uint64_t tick0_ns, tick0_unix_ns;   /* CLOCK_MONOTONIC; 0 = none yet */
    struct sonde_curve growth;
    struct sonde_heap_point *points;
    uint32_t point_count, point_every, point_skip;
    struct { uint64_t at_ns; double bytes, count; } rates[HEAP_RATES];
    uint32_t rate_next;

    uint64_t refused, reentrant, scans_given_up; /* of processes that are done with */
    char broken[SONDE_HEAP_NOTE_MAX];    /* the last one that could not be read */
};

static inline struct heap_target *heap_target_at(const struct sonde_heap_reader *m, uint32_t i)
{
    return (struct heap_target *)(void *)m->found.targets[i];
}

/* Those that are read. */
static inline int heap_is_open(const struct heap_target *t)
{
    return t->base.segment && t->base.ours && !t->broken && !t->folded;
}

/* All that there is to do now. Those that change m assert the lock. */
void heap_round(struct sonde_heap_reader *m);

/* Of all processes; what is in use only of those that are there, or that have just ended. */
struct heap_now { double live_bytes, live_count, alloc_bytes, alloc_count, rss_bytes; };
struct heap_now heap_totals(struct sonde_heap_reader *m);

/* 0, or SONDE_ENOENT: its heap is not profiled, or not by us. */
int heap_is_ours(const struct sonde_heap_reader *m, struct heap_target *t, struct sonde_err *err);
/* Reading it failed: it is damaged, is not read again, and a note says why; unless there was no
 * memory for it at that moment. */
void heap_give_up(struct sonde_heap_reader *m, struct heap_target *t, int rc,
                  const struct sonde_err *why);
/* last: it is done with after that. Also says how much memory the sum may take. */
struct heap_build_options heap_build_options(struct sonde_heap_reader *m, struct heap_sum *into,
                                             int last);

#endif
