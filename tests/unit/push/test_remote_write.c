/* Remote write, series by series: names, labels and their clashes, values, metadata, native
 * histograms against what was recorded, the end of series; and the series that pushing has of its
 * own. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "push/remote_write.h"
#include "sonde/sonde.h"
#include "unit/push/pb_look.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- A request as text ----------------------------------------------------------------------- */

/* "name{a=b,c=d} value@ms", a line for each series, without its instance, which is the
 * machine's. */
static void series_text(struct pb_part series, char *out, size_t size)
{
    char name[128] = "", labels[512] = "";
    size_t at = 0;
    for (size_t i = 0; i < pb_count(series, 1); i++) {
        const struct pb_part pair = pb_inner(series, 1, i), key = pb_inner(pair, 1, 0),
                             value = pb_inner(pair, 2, 0);
        if (key.len == 8 && !memcmp(key.data, "__name__", 8)) {
            snprintf(name, sizeof(name), "%.*s", (int)value.len, (const char *)value.data);
        } else if (key.len != 8 || memcmp(key.data, "instance", 8)) {
            at += (size_t)snprintf(labels + at, sizeof(labels) - at, "%s%.*s=%.*s", at ? "," : "",
                                   (int)key.len, (const char *)key.data, (int)value.len,
                                   (const char *)value.data);
        }
    }
    if (!pb_count(series, 2)) {
        snprintf(out, size, "%s{%s} native\n", name, labels);
        return;
    }
    const struct pb_part sample = pb_inner(series, 2, 0);
    const uint64_t bits = pb_value(sample, 1);
    if (bits == 0x7ff0000000000002ull) {
        snprintf(out, size, "%s{%s} stale@%lld\n", name, labels, (long long)pb_value(sample, 2));
    } else {
        snprintf(out, size, "%s{%s} %g@%lld\n", name, labels, pb_double(sample, 1),
                 (long long)pb_value(sample, 2));
    }
}

struct got {
    struct sonde_buf raw;    /* all requests, one after the other: a message as well */
    char text[16384];
};

static void on_body(const char *kind, const char *body, size_t len, void *arg)
{
    assert_string_equal(kind, "remote_write");
    sonde_buf_add(arg, body, len);
}

static struct pb_part whole(const struct got *g)
{
    return (struct pb_part){ (unsigned char *)g->raw.data, g->raw.len };
}

static void encode(struct sonde_push *p, struct sonde_model *m, struct got *g)
{
    sonde_buf_init(&g->raw, 1 << 24);
    assert_int_equal(sonde_push_encode(p, m, on_body, &g->raw), 0);
    size_t at = 0;
    g->text[0] = '\0';
    for (size_t i = 0, n = pb_count(whole(g), 1); i < n; i++) {
        series_text(pb_inner(whole(g), 1, i), g->text + at, sizeof(g->text) - at);
        at += strlen(g->text + at);
        assert_true(at < sizeof(g->text) - 700);
    }
}

static struct sonde_push *push_with(const char *labels, int native)
{
    struct sonde_push *p;
    struct sonde_err err = { "" };
    const struct sonde_push_target target = { .kind = "remote_write", .url = "http://127.0.0.1:1" };
    const struct sonde_push_options o = { .targets = &target, .target_count = 1, .labels = labels,
                                          .signals = SONDE_PUSH_METRICS,
                                          .native_histograms = native };
    if (sonde_push_create(&o, &p, &err)) fail_msg("%s", err.text);
    return p;
}

static struct sonde_model_series *add(struct sonde_model *m, enum sonde_type type,
                                      const char *name, struct sonde_model_process *p,
                                      const struct sonde_label *labels, size_t count)
{
    const struct sonde_model_family_spec spec = { .name = name, .type = type };
    struct sonde_model_series *s = sonde_model_series(m, sonde_model_family(m, &spec), p, labels,
                                                      count);
    assert_non_null(s);
    return s;
}

/* ---- Series ---------------------------------------------------------------------------------- */

