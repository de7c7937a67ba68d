/* spin_lock.c - counters of a cache behind a spin lock of the program's own, which is held for far
 * longer than a spin lock should be. */
#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"

enum { KEYS = 1 << 15, THREADS = 2 };

static struct bench b;
static atomic_flag keys_lock = ATOMIC_FLAG_INIT;
static uint32_t keys_seen[KEYS];
static unsigned scan_rounds, own_rounds;
static volatile uint64_t result;

BENCH_NOINLINE static void keys_acquire(void)
{
    while (atomic_flag_test_and_set_explicit(&keys_lock, memory_order_acquire)) { /* PLANTED */
        __builtin_ia32_pause();
    }
}

BENCH_NOINLINE static void keys_release(void) { atomic_flag_clear_explicit(&keys_lock,
    memory_order_release); }

BENCH_NOINLINE static uint64_t keys_oldest(uint64_t from)
{
    uint64_t best = ~0ull;
    for (unsigned i = 0; i < scan_rounds; i++) {
        const uint64_t age = keys_seen[(from + i) % KEYS] ^ i;
        if (age < best) best = age;
    }
    return best;
}

static void *worker(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (bench_running(&b)) {
        uint64_t key = bench_random(&random);
        for (unsigned i = 0; i < own_rounds; i++) key = bench_random(&key);
        keys_acquire();
        keys_seen[key % KEYS]++;
        result += keys_oldest(key);
        keys_release();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    bench_options(&b, argc, argv);
    scan_rounds = bench_between(&b.random, 20000, 100000);
    own_rounds = scan_rounds / bench_between(&b.random, 10, 20);
    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)bench_random(&b.random))) {
            return 1;
        }
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
