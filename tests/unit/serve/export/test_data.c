/* Protobuf (decoded again, field by field), JSON (parsed by jansson) and CSV. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>

#include "serve/export/export.h"
#include "unit/serve/serve_model.h"

static struct sonde_model *m;
static struct sonde_buf out;

static int setup(void **state)
{
    (void)state;
    sonde_buf_init(&out, 1 << 24);
    return sonde_model_create(NULL, &m);
}

static int teardown(void **state)
{
    (void)state;
    sonde_buf_release(&out);
    sonde_model_destroy(m);
    return 0;
}

static void render(const char *format)
{
    sonde_export_find(format)->render(m, NULL, &out);
    assert_int_equal(out.error, 0);
}

/* ---- A decoder of the wire format --------------------------------------------------------- */

struct bytes { const unsigned char *at, *end; };
struct field { uint32_t number, wire; uint64_t v; double d; struct bytes sub; };

static uint64_t varint(struct bytes *b)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(b->at < b->end && shift < 64);
        v |= (uint64_t)(*b->at & 127) << shift;
        if (!(*b->at++ & 128)) return v;
    }
}

static int64_t zigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

static int next(struct bytes *b, struct field *f)
{
    if (b->at == b->end) return 0;
    const uint64_t tag = varint(b);
    *f = (struct field){ .number = (uint32_t)(tag >> 3), .wire = tag & 7 };
    switch (f->wire) {
    case 0: f->v = varint(b); break;
    case 1:
        assert_true(b->end - b->at >= 8);
        memcpy(&f->d, b->at, 8);
        b->at += 8;
        break;
    case 2:
        f->v = varint(b);
        assert_true(f->v <= (uint64_t)(b->end - b->at));
        f->sub = (struct bytes){ b->at, b->at + f->v };
        b->at += f->v;
        break;
    default: fail();
    }
    return 1;
}

/* The nth field of this number; number 0 when there is none. */
static struct field get(struct bytes b, uint32_t number, int nth)
{
    struct field f;
    while (next(&b, &f)) {
        if (f.number == number && nth-- == 0) return f;
    }
    return (struct field){ 0 };
}

static void text_is(struct field f, const char *text)
{
    assert_int_equal(f.v, strlen(text));
    assert_memory_equal(f.sub.at, text, strlen(text));
}

/* The nth family of the stream. */
static struct bytes family_at(int nth)
{
    struct bytes all = { (const unsigned char *)out.data,
                         (const unsigned char *)out.data + out.len };
    for (;;) {
        const uint64_t n = varint(&all);
        assert_true(n <= (uint64_t)(all.end - all.at));
        if (nth-- == 0) return (struct bytes){ all.at, all.at + n };
        all.at += n;
    }
}

static void test_pb_scalars(void **state)
{
    (void)state;
    struct sonde_model_family *f = family(m, SONDE_COUNTER, "a_seconds", NULL, "seconds", 1e-9);
    series1(m, f, "k", "v\"\n")->counter = 2500000000;
    f = family(m, SONDE_GAUGE, "b", "Bee.", "", 1);
    series1(m, f, NULL, NULL)->gauge = -0.5;
    render("protobuf");
    struct bytes a = family_at(0), b = family_at(1);
    text_is(get(a, 1, 0), "a_seconds_total");
    text_is(get(a, 2, 0), "A seconds.");
    assert_int_equal(get(a, 3, 0).v, 0);
    text_is(get(a, 5, 0), "seconds");
    struct bytes metric = get(a, 4, 0).sub;
    text_is(get(get(metric, 1, 0).sub, 1, 0), "k");
    text_is(get(get(metric, 1, 0).sub, 2, 0), "v\"\n");
    struct bytes counter = get(metric, 3, 0).sub;
    assert_true(get(counter, 1, 0).d == 2.5);
    assert_int_equal(get(get(counter, 3, 0).sub, 1, 0).v, 1700000000);
    assert_int_equal(get(get(counter, 3, 0).sub, 2, 0).v, 250000000);
    text_is(get(b, 1, 0), "b");
    assert_int_equal(get(b, 3, 0).v, 1);
    assert_int_equal(get(b, 5, 0).number, 0);
    assert_true(get(get(get(b, 4, 0).sub, 2, 0).sub, 1, 0).d == -0.5);
}

