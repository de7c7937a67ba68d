/* throttled.c - a worker that has always something to do; bench.py starts it in a cgroup whose
 * quota is a part of a CPU. */
#include "bench.h"

enum { WORDS = 1 << 14 };

static uint64_t words[WORDS];

BENCH_NOINLINE static void job_read(uint64_t *random)
{
    for (unsigned i = 0; i < WORDS; i++) words[i] = bench_random(random);
}

BENCH_NOINLINE static uint64_t job_sum(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WORDS; i++) sum = (sum ^ words[i]) * 1099511628211u;
    return sum;
}

BENCH_NOINLINE static void job_order(void)
{
    for (unsigned step = WORDS / 2; step >= WORDS / 8; step /= 2) {
        for (unsigned i = 0; i + step < WORDS; i++) {
            const uint64_t a = words[i], c = words[i + step];
            words[i] = a < c ? a : c;
            words[i + step] = a < c ? c : a;
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    uint64_t sum = 0;
    while (bench_running(&b)) {
        job_read(&b.random);
        for (unsigned i = 0; i < 12; i++) sum += job_sum();
        job_order();
    }
    return sum == 1;
}
