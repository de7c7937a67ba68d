/* counter.c - counters, with and without labels looked up at each call. */
#include "bare.h"
#include "harness.h"
#include "peers.h"
#include "sonde/sonde.h"

static struct sonde_counter counter;
static struct sonde_family family;

static uint64_t add(uint64_t n, unsigned thread)
{
    const struct sonde_counter c = counter;
    (void)thread;
    BENCH_LOOP(i, n) sonde_counter_add(c, 1);
    return 0;
}

/* As in code that keeps its handle in a static variable, which is one more load. */
static uint64_t add_static(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) sonde_counter_add(counter, 1);
    return 0;
}

static uint64_t add_off(uint64_t n, unsigned thread)
{
    sonde_enable(0);
    add(n, thread);
    sonde_enable(1);
    return 0;
}

static uint64_t bind_add(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        sonde_counter_add(sonde_counter_bind(family, bench_label_sets[i % BENCH_LABEL_SETS]), 1);
    }
    return 0;
}

static void setup(void)
{
    static const char *const labels[] = { "method", "status", NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = "bench_labelled_total",
                                    .help = "h", .labels = labels };
    counter = sonde_counter("bench_counter_total", "h");
    const int rc = sonde_define(SONDE_COUNTER, &m, &family);
    if (rc || !counter.off) bench_die("cannot define: %s", sonde_strerror(rc));
}

static const struct bench_row rows[] = {
    { .id = "counter_inline_1t", .figure = "counter, inline", .unit = "ns", .ours = "inline",
      .bare = "add plain", .peers = { "prometheus-cpp" }, .budget = 1 },
    { .id = "counter_static_1t", .figure = "counter, inline, handle in memory", .unit = "ns",
      .ours = "static", .bare = "add plain", .peers = { "prometheus-cpp" } },
    { .id = "counter_off_1t", .figure = "counter, switched off", .unit = "ns", .ours = "off",
      .bare = "loop" },
    { .id = "counter_labels_1t", .figure = "counter, two dynamic labels", .unit = "ns",
      .ours = "bind", .bare = "add plain", .peers = { "prometheus-cpp labels" }, .budget = 20 },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "counter",
    .threads = 1,
    .setup = setup,
    .variants = {
        { .name = "inline", .run = add },
        { .name = "static", .run = add_static },
        { .name = "off", .run = add_off },
        { .name = "loop", .run = bare_loop },
        { .name = "add plain", .run = bare_add_plain },
        { .name = "bind", .run = bind_add },
        { .name = "prometheus-cpp", .run = peer_prom_counter },
        { .name = "prometheus-cpp labels", .run = peer_prom_counter_labels },
    },
    .rows = rows,
};

static const struct bench_row rows_two[] = {
    { .id = "counter_inline_2t", .figure = "counter, inline, 2 threads contending", .unit = "ns",
      .ours = "inline", .bare = "add plain", .peers = { "prometheus-cpp", "add locked" },
      .budget = 1 },
    { .id = "counter_labels_2t", .figure = "counter, two dynamic labels, 2 threads", .unit = "ns",
      .ours = "bind", .bare = "add plain", .peers = { "prometheus-cpp labels" }, .budget = 20 },
    { .id = NULL },
};

BENCH_GROUP(group_two) = {
    .name = "counter2",
    .threads = 2,
    .setup = setup,
    .variants = {
        { .name = "inline", .run = add },
        { .name = "add plain", .run = bare_add_plain },
        { .name = "add locked", .run = bare_add_locked },
        { .name = "bind", .run = bind_add },
        { .name = "prometheus-cpp", .run = peer_prom_counter },
        { .name = "prometheus-cpp labels", .run = peer_prom_counter_labels },
    },
    .rows = rows_two,
};
