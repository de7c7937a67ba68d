/* hot_strlen.c - reads numbers out of one long text with sscanf, which takes the length of all
 * that is left for every number. The time goes to libc; the line to change is the caller's. */
#include "bench.h"

static char *text;

BENCH_NOINLINE static size_t text_make(size_t numbers, uint64_t *random)
{
    size_t at = 0;
    for (size_t i = 0; i < numbers; i++) {
        at += (size_t)sprintf(text + at, "%u ", bench_between(random, 0, 99999));
    }
    return at;
}

BENCH_NOINLINE static double numbers_add(const char *from)
{
    double sum = 0;
    unsigned value;
    int used;
    while (sscanf(from, "%u %n", &value, &used) == 1) { /* PLANTED: strlen of the rest each time */
        sum += value;
        from += used;
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const size_t numbers = bench_between(&b.random, 20000, 60000);
    text = bench_alloc(numbers * 8);
    double sum = 0;
    while (bench_running(&b)) {
        text_make(numbers, &b.random);
        sum += numbers_add(text);
    }
    free(text);
    return sum < 0;
}
