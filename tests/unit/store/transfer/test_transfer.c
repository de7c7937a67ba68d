/* Series out of a store to files and back: what was written is written again, byte for byte,
 * whatever was in it; files of others; files that are damaged. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"

static char dir[64], path[2][128];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-exchange-XXXXXX");
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) snprintf(path[i], sizeof(path[i]), "%s/%d.db", dir, i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static const struct sonde_store_ops *const ops = &sonde_store_sqlite;

/* All of the store at path. */
static char *export_all(const char *from, enum sonde_transfer_format format,
                        struct sonde_transfer_result *result)
{
    const struct sonde_store_options o = { .path = from, .read_only = 1 };
    const struct sonde_store_query q = { 0 };
    struct sonde_store *s;
    struct sonde_err err = { "" };
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 26);
    if (ops->open(&o, &s, &err)) fail_msg("%s", err.text);
    if (sonde_transfer_export(ops, s, &q, format, &out, result, &err)) fail_msg("%s", err.text);
    ops->close(s);
    return sonde_buf_take(&out);
}

static int import(const char *text, enum sonde_transfer_format format, const char *to,
                  struct sonde_transfer_result *result, struct sonde_err *err)
{
    struct sonde_transfer x = { 0 };
    int rc = sonde_transfer_read(text, strlen(text), format, &x, result, err);
    if (!rc) rc = sonde_transfer_import(ops, to, "test", &x, err);
    sonde_transfer_release(&x);
    return rc;
}

/* ---- Everything that there may be ------------------------------------------------------------ */

static void add_numbers(struct sonde_transfer *x, const char *name, const char *labels,
                        enum sonde_type type, double scale, const char *values)
{
    const struct sonde_store_series spec = { .name = name,
                                             .labels = labels, .help = "Help \"\\\n of it.",
                                             .unit = "seconds", .source = "src", .program = "prog",
                                             .pid = 7, .type = type, .kind = SONDE_KIND_TIME,
                                             .scale = scale };
    struct sonde_transfer_series *s = sonde_transfer_add(x, &spec);
    int64_t time_ms = 1700000000000;
    for (const char *p = values; *p; time_ms += 1000) {
        const size_t n = strcspn(p, " ");
        struct sonde_transfer_point point = { .time_ms = time_ms };
        if (*p != '-' || n > 1) { /* a dash: it is not there */
            if (type == SONDE_COUNTER) {
                char *end;
                point.value = strtoull(p, &end, 10);
                point.start = *end == 'z' ? SONDE_START_ZERO
                                          : s->count ? SONDE_START_NONE : SONDE_START_BASE;
            } else {
                point.value = sonde_transfer_bits(strtod(p, NULL));
            }
            assert_int_equal(sonde_transfer_point(s, &point), 0);
        }
        p += n + (p[n] == ' ');
    }
}

static void add_histogram(struct sonde_transfer *x)
{
    const struct sonde_store_series spec = { .name = "h_seconds",
                                             .labels = "a=\"b\"", .unit = "seconds",
                                             .type = SONDE_HISTOGRAM, .scale = 1e-9 };
    static const uint16_t p[] = { 0, 1, 2500, 2501, 6143 };
    struct sonde_transfer_series *s = sonde_transfer_add(x, &spec);
    for (int i = 0; i < 6; i++) {
        struct sonde_transfer_point point = { .time_ms = 1700000000000 + 1000 * i,
                                              .zero = (uint64_t)i % 3,
                                              .sum_raw = i == 4 ? UINT64_MAX - 4
                                                                : 123456789u * (uint64_t)i,
                                              .first = (uint32_t)s->bucket_count };
        for (int b = i; b < 5 && i != 3; b += 2, point.count++) {
            assert_int_equal(sonde_transfer_bucket(s, p[b], i == 1 ? 1ull << 40 : 1 + (uint64_t)b),
                             0);
        }
        assert_int_equal(sonde_transfer_point(s, &point), 0);
    }
}

static void fill(struct sonde_transfer *x)
{
    add_numbers(x, "c_total", "path=\"/a\\\"b\\\\c\\nd\xc3\xa4\"", SONDE_COUNTER, 1,
                "5 6 6 2 9 12");
    add_numbers(x, "c_total", "path=\"zero\"", SONDE_COUNTER, 1, "5z 6 6 2z 9 12");
    add_numbers(x, "gone_total", "", SONDE_COUNTER, 1, "5z 6 - - 900 901");
    add_numbers(x, "late_total", "", SONDE_COUNTER, 1, "- - 7z 8 - -");
    add_numbers(x, "again_total", "", SONDE_COUNTER, 1, "5z 6 - 3z 4 4"); /* of two agents */
    add_numbers(x, "large_total", "", SONDE_COUNTER, 1, "0 9007199254740992 9007199254740992");
    add_numbers(x, "time_total", "", SONDE_COUNTER, 1e-9, "1 300000000 300000001 123456789012345");
    add_numbers(x, "ticks_total", "", SONDE_COUNTER, 0.01, "1 3 7 1000003");
    add_numbers(x, "g", "", SONDE_GAUGE, 1, "NaN inf -inf 0.1 -0.0 1e-320");
    add_numbers(x, "g", "z=\"1\"", SONDE_GAUGE, 1, "1 2 3 4 5 6");
    add_numbers(x, "plain", "", SONDE_COUNTER, 1, "1 2 3 4 5 6");
    add_histogram(x);
}

