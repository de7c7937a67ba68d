/* render.c - /metrics text of many series, from the agent's model. Each answer goes to a buffer of
 * its own, as it does in the server, so growing it and the page faults of that are in the figure.
 * The bare operation is to copy a finished answer to such a buffer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "harness.h"
#include "peers.h"
#include "push/push.h"
#include "serve/export/export.h"

#define ANSWER_MAX ((size_t)1 << 30)

static struct sonde_model *model;
static const struct sonde_export_ops *format;
static struct sonde_buf answer;   /* a finished one, to copy */
static struct sonde_buf kept;

static uint64_t render(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        struct sonde_buf b;
        sonde_buf_init(&b, ANSWER_MAX);
        format->render(model, NULL, &b);
        if (b.error) bench_die("rendering failed: %s", sonde_strerror(b.error));
        bench_use(b.len);
        sonde_buf_release(&b);
    }
    return 0;
}

/* To a buffer that has its memory from the time before: what is left is rendering alone. */
static uint64_t render_kept(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        sonde_buf_reset(&kept);
        format->render(model, NULL, &kept);
        bench_use(kept.len);
    }
    return 0;
}

static uint64_t copy(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        struct sonde_buf b;
        sonde_buf_init(&b, ANSWER_MAX);
        sonde_buf_add(&b, answer.data, answer.len);
        bench_use(b.len);
        sonde_buf_release(&b);
    }
    return 0;
}

/* ---- What is sent on ------------------------------------------------------------------------- */

static struct sonde_push *push_otlp, *push_remote_write;

static void use(const char *kind, const char *body, size_t len, void *arg)
{
    (void)kind, (void)body, (void)arg;
    bench_use(len);
}

/* Each time as of a later tick: nothing is sent twice. */
static uint64_t encode(struct sonde_push *p, uint64_t n)
{
    BENCH_LOOP(i, n)
    {
        model->now_s += 1;
        const int rc = sonde_push_encode(p, model, use, NULL);
        if (rc) bench_die("encoding failed: %s", sonde_strerror(rc));
    }
    return 0;
}

static uint64_t encode_otlp(uint64_t n, unsigned thread) { return (void)thread, encode(push_otlp, n); }

static uint64_t encode_remote_write(uint64_t n, unsigned thread)
{
    return (void)thread, encode(push_remote_write, n);
}

static struct sonde_push *push_to(const char *kind)
{
    struct sonde_push *p;
    struct sonde_err err;
    const struct sonde_push_target target = { .kind = kind, .url = "http://127.0.0.1:1" };
    const struct sonde_push_options o = { .targets = &target, .target_count = 1,
                                          .signals = SONDE_PUSH_METRICS };
    if (sonde_push_create(&o, &p, &err)) bench_die("%s", err.text);
    return p;
}

/* ---- The model -------------------------------------------------------------------------------- */

static struct sonde_model_series *add_series(struct sonde_model_family *f, size_t i)
{
    char host[32], id[32];
    snprintf(host, sizeof(host), "host%zu", i % 100);
    snprintf(id, sizeof(id), "%zu", i);
    const struct sonde_label labels[] = { { "host", host }, { "id", id } };
    struct sonde_model_series *s = sonde_model_series(model, f, NULL, labels, 2);
    if (!s) bench_die("the model takes no more than %zu series", i);
    return s;
}

static void fill(size_t counters, size_t histograms)
{
    const struct sonde_model_limits limits = { .series_max = 1u << 20, .history_series_max = 1 };
    const struct sonde_model_family_spec counter = { .name = "bench_requests_total", .help = "h",
                                                     .type = SONDE_COUNTER };
    const struct sonde_model_family_spec hist = { .name = "bench_seconds", .help = "h",
                                                  .type = SONDE_HISTOGRAM, .scale = 1e-9 };
    const uint64_t *v = bench_latencies_ns();
    if (sonde_model_create(&limits, &model)) bench_die("no memory for a model");
    sonde_wrlock(&model->lock);
    struct sonde_model_family *f = sonde_model_family(model, counters ? &counter : &hist);
    if (!f) bench_die("no memory for a family");
    for (size_t i = 0; i < counters; i++) add_series(f, i)->counter = i * 7919;
    for (size_t i = 0; i < histograms; i++) {
        struct sonde_hist_value *h = sonde_model_hist(add_series(f, i));
        for (size_t j = 0; h && j < BENCH_LATENCIES; j++) {
            sonde_hist_value_add(h, (uint32_t)sonde__hist_bucket((double)v[j] * 1e-9), 1);
            h->sum_raw += v[j];
        }
    }
    sonde_model_tick(model, 1);
    sonde_rwunlock(&model->lock);
    sonde_rdlock(&model->lock);

    format = sonde_export_find("prometheus");
    if (!format) bench_die("no format named prometheus");
    sonde_buf_init(&kept, ANSWER_MAX);
    sonde_buf_init(&answer, ANSWER_MAX);
    format->render(model, NULL, &answer);
    fprintf(stderr, "bench: %zu series are %.1f MB of text\n", counters + histograms,
            (double)answer.len / 1e6);
}

