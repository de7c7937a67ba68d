#include "collect/uprobe/returns.h"

#include <assert.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/intern.h"
#include "base/lock.h"
#include "sonde/sonde.h"

enum {
    THREADS = 64,        /* that call probed functions; the one longest silent is forgotten */
    KEPT = 4096,         /* calls of each: what a busy one makes in 100 ms, and more */
    PLACES = 256,        /* of each, in sets of WAYS; powers of two */
    WAYS = 4,
    ENTRY_BYTES = 16,    /* of a function, among which its probe is */
    WAIT_NS = 20000000
};

/* The last call of each place is kept however long ago it was, since it may be under way for hours.
 * Those before it are found through it, as long as they are among the last KEPT of the thread. */
struct kept_call {
    struct sonde_uprobe_return call;
    uint64_t number;     /* of all calls of the thread, from 1 on; 0 = free */
    uint64_t before;     /* of the one before it at the same place; 0 = none */
};

struct thread_returns {
    uint32_t tid;
    uint64_t count;      /* calls ever put */
    struct kept_call last[PLACES];
    struct kept_call kept[KEPT]; /* by number */
};

struct sonde_uprobe_returns {
    int fd;
    struct sonde_lock lock; /* of all that follows */
    struct sonde_cond seen;
    uint64_t seen_ns;
    struct thread_returns *threads[THREADS]; /* NULL = free */
};

int sonde_uprobe_returns_create(struct sonde_uprobe_returns **out)
{
    assert(out);
    struct sonde_uprobe_returns *r = sonde__calloc(1, sizeof(*r));
    if (!r) return SONDE_ENOMEM;
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->fd < 0) {
        sonde__free(r);
        return SONDE_EIO;
    }
    r->seen_ns = UINT64_MAX; /* nobody reads probes yet */
    sonde_lock_init(&r->lock, SONDE_RANK_UPROBE_RETURNS);
    sonde_cond_init(&r->seen);
    *out = r;
    return 0;
}

void sonde_uprobe_returns_destroy(struct sonde_uprobe_returns *r)
{
    if (!r) return;
    sonde_cond_destroy(&r->seen);
    sonde_lock_destroy(&r->lock);
    close(r->fd);
    for (uint32_t i = 0; i < THREADS; i++) sonde__free(r->threads[i]);
    sonde__free(r);
}

int sonde_uprobe_returns_fd(const struct sonde_uprobe_returns *r) { return r->fd; }

static uint64_t uprobe_returns_last_of(const struct thread_returns *t)
{
    return t->count ? t->kept[t->count % KEPT].call.time_ns : 0;
}

static struct thread_returns *find_thread(const struct sonde_uprobe_returns *r, uint32_t tid)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        if (r->threads[i] && r->threads[i]->tid == tid) return r->threads[i];
    }
    return NULL;
}

/* In the place of the one that was silent for longest, if all are taken. NULL: no memory. */
static struct thread_returns *uprobe_returns_add_thread(struct sonde_uprobe_returns *r,
                                                        uint32_t tid)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < THREADS && r->threads[at]; i++) {
        if (!r->threads[i] ||
            uprobe_returns_last_of(r->threads[i]) < uprobe_returns_last_of(r->threads[at])) {
            at = i;
        }
    }
    struct thread_returns *t = r->threads[at];
    if (!t) t = r->threads[at] = sonde__alloc(sizeof(*t));
    if (!t) return NULL;
    t->tid = tid;
    t->count = 0;
    memset(t->last, 0, sizeof(t->last));
    return t;
}

static struct kept_call *places_of(struct thread_returns *t, uint64_t place)
{
    return &t->last[(place * SONDE_HASH_MUL >> 32) % (PLACES / WAYS) * WAYS];
}

/* In the place of the one longest ago. Records of several CPUs may come a little out of order. */
static void uprobe_returns_put_call(struct thread_returns *t,
                                    const struct sonde_uprobe_return *call)
{
    struct kept_call *places = places_of(t, call->place), *to = places;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (places[i].number && places[i].call.place == call->place) {
            to = &places[i];
            break;
        }
        if (places[i].number < to->number) to = &places[i];
    }
    const int same = to->number && to->call.place == call->place;
    const struct kept_call new = { *call, ++t->count, same ? to->number : 0 };
    t->kept[t->count % KEPT] = new;
    *to = new;
}

void sonde_uprobe_returns_put(struct sonde_uprobe_returns *r, uint32_t tid,
                              const struct sonde_uprobe_return *call)
{
    assert(r && call);
    if (!tid) return;
    sonde_lock(&r->lock);
    struct thread_returns *t = find_thread(r, tid);
    if (!t) t = uprobe_returns_add_thread(r, tid);
    if (t) uprobe_returns_put_call(t, call);
    sonde_unlock(&r->lock);
}

void sonde_uprobe_returns_seen(struct sonde_uprobe_returns *r, uint64_t time_ns)
{
    sonde_lock(&r->lock);
    r->seen_ns = time_ns;
    sonde_cond_broadcast(&r->seen);
    sonde_unlock(&r->lock);
}

void sonde_uprobe_returns_wait(struct sonde_uprobe_returns *r, uint64_t time_ns)
{
    const uint64_t one = 1;
    sonde_lock(&r->lock);
    if (r->seen_ns < time_ns) {
        const struct timespec until =
            sonde_clock_timespec(sonde_clock_ns(CLOCK_MONOTONIC) + WAIT_NS);
        const ssize_t n = write(r->fd, &one, sizeof(one));
        (void)n; /* fails only when it is readable anyway */
        while (r->seen_ns < time_ns && !sonde_cond_timedwait(&r->seen, &r->lock, &until)) continue;
    }
    sonde_unlock(&r->lock);
}

/* NULL = it is not among the last KEPT any more. */
static const struct kept_call *call_before(const struct thread_returns *t,
                                           const struct kept_call *c)
{
    return c->before && t->count - c->before < KEPT ? &t->kept[c->before % KEPT] : NULL;
}

int sonde_uprobe_returns_find(struct sonde_uprobe_returns *r, uint32_t tid, uint64_t place,
                              uint64_t hidden, uint64_t function, uint64_t time_ns,
                              struct sonde_uprobe_return *out)
{
    const struct kept_call *c = NULL;
    sonde_lock(&r->lock);
    struct thread_returns *t = tid ? find_thread(r, tid) : NULL;
    for (uint32_t i = 0; t && i < WAYS && !c; i++) {
        const struct kept_call *last = &places_of(t, place)[i];
        if (last->number && last->call.place == place) c = last;
    }
    const struct kept_call *found = NULL;
    for (; c && (!found || found->call.time_ns > time_ns); c = call_before(t, c)) {
        if (c->call.address == hidden) continue;
        if (c->call.time_ns <= time_ns || c->call.entry - function < ENTRY_BYTES) found = c;
    }
    if (found) *out = found->call;
    sonde_unlock(&r->lock);
    return found ? 0 : -1;
}
