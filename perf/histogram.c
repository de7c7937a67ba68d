/* histogram.c - histograms, with values that differ from call to call as latencies do. */
#include "bare.h"
#include "harness.h"
#include "peers.h"
#include "sonde/sonde.h"

static struct sonde_hist hist;

static uint64_t record(uint64_t n, unsigned thread)
{
    const uint64_t *v = bench_latencies_ns();
    const struct sonde_hist h = hist;
    (void)thread;
    BENCH_LOOP(i, n) sonde_hist_record(h, v[i % BENCH_LATENCIES]);
    return 0;
}

static uint64_t record_constant(uint64_t n, unsigned thread)
{
    const struct sonde_hist h = hist;
    (void)thread;
    BENCH_LOOP(i, n) sonde_hist_record(h, 5000000);
    return 0;
}

/* With a trace to keep as exemplar. */
static uint64_t record_traced(uint64_t n, unsigned thread)
{
    const uint64_t *v = bench_latencies_ns();
    const struct sonde_hist h = hist;
    const struct sonde_trace before = sonde_trace_set(sonde_trace_new());
    (void)thread;
    BENCH_LOOP(i, n) sonde_hist_record_traced(h, v[i % BENCH_LATENCIES]);
    sonde_trace_set(before);
    return 0;
}

static void setup(void) { hist = sonde_hist("bench_seconds", "h", 1e-9); }

#define NO_PEER "HdrHistogram_c and bvar are not in Debian"

static const struct bench_row rows[] = {
    { .id = "histogram_1t", .figure = "histogram", .unit = "ns", .ours = "record",
      .bare = "two adds", .peers = { "prometheus-cpp" }, .budget = 3, .note = NO_PEER },
    { .id = "histogram_constant_1t", .figure = "histogram, always the same value", .unit = "ns",
      .ours = "constant", .bare = "two adds" },
    { .id = "histogram_traced_1t", .figure = "histogram, with exemplar", .unit = "ns",
      .ours = "traced", .bare = "two adds" },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "histogram",
    .threads = 1,
    .setup = setup,
    .variants = {
        { .name = "record", .run = record },
        { .name = "two adds", .run = bare_two_adds },
        { .name = "prometheus-cpp", .run = peer_prom_histogram },
        { .name = "constant", .run = record_constant },
        { .name = "traced", .run = record_traced },
    },
    .rows = rows,
};

static const struct bench_row rows_two[] = {
    { .id = "histogram_2t", .figure = "histogram, 2 threads contending", .unit = "ns",
      .ours = "record", .bare = "two adds", .peers = { "prometheus-cpp" }, .budget = 3,
      .note = NO_PEER },
    { .id = NULL },
};

BENCH_GROUP(group_two) = {
    .name = "histogram2",
    .threads = 2,
    .setup = setup,
    .variants = {
        { .name = "record", .run = record },
        { .name = "two adds", .run = bare_two_adds },
        { .name = "prometheus-cpp", .run = peer_prom_histogram },
    },
    .rows = rows_two,
};
