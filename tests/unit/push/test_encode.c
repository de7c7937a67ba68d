/* What is sent of a model: decoded field by field, and with every allocation failing in turn. What
 * real receivers make of it is tested in tests/e2e/test_push_*.sh. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/pb_read.h"
#include "push/push_private.h"
#include "push/remote_write.h"
#include "sonde/sonde.h"

/* ---- A model --------------------------------------------------------------------------------- */

enum { SERIES = 30000 };

static struct sonde_model *make_model(size_t counters)
{
    struct sonde_model *m;
    const struct sonde_model_limits limits = { .series_max = 1u << 20, .history_series_max = 1 };
    const struct sonde_model_family_spec counter = { .name = "app_requests_total",
                                                     .help = "Requests.", .type = SONDE_COUNTER };
    const struct sonde_model_family_spec gauge = { .name = "app_level", .type = SONDE_GAUGE };
    const struct sonde_model_family_spec hist = { .name = "app_seconds", .unit = "seconds",
                                                  .type = SONDE_HISTOGRAM, .scale = 1e-9 };
    assert_int_equal(sonde_model_create(&limits, &m), 0);
    sonde_wrlock(&m->lock);
    struct sonde_model_process *p[2] = { sonde_model_process(m, 100, 1, "one"),
                                         sonde_model_process(m, 200, 2, "two") };
    struct sonde_model_family *f = sonde_model_family(m, &counter);
    for (size_t i = 0; i < counters; i++) {
        char id[32];
        snprintf(id, sizeof(id), "%zu", i);
        const struct sonde_label label = { "id", id };
        struct sonde_model_series *s = sonde_model_series(m, f, p[i % 2], &label, 1);
        assert_non_null(s);
        s->counter = i;
        s->created_s = 50;
    }
    sonde_model_series(m, sonde_model_family(m, &gauge), NULL, NULL, 0)->gauge = -2.5;
    struct sonde_model_series *h =
        sonde_model_series(m, sonde_model_family(m, &hist), p[0], NULL, 0);
    const uint64_t values[] = { 0, 1, 1000000, 1000000, 2000000000, 5 };
    for (size_t i = 0; i < 6; i++) sonde_model_record(h, values[i], 1);
    sonde_model_exemplar(h, &(struct sonde_exemplar){ .value = 2, .trace_hi = 0x1122334455667788,
                                                      .trace_lo = 0x99, .time_s = 99 });
    sonde_model_tick(m, 100);
    sonde_rwunlock(&m->lock);
    return m;
}

static struct sonde_push *push_to(const char *kind, const char *labels)
{
    struct sonde_push *p;
    struct sonde_err err = { "" };
    const struct sonde_push_target target = { .kind = kind, .url = "http://127.0.0.1:1" };
    const struct sonde_push_options o = { .targets = &target, .target_count = 1, .labels = labels,
                                          .signals = SONDE_PUSH_METRICS, .native_histograms = 1 };
    assert_int_equal(sonde_push_create(&o, &p, &err), 0);
    return p;
}

/* ---- OTLP ------------------------------------------------------------------------------------ */

struct seen {
    size_t bodies, points, resources, one, two, largest;
    uint64_t sum;         /* of counters */
    double gauge;
    uint64_t count, zero, in_buckets;
    size_t exemplars;
    int text;             /* labels process and pid are not among the attributes */
};

static void walk(struct sonde_pb_reader r, const uint32_t *path, size_t depth,
                 void (*leaf)(struct sonde_pb_reader, struct seen *), struct seen *s)
{
    struct sonde_pb_field f;
    int more;
    if (!depth) {
        leaf(r, s);
        return;
    }
    while ((more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number != path[0]) continue;
        assert_int_equal(f.wire, SONDE_PB_BYTES);
        walk(sonde_pb_reader(f.data, f.len), path + 1, depth - 1, leaf, s);
    }
    assert_int_equal(more, 0);
}

