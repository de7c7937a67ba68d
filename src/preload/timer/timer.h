/* timer.h - the CPU sampler in the process: a timer per thread on that thread's CPU time, and a
 * signal handler that walks the stack where it is and writes the addresses to the segment.
 *
 * Why CPU time. A signal to a thread that sleeps makes poll, epoll_wait and nanosleep return
 * EINTR, which programs do not expect. Timers on CPU time are looked at by the kernel's tick, and
 * their signals sent on the way back to user code (POSIX_CPU_TIMERS_TASK_WORK, x86 since 5.9): a
 * system call is never interrupted. The tick is also the limit: with CONFIG_HZ = 250 there are 250
 * signals a second, and each says how many periods it stands for (the overrun).
 *
 * Which signal. SIGSTKFLT: nothing sends it and next to nothing handles it. SIGPROF is the second
 * choice. If the program wants it for itself after all, it gets it, and sampling ends with a
 * note. A thread that blocks it is sampled late, which is counted.
 *
 * How the stack is walked: walk.h.
 *
 * fork: POSIX timers are not inherited. exec: neither they nor their pending signals survive it.
 * So neither child nor new image can be hit by a signal that nobody handles. */
#ifndef SONDE_PRELOAD_TIMER_TIMER_H
#define SONDE_PRELOAD_TIMER_TIMER_H

#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/segment.h"

struct sonde__timer {
    struct sonde__sampler *area;  /* in the segment; NULL = not sampling */
    uint32_t state;               /* enum sonde__sampler_state; RUNNING only while area is set */
    uint32_t pid;                 /* the process that area is of */
    int signal;
    uint32_t depth_max;
    uint64_t period_ns;
    uint64_t tick_ns;             /* between the kernel's looks at timers */
    uint64_t area_off;            /* where it is in the segment */
    uint64_t area_bytes;          /* with its ring, in whole pages … */
    uint64_t ready_bytes;         /* … of which so many from its start are populated */
    uint64_t full_until;          /* there was no room for more: sonde__rest */
};

extern struct sonde__timer sonde__timer;

/* One sampled thread. Slots are reused, never unmapped. */
struct sonde__thread {
    struct sonde__thread *next;       /* in the list of free ones */
    void *(*start)(void *);           /* what the program wanted to run */
    int (*start_c11)(void *);
    void *arg;
    uint64_t stack_low, stack_bytes;  /* for sonde__stack_thread */
    uint32_t tid;
    int32_t timer;                    /* the kernel's number of it */
    uint32_t armed;
    uint32_t owed;                    /* periods that the next sample stands for besides */
    uint64_t had_ns;                  /* CPU time that it began with, of others: see arm */
    uint64_t cpu_ns;                  /* its own then */
    uint64_t periods;                 /* that its samples stand for; the handler's */
    uint32_t small_stack;             /* its alternate signal stack has no room for us */
    uint64_t ips[];                   /* depth_max, the handler's; see sonde__frame_slot */
};

/* Where frame n of a stack is kept: the innermost ones in order, behind them the last quarter as a
 * ring, so that the outermost ones are there whenever the walk ends. */
static inline uint32_t sonde__frame_slot(uint32_t depth_max, uint32_t n)
{
    const uint32_t outer = depth_max / 4, inner = depth_max - outer;
    return n < inner ? n : inner + (n - inner) % outer;
}

extern __thread struct sonde__thread *sonde__thread_self
    __attribute__((tls_model("initial-exec")));

/* ---- timer.c ------------------------------------------------------------------------------- */

/* Begin in this process, with this thread. */
void sonde__timer_start(void);
/* The program takes the signal, or ends. */
void sonde__timer_stop(enum sonde__sampler_state why);
/* Is sampling going on, and in this very process? */
int sonde__timer_running(void);
/* Populate so many chunks of the ring, or all. 0, or -1: there is no room. In the handler too. */
int sonde__timer_grow(uint64_t chunks);

/* ---- thread.c ------------------------------------------------------------------------ */

int sonde__threads_init(void);        /* 0, or -1: no keys left */
void sonde__thread_begin(struct sonde__thread *t);
struct sonde__thread *sonde__thread_take(void);  /* NULL: no memory */
void sonde__thread_arm(struct sonde__thread *t);
void sonde__thread_disarm(struct sonde__thread *t);
void sonde__threads_disarm(void);     /* all */
void sonde__threads_forked(void);     /* in a child: the others are gone, and all timers */

/* ---- signals.c ----------------------------------------------------------------------- */

int sonde__signal_install(void);      /* 0, or -1: none is free. Sets sonde__timer.signal */
void sonde__signal_release(void);     /* in a child that is not sampled */
int sonde__signal_block(int block);   /* for this thread; returns whether it was blocked */
int sonde__stack_fits(void);          /* is this thread's signal stack large enough? */
/* Not our timer's: what would have happened without us happens. */
void sonde__signal_foreign(int number);

/* ---- hot.c, ring_hot.c: in the handler ------------------------- */

void sonde__timer_handler(int number, siginfo_t *info, void *context);

/* Tell the agent where a module's code is, unless it was told already. */
void sonde__timer_announce(const struct dl_find_object *o);

/* frames: that were walked. */
void sonde__ring_sample(const struct sonde__thread *t, uint32_t frames, uint32_t overrun,
                        uint32_t flags);
void sonde__ring_thread(uint32_t tid, uint64_t cpu_ns, const char name[16]);

#endif
