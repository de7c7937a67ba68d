/* healthy_pipeline.c - two stages with a bounded queue between them, at moderate load: the queue is
 * neither full nor always empty. */
#include <pthread.h>

#include "bench.h"

enum { QUEUE = 64, ITEM = 2048 };

static struct bench b;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static uint32_t items[QUEUE][ITEM];
static unsigned first, count, work_rounds;
static int stopping;
static volatile uint64_t written;

BENCH_NOINLINE static void item_read(uint32_t *item, uint64_t *random)
{
    for (unsigned k = 0; k < work_rounds; k++) {
        for (unsigned i = 0; i < ITEM; i++) item[i] = (uint32_t)bench_random(random);
    }
}

BENCH_NOINLINE static uint64_t item_write(const uint32_t *item)
{
    uint64_t sum = 0;
    for (unsigned k = 0; k < work_rounds; k++) {
        for (unsigned i = 0; i < ITEM; i++) sum = (sum ^ item[i]) * 1099511628211u;
    }
    return sum;
}

static void *writer(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!count && !stopping) pthread_cond_wait(&filled, &lock);
        pthread_mutex_unlock(&lock);
        if (stopping) return arg;
        written += item_write(items[first]);
        pthread_mutex_lock(&lock);
        first = (first + 1) % QUEUE;
        count--;
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&lock);
    }
}

int main(int argc, char **argv)
{
    pthread_t thread;
    bench_options(&b, argc, argv);
    work_rounds = bench_between(&b.random, 50, 150);
    if (pthread_create(&thread, NULL, writer, NULL)) return 1;
    while (bench_running(&b)) {
        pthread_mutex_lock(&lock);
        while (count == QUEUE) pthread_cond_wait(&emptied, &lock);
        const unsigned at = (first + count) % QUEUE;
        pthread_mutex_unlock(&lock);
        item_read(items[at], &b.random);
        pthread_mutex_lock(&lock);
        count++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
        bench_sleep_us(work_rounds * bench_between(&b.random, 4, 16)); /* the next input */
    }
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    return 0;
}