static void test_round_trips(void **state)
{
    (void)state;
    struct sonde_transfer x = { 0 };
    struct sonde_err err = { "" };
    fill(&x);
    if (sonde_transfer_import(ops, path[0], "first", &x, &err)) fail_msg("%s", err.text);
    for (int f = SONDE_TRANSFER_JSON; f <= SONDE_TRANSFER_PROMETHEUS; f++) {
        const enum sonde_transfer_format format = (enum sonde_transfer_format)f;
        struct sonde_transfer_result a, b, c;
        unlink(path[1]);
        char *first = export_all(path[0], format, &a);
        assert_int_equal(a.series, x.count);
        assert_int_equal(a.left_out, 0);
        if (import(first, format, path[1], &b, &err)) fail_msg("%s", err.text);
        char *second = export_all(path[1], format, &c);
        assert_string_equal(first, second);
        assert_int_equal(a.points, c.points);
        assert_int_equal(b.left_out, 0);
        sonde__free(first);
        sonde__free(second);
    }
    sonde_transfer_release(&x);
}

static void test_what_is_written(void **state)
{
    (void)state;
    struct sonde_transfer x = { 0 };
    struct sonde_err err = { "" };
    struct sonde_transfer_result r;
    add_numbers(&x, "c_total", "a=\"b\"", SONDE_COUNTER, 1e-9, "300000000z 5");
    add_histogram(&x);
    x.at[1].count = 2;
    if (sonde_transfer_import(ops, path[0], "first", &x, &err)) fail_msg("%s", err.text);
    char *text = export_all(path[0], SONDE_TRANSFER_OPENMETRICS, &r);
    static const char wanted[] =
        "# HELP c Help \\\"\\\\\\n of it.\n# TYPE c counter\n"
        "c_total{a=\"b\"} 0.3 1700000000.000\nc_created{a=\"b\"} 1700000000.000 1700000000.000\n"
        "c_total{a=\"b\"} 5e-09 1700000001.000\nc_created{a=\"b\"} 1700000001.000 1700000001.000\n"
        "# TYPE h_seconds histogram\n# UNIT h_seconds seconds\n"
        "h_seconds_bucket{a=\"b\",le=\"0.0\"} 0 1700000000.000\n";
    if (strncmp(text, wanted, sizeof(wanted) - 1) != 0) fail_msg("%s", text);
    assert_non_null(strstr(text, "h_seconds_sum{a=\"b\"} 0.123456789 1700000001.000\n"));
    assert_non_null(strstr(text, "\n# EOF\n"));
    sonde__free(text);
    sonde_transfer_release(&x);
}

/* ---- Files of others ------------------------------------------------------------------------- */

static void test_other_times(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_transfer_result r;
    /* Every second, every third second, and at times of its own; columns as they like. */
    struct sonde_buf csv;
    sonde_buf_init(&csv, 1 << 20);
    sonde_buf_puts(&csv, "value,time_ms,type,name,comment\n");
    for (int i = 0; i < 60; i++) {
        sonde_buf_printf(&csv, "%d,%d,counter,a,\"x, \"\"y\"\"\"\n", 10 * i, 1000 * i);
    }
    for (int i = 0; i < 20; i++) sonde_buf_printf(&csv, "%d,%d,counter,b,\n", 10 * i, 3000 * i);
    for (int i = 0; i < 20; i++) sonde_buf_printf(&csv, "%d.5,%d,gauge,c,\n", i, 2777 * i);
    if (import(csv.data, SONDE_TRANSFER_CSV, path[0], &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.points, 100);
    char *out = export_all(path[0], SONDE_TRANSFER_CSV, &r);
    assert_int_equal(r.points, 100);
    /* No increase got lost: nothing begins anew. */
    assert_null(strstr(out, ",base,"));
    assert_non_null(strstr(out, "\r\nb,,counter,custom,,,,0,1,,57000,190,,,,\r\n"));
    sonde__free(out);
    sonde_buf_release(&csv);
}

static void test_classic(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_transfer_result r;
    static const char text[] =
        "# TYPE h histogram\nh_bucket{le=\"0.3\"} 1 1000\nh_bucket{le=\"+Inf\"} 2 1000\n"
        "h_sum 0.7 1000\nh_count 2 1000\n";
    if (import(text, SONDE_TRANSFER_PROMETHEUS, path[0], &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.series, 4);
    char *out = export_all(path[0], SONDE_TRANSFER_JSON, &r);
    assert_non_null(strstr(out, "\"name\":\"h_bucket\",\"type\":\"counter\""));
    assert_non_null(strstr(out, "\"name\":\"h_sum\",\"type\":\"counter\""));
    sonde__free(out);
}

static const struct { enum sonde_transfer_format format; const char *text, *reason; } bad[] = {
    { SONDE_TRANSFER_JSON, "", "not valid JSON" },
    { SONDE_TRANSFER_JSON, "{}", "not series as" },
    { SONDE_TRANSFER_JSON, "{\"format\":\"sonde-series\",\"version\":2,\"series\":[]}",
      "a later version" },
#define ONE(rest)                                                                                  \
    "{\"format\":\"sonde-series\",\"version\":1,\"series\":[{\"name\":\"a\"," rest "}]}"
    { SONDE_TRANSFER_JSON, ONE("\"points\":[]"), "series 1: its type" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"gauge\""), "it has no points" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"gauge\",\"points\":[1]"),
      "series 1, point 1: a point is an array" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"gauge\",\"points\":[[1]]"), "must be a number" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"gauge\",\"points\":[[1,2],[1,3]]"),
      "times must ascend" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"counter\",\"points\":[[1,-2]]"),
      "must be a whole number" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"counter\",\"points\":[[1,2,3]]"),
      "\"zero\" or \"base\"" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"histogram\",\"points\":[[1,0,0,[[6144,1]]]]"),
      "buckets are" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"histogram\",\"points\":[[1,0,0,[[5,1],[5,1]]]]"),
      "buckets are" },
    { SONDE_TRANSFER_JSON, ONE("\"type\":\"gauge\",\"scale\":0,\"points\":[]"), "scale" },
    { SONDE_TRANSFER_CSV, "", "must name columns" },
    { SONDE_TRANSFER_CSV, "name,type,value\n", "must name columns" },