static void drop(void)
{
    sonde_rwunlock(&model->lock);
    sonde_model_destroy(model);
    sonde_buf_release(&answer);
    sonde_buf_release(&kept);
    peer_prom_render_teardown();
    sonde_push_destroy(push_otlp);
    sonde_push_destroy(push_remote_write);
    push_otlp = push_remote_write = NULL;
}

static void setup_10k(void) { fill(10000, 0), peer_prom_render_setup(10000, 0); }
static void setup_100k(void) { fill(100000, 0), peer_prom_render_setup(100000, 0); }
static void setup_1m(void) { fill(1000000, 0); }
static void setup_push(void)
{
    fill(10000, 0);
    push_otlp = push_to("otlp");
    push_remote_write = push_to("remote_write");
}
static void setup_push_hist(void)
{
    fill(0, 1000);
    push_otlp = push_to("otlp");
    push_remote_write = push_to("remote_write");
}
static void setup_hist(void) { fill(0, 1000), peer_prom_render_setup(0, 1000); }

#define OURS                                                                                   \
    { .name = "prometheus text", .run = render },                                              \
        { .name = "kept buffer", .run = render_kept }, { .name = "copy", .run = copy }
#define PEER { .name = "prometheus-cpp", .run = peer_prom_render }

static const struct bench_row rows_10k[] = {
    { .id = "render_10k", .figure = "/metrics, 10,000 counters", .unit = "ms",
      .ours = "prometheus text", .bare = "copy", .peers = { "prometheus-cpp" } },
    { .id = NULL },
};
BENCH_GROUP(group_10k) = { .name = "render_10k", .threads = 1, .setup = setup_10k,
                           .teardown = drop, .variants = { OURS, PEER }, .rows = rows_10k };

static const struct bench_row rows_100k[] = {
    { .id = "render_100k", .figure = "/metrics, 100,000 counters", .unit = "ms",
      .ours = "prometheus text", .bare = "copy", .peers = { "prometheus-cpp" }, .budget = 5 },
    { .id = "render_100k_kept", .figure = "/metrics, 100,000 counters, buffer kept", .unit = "ms",
      .ours = "kept buffer", .bare = "copy", .peers = { "prometheus-cpp" } },
    { .id = NULL },
};
BENCH_GROUP(group_100k) = { .name = "render_100k", .threads = 1, .setup = setup_100k,
                            .teardown = drop, .variants = { OURS, PEER }, .rows = rows_100k };

static const struct bench_row rows_1m[] = {
    { .id = "render_1m", .figure = "/metrics, 1,000,000 counters", .unit = "ms",
      .ours = "prometheus text", .bare = "copy",
      .note = "prometheus-cpp left out: over a second each" },
    { .id = "render_1m_kept", .figure = "/metrics, 1,000,000 counters, buffer kept", .unit = "ms",
      .ours = "kept buffer", .bare = "copy" },
    { .id = NULL },
};
BENCH_GROUP(group_1m) = { .name = "render_1m", .threads = 1, .setup = setup_1m,
                          .teardown = drop, .variants = { OURS }, .rows = rows_1m };

static const struct bench_row rows_hist[] = {
    { .id = "render_hist_1k", .figure = "/metrics, 1,000 histograms", .unit = "ms",
      .ours = "prometheus text", .bare = "copy", .peers = { "prometheus-cpp" } },
    { .id = NULL },
};
BENCH_GROUP(group_hist) = { .name = "render_hist", .threads = 1, .setup = setup_hist,
                            .teardown = drop, .variants = { OURS, PEER }, .rows = rows_hist };

#define PUSHED                                                                                 \
    { .name = "otlp", .run = encode_otlp }, { .name = "remote write", .run = encode_remote_write }, \
        { .name = "prometheus text", .run = render }, { .name = "copy", .run = copy }

static const struct bench_row rows_push[] = {
    { .id = "push_otlp_10k", .figure = "as OTLP, 10,000 counters", .unit = "ms", .ours = "otlp",
      .bare = "copy", .peers = { "prometheus text" } },
    { .id = "push_remote_write_10k", .figure = "as remote write, 10,000 counters", .unit = "ms",
      .ours = "remote write", .bare = "copy", .peers = { "prometheus text" } },
    { .id = NULL },
};
BENCH_GROUP(group_push) = { .name = "push_10k", .threads = 1, .setup = setup_push,
                            .teardown = drop, .variants = { PUSHED }, .rows = rows_push };

static const struct bench_row rows_push_hist[] = {
    { .id = "push_otlp_hist", .figure = "as OTLP, 1,000 histograms, every bucket", .unit = "ms",
      .ours = "otlp", .bare = "copy", .peers = { "prometheus text" } },
    { .id = "push_remote_write_hist", .figure = "as remote write, 1,000 histograms", .unit = "ms",
      .ours = "remote write", .bare = "copy", .peers = { "prometheus text" } },
    { .id = NULL },
};
BENCH_GROUP(group_push_hist) = { .name = "push_hist", .threads = 1, .setup = setup_push_hist,
                                 .teardown = drop, .variants = { PUSHED },
                                 .rows = rows_push_hist };
