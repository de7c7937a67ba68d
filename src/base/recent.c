/* recent.c - see recent.h. A list under one lock: there are a dozen things at most. Making and
 * destroying happen without it.
 *
 * Things are made by threads that end, of blocks of all sizes. glibc keeps what is freed of those
 * in the arenas of these threads, hundreds of megabytes that a minute of looking at flame graphs
 * left behind for good; so the thread that lets go of things also has it returned. */
#include "base/recent.h"

#include <assert.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "sonde/sonde.h"

#define TRIM_BYTES ((size_t)8 << 20) /* let go since memory was returned last */

/* Let go: no longer in the list; gone with its last user. */
enum recent_state { MAKING, READY, LET_GO };

struct sonde_recent_thing {
    struct sonde_recent *owner;
    struct sonde_recent_thing *next;
    enum recent_state state;
    unsigned users;
    void *thing;
    void (*destroy)(void *thing);
    size_t bytes;
    uint64_t made_ns, used_ns;     /* CLOCK_MONOTONIC */
    char name[];
};

struct sonde_recent {
    size_t bytes_max;
    uint64_t keep_ns;
    struct sonde_lock lock;          /* of all below, and of things */
    struct sonde_cond changed;        /* something was made, or is to be looked at */
    struct sonde_recent_thing *list; /* the last used first */
    size_t let_go_bytes;           /* since memory was returned to the system … */
    uint64_t returned_ns;          /* … which was then */
    struct sonde_worker worker;
};

int sonde_recent_create(size_t bytes_max, double keep_s, struct sonde_recent **out)
{
    struct sonde_recent *r = sonde__calloc(1, sizeof(*r));
    if (!r) return SONDE_ENOMEM;
    r->bytes_max = bytes_max;
    r->keep_ns = (uint64_t)(keep_s * 1e9);
    sonde_lock_init(&r->lock, SONDE_RANK_RECENT);
    sonde_cond_init(&r->changed);
    *out = r;
    return 0;
}

/* ---- Letting go: of the list under the lock, of things without ------------------------------- */

static void unlink_thing(struct sonde_recent *r, struct sonde_recent_thing *t)
{
    sonde_assert_held(&r->lock);
    struct sonde_recent_thing **at = &r->list;
    while (*at && *at != t) at = &(*at)->next;
    if (*at) *at = t->next;
    t->next = NULL;
}

static void destroy_thing(struct sonde_recent_thing *t)
{
    sonde_assert_not_held(&t->owner->lock); /* it may give others back */
    assert(!t->users && !t->next);
    if (t->thing) t->destroy(t->thing);
    sonde__free(t);
}

/* Out of the list, and onto that of what is to be destroyed if nobody has it. */
static void recent_let_go(struct sonde_recent *r, struct sonde_recent_thing *t,
                          struct sonde_recent_thing **dead)
{
    sonde_assert_held(&r->lock);
    assert(t->state == READY);
    unlink_thing(r, t);
    r->let_go_bytes += t->bytes;
    t->state = LET_GO;
    if (t->users) return;
    t->next = *dead;
    *dead = t;
}

static void destroy_all(struct sonde_recent_thing *dead)
{
    while (dead) {
        struct sonde_recent_thing *next = dead->next;
        dead->next = NULL;
        destroy_thing(dead);
        dead = next;
    }
}

/* Too much, or for too long: what nobody has. */
static void recent_tidy(struct sonde_recent *r, uint64_t now_ns, struct sonde_recent_thing **dead)
{
    sonde_assert_held(&r->lock);
    size_t bytes = 0;
    int idle = 0;
    struct sonde_recent_thing *next;
    for (struct sonde_recent_thing *t = r->list; t; t = next) {
        next = t->next;
        if (t->state != READY) continue;
        bytes += t->bytes;
        if (t->users) continue;
        if (now_ns - t->used_ns > r->keep_ns || (idle && bytes > r->bytes_max)) {
            bytes -= t->bytes;
            recent_let_go(r, t, dead);
        } else {
            idle = 1;
        }
    }
}

