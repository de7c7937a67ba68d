/* healthy_pool.c - a pool of as many workers as there are CPUs and a queue of jobs of about
 * equal size, at half load. Locks are held for moments. */
#include <math.h>
#include <pthread.h>

#include "bench.h"

enum { WORKERS = 2, QUEUE = 256, WORDS = 4096 };

static struct bench b;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t queue[QUEUE];
static unsigned first, count, job_rounds;
static int stopping;
static volatile uint64_t result;

BENCH_NOINLINE static void job_fill(uint64_t *words, uint64_t job)
{
    for (unsigned i = 0; i < WORDS; i++) words[i] = bench_random(&job);
}

BENCH_NOINLINE static uint64_t job_fold(const uint64_t *words)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WORDS; i++) sum = (sum ^ words[i]) * 1099511628211u;
    return sum;
}

BENCH_NOINLINE static uint64_t job_rotate(uint64_t *words)
{
    for (unsigned i = 1; i < WORDS; i++) words[i] = words[i] << 13 | words[i - 1] >> 51;
    return words[WORDS - 1];
}

static void *worker(void *arg)
{
    uint64_t words[WORDS];
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!count && !stopping) pthread_cond_wait(&changed, &lock);
        if (stopping) break;
        const uint64_t job = queue[first];
        first = (first + 1) % QUEUE;
        count--;
        pthread_mutex_unlock(&lock);
        uint64_t sum = 0;
        for (unsigned i = 0; i < job_rounds; i++) {
            job_fill(words, job + i);
            sum += job_fold(words) + job_rotate(words);
        }
        result += sum;
    }
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t threads[WORKERS];
    bench_options(&b, argc, argv);
    job_rounds = bench_between(&b.random, 20, 60);
    const double period_s = job_rounds * 15e-6 * (1 + bench_uniform(&b.random));
    for (unsigned i = 0; i < WORKERS; i++) {
        if (pthread_create(&threads[i], NULL, worker, NULL)) return 1;
    }
    double at_s = 0;
    while (bench_running(&b)) {
        at_s -= log(1 - bench_uniform(&b.random)) * period_s;
        bench_sleep_until(b.begin_ns + (uint64_t)(at_s * 1e9));
        pthread_mutex_lock(&lock);
        if (count < QUEUE) queue[(first + count++) % QUEUE] = bench_random(&b.random);
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    return 0;
}
