/* OTLP field by field: resources, attributes, units, points, histograms, spans and what a collector
 * says about what it did not take. test_encode.c has the sums over many. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "infer/event.h"
#include "push/otlp.h"
#include "push/put_pb.h"
#include "sonde/sonde.h"
#include "unit/push/pb_look.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

extern const struct sonde_push_ops sonde_push_otlp, sonde_push_remote_write, sonde_push_pyroscope;

/* ---- Small parts ----------------------------------------------------------------------------- */

static void varints(void **state)
{
    (void)state;
    static const struct { uint64_t v; size_t size; } cases[] = {
        { 0, 1 }, { 1, 1 }, { 127, 1 }, { 128, 2 }, { 16383, 2 }, { 16384, 3 }, { 1u << 21, 4 },
        { UINT32_MAX, 5 }, { (1ull << 56) - 1, 8 }, { 1ull << 56, 9 }, { (1ull << 63) - 1, 9 },
        { 1ull << 63, 10 }, { UINT64_MAX, 10 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char bytes[16];
        uint64_t back;
        assert_int_equal(sonde_varint_size(cases[i].v), cases[i].size);
        assert_int_equal(push_put_varint(bytes, cases[i].v) - bytes, cases[i].size);
        struct sonde_pb_reader r = sonde_pb_reader(bytes, cases[i].size);
        assert_int_equal(sonde_pb_next_varint(&r, &back), 1);
        assert_true(back == cases[i].v);
        assert_int_equal(sonde_pb_next_varint(&r, &back), 0);
    }
    assert_int_equal(push_bytes_size(0), 2);
    assert_int_equal(push_bytes_size(127), 129);
    assert_int_equal(push_bytes_size(128), 131);
}

static void attributes(void **state)
{
    (void)state;
    struct push_otlp_scratch s;
    struct sonde_buf b;
    char text[512];
    static char long_value[300];
    memset(long_value, 'v', sizeof(long_value) - 1);
    push_otlp_scratch_init(&s, 1 << 16);
    sonde_buf_init(&b, 1 << 16);
    push_otlp_str(&b, 9, "s", "text");
    push_otlp_str(&b, 9, "", "");
    push_otlp_int(&b, 9, &s, "i", 7);
    push_otlp_int(&b, 9, &s, "least", INT64_MIN);
    push_otlp_double(&b, 9, &s, "d", -0.5);
    push_otlp_str(&b, 1, "other", "field");
    pb_attributes((struct pb_part){ (unsigned char *)b.data, b.len }, 9, text, sizeof(text));
    assert_string_equal(text, "s=text = i=#7 least=#-9223372036854775808 d=~-0.5");
    sonde_buf_reset(&b);
    push_otlp_str(&b, 9, "long", long_value); /* lengths of two bytes */
    pb_attributes((struct pb_part){ (unsigned char *)b.data, b.len }, 9, text, sizeof(text));
    assert_int_equal(strlen(text), 5 + 299);
    sonde_buf_release(&b);
    sonde_buf_init(&b, 8); /* it does not fit: an error that sticks, and no half of it */
    push_otlp_str(&b, 9, "key", "value");
    assert_int_equal(b.error, SONDE_EFULL);
    assert_int_equal(b.len, 0);
    sonde_buf_release(&b);
    push_otlp_scratch_release(&s);
}

static void ids_are_big_endian(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 100);
    push_otlp_id(&b, 1, (const uint64_t[]){ 0x0102030405060708ull, 0x090a0b0c0d0e0f10ull }, 2);
    const struct pb_part p = pb_inner((struct pb_part){ (unsigned char *)b.data, b.len }, 1, 0);
    assert_int_equal(p.len, 16);
    for (size_t i = 0; i < 16; i++) assert_int_equal(p.data[i], i + 1);
    sonde_buf_release(&b);
}

