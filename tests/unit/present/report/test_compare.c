/* A comparison in words and JSON: each verdict, what is not known, names that are up to
 * something. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "present/report/compare.h"
#include "sonde/sonde.h"
#include "unit/analyze/compare_build.h"

static void has(const char *text, const char *what)
{
    if (!strstr(text, what)) fail_msg("no '%s' in:\n%s", what, text);
}

static void lacks(const char *text, const char *what)
{
    if (strstr(text, what)) fail_msg("'%s' in:\n%s", what, text);
}

static struct sonde_compare_measure figure(enum sonde_compare_measure_group group,
                                           const char *measure,
                                           const char *title, const char *unit, const char *subject)
{
    return (struct sonde_compare_measure){
        .group = group, .measure = measure, .title = title, .unit = unit, .subject = subject,
        .better = -1, .before = 0.1, .after = 0.088, .adjusted = 0.001,
        .verdict = SONDE_VERDICT_FASTER,
        .d = { .change = -0.012, .low = -0.015, .high = -0.009, .relative = -0.12,
               .relative_low = -0.15, .relative_high = -0.09, .p = 0.0001 } };
}

static char *report(const struct sonde_comparison *c, enum sonde_report_style style, int ascii)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    const struct sonde_compare_view v = { .before = "a.run", .after = "b.run", .style = style,
                                          .more_runs = "sonde diff A1 A2 --with B1 B2",
                                          .ascii = ascii };
    sonde_buf_init(&b, 1 << 20);
    if (sonde_compare_report(c, &v, &b, &err)) fail_msg("%s", err.text);
    return sonde_buf_take(&b);
}

static void test_faster(void **state)
{
    (void)state;
    struct sonde_compare_measure figures[] = {
        figure(SONDE_MEASURE_REQUESTS, "p50", "request time p50", "seconds", ""),
        figure(SONDE_MEASURE_SPANS, "p95", "time p95", "seconds", "load\x1b[31m"),
        figure(SONDE_MEASURE_MEMORY, "peak", "memory in use at the peak", "bytes", ""),
        figure(SONDE_MEASURE_FUNCTIONS, "self", "by itself", "seconds", "parse"),
        figure(SONDE_MEASURE_FUNCTIONS, "self", "by itself", "seconds", "|grew*"),
    };
    figures[2].verdict = SONDE_VERDICT_UNKNOWN;
    figures[3].verdict = SONDE_VERDICT_LESS;
    figures[4].verdict = SONDE_VERDICT_MORE; /* the other way: did not make it faster */
    figures[4].d.change = 0.5;
    struct sonde_comparison c = { .figures = figures, .count = 5, .timed = 1, .parts = { 16, 16 },
                                  .verdict = SONDE_VERDICT_FASTER, .headline = 0,
                                  .basis = SONDE_BASIS_REQUEST };
    char *text = report(&c, SONDE_REPORT_TEXT, 0);
    has(text, "b.run is 12.0 % ± 3.0 % faster than a.run in request time p50\n");
    has(text, "largest contributors: parse 12.0 % ± 3.0 % less (100 ms → 88.0 ms a request)\n");
    has(text, "16 and 16 sub-windows");
    has(text, "100 ms  88.0 ms  -12.0 %   -15.0…-9.0 %  faster");
    lacks(text, "\x1b");
    lacks(text, "grew");
    sonde__free(text);
    text = report(&c, SONDE_REPORT_TEXT, 1);
    has(text, "12.0 % +- 3.0 % faster");
    for (const char *s = text; *s; s++) assert_true((unsigned char)*s < 0x80);
    sonde__free(text);
    c.by_runs = 1;
    c.runs[0] = 3;
    c.runs[1] = 4;
    text = report(&c, SONDE_REPORT_MARKDOWN, 0);
    has(text, "# Comparison\n\nb.run is 12.0 %");
    has(text, "from 3 and 4 runs\n");
    has(text, "| request time p50 | 100 ms | 88.0 ms | -12.0 % | -15.0…-9.0 % | faster |\n");
    sonde__free(text);
}

/* Percentiles of few values have no bounds: that is told, and what to do. */
static void test_unbounded(void **state)
{
    (void)state;
    struct sonde_compare_measure figures[] = {
        figure(SONDE_MEASURE_REQUESTS, "p50", "request time p50", "seconds", ""),
        figure(SONDE_MEASURE_REQUESTS, "p99", "request time p99", "seconds", ""),
        figure(SONDE_MEASURE_SPANS, "p95", "time p95", "seconds", "load"),
        figure(SONDE_MEASURE_RUN, "cpu", "CPU time a request", "seconds", ""),
    };
    struct sonde_comparison c = { .figures = figures, .count = 4, .timed = 1, .parts = { 16, 16 },
                                  .verdict = SONDE_VERDICT_FASTER, .headline = 0,
                                  .basis = SONDE_BASIS_REQUEST };
    char *text = report(&c, SONDE_REPORT_TEXT, 0);
    lacks(text, "Too few");
    sonde__free(text);
    figures[1].verdict = figures[2].verdict = SONDE_VERDICT_SAME;
    figures[1].d.high = figures[1].d.relative_high = INFINITY;
    figures[2].d.low = -INFINITY;
    figures[3].d.low = NAN;
    text = report(&c, SONDE_REPORT_TEXT, 0);
    has(text, "\nToo few values to bound request time p99, time p95 of load. ");
    has(text, "Record longer: a p95 takes");
    sonde__free(text);
    c.by_runs = 1;
    for (int i = 0; i < 4; i++) figures[i].measure = "p99";
    figures[0].d.low = -INFINITY;
    text = report(&c, SONDE_REPORT_MARKDOWN, 0);
    has(text, "time p95 of load and 1 more. ");
    has(text, "Record longer, or more runs: ");
    sonde__free(text);
}

