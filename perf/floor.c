/* floor.c - the bare operations side by side, and what clocks cost. */
#include <time.h>

#include "bare.h"
#include "harness.h"
#include "sonde/sonde.h"

static uint64_t ticks(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) bench_use(sonde_ticks());
    return 0;
}

static uint64_t coarse(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
        bench_use((uint64_t)t.tv_nsec);
    }
    return 0;
}

static void setup(void)
{
    const int rc = sonde_open(NULL);
    if (rc) bench_die("cannot record: %s", sonde_strerror(rc));
}

static const struct bench_row rows[] = {
    { .id = "bare_loop", .figure = "empty loop (in every figure)", .unit = "ns", .bare = "loop" },
    { .id = "bare_call", .figure = "call that returns", .unit = "ns", .bare = "call" },
    { .id = "bare_add_local", .figure = "add, thread-local word", .unit = "ns",
      .bare = "add local" },
    { .id = "bare_add_plain", .figure = "add, plain word", .unit = "ns", .bare = "add plain" },
    { .id = "bare_add_locked", .figure = "add, locked", .unit = "ns", .bare = "add locked" },
    { .id = "clock_ticks", .figure = "clock: sonde_ticks", .unit = "ns", .ours = "ticks",
      .bare = "rdtsc", .peers = { "clock_gettime", "clock_gettime coarse" } },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "bare",
    .threads = 1,
    .setup = setup,
    .variants = {
        { .name = "loop", .run = bare_loop },
        { .name = "call", .run = bare_call },
        { .name = "add local", .run = bare_add_local },
        { .name = "add plain", .run = bare_add_plain },
        { .name = "add locked", .run = bare_add_locked },
        { .name = "ticks", .run = ticks },
        { .name = "rdtsc", .run = bare_rdtsc },
        { .name = "clock_gettime", .run = bare_clock_gettime },
        { .name = "clock_gettime coarse", .run = coarse },
    },
    .rows = rows,
};

static const struct bench_row rows_two[] = {
    { .id = "bare_add_local_2t", .figure = "add, thread-local word, 2 threads", .unit = "ns",
      .bare = "add local" },
    { .id = "bare_add_locked_2t", .figure = "add, locked, 2 threads contending", .unit = "ns",
      .bare = "add locked" },
    { .id = NULL },
};

BENCH_GROUP(group_two) = {
    .name = "bare2",
    .threads = 2,
    .variants = {
        { .name = "add local", .run = bare_add_local },
        { .name = "add locked", .run = bare_add_locked },
    },
    .rows = rows_two,
};
