/* lock.h - locks that know their rank.
 *
 * Every lock of the agent has a row in lock_rank.h. A thread that holds one may only take those
 * of higher rank, so no two threads can wait for each other. In debug builds (no NDEBUG: dev, asan,
 * tsan) each thread keeps the set of those it holds, and ends the process with a sentence when it
 *
 *   - takes a lock whose rank is not above all that it holds, so also one twice, or two of a rank
 *     (but for sonde_lock_ascending()),
 *   - waits for a condition while it holds a lock above the condition's, which is taken again then,
 *   - releases what it does not hold, or
 *   - is not what sonde_assert_held() says.
 *
 * Taking a lock only if it is free cannot wait, so sonde_trylock() and the like may come in any
 * order; what is taken after them may not. Locks may be released in any order.
 *
 * In release builds all of this is the call of pthread that it looks like, and no byte more.
 *
 * A child made by fork() has the thread that called it, and what that holds. Other threads' locks
 * may be held for ever in it: it takes none. */
#ifndef SONDE_BASE_LOCK_H
#define SONDE_BASE_LOCK_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock_rank.h"

enum sonde_lock_rank {
#define SONDE__X(name, what) SONDE_RANK_##name,
    SONDE_LOCK_RANKS(SONDE__X)
#undef SONDE__X
    SONDE_RANK_COUNT
};

/* Of the row; never NULL. */
const char *sonde_lock_rank_name(enum sonde_lock_rank rank);

struct sonde_lock {
    pthread_mutex_t mutex;
#ifndef NDEBUG
    enum sonde_lock_rank rank;
#endif
};

struct sonde_rwlock {
    pthread_rwlock_t rwlock;
#ifndef NDEBUG
    enum sonde_lock_rank rank;
#endif
};

/* Waits by CLOCK_MONOTONIC. */
struct sonde_cond {
    pthread_cond_t cond;
};

/* ---- What debug builds check; see the functions below ---------------------------------------- */

enum sonde__held { SONDE__HELD_LOCK, SONDE__HELD_READ, SONDE__HELD_WRITE };

#ifndef NDEBUG
void sonde__lock_before(const void *lock, enum sonde_lock_rank rank);  /* it may have to wait */
void sonde__lock_before_ascending(const void *lock, enum sonde_lock_rank rank);
void sonde__lock_try(const void *lock, enum sonde_lock_rank rank);     /* it will not */
void sonde__lock_taken(const void *lock, enum sonde_lock_rank rank, enum sonde__held how);
void sonde__lock_released(const void *lock, enum sonde_lock_rank rank);
void sonde__lock_waits(const void *lock, enum sonde_lock_rank rank);   /* for a condition of it */
void sonde__lock_assert(const void *lock, enum sonde_lock_rank rank, int held, int write);
void sonde__lock_assert_none(void);
#define SONDE__LOCK_CHECK(call) call
#define SONDE__LOCK_RANK(r) .rank = (r)
#else
#define SONDE__LOCK_CHECK(call) ((void)0)
#define SONDE__LOCK_RANK(r)
#endif

/* ---- Locks ----------------------------------------------------------------------------------- */

/* Of one that is static: static struct sonde_lock lock = SONDE_LOCK_INITIALIZER(SONDE_RANK_LOG); */
#define SONDE_LOCK_INITIALIZER(r) { .mutex = PTHREAD_MUTEX_INITIALIZER, SONDE__LOCK_RANK(r) }

static inline void sonde_lock_init(struct sonde_lock *l, enum sonde_lock_rank rank)
{
    *l = (struct sonde_lock)SONDE_LOCK_INITIALIZER(rank);
    (void)rank;
}

static inline void sonde_lock_destroy(struct sonde_lock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_assert(l, l->rank, 0, 0));
    pthread_mutex_destroy(&l->mutex);
}

static inline void sonde_lock(struct sonde_lock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_before(l, l->rank));
    pthread_mutex_lock(&l->mutex);
    SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_LOCK));
}

/* One of several locks of a rank that are held at a time: each at a higher address than those
 * before, as in a loop over an array of their owners. */
static inline void sonde_lock_ascending(struct sonde_lock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_before_ascending(l, l->rank));
    pthread_mutex_lock(&l->mutex);
    SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_LOCK));
}

/* 0, or EBUSY. */
static inline int sonde_trylock(struct sonde_lock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_try(l, l->rank));
    const int rc = pthread_mutex_trylock(&l->mutex);
    if (!rc) SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_LOCK));
    return rc;
}