static void test_other_verdicts(void **state)
{
    (void)state;
    struct sonde_compare_measure figures[] = {
        figure(SONDE_MEASURE_SPANS, "p50", "time p50", "seconds", "load"),
        figure(SONDE_MEASURE_FUNCTIONS, "self", "by itself", "ratio", "parse"),
        figure(SONDE_MEASURE_FUNCTIONS, "self", "by itself", "ratio", "appeared"),
    };
    struct sonde_comparison c = { .figures = figures, .count = 3, .timed = 1, .headline = 3,
                                  .verdict = SONDE_VERDICT_SAME, .basis = SONDE_BASIS_SHARE };
    for (int i = 0; i < 3; i++) figures[i].verdict = SONDE_VERDICT_SAME;
    char *text = report(&c, SONDE_REPORT_TEXT, 0);
    has(text, "b.run is not different from a.run: 3 figures differ by no more than noise; less "
              "than about 3.0 % in time p50 of load could not have been seen\n");
    sonde__free(text);

    c.verdict = figures[0].verdict = SONDE_VERDICT_SLOWER;
    c.headline = 0;
    text = report(&c, SONDE_REPORT_TEXT, 0);
    has(text, "b.run is 12.0 % ± 3.0 % slower than a.run in time p50 of load\n");
    sonde__free(text);

    c.verdict = SONDE_VERDICT_DIFFERENT;
    c.headline = 1;
    figures[1].verdict = SONDE_VERDICT_LESS;
    figures[1].better = 0;
    figures[2].verdict = SONDE_VERDICT_MORE;
    figures[2].better = 0;
    figures[2].before = 0;
    figures[2].d.relative = figures[2].d.relative_low = figures[2].d.relative_high = NAN;
    text = report(&c, SONDE_REPORT_TEXT, 0);
    has(text, "b.run differs from a.run: parse 12.0 % ± 3.0 % less (10.0 % → 8.80 % CPU time)\n");
    has(text, "also: appeared more (0 % → 8.80 % CPU time)\n");
    sonde__free(text);

    c.verdict = SONDE_VERDICT_UNKNOWN;
    c.headline = 3;
    c.timed = 0;
    for (int i = 0; i < 3; i++) figures[i].verdict = SONDE_VERDICT_UNKNOWN;
    text = report(&c, SONDE_REPORT_TEXT, 0);
    has(text, "it cannot be said whether b.run is different from a.run: they do not know when");
    has(text, "sonde diff A1 A2 --with B1 B2\n");
    lacks(text, "95 % intervals");
    sonde__free(text);
}

static void test_json(void **state)
{
    (void)state;
    const struct build_program program = { .rate_hz = 100, .seconds = 2, .request_hz = 50,
                                           .latency_s = 0.01 };
    struct sonde_profile *p = build_run(&program), *q = build_run(&program);
    const struct sonde_compare_run a = { p, { .kind = -1 } }, b = { q, { .kind = -1 } };
    const struct sonde_compare_options o = { .kind = -1 };
    struct sonde_comparison *c;
    assert_int_equal(sonde_compare(&a, 1, &b, 1, &o, &c, NULL), 0);
    char *text = report(c, SONDE_REPORT_JSON, 0);
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, text);
    static const char *const keys[] = { "verdict", "summary", "before", "after", "parts", "runs",
                                        "part_counts", "requests", "per", "headline", "figures" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!json_object_get(root, keys[i])) fail_msg("no %s", keys[i]);
    }
    assert_string_equal(json_string_value(json_object_get(root, "per")), "request");
    const json_t *figures = json_object_get(root, "figures");
    assert_true(json_array_size(figures) > 20);
    static const char *const of_figure[] = { "group", "measure", "title", "unit", "before", "after",
                                             "change", "change_low", "change_high",
                                             "relative", "relative_low", "relative_high", "p",
                                             "p_adjusted", "better", "verdict" };
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *f = json_array_get(figures, i);
        for (size_t k = 0; k < sizeof(of_figure) / sizeof(of_figure[0]); k++) {
            if (!json_object_get(f, of_figure[k])) fail_msg("figure %zu: no %s", i, of_figure[k]);
        }
    }
    json_decref(root);
    sonde__free(text);

    /* Without memory: all or an error. */
    const int64_t live = sonde__alloc_live();
    for (int style = 0; style <= SONDE_REPORT_JSON; style++) {
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc; nth++) {
            assert_true(nth < 10000);
            struct sonde_buf out;
            const struct sonde_compare_view v = { .before = "a", .after = "b",
                                                  .style = (enum sonde_report_style)style };
            sonde_buf_init(&out, 1 << 20);
            sonde__alloc_fail_nth(nth);
            rc = sonde_compare_report(c, &v, &out, NULL);
            sonde__alloc_fail_nth(0);
            sonde_buf_release(&out);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            assert_int_equal(sonde__alloc_live(), live);
        }
    }
    sonde_comparison_destroy(c);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faster),
        cmocka_unit_test(test_unbounded), cmocka_unit_test(test_other_verdicts),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
