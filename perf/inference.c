/* inference.c - what an engine pays for telling: a token, a phase, a forward pass for eight requests;
 * beside a span in the same run, which reads the clock twice. */
#include "bare.h"
#include "harness.h"
#include "sonde/inference.h"

enum { REQUESTS = 8 };

static uint32_t name;
static struct sonde_request request[REQUESTS];

static uint64_t span(uint64_t n, unsigned thread)
{
    (void)thread;
    struct sonde_span outer;
    sonde_span_begin(&outer, name);
    BENCH_LOOP(i, n)
    {
        struct sonde_span s;
        sonde_span_begin(&s, name);
        sonde_span_end(&s, SONDE_OK);
    }
    sonde_span_end(&outer, SONDE_OK);
    return 0;
}

static uint64_t tokens(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) { sonde_request_tokens(&request[0], 1); }
    return 0;
}

static uint64_t tokens_off(uint64_t n, unsigned thread)
{
    sonde_enable(0);
    tokens(n, thread);
    sonde_enable(1);
    return 0;
}

static uint64_t phase(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        struct sonde_phase p;
        sonde_phase_begin(&p, &request[0], SONDE_PHASE_SAMPLE);
        sonde_phase_end(&p, 1);
    }
    return 0;
}

static uint64_t batch(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        struct sonde_batch b;
        sonde_batch_begin(&b);
        for (int k = 0; k < REQUESTS; k++) sonde_batch_add(&b, &request[k], 0, 1);
        sonde_batch_end(&b);
    }
    return 0;
}

static void setup(void)
{
    name = sonde_name("bench");
    const struct sonde_request_info info = { .size = sizeof(info), .model = name };
    for (int i = 0; i < REQUESTS; i++) sonde_request_begin(&request[i], &info);
    if (!name || !request[0].id) bench_die("no request can be begun");
}

static void teardown(void)
{
    for (int i = 0; i < REQUESTS; i++) sonde_request_end(&request[i], SONDE_OK, NULL);
}

static const struct bench_row rows[] = {
    { .id = "infer_tokens_1t", .figure = "inference event: a token", .unit = "ns",
      .ours = "tokens", .bare = "span", .note = "bare is a span of this library" },
    { .id = "infer_phase_1t", .figure = "inference event: a phase", .unit = "ns", .ours = "phase",
      .bare = "span", .note = "bare is a span of this library" },
    { .id = "infer_batch_1t", .figure = "inference event: a batch of 8 requests", .unit = "ns",
      .ours = "batch", .bare = "span", .note = "bare is a span of this library" },
    { .id = "infer_off_1t", .figure = "inference event: a token, switched off", .unit = "ns",
      .ours = "tokens off", .bare = "loop" },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "inference",
    .threads = 1,
    .setup = setup,
    .teardown = teardown,
    .variants = {
        { .name = "tokens", .run = tokens },
        { .name = "phase", .run = phase },
        { .name = "batch", .run = batch },
        { .name = "span", .run = span },
        { .name = "tokens off", .run = tokens_off },
        { .name = "loop", .run = bare_loop },
    },
    .rows = rows,
};