static void on_number(struct sonde_pb_reader r, struct seen *s)
{
    struct sonde_pb_field f;
    uint64_t start = 0, time = 0;
    double d = 0;
    while (sonde_pb_next(&r, &f) > 0) {
        if (f.number == 2) start = f.value;
        if (f.number == 3) time = f.value;
        if (f.number == 6) s->sum += f.value;
        if (f.number == 4) memcpy(&d, &f.value, sizeof(d)), s->gauge = d;
        if (f.number == 7) s->text |= memmem(f.data, f.len, "pid", 3) != NULL;
    }
    assert_int_equal(time, 100000000000ull);
    assert_true(start == 0 || start == 50000000000ull);
    s->points++;
}

static void on_hist(struct sonde_pb_reader r, struct seen *s)
{
    struct sonde_pb_field f, b;
    uint64_t n;
    while (sonde_pb_next(&r, &f) > 0) {
        if (f.number == 4) s->count = f.value;
        if (f.number == 7) s->zero = f.value;
        if (f.number == 6) assert_int_equal(f.value, 12); /* scale 6, zigzag */
        s->exemplars += f.number == 11;
        if (f.number != 8) continue;
        struct sonde_pb_reader buckets = sonde_pb_reader(f.data, f.len);
        while (sonde_pb_next(&buckets, &b) > 0) {
            if (b.number != 2) continue;
            struct sonde_pb_reader counts = sonde_pb_reader(b.data, b.len);
            while (sonde_pb_next_varint(&counts, &n) > 0) s->in_buckets += n;
        }
    }
    s->points++;
}

static void on_resource(struct sonde_pb_reader r, struct seen *s)
{
    const size_t len = (size_t)(r.end - r.at);
    s->resources++;
    s->one += memmem(r.at, len, "one", 3) != NULL;
    s->two += memmem(r.at, len, "two", 3) != NULL;
}

static void on_body(const char *kind, const char *body, size_t len, void *arg)
{
    struct seen *s = arg;
    const struct sonde_pb_reader r = sonde_pb_reader(body, len);
    assert_string_equal(kind, "otlp");
    s->bodies++;
    if (len > s->largest) s->largest = len;
    walk(r, (const uint32_t[]){ 1, 2, 2, 7, 1 }, 5, on_number, s);
    walk(r, (const uint32_t[]){ 1, 2, 2, 5, 1 }, 5, on_number, s);
    walk(r, (const uint32_t[]){ 1, 2, 2, 10, 1 }, 5, on_hist, s);
    walk(r, (const uint32_t[]){ 1, 1 }, 2, on_resource, s);
}

