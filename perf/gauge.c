/* gauge.c - gauges. They are shared by all threads: a set is a store, an add a compare-and-swap. */
#include "bare.h"
#include "harness.h"
#include "peers.h"
#include "sonde/sonde.h"

static struct sonde_gauge gauge;

static uint64_t set(uint64_t n, unsigned thread)
{
    const struct sonde_gauge g = gauge;
    (void)thread;
    BENCH_LOOP(i, n) sonde_gauge_set(g, (double)(int64_t)i);
    return 0;
}

static uint64_t add(uint64_t n, unsigned thread)
{
    const struct sonde_gauge g = gauge;
    (void)thread;
    BENCH_LOOP(i, n) sonde_gauge_add(g, 1);
    return 0;
}

static void setup(void) { gauge = sonde_gauge("bench_gauge", "h"); }

#define VARIANTS                                                                               \
    {                                                                                          \
        { .name = "set", .run = set }, { .name = "store", .run = bare_store },                 \
            { .name = "prometheus-cpp set", .run = peer_prom_gauge_set },                      \
            { .name = "add", .run = add },                                                     \
            { .name = "compare-and-swap", .run = bare_cas_double },                            \
            { .name = "prometheus-cpp add", .run = peer_prom_gauge_add },                      \
    }

static const struct bench_row rows[] = {
    { .id = "gauge_set_1t", .figure = "gauge, set", .unit = "ns", .ours = "set", .bare = "store",
      .peers = { "prometheus-cpp set" } },
    { .id = "gauge_add_1t", .figure = "gauge, add", .unit = "ns", .ours = "add",
      .bare = "compare-and-swap", .peers = { "prometheus-cpp add" } },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "gauge", .threads = 1, .setup = setup, .variants = VARIANTS, .rows = rows
};

static const struct bench_row rows_two[] = {
    { .id = "gauge_set_2t", .figure = "gauge, set, 2 threads contending", .unit = "ns",
      .ours = "set", .bare = "store", .peers = { "prometheus-cpp set" } },
    { .id = "gauge_add_2t", .figure = "gauge, add, 2 threads contending", .unit = "ns",
      .ours = "add", .bare = "compare-and-swap", .peers = { "prometheus-cpp add" } },
    { .id = NULL },
};

BENCH_GROUP(group_two) = {
    .name = "gauge2", .threads = 2, .setup = setup, .variants = VARIANTS, .rows = rows_two
};