/* Spans and deltas give back the recorder's buckets: index p - 2560. */
static void test_pb_native(void **state)
{
    (void)state;
    struct sonde_model_family *f = family(m, SONDE_HISTOGRAM, "h", "H.", "", 1);
    struct sonde_model_series *s = series1(m, f, NULL, NULL);
    struct sonde_hist_value *h = sonde_model_hist(s);
    static const struct { uint32_t p; uint64_t n; } set[] = {
        { 0, 5 },    { 1, 9 },    { 2, 1 },    { 5, 7 }, /* gap of two: same span */
        { 9, 2 },                                        /* gap of three: a new one */
        { 2560, 3 }, { 2561, 100000000000ull }, { 6143, 1 },
    };
    h->zero = 4;
    h->count = 4;
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        sonde_hist_value_add(h, set[i].p, set[i].n);
    }
    h->sum_raw = 77;
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 1, 0xa, 0xb, 1700000000.5 });
    render("protobuf");
    struct bytes hist = get(get(family_at(0), 4, 0).sub, 7, 0).sub;
    assert_int_equal(get(hist, 1, 0).v, h->count);
    assert_true(get(hist, 2, 0).d == 77);
    assert_int_equal(zigzag(get(hist, 5, 0).v), 6);
    assert_true(get(hist, 6, 0).d == ldexp(1, -40));
    assert_int_equal(get(hist, 7, 0).v, 9); /* bucket 0 holds the threshold itself */
    struct bytes deltas = get(hist, 13, 0).sub;
    int64_t index = 0, count = 0;
    uint64_t total = 0;
    size_t found = 1, spans = 0;
    for (struct field span; (span = get(hist, 12, (int)spans)).number; spans++) {
        index += zigzag(get(span.sub, 1, 0).v);
        for (uint64_t n = get(span.sub, 2, 0).v; n > 0; n--, index++) {
            count += zigzag(varint(&deltas));
            assert_true(count >= 0);
            total += (uint64_t)count;
            if (!count) continue;
            assert_int_equal(index, (int64_t)set[found].p - 2560);
            assert_int_equal(count, set[found++].n);
        }
    }
    assert_true(deltas.at == deltas.end);
    assert_int_equal(found, sizeof(set) / sizeof(set[0]));
    assert_int_equal(spans, 4);
    assert_int_equal(total + 9, h->count);
    /* The exemplar stands both by itself and on its classic bucket, le = 1. */
    text_is(get(get(get(hist, 16, 0).sub, 1, 0).sub, 2, 0), "000000000000000a000000000000000b");
    size_t on_buckets = 0;
    uint64_t before = 0;
    double bound = -1;
    for (int i = 0; get(hist, 3, i).number; i++) {
        struct bytes bucket = get(hist, 3, i).sub;
        assert_true(get(bucket, 1, 0).v >= before && get(bucket, 2, 0).d > bound);
        before = get(bucket, 1, 0).v;
        bound = get(bucket, 2, 0).d;
        if (!get(bucket, 3, 0).number) continue;
        on_buckets++;
        assert_true(bound == 1);
    }
    assert_int_equal(on_buckets, 1);
    assert_true(isinf(bound));
    assert_int_equal(before, h->count);
}