#define CSV(rest) "name,type,time_ms,value,buckets,zero,sum,labels\n" rest
    { SONDE_TRANSFER_CSV, CSV("a,gauge,1\n"), "line 2: it has more or fewer fields" },
    { SONDE_TRANSFER_CSV, CSV("a,gauge,x,1,,,,\n"), "line 2: time_ms is not" },
    { SONDE_TRANSFER_CSV, CSV("a,gauge,1,x,,,,\n"), "value is not a number" },
    { SONDE_TRANSFER_CSV, CSV("a,thing,1,x,,,,\n"), "type is not" },
    { SONDE_TRANSFER_CSV, CSV("a,counter,1,1.5,,,,\n"), "of a counter is not a whole number" },
    { SONDE_TRANSFER_CSV, CSV("a,histogram,1,,7,0,0,\n"), "buckets are not" },
    { SONDE_TRANSFER_CSV, CSV("a,histogram,1,,7:1 7:1,0,0,\n"), "buckets are not" },
    { SONDE_TRANSFER_CSV, CSV("a,gauge,1,1,,,,x\n"), "labels are not" },
    { SONDE_TRANSFER_CSV, CSV("\"a,gauge,1,1,,,,\n"), "not closed" },
    { SONDE_TRANSFER_OPENMETRICS, "a 1\n", "# EOF" },
    { SONDE_TRANSFER_PROMETHEUS, "a 1 1000\na 2 1000\n", "times must ascend" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_err err = { "" };
        struct sonde_transfer_result r;
        print_message("%s\n", bad[i].text);
        assert_int_not_equal(import(bad[i].text, bad[i].format, path[0], &r, &err), 0);
        if (!strstr(err.text, bad[i].reason)) fail_msg("%s", err.text);
        assert_int_not_equal(access(path[0], F_OK), 0);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char *const text[] = {
        [SONDE_TRANSFER_JSON] = ONE(
            "\"type\":\"histogram\",\"labels\":{\"a\":\"b\"},\"points\":[[1,0,0,[[5,1]]]]"),
        [SONDE_TRANSFER_CSV] = CSV("a,histogram,1,,7:1,0,0,\nb,gauge,1,1,,,,\n"),
        [SONDE_TRANSFER_OPENMETRICS] = "# TYPE h histogram\nh_bucket{le=\"1.0\"} 1 1\n"
                                       "h_bucket{le=\"+Inf\"} 1 1\n"
                                       "h_sum 1 1\nh_count 1 1\n# EOF\n",
    };
    for (int f = 0; f < 3; f++) {
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc && nth < 200; nth++) {
            struct sonde_transfer x = { 0 };
            struct sonde_transfer_result r;
            struct sonde_err err;
            const int64_t before = sonde__alloc_live();
            sonde__alloc_fail_nth(nth);
            rc = sonde_transfer_read(text[f], strlen(text[f]), (enum sonde_transfer_format)f, &x,
                                     &r, &err);
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            if (!rc) assert_true(x.count >= 1);
            sonde_transfer_release(&x);
            assert_int_equal(sonde__alloc_live(), before);
        }
        assert_int_equal(rc, 0);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trips), TEST(test_what_is_written), TEST(test_other_times),
        TEST(test_classic), TEST(test_bad), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
