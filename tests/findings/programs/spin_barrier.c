/* spin_barrier.c - threads that compute the rows of a layer and meet at a spin barrier after
 * each, as ggml's do. Rows are shared out badly: one thread has a multiple of what the others
 * have. */
#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"

enum { COLUMNS = 1024, ROWS = 512, THREADS_MAX = 3 };

static struct bench b;
static float weights[ROWS][COLUMNS], input[COLUMNS], output[ROWS];
static unsigned threads_count, rows_first; /* rows of thread 0; the others share the rest */
static atomic_int barrier_arrived, barrier_passed, stopping;

BENCH_NOINLINE static void layer_barrier(void)
{
    const int passed = atomic_load_explicit(&barrier_passed, memory_order_relaxed);
    if (atomic_fetch_add(&barrier_arrived, 1) == (int)threads_count - 1) {
        atomic_store_explicit(&barrier_arrived, 0, memory_order_relaxed);
        atomic_fetch_add(&barrier_passed, 1);
        return;
    }
    while (atomic_load_explicit(&barrier_passed, memory_order_relaxed) == passed) { /* PLANTED */
        __builtin_ia32_pause();
    }
    atomic_thread_fence(memory_order_seq_cst);
}

BENCH_NOINLINE static void rows_compute(unsigned from, unsigned to)
{
    for (unsigned r = from; r < to; r++) {
        float sum = 0;
        for (unsigned c = 0; c < COLUMNS; c++) sum += weights[r][c] * input[c];
        output[r] = sum;
    }
}

static void *computer(void *arg)
{
    const unsigned i = (unsigned)(uintptr_t)arg;
    const unsigned rest = ROWS - rows_first, others = threads_count - 1;
    const unsigned from = i ? rows_first + rest * (i - 1) / others : 0;
    const unsigned to = i ? rows_first + rest * i / others : rows_first;
    while (!atomic_load(&stopping)) {
        rows_compute(from, to);
        layer_barrier();
        if (!i && !bench_running(&b)) atomic_store(&stopping, 1);
        layer_barrier();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    bench_options(&b, argc, argv);
    for (unsigned c = 0; c < COLUMNS; c++) {
        input[c] = (float)bench_uniform(&b.random);
        for (unsigned r = 0; r < ROWS; r++) weights[r][c] = (float)bench_uniform(&b.random);
    }
    /* as many as the smallest machine has CPUs: that they are too many is another cause */
    threads_count = 2;
    rows_first = bench_between(&b.random, ROWS * 75 / 100, ROWS * 90 / 100);
    for (unsigned i = 1; i < threads_count; i++) {
        if (pthread_create(&threads[i], NULL, computer, (void *)(uintptr_t)i)) return 1;
    }
    computer((void *)0);
    for (unsigned i = 1; i < threads_count; i++) pthread_join(threads[i], NULL);
    return output[0] == 1;
}
