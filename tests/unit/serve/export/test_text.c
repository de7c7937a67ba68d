/* Prometheus text and OpenMetrics of small models, byte for byte. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "serve/export/export.h"
#include "unit/serve/serve_model.h"

static struct sonde_model *m;

static int setup(void **state)
{
    (void)state;
    return sonde_model_create(NULL, &m);
}

static int teardown(void **state)
{
    (void)state;
    sonde_model_destroy(m);
    return 0;
}

static void check(const char *format, const struct sonde_filter *f, const char *expected)
{
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 24);
    sonde_export_find(format)->render(m, f, &out);
    assert_int_equal(out.error, 0);
    assert_string_equal(out.data ? out.data : "", expected);
    assert_int_equal(out.len, strlen(expected));
    sonde_buf_release(&out);
}

static void test_empty(void **state)
{
    (void)state;
    family(m, SONDE_COUNTER, "no_series_total", "x", "", 1);
    check("prometheus", NULL, "");
    check("openmetrics", NULL, "# EOF\n");
}

static void test_counters(void **state)
{
    (void)state;
    struct sonde_model_family *f =
        family(m, SONDE_COUNTER, "app_requests", "Requests \\ \"all\"\nof them.", "", 1);
    series1(m, f, NULL, NULL)->counter = 18446744073709551615ull;
    series1(m, f, "path", "a\"b\\c\nd")->counter = 7;
    f = family(m, SONDE_COUNTER, "app_busy_seconds_total", NULL, "seconds", 1e-9);
    series1(m, f, "cpu", "0")->counter = 1500000000;
    check("prometheus", NULL,
          "# HELP app_busy_seconds_total App busy seconds.\n"
          "# TYPE app_busy_seconds_total counter\n"
          "app_busy_seconds_total{cpu=\"0\"} 1.5\n"
          "# HELP app_requests_total Requests \\\\ \"all\"\\nof them.\n"
          "# TYPE app_requests_total counter\n"
          "app_requests_total 18446744073709551615\n"
          "app_requests_total{path=\"a\\\"b\\\\c\\nd\"} 7\n");
    check("openmetrics", NULL,
          "# HELP app_busy_seconds App busy seconds.\n"
          "# TYPE app_busy_seconds counter\n"
          "# UNIT app_busy_seconds seconds\n"
          "app_busy_seconds_total{cpu=\"0\"} 1.5\n"
          "app_busy_seconds_created{cpu=\"0\"} 1700000000.250\n"
          "# HELP app_requests Requests \\\\ \\\"all\\\"\\nof them.\n"
          "# TYPE app_requests counter\n"
          "app_requests_total 18446744073709551615\n"
          "app_requests_created 1700000000.250\n"
          "app_requests_total{path=\"a\\\"b\\\\c\\nd\"} 7\n"
          "app_requests_created{path=\"a\\\"b\\\\c\\nd\"} 1700000000.250\n"
          "# EOF\n");
}

static void test_gauges(void **state)
{
    (void)state;
    static const struct { const char *label; double value; const char *text; } cases[] = {
        { "whole", 3, "3" },          { "negative", -2.5, "-2.5" },
        { "nan", NAN, "NaN" },        { "inf", INFINITY, "+Inf" },
        { "minus", -INFINITY, "-Inf" }, { "tiny", 5e-324, "4.94065645841247e-324" },
        { "third", 1.0 / 3, "0.3333333333333333" },
    };
    struct sonde_model_family *f = family(m, SONDE_GAUGE, "g_ratio", "G.", "ratio", 0);
    char expected[2048] = "# HELP g_ratio G.\n# TYPE g_ratio gauge\n";
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        series1(m, f, "case", cases[i].label)->gauge = cases[i].value;
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected),
                 "g_ratio{case=\"%s\"} %s\n", cases[i].label, cases[i].text);
    }
    check("prometheus", NULL, expected);
}

static void test_histogram(void **state)
{
    (void)state;
    struct sonde_model_family *f =
        family(m, SONDE_HISTOGRAM, "wait_seconds", "Waiting.", "seconds", 1);
    struct sonde_model_series *s = series1(m, f, "q", "a");
    record(s, 0, 1);
    record(s, 1, 2); /* exactly on the bound 1 */
    record(s, 3, 4);
    record(s, 4, 8);
    record(s, 5, 16);
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 3, 0xabc, 0x123, 1700000001.5 });
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 4, 1, 2, 1700000002 });
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 5, 3, 4, 1700000003 });
    check("prometheus", NULL,
          "# HELP wait_seconds Waiting.\n"
          "# TYPE wait_seconds histogram\n"
          "wait_seconds_bucket{q=\"a\",le=\"0.5\"} 1\n"
          "wait_seconds_bucket{q=\"a\",le=\"1\"} 3\n"
          "wait_seconds_bucket{q=\"a\",le=\"2\"} 3\n"
          "wait_seconds_bucket{q=\"a\",le=\"4\"} 15\n"
          "wait_seconds_bucket{q=\"a\",le=\"8\"} 31\n"
          "wait_seconds_bucket{q=\"a\",le=\"+Inf\"} 31\n"
          "wait_seconds_sum{q=\"a\"} 126\n"
          "wait_seconds_count{q=\"a\"} 31\n");
    check("openmetrics", NULL,
          "# HELP wait_seconds Waiting.\n"
          "# TYPE wait_seconds histogram\n"
          "# UNIT wait_seconds seconds\n"
          "wait_seconds_bucket{q=\"a\",le=\"0.5\"} 1\n"
          "wait_seconds_bucket{q=\"a\",le=\"1.0\"} 3\n"
          "wait_seconds_bucket{q=\"a\",le=\"2.0\"} 3\n"
          "wait_seconds_bucket{q=\"a\",le=\"4.0\"} 15 # "
          "{trace_id=\"00000000000000010000000000000002\"} 4 1700000002.000\n"
          "wait_seconds_bucket{q=\"a\",le=\"8.0\"} 31 # "
          "{trace_id=\"00000000000000030000000000000004\"} 5 1700000003.000\n"
          "wait_seconds_bucket{q=\"a\",le=\"+Inf\"} 31\n"
          "wait_seconds_sum{q=\"a\"} 126\n"
          "wait_seconds_count{q=\"a\"} 31\n"
          "wait_seconds_created{q=\"a\"} 1700000000.250\n"
          "# EOF\n");
}