static void test_json(void **state)
{
    (void)state;
    struct sonde_model_process *p = sonde_model_process(m, 42, 1, "prog");
    struct sonde_model_family *f = family(m, SONDE_HISTOGRAM, "h_seconds", "H.", "seconds", 1);
    struct sonde_label l = { "q", "a\"\\\n\xc3\xa4" };
    struct sonde_model_series *s = sonde_model_series(m, f, p, &l, 1);
    record(s, 0, 2);
    record(s, 4, 3);
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 4, 1, 2, 1700000000.5 });
    series1(m, family(m, SONDE_COUNTER, "c_total", "C.", "", 0.5), NULL, NULL)->counter = 3;
    series1(m, family(m, SONDE_GAUGE, "g", "G.", "", 1), NULL, NULL)->gauge = NAN;
    sonde_model_tick(m, 1700000009);
    render("json");
    json_t *root = json_loads(out.data, 0, NULL);
    assert_non_null(root);
    json_t *families = json_object_get(root, "families");
    assert_int_equal(json_array_size(families), 3);
    json_t *c = json_array_get(json_object_get(json_array_get(families, 0), "series"), 0);
    assert_true(json_number_value(json_object_get(c, "value")) == 1.5);
    assert_int_equal(json_integer_value(json_object_get(c, "raw")), 3);
    json_t *g = json_array_get(json_object_get(json_array_get(families, 1), "series"), 0);
    assert_true(json_is_null(json_object_get(g, "value")));
    json_t *h = json_array_get(json_object_get(json_array_get(families, 2), "series"), 0);
    const char *process, *label, *trace;
    int pid, value, zero, count;
    double sum, upper, time;
    assert_int_equal(
        json_unpack(h, "{s:{s:s},s:s,s:i,s:i,s:F,s:i,s:[[F,i]],s:[{s:s,s:F}],s:o}", "labels", "q",
                    &label, "process", &process, "pid", &pid, "value", &value, "sum", &sum,
                    "zero", &zero, "buckets", &upper, &count, "exemplars", "trace_id", &trace,
                    "time", &time, "window", &c),
        0);
    assert_string_equal(label, "a\"\\\n\xc3\xa4");
    assert_string_equal(process, "prog");
    assert_string_equal(trace, "00000000000000010000000000000002");
    assert_true(pid == 42 && value == 5 && sum == 12 && zero == 2 && upper == 4 && count == 3);
    assert_true(time == 1700000000.5);
    assert_non_null(json_object_get(c, "p99"));
    json_decref(root);
}

static void test_csv(void **state)
{
    (void)state;
    series1(m, family(m, SONDE_COUNTER, "a_total", "A.", "", 1), "x", "plain")->counter = 12;
    series1(m, family(m, SONDE_GAUGE, "b", "B.", "", 1), "w", "q\"u,o\nte")->gauge = 0.25;
    struct sonde_model_family *f = family(m, SONDE_HISTOGRAM, "c", "C.", "seconds", 1);
    struct sonde_model_series *s = series1(m, f, NULL, NULL);
    record(s, 4, 99);
    record(s, 1024, 1);
    series1(m, f, "x", "empty");
    render("csv");
    static const char *const lines[] = {
        "name,type,kind,unit,source,label_w,label_x,value,count,sum,avg,min,max,p50,p90,p95,p99,"
        "rate\r\n",
        "a_total,counter,custom,,test,,plain,12,",
        "b,gauge,custom,,test,\"q\"\"u,o\nte\",,0.25,",
        "c,histogram,custom,seconds,test,,,100,100,1420,14.2,",
        "c,histogram,custom,seconds,test,,empty,0,0,0,,,,,,,,",
    };
    const char *at = out.data;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_memory_equal(at, lines[i], strlen(lines[i]));
        at = strstr(at, "\r\n") + 2;
    }
    assert_string_equal(at, "");
    /* min, max and quantiles of the histogram with data. */
    double v[6];
    const char *row = strstr(out.data, ",14.2,") + 6;
    assert_int_equal(sscanf(row, "%lf,%lf,%lf,%lf,%lf,%lf", v, v + 1, v + 2, v + 3, v + 4, v + 5),
                     6);
    assert_true(v[0] == 4 && fabs(v[1] - 1024) < 6);
    for (int i = 2; i < 6; i++) assert_true(v[i] == 4);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(test_pb_scalars), ROW(test_pb_native), ROW(test_json), ROW(test_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
