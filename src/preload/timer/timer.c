/* timer.c - sampling begins and ends. */
#include "preload/timer/timer.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/walk/walk.h"
#include "record/state.h"

#define CHUNKS_PER_CPU 8192u   /* half a MiB: 40 frames at 250 Hz for five seconds */
#define CHUNKS_MIN 16384u
#define CHUNKS_MAX 131072u
#define CHUNKS_LEAST 1024u     /* … where segments must be small: */
#define RING_SHARE 128u        /* one part in so many of what a segment may take */
#define FIRST_BYTES 16384u     /* of the ring; most processes end before they need more */

struct sonde__timer sonde__timer;

static uint64_t cpu_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The coarse clocks go on with the tick. */
static uint64_t tick_ns(void)
{
    struct timespec t;
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) || t.tv_sec) return 0;
    return (uint64_t)t.tv_nsec;
}

static uint32_t chunks_wanted(void)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = CHUNKS_MIN;
    while (n < CHUNKS_MAX && n < (uint64_t)(cpus > 0 ? cpus : 1) * CHUNKS_PER_CPU) n *= 2;
    const uint64_t share = sonde__g.h->bytes_max / RING_SHARE / sizeof(struct sonde__chunk);
    while (n > CHUNKS_LEAST && n > share) n /= 2;
    return (uint32_t)n;
}

/* In the handler too. Several threads may populate the same pages at once: as in grow.c. */
static int area_populate(uint64_t need)
{
    struct sonde__timer *t = &sonde__timer;
    const uint64_t mask = SONDE__PAGE - 1;
    uint64_t ready = __atomic_load_n(&t->ready_bytes, __ATOMIC_ACQUIRE);
    need = (need + mask) & ~mask;
    if (need > t->area_bytes) need = t->area_bytes;
    while (ready < need) {
        const uint64_t from = ready;
        uint64_t to = 2 * ready > need ? 2 * ready : need;
        if (to > t->area_bytes) to = t->area_bytes;
        if (sonde__populate(t->area_off + ready, to - ready)) {
            to = need; /* the bare need may still fit */
            if (sonde__populate(t->area_off + ready, to - ready)) return -1;
        }
        if (!__atomic_compare_exchange_n(&t->ready_bytes, &ready, to, 0, __ATOMIC_RELEASE,
                                         __ATOMIC_ACQUIRE)) {
            sonde__populate_undo(to - from);
        }
        ready = __atomic_load_n(&t->ready_bytes, __ATOMIC_ACQUIRE);
    }
    return 0;
}

int sonde__timer_grow(uint64_t chunks)
{
    struct sonde__timer *t = &sonde__timer;
    if (sonde__resting(&t->full_until)) return -1;
    if (area_populate(sizeof(struct sonde__sampler) + chunks * sizeof(struct sonde__chunk))) {
        sonde__rest(&t->full_until);
        return -1;
    }
    return 0;
}

/* The sampler in the segment; NULL = recording is off or there is no room for it. */
static struct sonde__sampler *timer_area_make(void)
{
    if (sonde__ensure_open()) return NULL;
    const uint32_t chunks = chunks_wanted();
    const uint64_t bytes = sizeof(struct sonde__sampler) +
                           (uint64_t)chunks * sizeof(struct sonde__chunk);
    struct sonde__timer *t = &sonde__timer;
    t->area_bytes = (bytes + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
    t->full_until = 0;
    const uint64_t at = sonde__block_take_bare(t->area_bytes, &t->ready_bytes);
    t->area_off = at;
    if (!at || area_populate(FIRST_BYTES)) return NULL;
    struct sonde__sampler *s = (struct sonde__sampler *)(void *)sonde__at(at);
    s->session = sonde__config.session;
    s->period_ns = sonde__config.period_ns;
    s->chunk_count = chunks;
    s->depth_max = sonde__config.depth_max;
    s->cpu_start_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    return s;
}

static void area_publish(struct sonde__sampler *s, enum sonde__sampler_state state)
{
    s->signal = (uint32_t)sonde__timer.signal;
    __atomic_store_n(&s->state, state, __ATOMIC_RELAXED);
    __atomic_store_n(&sonde__g.h->sampler, (uint64_t)((char *)s - sonde__g.base),
                     __ATOMIC_RELEASE);
}

void sonde__timer_start(void)
{
    struct sonde__timer *t = &sonde__timer;
    t->pid = (uint32_t)getpid();
    t->depth_max = sonde__config.depth_max;
    t->period_ns = sonde__config.period_ns;
    t->tick_ns = tick_ns();
    sonde__walks_start();
    struct sonde__sampler *area = timer_area_make();
    if (!area) return;
    t->state = SONDE__SAMPLER_RUNNING;
    if (sonde__threads_init()) t->state = SONDE__SAMPLER_NO_KEYS;
    else if (sonde__signal_install()) t->state = SONDE__SAMPLER_NO_SIGNAL;
    area_publish(area, (enum sonde__sampler_state)t->state);
    if (t->state != SONDE__SAMPLER_RUNNING) return;
    __atomic_store_n(&t->area, area, __ATOMIC_RELEASE);
    struct sonde__thread *self = sonde__thread_take();
    if (!self) return;
    self->start = NULL;
    self->start_c11 = NULL;
    sonde__thread_begin(self);
}

static void tell_thread(void)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (sonde__thread_self) {
        sonde__ring_thread(sonde__thread_self->tid, cpu_ns(CLOCK_THREAD_CPUTIME_ID), name);
    }
}

void sonde__timer_stop(enum sonde__sampler_state why)
{
    uint32_t running = SONDE__SAMPLER_RUNNING;
    if (!sonde__timer_running()) return;
    if (why == SONDE__SAMPLER_ENDED) {
        tell_thread();
    } else if (!__atomic_compare_exchange_n(&sonde__timer.state, &running, why, 0,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        return;
    } else {
        sonde__threads_disarm();
    }
    struct sonde__sampler *s = sonde__timer.area;
    __atomic_store_n(&s->cpu_end_ns, cpu_ns(CLOCK_PROCESS_CPUTIME_ID), __ATOMIC_RELAXED);
    __atomic_store_n(&s->state, why, __ATOMIC_RELEASE);
}

int sonde__timer_running(void)
{
    return __atomic_load_n(&sonde__timer.area, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&sonde__timer.state, __ATOMIC_ACQUIRE) == SONDE__SAMPLER_RUNNING &&
           sonde__timer.pid == (uint32_t)getpid();
}
