/* The series of a recording as Prometheus' text, and what each report does without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "present/report/profile.h"
#include "profile/track.h"
#include "sonde/sonde.h"
#include "unit/profile/engine_build.h"
#include "unit/profile/profile_build.h"

#define OPERATION "operation=\"load\\n\",outcome=\"ok\""

static void has(const char *text, const char *what)
{
    if (!strstr(text, what)) fail_msg("no '%s' in:\n%s", what, text);
}

static void put(struct sonde_profile *p, const char *family, const char *labels, uint32_t pid,
                uint32_t gauge, double value)
{
    const struct sonde_track t = { .family = family, .labels = labels, .program = pid ? "a\"b" : "",
                                   .pid = pid, .gauge = gauge };
    assert_int_equal(sonde_tracks_put(p, &t, value), 0);
}

/* Two ticks of 2 s. */
static struct sonde_profile *create(void)
{
    struct engine_built b = { .program = "a\"b", .pid = 5 };
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main;work", 1000000, 0, 1000000000);
    engine_built_times(&b, "sonde_operation_duration_seconds", "load\n", "ok", 3, 1000000, 0);
    engine_built_value(&b, "sonde_throughput_items_total", "scan", "", 40);
    for (size_t i = 0; i < b.count; i++) assert_int_equal(sonde_final_add(p, &b.series[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sonde_tracks_tick(p, 102 + 2 * i, 2), 0);
        put(p, "queue", "", 5, 1, 7 - i);
        put(p, "hits_total", "tier=\"1\"", 5, 0, 10);
        put(p, "hits_total", "tier=\"2\"", 5, 0, 1);
        put(p, "jobs", "", 0, 0, 2);           /* a counter without _total */
        put(p, "odd", "", 0, 0, 2);            /* whose name with _total is taken */
        put(p, "odd_total", "", 0, 1, 3);
        put(p, "wait_seconds_count", "", 5, 0, 3);
        put(p, "wait_seconds_sum", "", 5, 0, 0.5);
        put(p, "sonde_operation_duration_seconds_count", OPERATION, 5, 0, 1);
        /* which are told from the end of the recording */
        put(p, "sonde_operation_duration_seconds_sum", OPERATION, 5, 0, 0.001);
    }
    return p;
}

static char *text_of(const struct sonde_profile *p, struct sonde_profile_filter f)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 20);
    if (sonde_report_prometheus(p, &f, &b, &err)) fail_msg("%s", err.text);
    return sonde_buf_take(&b);
}

static void test_text(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    char *text = text_of(p, (struct sonde_profile_filter){ .kind = -1 });
    has(text, "# TYPE queue gauge\nqueue{process=\"a\\\"b\",pid=\"5\"} 6\n");
    has(text, "# TYPE hits_total counter\nhits_total{tier=\"1\",process=\"a\\\"b\",pid=\"5\"} 40\n"
              "hits_total{tier=\"2\",process=\"a\\\"b\",pid=\"5\"} 4\n");
    has(text, "# TYPE jobs_total counter\njobs_total 8\n");
    has(text, "# TYPE odd untyped\nodd 8\n");
    has(text, "# TYPE odd_total gauge\nodd_total 3\n");
    has(text, "# TYPE wait_seconds summary\nwait_seconds_sum{process=\"a\\\"b\",pid=\"5\"} 2\n"
              "wait_seconds_count{process=\"a\\\"b\",pid=\"5\"} 12\n");
    has(text, "# TYPE sonde_operation_duration_seconds histogram\n"
              "sonde_operation_duration_seconds_bucket{operation=\"load\\n\",outcome=\"ok\","
              "process=\"a\\\"b\",pid=\"5\",le=\"0.001953125\"} 3\n");
    has(text, "le=\"+Inf\"} 3\n");
    has(text, "sonde_operation_duration_seconds_count{operation=\"load\\n\",outcome=\"ok\","
              "process=\"a\\\"b\",pid=\"5\"} 3\n");
    has(text, "sonde_throughput_items_total{scope=\"scan\",process=\"a\\\"b\",pid=\"5\"} 40\n");
    sonde__free(text);

    /* Of a part nothing is known but what was gained in it. */
    text = text_of(p, (struct sonde_profile_filter){ .kind = -1, .from_ns = 101000000000u,
                                                     .to_ns = 103000000000u });
    has(text, "hits_total{tier=\"1\",process=\"a\\\"b\",pid=\"5\"} 20\n");
    has(text, "# TYPE sonde_operation_duration_seconds summary\n");
    assert_null(strstr(text, "sonde_throughput_items_total"));
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_buf b;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_report_prometheus(p, &(struct sonde_profile_filter){ .kind = -1 }, &b,
                                             &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no series"));
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

static int write_one(const struct sonde_profile *p, int style, struct sonde_buf *out)
{
    struct sonde_err err = { "" };
    const struct sonde_finding_options rules = { 0 };
    const struct sonde_report_options o = { .filter.kind = -1, .rules = &rules,
                                            .style = (enum sonde_report_style)style };
    return style > SONDE_REPORT_CSV ? sonde_report_prometheus(p, &o.filter, out, &err)
                                    : sonde_profile_report(p, &o, out, &err);
}

/* The 1st allocation fails, then the 2nd, … until all is written. */
static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    const int64_t live = sonde__alloc_live();
    for (int style = 0; style <= SONDE_REPORT_CSV + 1; style++) {
        int rc = SONDE_ENOMEM;
        for (unsigned nth = 1; rc && nth < 20000; nth++) {
            struct sonde_buf out;
            sonde_buf_init(&out, 1 << 20);
            sonde__alloc_fail_nth(nth);
            rc = write_one(p, style, &out);
            sonde__alloc_fail_nth(0);
            assert_true(!rc || rc == SONDE_ENOMEM);
            sonde_buf_release(&out);
            assert_int_equal(sonde__alloc_live(), live);
        }
        assert_int_equal(rc, 0);
    }
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_nothing),
                                        cmocka_unit_test(test_no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
