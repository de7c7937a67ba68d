#include "collect/uprobe_returns.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "sonde/sonde.h"

enum {
    THREADS = 64,        /* that call probed functions; the one longest silent is forgotten */
    KEPT = 512,          /* calls of each: some tokens' worth */
    WAIT_NS = 20000000
};

struct thread_returns {
    uint32_t tid;        /* 0 = free */
    uint32_t next;       /* calls ever put, of which the last KEPT are there */
    struct sonde_uprobe_return kept[KEPT];
};

struct sonde_uprobe_returns {
    int fd;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t seen;
    uint64_t seen_ns;
    struct thread_returns *threads; /* THREADS; with the first call */
};

int sonde_uprobe_returns_create(struct sonde_uprobe_returns **out)
{
    struct sonde_uprobe_returns *r = sonde__calloc(1, sizeof(*r));
    if (!r) return SONDE_ENOMEM;
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->fd < 0) {
        sonde__free(r);
        return SONDE_EIO;
    }
    r->seen_ns = UINT64_MAX; /* nobody reads probes yet */
    pthread_mutex_init(&r->lock, NULL);
    sonde_clock_cond_init(&r->seen);
    *out = r;
    return 0;
}

void sonde_uprobe_returns_destroy(struct sonde_uprobe_returns *r)
{
    if (!r) return;
    pthread_cond_destroy(&r->seen);
    pthread_mutex_destroy(&r->lock);
    close(r->fd);
    sonde__free(r->threads);
    sonde__free(r);
}

int sonde_uprobe_returns_fd(const struct sonde_uprobe_returns *r) { return r->fd; }

static uint64_t last_of(const struct thread_returns *t)
{
    return t->next ? t->kept[(t->next - 1) % KEPT].time_ns : 0;
}

static struct thread_returns *find(struct sonde_uprobe_returns *r, uint32_t tid)
{
    for (uint32_t i = 0; r->threads && i < THREADS; i++) {
        if (r->threads[i].tid == tid) return &r->threads[i];
    }
    return NULL;
}

static struct thread_returns *add(struct sonde_uprobe_returns *r, uint32_t tid)
{
    if (!r->threads) r->threads = sonde__calloc(THREADS, sizeof(*r->threads));
    if (!r->threads) return NULL;
    struct thread_returns *oldest = &r->threads[0];
    for (uint32_t i = 1; i < THREADS; i++) {
        if (last_of(&r->threads[i]) < last_of(oldest)) oldest = &r->threads[i];
    }
    oldest->tid = tid;
    oldest->next = 0;
    return oldest;
}

void sonde_uprobe_returns_put(struct sonde_uprobe_returns *r, uint32_t tid, uint64_t place,
                              uint64_t address, uint64_t time_ns)
{
    if (!tid) return;
    pthread_mutex_lock(&r->lock);
    struct thread_returns *t = find(r, tid);
    if (!t) t = add(r, tid);
    if (t) t->kept[t->next++ % KEPT] = (struct sonde_uprobe_return){ place, address, time_ns };
    pthread_mutex_unlock(&r->lock);
}

void sonde_uprobe_returns_seen(struct sonde_uprobe_returns *r, uint64_t time_ns)
{
    pthread_mutex_lock(&r->lock);
    r->seen_ns = time_ns;
    pthread_cond_broadcast(&r->seen);
    pthread_mutex_unlock(&r->lock);
}

void sonde_uprobe_returns_wait(struct sonde_uprobe_returns *r, uint64_t time_ns)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&r->lock);
    if (r->seen_ns < time_ns) {
        const struct timespec until =
            sonde_clock_timespec(sonde_clock_ns(CLOCK_MONOTONIC) + WAIT_NS);
        const ssize_t n = write(r->fd, &one, sizeof(one));
        (void)n; /* fails only when it is readable anyway */
        while (r->seen_ns < time_ns && !pthread_cond_timedwait(&r->seen, &r->lock, &until)) continue;
    }
    pthread_mutex_unlock(&r->lock);
}

static int has_place(const struct sonde_uprobe_return *found, uint32_t count, uint64_t place)
{
    for (uint32_t i = 0; i < count; i++) {
        if (found[i].place == place) return 1;
    }
    return 0;
}

uint32_t sonde_uprobe_returns_find(struct sonde_uprobe_returns *r, uint32_t tid, uint64_t low,
                                   uint64_t high, uint64_t time_ns,
                                   struct sonde_uprobe_return out[SONDE_UPROBE_RETURNS_MAX])
{
    uint32_t count = 0;
    pthread_mutex_lock(&r->lock);
    const struct thread_returns *t = tid ? find(r, tid) : NULL;
    const uint32_t there = t ? (t->next < KEPT ? t->next : KEPT) : 0;
    for (uint32_t i = 0; i < there && count < SONDE_UPROBE_RETURNS_MAX; i++) {
        const struct sonde_uprobe_return *one = &t->kept[(t->next - 1 - i) % KEPT];
        if (one->time_ns > time_ns || one->place < low || one->place >= high) continue;
        if (!has_place(out, count, one->place)) out[count++] = *one;
    }
    pthread_mutex_unlock(&r->lock);
    return count;
}