static void test_otlp(void **state)
{
    (void)state;
    struct sonde_model *m = make_model(10);
    struct sonde_push *p = push_to("otlp", "env=test");
    struct seen s = { 0 };
    assert_int_equal(sonde_push_encode(p, m, on_body, &s), 0);
    assert_int_equal(s.bodies, 1);
    assert_int_equal(s.points, 12);
    assert_int_equal(s.resources, 3);
    assert_int_equal(s.sum, 45);
    assert_true(s.gauge == -2.5);
    assert_int_equal(s.count, 6);
    assert_int_equal(s.zero, 1);
    assert_int_equal(s.in_buckets, 5);
    assert_int_equal(s.exemplars, 1);
    assert_false(s.text);
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

/* More than one request's worth: every point once, in requests of a bounded size. */
static void test_otlp_large(void **state)
{
    (void)state;
    struct sonde_model *m = make_model(SERIES * 4);
    struct sonde_push *p = push_to("otlp", NULL);
    struct seen s = { 0 };
    assert_int_equal(sonde_push_encode(p, m, on_body, &s), 0);
    assert_in_range(s.bodies, 2, 100);
    assert_in_range(s.largest, 1 << 20, 5 << 20);
    assert_int_equal(s.points, SERIES * 4 + 2);
    assert_int_equal(s.sum, (uint64_t)SERIES * 4 * (SERIES * 4 - 1) / 2);
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

/* ---- Remote write ---------------------------------------------------------------------------- */

struct written {
    size_t bodies, series, stale, named, histograms, metadata;
    int unsorted, doubled;
    char labels[64][512];   /* of the first ones: name=value,… */
};

static void copy_text(char *out, size_t size, const struct sonde_pb_field *f)
{
    snprintf(out, size, "%.*s", (int)f->len, (const char *)f->data);
}

static void on_series(struct sonde_pb_reader r, struct written *w)
{
    struct sonde_pb_field f, g;
    char before[128] = "", *text = w->labels[w->series < 64 ? w->series : 63];
    size_t at = 0;
    text[0] = '\0';
    while (sonde_pb_next(&r, &f) > 0) {
        w->histograms += f.number == 4;
        if (f.number != 1 && f.number != 2) continue;
        struct sonde_pb_reader inner = sonde_pb_reader(f.data, f.len);
        char name[128] = "", value[128] = "";
        while (sonde_pb_next(&inner, &g) > 0) {
            if (f.number == 2 && g.number == 1) w->stale += g.value == 0x7ff0000000000002ull;
            if (f.number == 1 && g.number == 1) copy_text(name, sizeof(name), &g);
            if (f.number == 1 && g.number == 2) copy_text(value, sizeof(value), &g);
        }
        if (f.number != 1) continue;
        w->unsorted |= strcmp(before, name) > 0;
        w->doubled |= strcmp(before, name) == 0;
        snprintf(before, sizeof(before), "%s", name);
        at += (size_t)snprintf(text + at, 512 - at, "%s=%s,", name, value);
    }
    w->series++;
}

static void on_write(const char *kind, const char *body, size_t len, void *arg)
{
    struct written *w = arg;
    struct sonde_pb_reader r = sonde_pb_reader(body, len);
    struct sonde_pb_field f;
    int more;
    assert_string_equal(kind, "remote_write");
    w->bodies++;
    while ((more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number == 1) on_series(sonde_pb_reader(f.data, f.len), w);
        w->metadata += f.number == 3;
    }
    assert_int_equal(more, 0);
}

static void test_remote_write(void **state)
{
    (void)state;
    static struct written w;
    struct sonde_model *m = make_model(2);
    struct sonde_push *p = push_to("remote_write", "pid=7,zone=x,job=mine");
    w = (struct written){ 0 };
    assert_int_equal(sonde_push_encode(p, m, on_write, &w), 0);
    assert_int_equal(w.metadata, 3);
    assert_int_equal(w.histograms, 1);
    assert_int_equal(w.stale, 0);
    assert_false(w.unsorted || w.doubled);
    int found = 0;
    for (size_t i = 0; i < w.series && i < 64; i++) {
        found += strstr(w.labels[i], "__name__=app_requests_total,id=0,instance=") != NULL &&
                 strstr(w.labels[i], ",job=mine,pid=100,process=one,zone=x,") != NULL;
        found += strstr(w.labels[i], "__name__=app_level,") != NULL &&
                 strstr(w.labels[i], ",job=mine,pid=7,zone=x,") != NULL;
        found += strstr(w.labels[i], "__name__=app_seconds_bucket,") != NULL &&
                 strstr(w.labels[i], ",le=+Inf,") != NULL;
        found += strstr(w.labels[i], "__name__=app_seconds_count,") != NULL;
    }
    assert_int_equal(found, 4);

    /* At the same time nothing; later all again, and what is gone once more, marked. */
    const size_t series = w.series;
    w = (struct written){ 0 };
    assert_int_equal(sonde_push_encode(p, m, on_write, &w), 0);
    assert_int_equal(w.series, 0);
    m->now_s = 101;
    assert_int_equal(sonde_push_encode(p, m, on_write, &w), 0);
    assert_int_equal(w.series, series);
    assert_int_equal(w.metadata, 0);
    sonde_wrlock(&m->lock);
    sonde_model_process_forget(m, m->processes[1]); /* "two": one counter */
    sonde_rwunlock(&m->lock);
    w = (struct written){ 0 };
    m->now_s = 102;
    assert_int_equal(sonde_push_encode(p, m, on_write, &w), 0);
    assert_int_equal(w.series, series);
    assert_int_equal(w.stale, 1);
    w = (struct written){ 0 };
    m->now_s = 103;
    assert_int_equal(sonde_push_encode(p, m, on_write, &w), 0);
    assert_int_equal(w.series, series - 1);
    assert_int_equal(w.stale, 0);
    sonde_push_destroy(p);
    sonde_model_destroy(m);
}

static void count_gone(const char *labels, size_t len, void *arg)
{
    (void)labels, (void)len;
    ++*(size_t *)arg;
}

/* Rounds in which every third comes, and others in between: none is told gone that is there, all
 * that are not are told once. */
static void test_table(void **state)
{
    (void)state;
    struct rw_table t = { 0 };
    size_t gone = 0, before = 0;
    for (uint32_t round = 0; round < 30; round++) {
        size_t there = 0;
        for (uint32_t i = round * 100; i < round * 100 + 3000; i += 1 + round % 3) {
            char key[40];
            const int len = snprintf(key, sizeof(key), "series %u of some", i);
            rw_table_mark(&t, key, (size_t)len);
            there++;
        }
        const size_t known = t.count;
        gone = 0;
        rw_table_sweep(&t, count_gone, &gone);
        assert_int_equal(t.count, there);
        assert_int_equal(gone, known - there);
        before = there;
    }
    assert_true(before > 0);
    rw_table_release(&t);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void ignore(const char *kind, const char *body, size_t len, void *arg)
{
    (void)kind, (void)body, (void)len, (void)arg;
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char *const kinds[] = { "otlp", "remote_write" };
    struct sonde_model *m = make_model(20);
    for (size_t k = 0; k < 2; k++) {
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc && nth < 3000; nth++) {
            struct sonde_push *p = NULL;
            struct sonde_err err;
            const struct sonde_push_target target = { .kind = kinds[k], .url = "http://x",
                                                      .headers = "A: b\n" };
            const struct sonde_push_options o = { .targets = &target, .target_count = 1,
                                                  .labels = "a=b", .signals = SONDE_PUSH_METRICS };
            const int64_t live = sonde__alloc_live();
            sonde__alloc_fail_nth(nth);
            rc = sonde_push_create(&o, &p, &err);
            if (!rc) rc = sonde_push_encode(p, m, ignore, NULL);
            /* What could not be kept to tell of its end, or be emitted, is no error of all. */
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            sonde_push_destroy(p);
            assert_int_equal(sonde__alloc_live(), live);
        }
        assert_int_equal(rc, 0);
    }
    sonde_model_destroy(m);
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct { const char *kind, *url, *headers, *labels, *says; } cases[] = {
        { "smoke", "http://x", NULL, NULL, "smoke" },
        { "otlp", "x:4318", NULL, NULL, "x:4318" },
        { "otlp", "ftp://x", NULL, NULL, "ftp://x" },
        { "otlp", "http://", NULL, NULL, "http://" },
        { "otlp", "http://me:pw@x", NULL, NULL, "credentials" },
        { "otlp", "http://x/?a=b", NULL, NULL, "no ?" },
        { "otlp", "http://x", "Good: one\nbad\n", NULL, "line 2 (bad" },
        { "otlp", "http://x", "A: b\001c\n", NULL, "line 1 (A" },
        { "otlp", "http://x", ": b\n", NULL, "line 1" },
        { "otlp", "http://x", NULL, "a", "'a'" },
        { "otlp", "http://x", NULL, "a=b,2c=d", "'2c'" },
        { "otlp", "http://x", NULL, "__a=b", "'__a'" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_push *p = NULL;
        struct sonde_err err = { "" };
        const struct sonde_push_target target = { cases[i].kind, cases[i].url, cases[i].headers };
        const struct sonde_push_options o = { .targets = &target, .target_count = 1,
                                              .labels = cases[i].labels };
        assert_int_equal(sonde_push_create(&o, &p, &err), SONDE_EINVAL);
        if (!strstr(err.text, cases[i].says)) fail_msg("case %zu says: %s", i, err.text);
        if (cases[i].headers) assert_null(strstr(err.text, "b\001c")); /* may be a secret */
    }
}

static void test_signals(void **state)
{
    (void)state;
    uint32_t s = 9;
    struct sonde_err err;
    assert_int_equal(sonde_push_signals("metrics,profiles", &s, &err), 0);
    assert_int_equal(s, SONDE_PUSH_METRICS | SONDE_PUSH_PROFILES);
    assert_int_equal(sonde_push_signals("", &s, &err), 0);
    assert_int_equal(s, 0);
    assert_int_equal(sonde_push_signals("traces,words", &s, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "'words'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_otlp),         cmocka_unit_test(test_otlp_large),
        cmocka_unit_test(test_remote_write), cmocka_unit_test(test_table),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
