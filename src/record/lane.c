/* lane.c - which lane a thread writes to.
 *
 * Nothing of ours runs when a thread ends: a destructor would dangle after dlclose, would have
 * to cope with records made after it, and pthread_setspecific may allocate. Instead whoever
 * needs a lane when none is free asks the kernel which owners are gone (tgkill with signal 0) and
 * takes over all of theirs at once. A gone thread cannot write, so its lane has no writer left.
 *
 * Claiming takes the define lock, because lanes and cells grow together, but never waits for
 * it: on any difficulty the record goes to a shared lane, and the thread asks again later. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "record/call.h"
#include "record/state.h"
#include "segment/never.h"

#define RETRY_FIRST 16u
#define RETRY_MAX 65536u
#define REAP_EVERY_NS 10000000u

void sonde__thread_setup(void)
{
    struct sonde__tls *t = &sonde__tls;
    if (t->rng) return;
    t->tid = sonde__gettid();
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t seed = 0;
    if (random) memcpy(&seed, random, sizeof(seed));
    t->rng = (seed ^ (uint64_t)t->tid * 0xd6e8feb86659fd93ull ^ sonde__mono_ns()) | 1;
    t->retry_next = RETRY_FIRST;
    if (!(t->trace_hi | t->trace_lo)) {
        t->trace_hi = sonde__g.env_trace.hi;
        t->trace_lo = sonde__g.env_trace.lo;
        t->span = sonde__g.env_trace.span;
    }
}

void sonde__thread_forget(void)
{
    sonde__tls.lane = NULL;
    __atomic_signal_fence(__ATOMIC_RELEASE);
    sonde__tls.ring = NULL;
    sonde__tls.rng = 0;
    sonde__tls.retry = 0;
}

static uint32_t own_first(const struct sonde__header *h) { return 1 + h->lanes_shared; }

static void lane_take(struct sonde__lane *l)
{
    SONDE_MUST(sonde__define_held());
    l->claims++;
    __atomic_store_n(&l->owner_copy, sonde__g.copy, __ATOMIC_RELAXED);
    __atomic_store_n(&l->owner_tid, sonde__tls.tid, __ATOMIC_RELEASE);
}

/* A lane nobody owns, or one that says it is ours: then an earlier thread had our tid. */
static char *find_free(const struct sonde__header *h)
{
    for (uint32_t i = own_first(h); i < h->lane_count; i++) {
        char *cells = sonde__lane_cells(i);
        struct sonde__lane *l = sonde__lane_of(cells);
        const uint32_t owner = __atomic_load_n(&l->owner_tid, __ATOMIC_ACQUIRE);
        if (!owner || (owner == sonde__tls.tid && l->owner_copy == sonde__g.copy)) return cells;
    }
    return NULL;
}

static char *add_lane(struct sonde__header *h)
{
    SONDE_MUST(sonde__define_held());
    if (h->lane_count >= h->lane_max) return NULL;
    const uint32_t i = h->lane_count;
    if (sonde__populate(sonde__lane_at(h, i), SONDE__CELLS_OFF + 8ull * h->cells_ready)) {
        sonde__drop(SONDE__DROP_memory);
        return NULL;
    }
    __atomic_store_n(&h->lane_count, i + 1, __ATOMIC_RELEASE);
    return sonde__lane_cells(i);
}

static void lane_reap(const struct sonde__header *h)
{
    SONDE_MUST(sonde__define_held());
    const uint64_t now = sonde_ticks();
    if (now < sonde__g.reap_at_ticks) return;
    const int saved = errno;
    for (uint32_t i = own_first(h); i < h->lane_count; i++) {
        struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(i));
        const uint32_t owner = __atomic_load_n(&l->owner_tid, __ATOMIC_RELAXED);
        if (owner && sonde__call(SYS_tgkill, sonde__g.pid, owner, 0, 0, 0) && errno == ESRCH) {
            __atomic_store_n(&l->owner_tid, 0, __ATOMIC_RELEASE);
        }
    }
    errno = saved;
    const uint64_t per_tick = sonde__g.tick_ns_q32 ? sonde__g.tick_ns_q32 : 1;
    sonde__g.reap_at_ticks = now + ((uint64_t)REAP_EVERY_NS << 32) / per_tick;
}

static char *lane_claim(void)
{
    if (sonde__define_lock(0)) return NULL;
    struct sonde__header *h = sonde__g.h;
    sonde__clock_recheck();
    char *cells = find_free(h);
    if (!cells) cells = add_lane(h);
    if (!cells) {
        lane_reap(h);
        cells = find_free(h);
    }
    if (cells) lane_take(sonde__lane_of(cells));
    sonde__define_unlock();
    return cells;
}

static char *shared_lane(void)
{
    SONDE_MUST(sonde__g.h->lanes_shared > 0);
    return sonde__lane_cells(1 + sonde__tls.tid % sonde__g.h->lanes_shared);
}

char *sonde__lane_get(int *shared)
{
    struct sonde__tls *t = &sonde__tls;
    *shared = 1;
    if (t->busy) { /* a signal handler, in the middle of what is below */
        return sonde__ensure_open() ? NULL : shared_lane();
    }
    t->busy = 1;
    char *cells = NULL;
    if (!sonde__ensure_open()) {
        if (t->lane && t->base != sonde__g.base) { /* another thread found that we were forked */
            sonde__thread_forget();
            sonde__thread_setup();
        }
        if (!t->lane && t->retry-- == 0) {
            char *own = lane_claim();
            t->base = sonde__g.base;
            __atomic_signal_fence(__ATOMIC_RELEASE); /* a handler that finds lane uses base */
            t->lane = own;
            t->retry = t->retry_next;
            if (t->retry_next < RETRY_MAX) t->retry_next *= 2;
        }
        cells = t->lane;
        *shared = !cells;
        if (!cells) cells = shared_lane();
    }
    t->busy = 0;
    return cells;
}

struct sonde__ring *sonde__lane_ring(char *cells)
{
    if (SONDE_NEVER(!cells)) return NULL;
    struct sonde__lane *l = sonde__lane_of(cells);
    uint64_t at = __atomic_load_n(&l->ring, __ATOMIC_ACQUIRE);
    if (!at) {
        const uint64_t mine = sonde__block_take(sizeof(struct sonde__ring));
        if (!mine) return NULL;
        /* Lost to another thread or to a signal handler: the block stays unused. */
        if (__atomic_compare_exchange_n(&l->ring, &at, mine, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
            at = mine;
        }
    }
    return (struct sonde__ring *)(void *)sonde__at(at);
}

void sonde__lanes_release(void)
{
    struct sonde__header *h = sonde__g.h;
    for (uint32_t i = own_first(h); i < __atomic_load_n(&h->lane_count, __ATOMIC_ACQUIRE); i++) {
        struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(i));
        if (__atomic_load_n(&l->owner_copy, __ATOMIC_RELAXED) == sonde__g.copy) {
            __atomic_store_n(&l->owner_tid, 0, __ATOMIC_RELEASE);
        }
    }
}
