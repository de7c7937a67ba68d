/* bench.h - what all programs of the findings bench share: options, random numbers, clocks.
 *
 * Every program takes --seed N (sizes, rates and thread counts follow from it) and --seconds S (it
 * ends by itself after that), and --dir DIR and --data FILE where it needs files. The function that
 * is the cause carries a comment with the word PLANTED: bench.py finds its lines by that, so that a
 * program can be edited without a table of line numbers. */
#ifndef FINDINGS_BENCH_H
#define FINDINGS_BENCH_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_NOINLINE __attribute__((noinline))

struct bench {
    uint64_t random;             /* state of the generator */
    uint64_t begin_ns, end_ns;   /* CLOCK_MONOTONIC */
    const char *dir, *data;      /* scratch directory; a large file to read */
};

static inline uint64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* splitmix64: any seed is a good one, and every state has its own successor. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline unsigned bench_between(uint64_t *state, unsigned low, unsigned high)
{
    return low + (unsigned)(bench_random(state) % (high - low + 1));
}

static inline double bench_uniform(uint64_t *state)
{
    return (double)(bench_random(state) >> 11) * 0x1p-53;
}

static inline int bench_running(const struct bench *b) { return bench_now_ns() < b->end_ns; }

static inline double bench_elapsed_s(const struct bench *b)
{
    return (double)(bench_now_ns() - b->begin_ns) * 1e-9;
}

static inline void bench_sleep_us(unsigned us)
{
    struct timespec t = { us / 1000000u, (long)(us % 1000000u) * 1000 };
    while (nanosleep(&t, &t) && errno == EINTR) {}
}

static inline void bench_sleep_until(uint64_t ns)
{
    const struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

_Noreturn static inline void bench_fail(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

static inline void *bench_alloc(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) bench_fail("malloc");
    return p;
}

static inline void bench_options(struct bench *b, int argc, char **argv)
{
    double seconds = 5;
    *b = (struct bench){ .random = 1, .dir = ".", .data = NULL };
    for (int i = 1; i < argc; i += 2) {
        char *end = NULL;
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--seed")) b->random = strtoull(value, &end, 10);
        else if (!strcmp(argv[i], "--seconds")) seconds = strtod(value, &end);
        else if (!strcmp(argv[i], "--dir")) b->dir = value;
        else if (!strcmp(argv[i], "--data")) b->data = value;
        else end = (char *)(uintptr_t)"?";
        if (!*value || (end && *end)) {
            fprintf(stderr, "usage: %s [--seed N] [--seconds S] [--dir DIR] [--data FILE]\n",
                    program_invocation_short_name);
            exit(2);
        }
    }
    bench_random(&b->random); /* neighbouring seeds differ from the first draw on */
    b->begin_ns = bench_now_ns();
    b->end_ns = b->begin_ns + (uint64_t)(seconds * 1e9);
}

#endif