/* Locks the allocator for some milliseconds. */
static void return_memory(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void *recent_sweep(void *arg)
{
    struct sonde_recent *r = arg;
    sonde_lock(&r->lock);
    while (!r->worker.stopping) {
        struct sonde_recent_thing *dead = NULL;
        const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        recent_tidy(r, now_ns, &dead);
        if (dead) {
            sonde_unlock(&r->lock);
            destroy_all(dead); /* may give others back, so there may be more to do */
            sonde_lock(&r->lock);
            continue;
        }
        const int due = r->let_go_bytes >= TRIM_BYTES;
        if (due && now_ns - r->returned_ns >= r->keep_ns / 4) {
            r->let_go_bytes = 0;
            r->returned_ns = now_ns;
            sonde_unlock(&r->lock);
            return_memory();
            sonde_lock(&r->lock);
            continue;
        }
        if (r->list || due) {
            const struct timespec until = sonde_clock_timespec(now_ns + r->keep_ns / 4 + 1000000);
            sonde_cond_timedwait(&r->changed, &r->lock, &until);
        } else {
            sonde_cond_wait(&r->changed, &r->lock);
        }
    }
    sonde_unlock(&r->lock);
    return NULL;
}

void sonde_recent_destroy(struct sonde_recent *r)
{
    if (!r) return;
    sonde_worker_stop(&r->worker, &r->lock, &r->changed);
    while (r->list) {
        struct sonde_recent_thing *dead = NULL;
        sonde_lock(&r->lock);
        for (struct sonde_recent_thing *t = r->list, *next; t; t = next) {
            next = t->next;
            if (!t->users) recent_let_go(r, t, &dead);
        }
        sonde_unlock(&r->lock);
        if (!dead) break; /* a user is left: a mistake, and better lost than freed under its feet */
        destroy_all(dead);
    }
    sonde_cond_destroy(&r->changed);
    sonde_lock_destroy(&r->lock);
    sonde__free(r);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* The one of that name that may be used, once it is made; NULL = there is none. */
static struct sonde_recent_thing *recent_find(struct sonde_recent *r, const char *name,
                                              double fresh_s, struct sonde_recent_thing **dead)
{
    sonde_assert_held(&r->lock);
    for (;;) {
        struct sonde_recent_thing *t = r->list;
        while (t && strcmp(t->name, name) != 0) t = t->next;
        if (!t) return NULL;
        if (t->state == MAKING) {
            sonde_cond_wait(&r->changed, &r->lock);
            continue;
        }
        const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        if ((double)(now_ns - t->made_ns) * 1e-9 <= fresh_s) {
            unlink_thing(r, t);
            t->next = r->list;
            r->list = t;
            t->used_ns = now_ns;
            t->users++;
            return t;
        }
        recent_let_go(r, t, dead);
    }
}

static int recent_make(struct sonde_recent *r, const struct sonde_recent_maker *maker,
                       struct sonde_recent_thing *t, struct sonde_err *err)
{
    struct sonde_recent_thing *dead = NULL;
    assert(t->state == MAKING && t->users == 1);
    const int rc = maker->make(maker->arg, &t->thing, &t->bytes, err);
    sonde_lock(&r->lock);
    t->bytes += strlen(t->name); /* a client's text: it may be larger than what it names */
    t->made_ns = t->used_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    t->state = READY;
    if (rc) {
        t->users = 0;
        t->thing = NULL;
        recent_let_go(r, t, &dead);
    } else {
        recent_tidy(r, t->used_ns, &dead);
        /* Else who asks next does. */
        sonde_worker_start(&r->worker, "sonde-recent", recent_sweep, r);
    }
    sonde_cond_broadcast(&r->changed);
    sonde_unlock(&r->lock);
    destroy_all(dead);
    return rc;
}

int sonde_recent_take(struct sonde_recent *r, const char *name, double fresh_s,
                      const struct sonde_recent_maker *maker, struct sonde_recent_thing **out,
                      struct sonde_err *err)
{
    struct sonde_recent_thing *dead = NULL, *mine = NULL;
    const size_t len = strlen(name) + 1;
    sonde_lock(&r->lock);
    struct sonde_recent_thing *t = recent_find(r, name, fresh_s, &dead);
    if (!t && (mine = sonde__calloc(1, sizeof(*mine) + len)) != NULL) {
        memcpy(mine->name, name, len);
        mine->owner = r;
        mine->destroy = maker->destroy;
        mine->users = 1;
        mine->next = r->list;
        r->list = mine;
    }
    sonde_unlock(&r->lock);
    destroy_all(dead);
    if (!t && !mine) return sonde_err_memory(err);
    const int rc = mine ? recent_make(r, maker, mine, err) : 0;
    if (!rc) *out = mine ? mine : t;
    return rc;
}

void *sonde_recent_get(const struct sonde_recent_thing *t)
{
    assert(t); /* of its users only the owner's lock may tell */
    return t->thing;
}

void sonde_recent_give(struct sonde_recent_thing *t)
{
    if (!t) return;
    struct sonde_recent *r = t->owner;
    struct sonde_recent_thing *dead = NULL;
    sonde_lock(&r->lock);
    assert(t->users > 0 && t->state != MAKING);
    t->used_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    if (!--t->users && t->state == LET_GO) dead = t;
    else recent_tidy(r, t->used_ns, &dead);
    sonde_unlock(&r->lock);
    destroy_all(dead);
}

size_t sonde_recent_count(struct sonde_recent *r, size_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    sonde_lock(&r->lock);
    for (const struct sonde_recent_thing *t = r->list; t; t = t->next) {
        count++;
        *bytes += t->bytes;
    }
    sonde_unlock(&r->lock);
    return count;
}
