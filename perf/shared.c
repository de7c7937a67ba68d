/* shared.c - the same, in a program that links libsonde.so: the calls for languages that cannot
 * inline, through the PLT, and the inline paths, whose state is then in another module. */
#include "bare.h"
#include "harness.h"
#include "sonde/sonde.h"

static struct sonde_counter counter;
static struct sonde_hist hist;
static uint32_t name;

static uint64_t fn_counter(uint64_t n, unsigned thread)
{
    const uint64_t off = counter.off;
    (void)thread;
    BENCH_LOOP(i, n) sonde_fn_counter_add(off, 1);
    return 0;
}

static uint64_t empty_call(uint64_t n, unsigned thread)
{
    const uint64_t off = counter.off;
    (void)thread;
    BENCH_LOOP(i, n) bare_empty(off, 1);
    return 0;
}

static uint64_t inline_counter(uint64_t n, unsigned thread)
{
    const struct sonde_counter c = counter;
    (void)thread;
    BENCH_LOOP(i, n) sonde_counter_add(c, 1);
    return 0;
}

static uint64_t fn_hist(uint64_t n, unsigned thread)
{
    const uint64_t *v = bench_latencies_ns();
    const struct sonde_hist h = hist;
    (void)thread;
    BENCH_LOOP(i, n) sonde_fn_hist_record(h.off, h.scale, v[i % BENCH_LATENCIES]);
    return 0;
}

static uint64_t inline_hist(uint64_t n, unsigned thread)
{
    const uint64_t *v = bench_latencies_ns();
    const struct sonde_hist h = hist;
    (void)thread;
    BENCH_LOOP(i, n) sonde_hist_record(h, v[i % BENCH_LATENCIES]);
    return 0;
}

static uint64_t fn_span(uint64_t n, unsigned thread)
{
    struct sonde_span outer, s;
    (void)thread;
    sonde_fn_span_begin(&outer, name);
    BENCH_LOOP(i, n)
    {
        sonde_fn_span_begin(&s, name);
        sonde_fn_span_end(&s, SONDE_OK);
    }
    sonde_fn_span_end(&outer, SONDE_OK);
    return 0;
}

static void setup(void)
{
    const int rc = sonde_open(NULL);
    if (rc) bench_die("cannot record: %s", sonde_strerror(rc));
    counter = sonde_counter("bench_counter_total", "h");
    hist = sonde_hist("bench_seconds", "h", 1e-9);
    name = sonde_name("bench");
}

#define VARIANTS                                                                               \
    {                                                                                          \
        { .name = "counter", .run = fn_counter },                                              \
            { .name = "empty call", .run = empty_call },                                       \
            { .name = "counter inline", .run = inline_counter },                               \
            { .name = "add plain", .run = bare_add_plain },                                    \
            { .name = "histogram", .run = fn_hist },                                           \
            { .name = "histogram inline", .run = inline_hist },                                \
            { .name = "two adds", .run = bare_two_adds }, { .name = "span", .run = fn_span },  \
            { .name = "two rdtsc and a store", .run = bare_span },                             \
    }

static const struct bench_row rows[] = {
    { .id = "counter_so_1t", .figure = "counter, call into libsonde.so", .unit = "ns",
      .ours = "counter", .bare = "empty call", .budget = 3,
      .note = "bare: an empty function called the same way" },
    { .id = "counter_so_inline_1t", .figure = "counter, inline, with libsonde.so", .unit = "ns",
      .ours = "counter inline", .bare = "add plain", .budget = 1 },
    { .id = "histogram_so_1t", .figure = "histogram, call into libsonde.so", .unit = "ns",
      .ours = "histogram", .bare = "two adds" },
    { .id = "histogram_so_inline_1t", .figure = "histogram, inline, with libsonde.so",
      .unit = "ns", .ours = "histogram inline", .bare = "two adds", .budget = 3 },
    { .id = "span_so_1t", .figure = "span, calls into libsonde.so", .unit = "ns", .ours = "span",
      .bare = "two rdtsc and a store" },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "shared", .threads = 1, .setup = setup, .variants = VARIANTS, .rows = rows
};

static const struct bench_row rows_two[] = {
    { .id = "counter_so_2t", .figure = "counter, call into libsonde.so, 2 threads", .unit = "ns",
      .ours = "counter", .bare = "empty call", .budget = 3 },
    { .id = NULL },
};

BENCH_GROUP(group_two) = {
    .name = "shared2", .threads = 2, .setup = setup, .variants = VARIANTS, .rows = rows_two
};