/* All series of a family have the same bounds, and none ever goes, even if its series does. */
static void test_bounds_stay(void **state)
{
    (void)state;
    struct sonde_model_family *f = family(m, SONDE_HISTOGRAM, "h", "H.", "", 1);
    struct sonde_model_process *p = sonde_model_process(m, 7, 1, "x");
    struct sonde_model_series *big = sonde_model_series(m, f, p, NULL, 0);
    series1(m, f, "q", "none");
    record(big, 3, 1);
    check("prometheus", NULL,
          "# HELP h H.\n# TYPE h histogram\n"
          "h_bucket{process=\"x\",pid=\"7\",le=\"2\"} 0\n"
          "h_bucket{process=\"x\",pid=\"7\",le=\"4\"} 1\n"
          "h_bucket{process=\"x\",pid=\"7\",le=\"+Inf\"} 1\n"
          "h_sum{process=\"x\",pid=\"7\"} 3\n"
          "h_count{process=\"x\",pid=\"7\"} 1\n"
          "h_bucket{q=\"none\",le=\"2\"} 0\n"
          "h_bucket{q=\"none\",le=\"4\"} 0\n"
          "h_bucket{q=\"none\",le=\"+Inf\"} 0\n"
          "h_sum{q=\"none\"} 0\n"
          "h_count{q=\"none\"} 0\n");
    sonde_model_process_forget(m, p);
    check("prometheus", NULL,
          "# HELP h H.\n# TYPE h histogram\n"
          "h_bucket{q=\"none\",le=\"2\"} 0\n"
          "h_bucket{q=\"none\",le=\"4\"} 0\n"
          "h_bucket{q=\"none\",le=\"+Inf\"} 0\n"
          "h_sum{q=\"none\"} 0\n"
          "h_count{q=\"none\"} 0\n");
}

