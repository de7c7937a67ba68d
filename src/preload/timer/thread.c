/* thread.c - a timer for each thread that the program makes.
 *
 * Threads are met where they begin: pthread_create runs a function of ours first, which then jumps
 * to the program's. They are left by the destructor of a key. A slot is a thread's for that long;
 * its memory is never given back, since a signal may be on its way.
 *
 * Rejected: scanning /proc/self/task for threads that are there without pthread_create. They have
 * no thread-local storage of ours, or of anybody's. */
#include "preload/timer/timer.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/walk/walk.h"
#include "record/state.h"
#include "segment/never.h"

#define SLAB_BYTES (256u << 10)
#define SLABS_MAX 4096u

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

__thread struct sonde__thread *sonde__thread_self __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static int have_key;
static char *slabs[SLABS_MAX];
static uint32_t slab_count, slab_used; /* slots taken from the last one, ever */
static struct sonde__thread *free_list;
static uint32_t slots_lock;            /* of the above; for an instant, never in a handler */

/* ---- Slots ---------------------------------------------------------------------------------- */

/* 0, or -1: whoever holds it does not let go, for seconds. */
static int timer_slots_lock(void)
{
    if (!__atomic_exchange_n(&slots_lock, 1, __ATOMIC_ACQUIRE)) return 0;
    return sonde__spin_wait(&slots_lock);
}

static void timer_slots_unlock(void) { __atomic_store_n(&slots_lock, 0, __ATOMIC_RELEASE); }

static size_t slot_bytes(void)
{
    return (sizeof(struct sonde__thread) + sonde__timer.depth_max * sizeof(uint64_t) + 63) & ~63ull;
}

static uint32_t slab_slots(void) { return (uint32_t)(SLAB_BYTES / slot_bytes()); }

static struct sonde__thread *slot_at(uint32_t slab, uint32_t i)
{
    SONDE_MUST(slab < slab_count && i < slab_slots());
    return (struct sonde__thread *)(void *)(slabs[slab] + i * slot_bytes());
}

static struct sonde__thread *slot_new(void)
{
    if (!slab_count || slab_used == slab_slots()) {
        if (slab_count == SLABS_MAX) return NULL;
        void *p = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
        if (p == MAP_FAILED) return NULL;
        slabs[slab_count] = p;
        slab_used = 0;
        __atomic_store_n(&slab_count, slab_count + 1, __ATOMIC_RELEASE);
    }
    return slot_at(slab_count - 1, slab_used++);
}

struct sonde__thread *sonde__thread_take(void)
{
    struct sonde__thread *t = NULL;
    if (!timer_slots_lock()) {
        t = free_list;
        if (t) free_list = t->next;
        else t = slot_new();
        timer_slots_unlock();
    }
    if (!t) __atomic_fetch_add(&sonde__timer.area->threads_refused, 1, __ATOMIC_RELAXED);
    return t;
}

static void slot_give(struct sonde__thread *t)
{
    SONDE_MUST(t != free_list); /* given twice */
    if (timer_slots_lock()) return; /* the slot is lost, the program goes on */
    t->next = free_list;
    free_list = t;
    timer_slots_unlock();
}

/* ---- Timers --------------------------------------------------------------------------------- */

static int timer_make(struct sonde__thread *t)
{
    struct sigevent e;
    memset(&e, 0, sizeof(e));
    e.sigev_notify = SIGEV_THREAD_ID;
    e.sigev_signo = sonde__timer.signal;
    e.sigev_value.sival_ptr = t;
    e.sigev_notify_thread_id = (pid_t)t->tid;
    return syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &e, &t->timer) ? -1 : 0;
}

static struct timespec timer_thread_span(uint64_t ns)
{
    return (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
}

static uint64_t own_cpu_ns(void)
{
    struct timespec cpu;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu)) return 0;
    return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