static void resources(void **state)
{
    (void)state;
    static struct push_origin o = { .host = "box", .labels = { { "env", "test" }, { "b", "" } } };
    static const struct { struct push_otlp_who who; size_t labels; const char *text; } cases[] = {
        { { "", 0, 0 }, 0,
          "service.name=sonde service.instance.id=box host.name=box os.type=linux" },
        { { "app", 12, 345 }, 0,
          "service.name=app service.instance.id=box:12:345 host.name=box os.type=linux "
          "process.pid=#12 process.executable.name=app" },
        { { "sent by others", 0, 0 }, 2,
          "service.name=sent by others service.instance.id=box host.name=box os.type=linux "
          "env=test b=" },
        { { "", UINT32_MAX, UINT64_MAX }, 1,
          "service.name=sonde service.instance.id=box:4294967295:18446744073709551615 "
          "host.name=box os.type=linux process.pid=#4294967295 process.executable.name= env=test" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_otlp_scratch s;
        struct sonde_buf b;
        char text[1024];
        push_otlp_scratch_init(&s, 1 << 16);
        sonde_buf_init(&b, 1 << 16);
        o.label_count = cases[i].labels;
        push_otlp_resource(&b, &s, &o, &cases[i].who);
        pb_attributes((struct pb_part){ (unsigned char *)b.data, b.len }, 1, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
        sonde_buf_release(&b);
        push_otlp_scratch_release(&s);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void again_or_never(void **state)
{
    (void)state;
    /* OTLP says which; the others: too many, and whatever is the server's fault. */
    for (long status = 100; status < 600; status++) {
        const int otlp = status == 429 || (status >= 502 && status <= 504);
        const int others = status == 429 || status >= 500;
        assert_int_equal(sonde_push_otlp.again(status), otlp);
        assert_int_equal(sonde_push_remote_write.again(status), others);
        assert_int_equal(sonde_push_pyroscope.again(status), others);
    }
}

static void partial_success(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        uint64_t count;
        const char *why;
    } cases[] = {
        { "", 0, 0, "" },
        { "\x0a\x00", 2, 0, "" },
        { "\x0a\x02\x08\x05", 4, 5, "" },
        { "\x0a\x04\x12\x02no", 6, 0, "no" },                /* a warning only */
        { "\x0a\x06\x08\x05\x12\x02no", 8, 5, "no" },
        { "\x0a\x06\x12\x02no\x08\x05", 8, 5, "no" },        /* in another order */
        { "\x0a\x06\x08\x05\x12\x02\nx", 8, 5, " x" },       /* no new lines in the log */
        { "\x0a\x06\x08\x05\x12\x02\xff\xfe", 8, 5, "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, 0, "" }, /* -1 */
        { "\x0a\x06\x08\xff\xff\xff\xff\x0f", 8, 0, "" },    /* more than there can be */
        { "\x12\x02\x08\x05", 4, 0, "" },                    /* another field */
        { "\x08\x05", 2, 0, "" },                            /* not a message */
        { "\x0a\x09\x08\x05", 4, 0, "" },                    /* cut short */
        { "\x0a\x02\x08\xff", 4, 0, "" },
        { "{\"partialSuccess\":{}}", 21, 0, "" },            /* JSON */
        { "\xff\xff\xff\xff\xff\xff", 6, 0, "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char why[32] = "";
        const uint64_t n = sonde_push_otlp.rejected(cases[i].bytes, cases[i].len, why, sizeof(why));
        if (n != cases[i].count) fail_msg("case %zu: %llu", i, (unsigned long long)n);
        assert_string_equal(why, cases[i].why);
    }
    assert_int_equal(sonde_push_otlp.rejected(NULL, 0, NULL, 0), 0);
    static char message[220] = "\x0a\xd1\x01\x12\xce\x01"; /* longer than there is room for */
    memset(message + 6, 'm', 206);
    char why[16] = "";
    sonde_push_otlp.rejected(message, 212, why, sizeof(why));
    assert_string_equal(why, "mmmmmmmmmmmmmmm");
}

static void packing(void **state)
{
    (void)state;
    static char text[100000];
    memset(text, 'a', sizeof(text));
    const struct sonde_buf raw = { .data = text, .len = sizeof(text) };
    struct sonde_buf packed, back;
    sonde_buf_init(&packed, 1 << 20);
    sonde_buf_init(&back, 1 << 20);
    assert_int_equal(sonde_push_otlp.pack(&raw, &packed), 0);
    assert_true(packed.len < 2000);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &back), 0);
    assert_int_equal(back.len, sizeof(text));
    assert_memory_equal(back.data, text, sizeof(text));
    sonde_buf_reset(&packed);
    assert_int_equal(sonde_push_remote_write.pack(&raw, &packed), 0);
    assert_true(packed.len < 10000);
    assert_memory_equal(packed.data, "\xa0\x8d\x06", 3); /* snappy: the length first */
    sonde_buf_release(&packed);
    sonde_buf_release(&back);
    sonde_buf_init(&packed, 10);
    assert_int_not_equal(sonde_push_remote_write.pack(&raw, &packed), 0);
    sonde_buf_release(&packed);
    assert_null(sonde_push_pyroscope.pack);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static void keep(const char *kind, const char *body, size_t len, void *arg)
{
    struct sonde_buf *b = arg;
    (void)kind;
    assert_int_equal(b->len, 0); /* one request */
    sonde_buf_add(b, body, len);
}

/* The metrics of a model as one request, with what they are for. */
static struct pb_part encode(struct sonde_model *m, struct sonde_buf *b)
{
    struct sonde_push *p;
    struct sonde_err err = { "" };
    const struct sonde_push_target target = { .kind = "otlp", .url = "http://127.0.0.1:1" };
    const struct sonde_push_options o = { .targets = &target, .target_count = 1,
                                          .signals = SONDE_PUSH_METRICS };
    assert_int_equal(sonde_push_create(&o, &p, &err), 0);
    sonde_buf_init(b, 1 << 22);
    assert_int_equal(sonde_push_encode(p, m, keep, b), 0);
    sonde_push_destroy(p);
    return (struct pb_part){ (unsigned char *)b->data, b->len };
}

/* The only family's metric of the only resource. */
static struct pb_part metric_of(struct pb_part request)
{
    assert_int_equal(pb_count(request, 1), 1);
    const struct pb_part scope = pb_inner(pb_inner(request, 1, 0), 2, 0);
    pb_expect_text(pb_inner(scope, 1, 0), 1, "sonde");
    pb_expect_text(pb_inner(scope, 1, 0), 2, SONDE_VERSION);
    assert_int_equal(pb_count(scope, 2), 1);
    return pb_inner(scope, 2, 0);
}

static void units(void **state)
{
    (void)state;
    static const struct { const char *name, *unit, *theirs; } cases[] = {
        { "a", "seconds", "s" },          { "a", "bytes", "By" },        { "a", "ratio", "1" },
        { "a", "percent", "%" },          { "a", "tokens", "tokens" },   { "a", NULL, NULL },
        { "x_seconds", NULL, "s" },       { "x_bytes_total", NULL, "By" },
        { "x_ratio", NULL, "1" },         { "seconds", NULL, NULL },     { "xseconds", NULL, NULL },
        { "x_seconds_y", NULL, NULL },    { "x_bytes", "seconds", "s" }, /* what it says counts */
        { "x_seconds", "widgets", "widgets" },
        { "_seconds", NULL, "s" },        { "x_total", NULL, NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_model *m;
        struct sonde_buf b;
        const struct sonde_model_family_spec spec = { .name = cases[i].name, .unit = cases[i].unit,
                                                      .type = SONDE_GAUGE };
        assert_int_equal(sonde_model_create(NULL, &m), 0);
        assert_non_null(sonde_model_series(m, sonde_model_family(m, &spec), NULL, NULL, 0));
        sonde_model_tick(m, 100);
        const struct pb_part metric = metric_of(encode(m, &b));
        pb_expect_text(metric, 1, cases[i].name);
        assert_int_equal(pb_count(metric, 3), cases[i].theirs != NULL);
        if (cases[i].theirs) pb_expect_text(metric, 3, cases[i].theirs);
        sonde_buf_release(&b);
        sonde_model_destroy(m);
    }
}

/* A counter: whole where it can be, from when it was made, of the same series as its labels say. */
static void counters(void **state)
{
    (void)state;
    static const struct {
        uint64_t counter;
        double scale, created_s;
        int as_int;
        double as_double;
        uint64_t start_ns;
    } cases[] = {
        { 0, 1, 50, 1, 0, 50000000000ull },
        { 7, 1, 50, 1, 0, 50000000000ull },
        { INT64_MAX, 1, 0, 1, 0, 0 },
        { (uint64_t)INT64_MAX + 1, 1, 50, 0, 9223372036854775808.0, 50000000000ull },
        { 1500, 1e-3, 50, 0, 1.5, 50000000000ull },
        { 7, 1, 200, 1, 0, 100000000000ull },  /* made after now: it cannot be */
        { 7, 1, -5, 1, 0, 0 },
        { 7, 1, NAN, 1, 0, 0 },
        { 7, 1, 1e300, 1, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_model *m;
        struct sonde_buf b;
        char text[256];
        const struct sonde_label labels[] = { { "a", "1" }, { "b", "" } };
        const struct sonde_model_family_spec spec = { .name = "c_total", .type = SONDE_COUNTER,
                                                      .help = "What it is.",
                                                      .scale = cases[i].scale };
        assert_int_equal(sonde_model_create(NULL, &m), 0);
        struct sonde_model_process *p = sonde_model_process(m, 12, 345, "app");
        struct sonde_model_series *s = sonde_model_series(m, sonde_model_family(m, &spec), p,
                                                          labels, 2);
        s->counter = cases[i].counter;
        s->created_s = cases[i].created_s;
        sonde_model_tick(m, 100);
        const struct pb_part metric = metric_of(encode(m, &b)), sum = pb_inner(metric, 7, 0);
        pb_expect_text(metric, 2, "What it is.");
        assert_int_equal(pb_value(sum, 2), 2); /* cumulative */
        assert_int_equal(pb_value(sum, 3), 1); /* monotonic */
        assert_int_equal(pb_count(sum, 1), 1);
        const struct pb_part point = pb_inner(sum, 1, 0);
        assert_int_equal(pb_value(point, 3), 100000000000ull);
        if (pb_value(point, 2) != cases[i].start_ns) {
            fail_msg("case %zu: from %llu", i, (unsigned long long)pb_value(point, 2));
        }
        assert_int_equal(pb_count(point, 6), cases[i].as_int);
        assert_int_equal(pb_count(point, 4), !cases[i].as_int);
        if (cases[i].as_int) assert_int_equal(pb_value(point, 6), cases[i].counter);
        else assert_true(pb_double(point, 4) == cases[i].as_double);
        pb_attributes(point, 7, text, sizeof(text)); /* process and pid are the resource's */
        assert_string_equal(text, "a=1 b=");
        sonde_buf_release(&b);
        sonde_model_destroy(m);
    }
}

static void gauges(void **state)
{
    (void)state;
    static const double values[] = { 0, -2.5, 1e308, INFINITY, -INFINITY, NAN };
    for (size_t i = 0; i < COUNT(values); i++) {
        struct sonde_model *m;
        struct sonde_buf b;
        const struct sonde_model_family_spec spec = { .name = "g", .type = SONDE_GAUGE };
        assert_int_equal(sonde_model_create(NULL, &m), 0);
        sonde_model_series(m, sonde_model_family(m, &spec), NULL, NULL, 0)->gauge = values[i];
        sonde_model_tick(m, 100);
        const struct pb_part gauge = pb_inner(metric_of(encode(m, &b)), 5, 0);
        assert_int_equal(pb_count(gauge, 2) + pb_count(gauge, 3), 0);
        const struct pb_part point = pb_inner(gauge, 1, 0);
        assert_int_equal(pb_count(point, 2), 0); /* a gauge has no beginning */
        const double got = pb_double(point, 4);
        assert_true(isnan(values[i]) ? isnan(got) : got == values[i]);
        sonde_buf_release(&b);
        sonde_model_destroy(m);
    }
}

/* Bucket i of OTLP is (2^(i/64), 2^((i+1)/64)]: every value lies in the one
 * that it is counted in. */
static void histogram_buckets(void **state)
{
    (void)state;
    static const uint64_t values[] = { 1, 2, 3, 1000, 1001, 4096, 4097, 1u << 30, 3000000000u };
    struct sonde_model *m;
    struct sonde_buf b;
    uint64_t expected_count = 0, seen = 0, n;
    double sum = 0;
    const struct sonde_model_family_spec spec = { .name = "h", .type = SONDE_HISTOGRAM };
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_model_family *f = sonde_model_family(m, &spec);
    struct sonde_model_series *s = sonde_model_series(m, f, NULL, NULL, 0);
    for (size_t i = 0; i < COUNT(values); i++) {
        sonde_model_record(s, values[i], i + 1);
        expected_count += i + 1;
        sum += (double)values[i] * (double)(i + 1);
    }
    sonde_model_record(s, 0, 5);
    sonde_model_exemplar(s, &(struct sonde_exemplar){ .value = 3, .trace_hi = 1, .trace_lo = 2,
                                                      .time_s = 99.5 });
    sonde_model_tick(m, 100);
    const struct pb_part hist = pb_inner(metric_of(encode(m, &b)), 10, 0);
    assert_int_equal(pb_value(hist, 2), 2);
    const struct pb_part point = pb_inner(hist, 1, 0);
    assert_int_equal(pb_value(point, 4), expected_count + 5);
    assert_true(pb_double(point, 5) == sum);
    assert_int_equal(pb_zigzag(pb_value(point, 6)), 6);
    assert_int_equal(pb_value(point, 7), 5);
    assert_true(pb_double(point, 14) == 0x1p-40);
    const struct pb_part buckets = pb_inner(point, 8, 0), counts = pb_inner(buckets, 2, 0);
    int64_t index = pb_zigzag(pb_value(buckets, 1));
    struct sonde_pb_reader r = sonde_pb_reader(counts.data, counts.len);
    for (; sonde_pb_next_varint(&r, &n) > 0; index++) {
        uint64_t inside = 0;
        for (size_t i = 0; i < COUNT(values); i++) {
            const double v = (double)values[i];
            /* Powers of two are their bucket's upper bound exactly, others nowhere near one. */
            const double at = 64 * log2(v);
            inside += (at > (double)index + 1e-9 && at <= (double)index + 1 + 1e-9) ? i + 1 : 0;
        }
        if (n != inside) fail_msg("bucket %d has %d, not %d", (int)index, (int)n, (int)inside);
        seen += n;
    }
    assert_int_equal(seen, expected_count); /* none outside what is listed */
    const struct pb_part exemplar = pb_inner(point, 11, 0);
    assert_int_equal(pb_value(exemplar, 2), 99500000000ull);
    assert_true(pb_double(exemplar, 3) == 3);
    assert_int_equal(pb_inner(exemplar, 5, 0).len, 16);
    sonde_buf_release(&b);
    sonde_model_destroy(m);
}

/* Nothing recorded yet: a point of zeros, no buckets. */
static void empty_histogram(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_buf b;
    const struct sonde_model_family_spec spec = { .name = "h", .type = SONDE_HISTOGRAM };
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    sonde_model_series(m, sonde_model_family(m, &spec), NULL, NULL, 0);
    sonde_model_tick(m, 100);
    const struct pb_part point = pb_inner(pb_inner(metric_of(encode(m, &b)), 10, 0), 1, 0);
    assert_int_equal(pb_value(point, 4), 0);
    assert_int_equal(pb_count(point, 8) + pb_count(point, 11), 0);
    sonde_buf_release(&b);
    sonde_model_destroy(m);
    assert_int_equal(sonde_model_create(NULL, &m), 0); /* and of nothing at all no request */
    sonde_model_tick(m, 100);
    assert_int_equal(encode(m, &b).len, 0);
    sonde_buf_release(&b);
    sonde_model_destroy(m);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(varints), T(attributes), T(ids_are_big_endian), T(resources), T(again_or_never),
        T(partial_success), T(packing), T(units), T(counters), T(gauges), T(histogram_buckets),
        T(empty_histogram),
    };
    return cmocka_run_group_tests_name("otlp fields", tests, NULL, NULL);
}