static void numbers(void **state)
{
    (void)state;
    static struct got g;
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_push *p = push_with(NULL, 0);
    const struct sonde_label z[] = { { "z", "1" }, { "A", "2" }, { "empty", "" } };
    add(m, SONDE_COUNTER, "c_total", sonde_model_process(m, 7, 1, "app"), z, 3)->counter = 41;
    add(m, SONDE_COUNTER, "plain", NULL, NULL, 0)->counter = 1; /* _total is appended */
    add(m, SONDE_GAUGE, "g", NULL, NULL, 0)->gauge = -0.5;
    sonde_model_tick(m, 100.2509);
    encode(p, m, &g);
    assert_string_equal(g.text, "c_total{A=2,job=sonde,pid=7,process=app,z=1} 41@100250\n"
                                "g{job=sonde} -0.5@100250\n"
                                "plain_total{job=sonde} 1@100250\n");
    sonde_buf_release(&g.raw);
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

/* A series' own labels stand; the destination's are added where it has none of the name. */
static void label_clashes(void **state)
{
    (void)state;
    static const struct {
        const char *ours;
        struct sonde_label own[2];
        const char *text;
    } cases[] = {
        { "zone=x", { { "a", "1" }, { "b", "2" } }, "g{a=1,b=2,job=sonde,zone=x} 0@100000\n" },
        { "a=ours", { { "a", "1" }, { "b", "2" } }, "g{a=1,b=2,job=sonde} 0@100000\n" },
        { "a=ours", { { "a", "" }, { "b", "2" } }, "g{a=ours,b=2,job=sonde} 0@100000\n" },
        { "job=j,instance=i", { { "a", "1" }, { "b", "2" } }, "g{a=1,b=2,job=j} 0@100000\n" },
        { NULL, { { "job", "own" }, { "b", "2" } }, "g{b=2,job=own} 0@100000\n" },
        { "a=1,a=2", { { "b", "" }, { "c", "" } }, "g{a=1,job=sonde} 0@100000\n" },
        { "a=", { { "b", "1" }, { "c", "" } }, "g{b=1,job=sonde} 0@100000\n" },
        { NULL, { { "le", "own" }, { "b", "2" } }, "g{b=2,job=sonde,le=own} 0@100000\n" },
        /* By their bytes. */
        { NULL, { { "Zz", "1" }, { "_", "2" } }, "g{Zz=1,_=2,job=sonde} 0@100000\n" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct got g;
        struct sonde_model *m;
        assert_int_equal(sonde_model_create(NULL, &m), 0);
        struct sonde_push *p = push_with(cases[i].ours, 0);
        add(m, SONDE_GAUGE, "g", NULL, cases[i].own, 2);
        sonde_model_tick(m, 100);
        encode(p, m, &g);
        assert_string_equal(g.text, cases[i].text);
        sonde_buf_release(&g.raw);
        sonde_push_destroy(p);
        sonde_model_destroy(m);
    }
}

static const double bounds[] = { 10, 100 };

static void histograms(void **state)
{
    (void)state;
    static struct got g;
    struct sonde_model *m;
    const struct sonde_label le = { "le", "mine" };
    const struct sonde_model_family_spec spec = { .name = "h", .type = SONDE_HISTOGRAM,
                                                  .bounds = bounds, .bound_count = 2 };
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_push *p = push_with(NULL, 1);
    struct sonde_model_family *f = sonde_model_family(m, &spec);
    struct sonde_model_series *s = sonde_model_series(m, f, NULL, &le, 1);
    sonde_model_record(s, 10, 2); /* a bound is part of its bucket */
    sonde_model_record(s, 11, 3);
    sonde_model_record(s, 101, 1);
    sonde_model_exemplar(s, &(struct sonde_exemplar){ .value = 11, .trace_hi = 0xab, .trace_lo = 1,
                                                      .time_s = 99.5 });
    sonde_model_tick(m, 100);
    encode(p, m, &g);
    assert_string_equal(g.text,
                        "h_bucket{exported_le=mine,job=sonde,le=10} 2@100000\n"
                        "h_bucket{exported_le=mine,job=sonde,le=100} 5@100000\n"
                        "h_bucket{exported_le=mine,job=sonde,le=+Inf} 6@100000\n"
                        "h_sum{exported_le=mine,job=sonde} 154@100000\n"
                        "h_count{exported_le=mine,job=sonde} 6@100000\n"
                        "h{exported_le=mine,job=sonde} native\n");
    /* The exemplar is in the bucket of its value, and is not sent again. */
    for (size_t i = 0; i < 6; i++) assert_int_equal(pb_count(pb_inner(whole(&g), 1, i), 3), i == 1);
    const struct pb_part e = pb_inner(pb_inner(whole(&g), 1, 1), 3, 0);
    pb_expect_text(pb_inner(e, 1, 0), 1, "trace_id");
    pb_expect_text(pb_inner(e, 1, 0), 2, "00000000000000ab0000000000000001");
    assert_true(pb_double(e, 2) == 11);
    assert_int_equal(pb_value(e, 3), 99500);
    sonde_buf_release(&g.raw);
    m->now_s = 101;
    encode(p, m, &g);
    for (size_t i = 0; i < 6; i++) assert_int_equal(pb_count(pb_inner(whole(&g), 1, i), 3), 0);
    sonde_buf_release(&g.raw);
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

static void metadata(void **state)
{
    (void)state;
    static const struct {
        const char *name, *help, *unit;
        enum sonde_type type;
        uint64_t code;
        const char *sent_name, *sent_help;
        int has_unit;
    } cases[] = {
        { "c_total", "Counts.", NULL, SONDE_COUNTER, 1, "c_total", "Counts.", 0 },
        { "app_requests", NULL, NULL, SONDE_COUNTER, 1, "app_requests_total", "App requests.", 0 },
        { "g_bytes", "Size.", "bytes", SONDE_GAUGE, 2, "g_bytes", "Size.", 1 },
        { "g", "Size.", "bytes", SONDE_GAUGE, 2, "g", "Size.", 0 }, /* not in its name */
        { "h_seconds", "Took.", "seconds", SONDE_HISTOGRAM, 3, "h_seconds", "Took.", 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct got g;
        struct sonde_model *m;
        const struct sonde_model_family_spec spec = { .name = cases[i].name, .help = cases[i].help,
                                                      .unit = cases[i].unit,
                                                      .type = cases[i].type };
        assert_int_equal(sonde_model_create(NULL, &m), 0);
        struct sonde_push *p = push_with(NULL, 0);
        sonde_model_series(m, sonde_model_family(m, &spec), NULL, NULL, 0);
        for (int second = 0; second < 4; second++) { /* at once, and a minute later again */
            static const double times[] = { 100, 101, 159.9, 160 };
            if (!second) sonde_model_tick(m, times[0]);
            m->now_s = times[second];
            encode(p, m, &g);
            assert_int_equal(pb_count(whole(&g), 3), second == 0 || second == 3);
            if (!second) {
                const struct pb_part meta = pb_inner(whole(&g), 3, 0);
                assert_int_equal(pb_value(meta, 1), cases[i].code);
                pb_expect_text(meta, 2, cases[i].sent_name);
                pb_expect_text(meta, 4, cases[i].sent_help);
                assert_int_equal(pb_count(meta, 5), cases[i].has_unit);
                if (cases[i].has_unit) pb_expect_text(meta, 5, cases[i].unit);
            }
            sonde_buf_release(&g.raw);
        }
        sonde_push_destroy(p);
        sonde_model_destroy(m);
    }
}

/* Times only go on. */
static void clock_that_goes_back(void **state)
{
    (void)state;
    static const struct { double now_s; size_t series; } cases[] = {
        { 100, 1 }, { 100.0004, 0 }, { 99, 0 }, { -5, 0 }, { 100.001, 1 }, { 50, 0 }, { 101, 1 },
    };
    static struct got g;
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_push *p = push_with(NULL, 0);
    add(m, SONDE_GAUGE, "g", NULL, NULL, 0);
    sonde_model_tick(m, 100);
    for (size_t i = 0; i < COUNT(cases); i++) {
        m->now_s = cases[i].now_s;
        encode(p, m, &g);
        if (pb_count(whole(&g), 1) != cases[i].series) fail_msg("at %g", cases[i].now_s);
        sonde_buf_release(&g.raw);
    }
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

/* A series that ends is told so once, with its own labels; when it comes back it is just there. */
static void the_end_of_a_series(void **state)
{
    (void)state;
    static struct got g;
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_push *p = push_with("zone=x", 0);
    static const char *const expected[] = {
        "g{job=sonde,pid=1,process=a,zone=x} 1@100000\n"
        "g{job=sonde,pid=2,process=b,zone=x} 2@100000\n",
        "g{job=sonde,pid=1,process=a,zone=x} 1@101000\n"
        "g{job=sonde,pid=2,process=b,zone=x} stale@101000\n",
        "g{job=sonde,pid=1,process=a,zone=x} 1@102000\n",
        "g{job=sonde,pid=1,process=a,zone=x} 1@103000\n"
        "g{job=sonde,pid=2,process=b,zone=x} 3@103000\n",
    };
    add(m, SONDE_GAUGE, "g", sonde_model_process(m, 1, 1, "a"), NULL, 0)->gauge = 1;
    struct sonde_model_process *b = sonde_model_process(m, 2, 1, "b");
    add(m, SONDE_GAUGE, "g", b, NULL, 0)->gauge = 2;
    sonde_model_tick(m, 100);
    for (size_t i = 0; i < COUNT(expected); i++) {
        if (i == 1) sonde_model_process_forget(m, b);
        if (i == 3) add(m, SONDE_GAUGE, "g", sonde_model_process(m, 2, 9, "b"), NULL, 0)->gauge = 3;
        m->now_s = 100 + (double)i;
        encode(p, m, &g);
        assert_string_equal(g.text, expected[i]);
        sonde_buf_release(&g.raw);
    }
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

/* ---- Native histograms ----------------------------------------------------------------------- */

/* Spans and deltas added up again: Prometheus' bucket i is (2^((i-1)/64), 2^(i/64)]. */
static void native_buckets(void **state)
{
    (void)state;
    static const uint64_t sets[][6] = {
        { 1, 1, 1, 1, 1, 1 }, { 1, 2, 3, 4, 5, 6 }, { 1, 1000, 1001, 1u << 20, 1u << 30, 7 },
        { 63, 64, 65, 127, 128, 129 }, { 1ull << 50, 1, 1, 3, 3, 3 },
    };
    for (size_t k = 0; k < COUNT(sets); k++) {
        struct sonde_model *m;
        struct sonde_buf out, leaf;
        assert_int_equal(sonde_model_create(NULL, &m), 0);
        struct sonde_model_series *s = add(m, SONDE_HISTOGRAM, "h", NULL, NULL, 0);
        uint64_t count = 0;
        for (size_t i = 0; i < 6; i++) {
            sonde_model_record(s, sets[k][i], i + 1);
            count += i + 1;
        }
        sonde_model_record(s, 0, 9);
        sonde_buf_init(&out, 1 << 20);
        sonde_buf_init(&leaf, 1 << 20);
        rw_native(&out, &leaf, s, 123456);
        const struct pb_part h = { (unsigned char *)out.data, out.len };
        assert_int_equal(pb_value(h, 1), count + 9);
        assert_int_equal(pb_zigzag(pb_value(h, 4)), 6);
        assert_true(pb_double(h, 5) == 0x1p-40);
        assert_int_equal(pb_value(h, 6), 9);
        assert_int_equal(pb_value(h, 15), 123456);
        const struct pb_part deltas = pb_inner(h, 12, 0);
        struct sonde_pb_reader r = sonde_pb_reader(deltas.data, deltas.len);
        int64_t index = 0, n = 0, seen = 0;
        for (size_t i = 0, spans = pb_count(h, 11); i < spans; i++) {
            const struct pb_part span = pb_inner(h, 11, i);
            const int64_t offset = pb_zigzag(pb_value(span, 1));
            assert_true(i == 0 || offset > 0); /* else they would be one span */
            index += offset;
            for (uint64_t len = pb_value(span, 2); len; len--, index++) {
                uint64_t delta, inside = 0;
                assert_int_equal(sonde_pb_next_varint(&r, &delta), 1);
                n += pb_zigzag(delta);
                for (size_t v = 0; v < 6; v++) {
                    const double at = 64 * log2((double)sets[k][v]);
                    const double above = at - (double)index + 1; /* in buckets */
                    inside += above > 1e-9 && above <= 1 + 1e-9 ? v + 1 : 0;
                }
                assert_true(n > 0); /* empty buckets are in no span */
                if ((uint64_t)n != inside) fail_msg("set %zu: %d at %d", k, (int)n, (int)index);
                seen += n;
            }
        }
        uint64_t more;
        assert_int_equal(sonde_pb_next_varint(&r, &more), 0);
        assert_int_equal(seen, count);
        sonde_buf_release(&out);
        sonde_buf_release(&leaf);
        sonde_model_destroy(m);
    }
}

/* ---- The table of what was sent -------------------------------------------------------------- */

struct gone { size_t count; char last[64]; };

static void on_gone(const char *labels, size_t len, void *arg)
{
    struct gone *g = arg;
    g->count++;
    snprintf(g->last, sizeof(g->last), "%.*s", (int)len, labels);
}

static void mark(struct rw_table *t, unsigned n)
{
    char key[32];
    rw_table_mark(t, key, (size_t)snprintf(key, sizeof(key), "series %u", n));
}

/* Without memory for a larger table what is known stays known: it is not told to have ended. */
static void table_that_cannot_grow(void **state)
{
    (void)state;
    for (unsigned filled = 760; filled < 775; filled++) { /* about three quarters of 1024 */
        struct rw_table t = { 0 };
        struct gone gone = { 0 };
        const int64_t live = sonde__alloc_live();
        for (unsigned i = 0; i < filled; i++) mark(&t, i);
        assert_int_equal(t.count, filled);
        rw_table_sweep(&t, on_gone, &gone);
        for (unsigned i = 0; i < filled; i++) {
            sonde__alloc_fail_nth(1);
            mark(&t, i);
            sonde__alloc_fail_nth(0);
        }
        rw_table_sweep(&t, on_gone, &gone);
        if (gone.count) fail_msg("%u: %zu told gone that are there", filled, gone.count);
        for (uint64_t nth = 1; nth <= 2; nth++) { /* a new one is not tracked then, or is */
            sonde__alloc_fail_nth(nth);
            mark(&t, 100000 + (unsigned)nth);
            sonde__alloc_fail_nth(0);
        }
        for (unsigned i = 0; i < filled; i++) mark(&t, i);
        rw_table_sweep(&t, on_gone, &gone);
        assert_true(gone.count <= 1);
        rw_table_release(&t);
        assert_int_equal(sonde__alloc_live(), live);
    }
}

static void table_tells_of_each_once(void **state)
{
    (void)state;
    struct rw_table t = { 0 };
    struct gone gone = { 0 };
    rw_table_sweep(&t, on_gone, &gone); /* of nothing */
    assert_int_equal(gone.count, 0);
    rw_table_mark(&t, "", 0); /* labels may be anything, also none */
    rw_table_mark(&t, "a\0b", 3);
    rw_table_mark(&t, "a\0c", 3);
    rw_table_mark(&t, "a\0b", 3);
    assert_int_equal(t.count, 3);
    rw_table_sweep(&t, on_gone, &gone);
    assert_int_equal(gone.count, 0);
    rw_table_mark(&t, "a\0b", 3);
    rw_table_mark(&t, "a\0c", 3);
    rw_table_sweep(&t, on_gone, &gone);
    assert_int_equal(gone.count, 1);
    assert_string_equal(gone.last, "");
    rw_table_sweep(&t, on_gone, &gone);
    assert_int_equal(gone.count, 3);
    rw_table_sweep(&t, on_gone, &gone);
    assert_int_equal(gone.count, 3);
    assert_int_equal(t.count, 0);
    rw_table_release(&t);
    assert_null(t.rows);
}

/* ---- Its own series -------------------------------------------------------------------------- */

static struct sonde_model_series *find(struct sonde_model *m, const char *name, const char *reason)
{
    for (size_t i = 0; i < m->family_count; i++) {
        struct sonde_model_family *f = m->families[i];
        if (strcmp(f->name, name)) continue;
        for (size_t k = 0; k < f->series_count; k++) {
            struct sonde_model_series *s = f->series[k];
            assert_string_equal(s->labels[0].name, "destination");
            assert_string_equal(s->labels[0].value, "test");
            if (!reason) return s;
            assert_string_equal(s->labels[1].name, "reason");
            if (!strcmp(s->labels[1].value, reason)) return s;
        }
    }
    fail_msg("no series %s, %s", name, reason ? reason : "");
    return NULL;
}

static void own_series(void **state)
{
    (void)state;
    static const struct sonde_push_ops ops = { .name = "test" };
    static struct push_dest d = { .ops = &ops,
                                  .counts = { .sent = 1, .sent_bytes = 2, .failed = 3,
                                              .rejected = 4, .last_sent_s = 5.5,
                                              .dropped = { 10, 20, 30, 40, 50, 60 } } };
    static const struct { const char *name, *reason; double value; } cases[] = {
        { "sonde_push_sent_total", NULL, 1 },
        { "sonde_push_sent_bytes_total", NULL, 2 },
        { "sonde_push_failed_total", NULL, 3 },
        { "sonde_push_rejected_total", NULL, 4 },
        { "sonde_push_spooled_total", NULL, 0 },
        { "sonde_push_queue_batches", NULL, 2 },
        { "sonde_push_queue_bytes", NULL, 2 * (100 + 256) },
        { "sonde_push_last_success_timestamp_seconds", NULL, 5.5 },
        { "sonde_push_dropped_total", "refused", 10 },
        { "sonde_push_dropped_total", "size", 20 + 1 }, /* and the queue's own */
        { "sonde_push_dropped_total", "age", 30 },
        { "sonde_push_dropped_total", "damaged", 40 },
        { "sonde_push_dropped_total", "spool", 50 },
        { "sonde_push_dropped_total", "memory", 60 },
    };
    struct sonde_model *m;
    sonde_lock_init(&d.lock, SONDE_RANK_PUSH_DEST);
    assert_int_equal(push_queue_open(NULL, 800, 1e6, &d.queue, NULL), 0);
    for (int i = 0; i < 3; i++) { /* the third makes the first be dropped */
        push_queue_put(d.queue, push_batch_create(1, "", 1, sonde__calloc(1, 100), 100));
    }
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    for (int round = 0; round < 2; round++) { /* the second finds all there */
        sonde_wrlock(&m->lock);
        push_series_update(&d, m);
        sonde_rwunlock(&m->lock);
        for (size_t i = 0; i < COUNT(cases); i++) {
            const struct sonde_model_series *s = find(m, cases[i].name, cases[i].reason);
            const double v = s->family->type == SONDE_COUNTER ? (double)s->counter : s->gauge;
            if (v != cases[i].value) fail_msg("%s: %g", cases[i].name, v);
            assert_int_equal(s->from_zero, 1);
        }
        assert_int_equal(m->series_count, COUNT(cases));
    }
    /* Named as users expect: counters end in _total, units are in the name, help is a sentence. */
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        const size_t len = strlen(f->name), help = strlen(f->help);
        const int total = len > 6 && !strcmp(f->name + len - 6, "_total");
        assert_int_equal(total, f->type == SONDE_COUNTER);
        if (*f->unit && !strstr(f->name, f->unit)) fail_msg("%s in %s", f->name, f->unit);
        assert_true(help > 10 && isupper((unsigned char)f->help[0]));
        assert_true(f->help[help - 1] == '.');
    }
    push_queue_close(d.queue);
    sonde_lock_destroy(&d.lock);
    sonde_model_destroy(m);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(numbers), T(label_clashes), T(histograms), T(metadata), T(clock_that_goes_back),
        T(the_end_of_a_series), T(native_buckets), T(table_that_cannot_grow),
        T(table_tells_of_each_once), T(own_series),
    };
    return cmocka_run_group_tests_name("remote write", tests, NULL, NULL);
}