static inline void sonde_unlock(struct sonde_lock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_released(l, l->rank));
    pthread_mutex_unlock(&l->mutex);
}

/* ---- Of readers and writers ------------------------------------------------------------------ */

/* A waiting writer goes before new readers, so that readers which overlap do not keep it out; hence
 * no thread may read-lock one twice. */
#define SONDE_RWLOCK_INITIALIZER(r) \
    { .rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, SONDE__LOCK_RANK(r) }

static inline void sonde_rwlock_init(struct sonde_rwlock *l, enum sonde_lock_rank rank)
{
    *l = (struct sonde_rwlock)SONDE_RWLOCK_INITIALIZER(rank);
    (void)rank;
}

static inline void sonde_rwlock_destroy(struct sonde_rwlock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_assert(l, l->rank, 0, 0));
    pthread_rwlock_destroy(&l->rwlock);
}

static inline void sonde_rdlock(struct sonde_rwlock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_before(l, l->rank));
    pthread_rwlock_rdlock(&l->rwlock);
    SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_READ));
}

static inline void sonde_wrlock(struct sonde_rwlock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_before(l, l->rank));
    pthread_rwlock_wrlock(&l->rwlock);
    SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_WRITE));
}

/* 0, or EBUSY. */
static inline int sonde_trywrlock(struct sonde_rwlock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_try(l, l->rank));
    const int rc = pthread_rwlock_trywrlock(&l->rwlock);
    if (!rc) SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_WRITE));
    return rc;
}

static inline void sonde_rwunlock(struct sonde_rwlock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_released(l, l->rank));
    pthread_rwlock_unlock(&l->rwlock);
}

/* ---- Conditions ------------------------------------------------------------------------------ */

static inline void sonde_cond_init(struct sonde_cond *c)
{
    const int rc = sonde_clock_cond_init(&c->cond);
    assert(!rc);
    (void)rc;
}

static inline void sonde_cond_destroy(struct sonde_cond *c) { pthread_cond_destroy(&c->cond); }

/* l is held, released while waiting and held again. */
static inline void sonde_cond_wait(struct sonde_cond *c, struct sonde_lock *l)
{
    SONDE__LOCK_CHECK(sonde__lock_waits(l, l->rank));
    pthread_cond_wait(&c->cond, &l->mutex);
    SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_LOCK));
}

/* 0, or ETIMEDOUT when it is later than until, of CLOCK_MONOTONIC (clock.h makes them). */
static inline int sonde_cond_timedwait(struct sonde_cond *c, struct sonde_lock *l,
                                       const struct timespec *until)
{
    SONDE__LOCK_CHECK(sonde__lock_waits(l, l->rank));
    const int rc = pthread_cond_timedwait(&c->cond, &l->mutex, until);
    SONDE__LOCK_CHECK(sonde__lock_taken(l, l->rank, SONDE__HELD_LOCK));
    return rc;
}

static inline void sonde_cond_signal(struct sonde_cond *c) { pthread_cond_signal(&c->cond); }
static inline void sonde_cond_broadcast(struct sonde_cond *c) { pthread_cond_broadcast(&c->cond); }

/* ---- Instead of comments --------------------------------------------------------------------- */

/* By this thread; of a struct sonde_rwlock: for reading or for writing. */
#define sonde_assert_held(lock) \
    SONDE__LOCK_CHECK(sonde__lock_assert(SONDE__LOCK_OF(lock), (lock)->rank, 1, 0))
/* Of a struct sonde_rwlock: for writing. */
#define sonde_assert_held_write(lock) \
    SONDE__LOCK_CHECK(sonde__lock_assert(&(lock)->rwlock, (lock)->rank, 1, 1))
#define sonde_assert_not_held(lock) \
    SONDE__LOCK_CHECK(sonde__lock_assert(SONDE__LOCK_OF(lock), (lock)->rank, 0, 0))
/* Before what takes long, or calls those who may take any. */
#define sonde_assert_none_held() SONDE__LOCK_CHECK(sonde__lock_assert_none())

#define SONDE__LOCK_OF(lock)                                                                   \
    _Generic((lock), struct sonde_lock *: (const void *)(lock),                                \
             const struct sonde_lock *: (const void *)(lock),                                  \
             struct sonde_rwlock *: (const void *)(lock),                                      \
             const struct sonde_rwlock *: (const void *)(lock))

#endif