/* CPU time of threads that have ended, since their last samples; less than 0: lent to threads that
 * have not. A thread that ends before its first period is over is not sampled, and the kernel looks
 * at timers at its ticks only, so thousands of short ones were not sampled at all: what one has
 * left the next one begins with. When there is nothing left it is lent a part of a period, which
 * differs from thread to thread: so threads that begin together are not sampled together, and what
 * is expected of a process is its CPU time over the period. With it half a tick: what becomes due
 * after the last tick of a process is never seen, and that is as much in the mean. (Of processes
 * that end within a tick that is too little by up to a half: whether they see one at all is a
 * matter of luck.) The session is in it so that a process that has the same number in each of many
 * recordings, as in containers, does not have the same luck in all. */
static int64_t left_ns;

static uint64_t left_take(uint32_t tid, uint64_t period)
{
    int64_t had = __atomic_load_n(&left_ns, __ATOMIC_RELAXED);
    while (had > 0 && !__atomic_compare_exchange_n(&left_ns, &had, 0, 0, __ATOMIC_RELAXED,
                                                   __ATOMIC_RELAXED)) {
    }
    if (had > 0) return (uint64_t)had;
    /* By the golden ratio: numbers that follow each other are spread evenly. */
    const uint64_t part = (tid * 0x9e3779b97f4a7c15ull + sonde__config.session) >> 32;
    const uint64_t loan = (part * period >> 32) + sonde__timer.tick_ns / 2;
    __atomic_fetch_sub(&left_ns, (int64_t)loan, __ATOMIC_RELAXED);
    return loan;
}

/* By its own thread, whose CPU time is cpu_ns at its end. */
static void left_give(const struct sonde__thread *t, uint64_t cpu_ns)
{
    const uint64_t all = t->had_ns + (cpu_ns > t->cpu_ns ? cpu_ns - t->cpu_ns : 0);
    const uint64_t sampled = t->periods * sonde__timer.period_ns;
    __atomic_fetch_add(&left_ns, (int64_t)(all - sampled), __ATOMIC_RELAXED);
}

/* By its own thread. */
void sonde__thread_arm(struct sonde__thread *t)
{
    const uint64_t period = sonde__timer.period_ns;
    t->cpu_ns = t->start || t->start_c11 ? 0 : own_cpu_ns(); /* one that was there before */
    t->had_ns = left_take(t->tid, period);
    t->periods = 0;
    /* What is due already comes with the next tick; one comes in every period if that is longer. */
    const int at_once = t->had_ns >= period && period > sonde__timer.tick_ns;
    t->owed = (uint32_t)(t->had_ns / period - (at_once ? 1 : 0));
    const struct itimerspec when = {
        .it_interval = timer_thread_span(period),
        .it_value = timer_thread_span(at_once ? 1 : period - t->had_ns % period),
    };
    if (timer_make(t)) {
        __atomic_fetch_add(&sonde__timer.area->threads_refused, 1, __ATOMIC_RELAXED);
        return;
    }
    syscall(SYS_timer_settime, t->timer, 0, &when, NULL);
    __atomic_store_n(&t->armed, 1, __ATOMIC_SEQ_CST);
    if (!sonde__timer_running()) sonde__thread_disarm(t); /* stopped just now: one of us sees it */
}

void sonde__thread_disarm(struct sonde__thread *t)
{
    if (__atomic_exchange_n(&t->armed, 0, __ATOMIC_SEQ_CST)) syscall(SYS_timer_delete, t->timer);
}

/* Without the lock: sigaction, which leads here, may be called in a signal handler. Slots that were
 * never used are all zero. */
static void each_slot(void (*call)(struct sonde__thread *t))
{
    const uint32_t count = __atomic_load_n(&slab_count, __ATOMIC_ACQUIRE);
    for (uint32_t s = 0; s < count; s++) {
        for (uint32_t i = 0; i < slab_slots(); i++) call(slot_at(s, i));
    }
}

void sonde__threads_disarm(void) { each_slot(sonde__thread_disarm); }

/* The numbers of our timers may be those of timers that the child makes. */
static void timer_thread_forget(struct sonde__thread *t)
{
    t->armed = 0;
    if (t == sonde__thread_self) return;
    t->next = free_list;
    free_list = t;
}

void sonde__threads_forked(void)
{
    slots_lock = 0;
    left_ns = 0;
    free_list = NULL;
    each_slot(timer_thread_forget); /* all are in the list now, also those that were never used */
    slab_used = slab_slots();
    if (sonde__thread_self) {
        pthread_setspecific(key, NULL);
        slot_give(sonde__thread_self);
        sonde__thread_self = NULL;
    }
}