static void test_name_clashes(void **state)
{
    (void)state;
    series1(m, family(m, SONDE_COUNTER, "x", "A.", "", 1), NULL, NULL)->counter = 1;
    series1(m, family(m, SONDE_COUNTER, "x_total", "B.", "", 1), NULL, NULL)->counter = 2;
    series1(m, family(m, SONDE_GAUGE, "y", "C.", "", 1), NULL, NULL)->gauge = 3;
    series1(m, family(m, SONDE_COUNTER, "y_total", "D.", "", 1), NULL, NULL)->counter = 4;
    series1(m, family(m, SONDE_GAUGE, "h_count", "E.", "", 1), NULL, NULL)->gauge = 5;
    series1(m, family(m, SONDE_HISTOGRAM, "h", "F.", "", 1), "le", "q\",le=\"z");
    series1(m, family(m, SONDE_GAUGE, "z_created", "G.", "", 1), NULL, NULL)->gauge = 6;
    series1(m, family(m, SONDE_COUNTER, "z", "H.", "", 1), NULL, NULL)->counter = 7;
    check("prometheus", NULL,
          "# HELP h F.\n# TYPE h histogram\n"
          "h_bucket{exported_le=\"q\\\",le=\\\"z\",le=\"+Inf\"} 0\n"
          "h_sum{exported_le=\"q\\\",le=\\\"z\"} 0\n"
          "h_count{exported_le=\"q\\\",le=\\\"z\"} 0\n"
          "# HELP h_count_value E.\n# TYPE h_count_value gauge\nh_count_value 5\n"
          "# HELP x A.\n# TYPE x counter\nx 1\n"
          "# HELP x_total B.\n# TYPE x_total counter\nx_total 2\n"
          "# HELP y C.\n# TYPE y gauge\ny 3\n"
          "# HELP y_total D.\n# TYPE y_total counter\ny_total 4\n"
          "# HELP z_total H.\n# TYPE z_total counter\nz_total 7\n"
          "# HELP z_created G.\n# TYPE z_created gauge\nz_created 6\n");
    const struct sonde_filter not_h = { .name = "[xyz]*" };
    check("openmetrics", &not_h,
          "# HELP x A.\n# TYPE x unknown\nx 1\n"
          "# HELP x_total B.\n# TYPE x_total unknown\nx_total 2\n"
          "# HELP y C.\n# TYPE y gauge\ny 3\n"
          "# HELP y_total D.\n# TYPE y_total unknown\ny_total 4\n"
          "# HELP z H.\n# TYPE z counter\nz_total 7\n"
          "# HELP z_created G.\n# TYPE z_created gauge\nz_created 6\n"
          "# EOF\n");
}

/* A pid that was used again by the same program: one set of labels, so one is shown. */
static void test_twins(void **state)
{
    (void)state;
    struct sonde_model_family *f = family(m, SONDE_COUNTER, "c_total", "C.", "", 1);
    struct sonde_model_process *old = sonde_model_process(m, 7, 1, "x");
    struct sonde_model_process *new = sonde_model_process(m, 7, 2, "x");
    sonde_model_series(m, f, old, NULL, 0)->counter = 1;
    sonde_model_series(m, f, new, NULL, 0)->counter = 2;
    old->state = SONDE_PROCESS_EXITED;
    check("prometheus", NULL,
          "# HELP c_total C.\n# TYPE c_total counter\nc_total{process=\"x\",pid=\"7\"} 2\n");
}

static void test_filter(void **state)
{
    (void)state;
    static const char *const names[] = { "a_total", "b_total", "c_total" };
    for (size_t i = 0; i < 3; i++) {
        struct sonde_model_family *f = family(m, SONDE_COUNTER, names[i], "X.", "", 1);
        series1(m, f, "k", "v")->counter = i;
        series1(m, f, "k", "w")->counter = i;
    }
    const struct sonde_filter f = { .name = "a*|c_*", .label = { { "k", "w" } },
                                    .label_count = 1 };
    check("prometheus", &f,
          "# HELP a_total X.\n# TYPE a_total counter\na_total{k=\"w\"} 0\n"
          "# HELP c_total X.\n# TYPE c_total counter\nc_total{k=\"w\"} 2\n");
}

