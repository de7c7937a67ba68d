/* lock_rwlock.c - a routing table that threads look up under a reader-writer lock, and that one
 * thread rebuilds under the writer's lock instead of beside it: readers wait for all of the
 * rebuild. */
#include <pthread.h>

#include "bench.h"

enum { ROUTES = 1 << 16, THREADS_MAX = 6 };

static struct bench b;
static pthread_rwlock_t routes_lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t routes[ROUTES];
static unsigned rebuild_rounds, pause_us;
static volatile uint64_t found;

BENCH_NOINLINE static void routes_rebuild(uint64_t *random)
{
    pthread_rwlock_wrlock(&routes_lock); /* PLANTED: the holder */
    for (unsigned k = 0; k < rebuild_rounds; k++) {
        for (unsigned i = 0; i < ROUTES; i++) routes[i] = bench_random(random) ^ k;
    }
    pthread_rwlock_unlock(&routes_lock);
}

BENCH_NOINLINE static uint64_t routes_lookup(uint64_t key)
{
    pthread_rwlock_rdlock(&routes_lock); /* PLANTED: who waits */
    uint64_t next = key;
    for (unsigned i = 0; i < 64; i++) next = routes[next % ROUTES];
    pthread_rwlock_unlock(&routes_lock);
    return next;
}

static void *forwarder(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (bench_running(&b)) {
        for (unsigned i = 0; i < 100; i++) found += routes_lookup(bench_random(&random));
        bench_sleep_us(200); /* the next packets */
    }
    return NULL;
}

static void *rebuilder(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (bench_running(&b)) {
        routes_rebuild(&random);
        bench_sleep_us(pause_us);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX + 1];
    bench_options(&b, argc, argv);
    const unsigned count = bench_between(&b.random, 3, THREADS_MAX);
    rebuild_rounds = bench_between(&b.random, 40, 160);
    pause_us = bench_between(&b.random, 500, 3000);
    for (unsigned i = 0; i <= count; i++) {
        if (pthread_create(&threads[i], NULL, i ? forwarder : rebuilder,
                           (void *)(uintptr_t)bench_random(&b.random))) {
            return 1;
        }
    }
    for (unsigned i = 0; i <= count; i++) pthread_join(threads[i], NULL);
    return 0;
}
