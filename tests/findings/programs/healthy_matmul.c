/* healthy_matmul.c - multiplies matrices with two threads that have equal parts and meet at a
 * barrier that blocks. */
#include <pthread.h>

#include "bench.h"

enum { SIZE_MAX_ = 256, THREADS = 2 };

static struct bench b;
static float left[SIZE_MAX_][SIZE_MAX_], right[SIZE_MAX_][SIZE_MAX_], product[SIZE_MAX_][SIZE_MAX_];
static unsigned size;
static int stopping;
static pthread_barrier_t barrier;

BENCH_NOINLINE static void rows_multiply(unsigned from, unsigned to)
{
    for (unsigned r = from; r < to; r++) {
        memset(product[r], 0, sizeof(product[r]));
        for (unsigned k = 0; k < size; k++) {
            for (unsigned c = 0; c < size; c++) product[r][c] += left[r][k] * right[k][c];
        }
    }
}

static void *multiplier(void *arg)
{
    const unsigned i = (unsigned)(uintptr_t)arg;
    for (;;) {
        rows_multiply(size * i / THREADS, size * (i + 1) / THREADS);
        if (!i && !bench_running(&b)) stopping = 1;
        pthread_barrier_wait(&barrier);
        const int stop = stopping;
        pthread_barrier_wait(&barrier);
        if (stop) return NULL;
    }
}

int main(int argc, char **argv)
{
    pthread_t thread;
    bench_options(&b, argc, argv);
    size = bench_between(&b.random, 160, SIZE_MAX_);
    for (unsigned r = 0; r < size; r++) {
        for (unsigned c = 0; c < size; c++) {
            left[r][c] = (float)bench_uniform(&b.random);
            right[r][c] = (float)bench_uniform(&b.random);
        }
    }
    pthread_barrier_init(&barrier, NULL, THREADS);
    if (pthread_create(&thread, NULL, multiplier, (void *)1)) return 1;
    multiplier((void *)0);
    pthread_join(thread, NULL);
    return product[0][0] < 0;
}