/* ---- Threads -------------------------------------------------------------------------------- */

void sonde__thread_begin(struct sonde__thread *t)
{
    t->tid = (uint32_t)syscall(SYS_gettid);
    t->armed = t->small_stack = 0;
    sonde__thread_self = t;
    pthread_setspecific(key, t);
    /* Made by a thread that had everything blocked, for the sake of the program's own signals. */
    sonde__signal_block(0);
    if (!sonde__timer_running()) return;
    if (sonde__stack_fits()) {
        sonde__thread_arm(t);
    } else {
        t->small_stack = 1;
        __atomic_fetch_add(&sonde__timer.area->threads_skipped, 1, __ATOMIC_RELAXED);
    }
}

static void timer_thread_end(void *arg)
{
    struct sonde__thread *t = arg;
    char name[16] = "";
    if (t != sonde__thread_self || sonde__g.silent) return;
    if (sonde__timer.pid == (uint32_t)getpid()) {
        const int was_armed = __atomic_load_n(&t->armed, __ATOMIC_RELAXED) != 0;
        sonde__thread_disarm(t);
        prctl(PR_GET_NAME, name);
        const uint64_t cpu_ns = own_cpu_ns();
        if (was_armed) left_give(t, cpu_ns);
        if (sonde__timer.area) sonde__ring_thread(t->tid, cpu_ns, name);
    }
    sonde__thread_self = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    slot_give(t);
}

int sonde__threads_init(void)
{
    if (!have_key) have_key = !pthread_key_create(&key, timer_thread_end);
    return have_key ? 0 : -1;
}

/* The stack that a thread with such attributes will have. */
static void stack_ask(struct sonde__thread *t, const pthread_attr_t *attr)
{
    pthread_attr_t usual;
    void *low = NULL;
    size_t bytes = 0, guard = 0;
    t->stack_low = t->stack_bytes = 0;
    if (!attr && pthread_attr_init(&usual)) return;
    const pthread_attr_t *a = attr ? attr : &usual;
    if (!pthread_attr_getguardsize(a, &guard) && !pthread_attr_getstack(a, &low, &bytes) &&
        (uintptr_t)low + bytes != 0) { /* its upper end is 0 if it was not set */
        t->stack_low = (uint64_t)(uintptr_t)low;
    } else if (!pthread_attr_getstacksize(a, &bytes) && bytes > guard) {
        t->stack_bytes = bytes - guard;
    }
    if (!attr) pthread_attr_destroy(&usual);
}

/* Calls that end a function are jumps where this is optimized: no frame of ours is on the stack. */
static void *run_posix(void *arg)
{
    struct sonde__thread *t = arg;
    void *(*const start)(void *) = t->start;
    void *const start_arg = t->arg;
    sonde__stack_thread(t->stack_low, t->stack_bytes);
    sonde__thread_begin(t);
    return start(start_arg);
}

static int run_c11(void *arg)
{
    struct sonde__thread *t = arg;
    int (*const start)(void *) = t->start_c11;
    void *const start_arg = t->arg;
    sonde__stack_thread(t->stack_low, t->stack_bytes);
    sonde__thread_begin(t);
    return start(start_arg);
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    sonde__preload_start();
    struct sonde__thread *t = sonde__timer_running() ? sonde__thread_take() : NULL;
    if (!t) return SONDE__REAL(pthread_create)(thread, attr, start, arg);
    t->start = start;
    t->arg = arg;
    stack_ask(t, attr);
    const int rc = SONDE__REAL(pthread_create)(thread, attr, run_posix, t);
    if (rc) slot_give(t);
    return rc;
}

EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *arg)
{
    sonde__preload_start();
    struct sonde__thread *t = sonde__timer_running() ? sonde__thread_take() : NULL;
    if (!t) return SONDE__REAL(thrd_create)(thread, start, arg);
    t->start_c11 = start;
    t->arg = arg;
    stack_ask(t, NULL);
    const int rc = SONDE__REAL(thrd_create)(thread, run_c11, t);
    if (rc != thrd_success) slot_give(t);
    return rc;
}