static void test_long_label(void **state)
{
    (void)state;
    enum { LEN = 10240 };
    char *value = malloc(LEN + 1), *expected = malloc(3 * LEN);
    for (size_t i = 0; i < LEN; i++) value[i] = "x\\\"\n"[i % 4];
    value[LEN] = 0;
    series1(m, family(m, SONDE_COUNTER, "c_total", "C.", "", 1), "k", value)->counter = 1;
    strcpy(expected, "# HELP c_total C.\n# TYPE c_total counter\nc_total{k=\"");
    for (size_t i = 0; i < LEN / 4; i++) strcat(expected + 7 * i, "x\\\\\\\"\\n");
    strcat(expected, "\"} 1\n");
    check("prometheus", NULL, expected);
    free(value);
    free(expected);
}

/* Every allocation fails once: the error is kept, nothing leaks, nothing crashes. */
static void test_no_memory(void **state)
{
    (void)state;
    test_counters(state);
    record(series1(m, family(m, SONDE_HISTOGRAM, "h", "H.", "", 1), "le", "1"), 3, 1);
    for (size_t i = 0; sonde_exports[i]; i++) {
        int error = SONDE_ENOMEM;
        for (uint64_t nth = 1; error && nth < 100; nth++) {
            const int64_t live = sonde__alloc_live();
            struct sonde_buf out;
            sonde_buf_init(&out, 1 << 20);
            sonde__alloc_fail_nth(nth);
            sonde_exports[i]->render(m, NULL, &out);
            sonde__alloc_fail_nth(0);
            error = out.error;
            assert_true(error == 0 || error == SONDE_ENOMEM);
            sonde_buf_release(&out);
            assert_int_equal(sonde__alloc_live(), live);
        }
        assert_int_equal(error, 0);
        struct sonde_buf small;
        sonde_buf_init(&small, 40);
        sonde_exports[i]->render(m, NULL, &small);
        assert_int_equal(small.error, SONDE_EFULL);
        sonde_buf_release(&small);
    }
}

/* Bounds that a family's users expect: counted as values came, each to the last bit. */
static void test_expected_bounds(void **state)
{
    (void)state;
    static const double bounds[] = { 0.01, 0.025, 2.5 };
    struct sonde_model_family *f = sonde_model_family(m, &(struct sonde_model_family_spec){
        .name = "wait_seconds", .help = "W.", .type = SONDE_HISTOGRAM, .scale = 1e-9,
        .bounds = bounds, .bound_count = 3 });
    struct sonde_model_series *s = sonde_model_series(m, f, NULL, NULL, 0);
    check("prometheus", NULL,
          "# HELP wait_seconds W.\n# TYPE wait_seconds histogram\n"
          "wait_seconds_bucket{le=\"0.01\"} 0\nwait_seconds_bucket{le=\"0.025\"} 0\n"
          "wait_seconds_bucket{le=\"2.5\"} 0\nwait_seconds_bucket{le=\"+Inf\"} 0\n"
          "wait_seconds_sum 0\nwait_seconds_count 0\n");
    sonde_model_record(s, 10000000, 2);    /* at the bound: in */
    sonde_model_record(s, 10000001, 1);    /* over it, in the same fine bucket */
    sonde_model_record(s, 2500000000, 1);
    sonde_model_record(s, 3000000000, 1);
    sonde_model_record(s, 0, 1);
    check("prometheus", NULL,
          "# HELP wait_seconds W.\n# TYPE wait_seconds histogram\n"
          "wait_seconds_bucket{le=\"0.01\"} 3\nwait_seconds_bucket{le=\"0.025\"} 4\n"
          "wait_seconds_bucket{le=\"2.5\"} 5\nwait_seconds_bucket{le=\"+Inf\"} 6\n"
          "wait_seconds_sum 5.530000001\nwait_seconds_count 6\n");
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(test_empty),   ROW(test_counters),     ROW(test_gauges), ROW(test_histogram),
        ROW(test_bounds_stay), ROW(test_name_clashes), ROW(test_twins),  ROW(test_filter),
        ROW(test_long_label), ROW(test_no_memory), ROW(test_expected_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
