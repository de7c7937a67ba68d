/* lock.c - see lock.h: names of ranks, and in debug builds what a thread holds. */
#include "base/lock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {
#define SONDE__X(name, what) #name,
    SONDE_LOCK_RANKS(SONDE__X)
#undef SONDE__X
};

const char *sonde_lock_rank_name(enum sonde_lock_rank rank)
{
    return (unsigned)rank < SONDE_RANK_COUNT ? names[rank] : "(unknown)";
}

#ifndef NDEBUG

enum { HELD_MAX = 16 };

struct lock_held {
    const void *lock;
    enum sonde_lock_rank rank;
    enum sonde__held how;
};

static _Thread_local struct lock_held held[HELD_MAX];
static _Thread_local int held_count;

/* Not by the log, which has a lock as well. */
static _Noreturn void lock_stop(const char *what, enum sonde_lock_rank rank,
                                const struct lock_held *other)
{
    char thread[32] = "?";
    pthread_getname_np(pthread_self(), thread, sizeof(thread));
    if (other) {
        dprintf(STDERR_FILENO,
                "lock order, thread %s: %s '%s' (rank %d) while it holds '%s' (rank %d)\n", thread,
                what, sonde_lock_rank_name(rank), (int)rank, sonde_lock_rank_name(other->rank),
                (int)other->rank);
    } else {
        dprintf(STDERR_FILENO, "lock order, thread %s: %s '%s' (rank %d)\n", thread, what,
                sonde_lock_rank_name(rank), (int)rank);
    }
    abort();
}

static struct lock_held *find_held(const void *lock)
{
    for (int i = held_count - 1; i >= 0; i--) {
        if (held[i].lock == lock) return &held[i];
    }
    return NULL;
}

/* Those that it holds beside lock are all of lower rank; or also of its rank, at lower
 * addresses. */
static void lock_check_order(const char *what, const void *lock, enum sonde_lock_rank rank,
                             int ascending)
{
    for (int i = 0; i < held_count; i++) {
        const struct lock_held *h = &held[i];
        const int below = ascending && h->rank == rank && (uintptr_t)h->lock < (uintptr_t)lock;
        if (h->lock != lock && h->rank >= rank && !below) lock_stop(what, rank, h);
    }
}

void sonde__lock_before(const void *lock, enum sonde_lock_rank rank)
{
    sonde__lock_try(lock, rank);
    lock_check_order("takes", lock, rank, 0);
}

void sonde__lock_before_ascending(const void *lock, enum sonde_lock_rank rank)
{
    sonde__lock_try(lock, rank);
    lock_check_order("takes", lock, rank, 1);
}

void sonde__lock_try(const void *lock, enum sonde_lock_rank rank)
{
    if (find_held(lock)) lock_stop("takes once more", rank, NULL);
}

void sonde__lock_taken(const void *lock, enum sonde_lock_rank rank, enum sonde__held how)
{
    if (held_count == HELD_MAX) lock_stop("holds too many, and takes", rank, NULL);
    held[held_count++] = (struct lock_held){ lock, rank, how };
}

void sonde__lock_released(const void *lock, enum sonde_lock_rank rank)
{
    struct lock_held *h = find_held(lock);
    if (!h) lock_stop("releases without holding it", rank, NULL);
    *h = held[--held_count]; /* there is no order among them */
}

void sonde__lock_waits(const void *lock, enum sonde_lock_rank rank)
{
    if (!find_held(lock)) lock_stop("waits without holding", rank, NULL);
    lock_check_order("waits for a condition of", lock, rank, 0);
    sonde__lock_released(lock, rank);
}

void sonde__lock_assert(const void *lock, enum sonde_lock_rank rank, int is_held, int write)
{
    const struct lock_held *h = find_held(lock);
    if (is_held && !h) lock_stop("does not hold", rank, NULL);
    if (!is_held && h) lock_stop("must not hold", rank, NULL);
    if (write && h->how != SONDE__HELD_WRITE) lock_stop("does not hold for writing", rank, NULL);
}

void sonde__lock_assert_none(void)
{
    if (held_count) lock_stop("must hold no lock, and holds", held[0].rank, NULL);
}

#endif
