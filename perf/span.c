/* span.c - spans: a root of its own trace, a child of one, and switched off. */
#include "bare.h"
#include "harness.h"
#include "peers.h"
#include "sonde/sonde.h"

static uint32_t name;

static uint64_t root(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        struct sonde_span s;
        sonde_span_begin(&s, name);
        sonde_span_end(&s, SONDE_OK);
    }
    return 0;
}

static uint64_t child(uint64_t n, unsigned thread)
{
    struct sonde_span outer;
    sonde_span_begin(&outer, name);
    root(n, thread);
    sonde_span_end(&outer, SONDE_OK);
    return 0;
}

static uint64_t scope(uint64_t n, unsigned thread)
{
    struct sonde_span outer;
    (void)thread;
    sonde_span_begin(&outer, name);
    BENCH_LOOP(i, n) { SONDE_SCOPE("bench_scope"); }
    sonde_span_end(&outer, SONDE_OK);
    return 0;
}

static uint64_t off(uint64_t n, unsigned thread)
{
    sonde_enable(0);
    root(n, thread);
    sonde_enable(1);
    return 0;
}

static void setup(void)
{
    name = sonde_name("bench");
    if (!name) bench_die("no id for a span's name");
}

static const struct bench_row rows[] = {
    { .id = "span_1t", .figure = "span", .unit = "ns", .ours = "child",
      .bare = "two rdtsc and a store", .budget = 22, .note = "Tracy is not in Debian" },
    { .id = "span_root_1t", .figure = "span, root of a trace", .unit = "ns", .ours = "root",
      .bare = "two rdtsc and a store", .budget = 22 },
    { .id = "span_scope_1t", .figure = "span, SONDE_SCOPE", .unit = "ns", .ours = "scope",
      .bare = "two rdtsc and a store", .budget = 22 },
    { .id = "span_off_1t", .figure = "span, switched off", .unit = "ns", .ours = "off",
      .bare = "loop", .peers = { "lttng-ust off" }, .budget = 1 },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "span",
    .threads = 1,
    .setup = setup,
    .variants = {
        { .name = "child", .run = child },
        { .name = "root", .run = root },
        { .name = "scope", .run = scope },
        { .name = "two rdtsc and a store", .run = bare_span },
        { .name = "off", .run = off },
        { .name = "loop", .run = bare_loop },
        { .name = "lttng-ust off", .run = peer_lttng_span },
    },
    .rows = rows,
};

static const struct bench_row rows_two[] = {
    { .id = "span_2t", .figure = "span, 2 threads", .unit = "ns", .ours = "child",
      .bare = "two rdtsc and a store", .budget = 22 },
    { .id = NULL },
};

BENCH_GROUP(group_two) = {
    .name = "span2",
    .threads = 2,
    .setup = setup,
    .variants = {
        { .name = "child", .run = child },
        { .name = "two rdtsc and a store", .run = bare_span },
    },
    .rows = rows_two,
};
