/* OTLP into the model: names, temporality, resets, histograms of all kinds, and what is refused.
 * What is sent is JSON here, which is made protobuf on the way; tests/e2e/test_otlp.sh has the real
 * SDK. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/ingest/otlp_private.h"
#include "sonde/sonde.h"

static struct sonde_model *model;
static struct sonde_otlp *otlp;

static int set_up(void **state)
{
    (void)state;
    const struct sonde_otlp_options o = { .series_max = 100, .stale_s = 60 };
    assert_int_equal(sonde_model_create(NULL, &model), 0);
    assert_int_equal(sonde_otlp_create(model, &o, &otlp), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sonde_otlp_destroy(otlp);
    sonde_model_destroy(model);
    return 0;
}

static int send_json(enum sonde_otlp_signal signal, const char *json, struct sonde_otlp_result *r)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 20);
    int rc = sonde_otlp_from_json(signal, json, strlen(json), &b, &err);
    if (!rc) rc = sonde_otlp_take(otlp, signal, b.len ? b.data : "", b.len, r, &err);
    if (rc) print_message("%s\n", err.text);
    sonde_buf_release(&b);
    return rc;
}

/* What was sent may be larger as protobuf than as text: told from what may be sent again. */
static void json_that_becomes_too_large(void **state)
{
    (void)state;
    static const char head[] = "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{"
                               "\"name\":\"m\",\"histogram\":{\"dataPoints\":[{\"bucketCounts\":[0";
    static const char tail[] = "]}]}}]}]}]}";
    char json[4096];
    size_t n = (size_t)snprintf(json, sizeof(json), "%s", head);
    for (int i = 0; i < 100; i++) n += (size_t)snprintf(json + n, sizeof(json) - n, ",0");
    snprintf(json + n, sizeof(json) - n, "%s", tail);
    for (size_t max = 10; max <= 910; max += 100) { /* in a part of it, or in all of it */
        struct sonde_buf b;
        struct sonde_err err = { "" };
        sonde_buf_init(&b, max);
        assert_int_equal(sonde_otlp_from_json(SONDE_OTLP_METRICS, json, strlen(json), &b, &err),
                         SONDE_EFULL);
        sonde_buf_release(&b);
    }
}

/* One metric "m" with this inside. */
static struct sonde_otlp_result send_metric(const char *inside)
{
    char json[4096];
    struct sonde_otlp_result r;
    snprintf(json, sizeof(json), "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{"
             "\"name\":\"m\",%s}]}]}]}", inside);
    assert_int_equal(send_json(SONDE_OTLP_METRICS, json, &r), 0);
    return r;
}

static const struct sonde_model_series *only(const char *name)
{
    const struct sonde_model_family *f = sonde_model_family_find(model, name);
    if (!f) fail_msg("there is no %s", name);
    assert_int_equal(f->series_count, 1);
    return f->series[0];
}

static const struct {
    const char *name, *unit;
    int monotonic, gauge;
    const char *wanted, *unit_word;
}
names[] = {
    { "http.server.duration", "s", 0, 0, "http_server_duration_seconds", "seconds" },
    { "http.server.duration_seconds", "s", 0, 0, "http_server_duration_seconds", "seconds" },
    { "io", "By", 1, 0, "io_bytes_total", "bytes" },
    { "io_total", "By", 1, 0, "io_bytes_total", "bytes" },
    { "rate", "By/s", 0, 1, "rate_bytes_per_second", "" },
    { "share", "1", 0, 1, "share_ratio", "" },
    { "share", "1", 1, 0, "share_total", "" },
    { "count", "{item}", 1, 0, "count_total", "" },
    { "per.item", "{item}/s", 0, 1, "per_item_per_second", "" },
    { "a..b--c ", "", 0, 0, "a_b_c", "" },
    { "9lives", "", 0, 0, "_9lives", "" },
    { "load", "%", 0, 1, "load_percent", "percent" },
    { "", "", 0, 0, "", "" },
};

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char out[OTLP_NAME_BYTES];
        const char *unit;
        otlp_name(out, names[i].name, names[i].unit, names[i].monotonic, names[i].gauge, &unit);
        assert_string_equal(out, names[i].wanted);
        assert_string_equal(unit, names[i].unit_word);
    }
}

static void test_sums(void **state)
{
    (void)state;
#define SUM(temporality, monotonic, point)                                                         \
    "\"sum\":{\"aggregationTemporality\":" #temporality ",\"isMonotonic\":" #monotonic             \
    ",\"dataPoints\":[{" point "}]}"
    assert_int_equal(send_metric(SUM(2, true, "\"asDouble\":2.5,\"timeUnixNano\":\"10\"")).accepted,
                     1);
    assert_true(only("m_total")->gauge == 2.5);
    assert_int_equal(send_metric(SUM(2, true, "\"asInt\":\"9007199254740993\","
                                     "\"timeUnixNano\":\"11\"")).accepted, 1);
    assert_true(only("m_total")->gauge == 9007199254740992.0);
    /* What comes late is not taken for what is now. */
    assert_int_equal(send_metric(SUM(2, true, "\"asDouble\":1,\"timeUnixNano\":\"5\"")).rejected,
                     1);
    assert_int_equal(send_metric(SUM(2, false, "\"asDouble\":-7")).accepted, 1);
    assert_true(only("m")->gauge == -7);
}

static void test_deltas(void **state)
{
    (void)state;
    static const char *const points[] = {
        SUM(1, true, "\"asInt\":5,\"timeUnixNano\":\"10\""),
        SUM(1, true, "\"asInt\":6,\"timeUnixNano\":\"20\""),
    };
    for (int i = 0; i < 2; i++) assert_int_equal(send_metric(points[i]).accepted, 1);
    assert_true(only("m_total")->gauge == 11);
    /* Sent again, since the answer got lost. */
    assert_int_equal(send_metric(points[1]).rejected, 1);
    assert_true(only("m_total")->gauge == 11);
    sonde_model_tick(model, 1);
    assert_true(only("m_total")->history[0] == 11);
    assert_int_equal(send_metric(SUM(1, false, "\"asInt\":5,\"timeUnixNano\":\"10\"")).accepted, 1);
    assert_int_equal(send_metric(SUM(1, false, "\"asInt\":-8,\"timeUnixNano\":\"20\"")).accepted,
                     1);
    assert_true(only("m")->gauge == -3);
}

/* A total that began again, and is already past what it was. */
static void test_restart(void **state)
{
    (void)state;
    send_metric(SUM(2, true, "\"asInt\":10,\"startTimeUnixNano\":\"1\",\"timeUnixNano\":\"2\""));
    sonde_model_tick(model, 1);
    send_metric(SUM(2, true, "\"asInt\":12,\"startTimeUnixNano\":\"3\",\"timeUnixNano\":\"4\""));
    sonde_model_tick(model, 2);
    assert_true(only("m_total")->history[(model->tick - 1) % SONDE_HISTORY] == 12);
}

static void test_bounds(void **state)
{
    (void)state;
#define HISTOGRAM(count, counts, bounds)                                                           \
    "\"unit\":\"s\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"count\":"       \
    #count                                                                                         \
    ",\"sum\":1.5,\"bucketCounts\":[" counts "],\"explicitBounds\":[" bounds "]}]}"
    assert_int_equal(send_metric(HISTOGRAM(6, "\"1\",2,3", "0.5,1")).accepted, 1);
    const struct sonde_model_family *f = sonde_model_family_find(model, "m_seconds_bucket");
    assert_non_null(f);
    assert_int_equal(f->series_count, 3);
    assert_string_equal(f->series[0]->label_text, "le=\"0.5\"");
    assert_true(f->series[0]->gauge == 1 && f->series[1]->gauge == 3 && f->series[2]->gauge == 6);
    assert_true(only("m_seconds_sum")->gauge == 1.5 && only("m_seconds_count")->gauge == 6);
    assert_int_equal(f->shown, SONDE_SHOWN_HISTOGRAM);
    static const char *const bad[] = {
        HISTOGRAM(5, "1,2,3", "0.5,1"), HISTOGRAM(6, "1,2,3", "1,0.5"), HISTOGRAM(6, "1,2,3", "1"),
        HISTOGRAM(6, "", "1"), HISTOGRAM(6, "1,2,3", "1,1"),
        HISTOGRAM(5, "\"18446744073709551615\",6", "1"),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct sonde_otlp_result r = send_metric(bad[i]);
        assert_int_equal(r.rejected, 1);
        assert_non_null(strstr(r.message, "buckets do not fit"));
    }
    assert_int_equal(send_metric(HISTOGRAM(7, "", "")).accepted, 1);
}

static void test_exponential(void **state)
{
    (void)state;
#define EXPONENTIAL(temporality, scale, zero, count, positive, negative, offset)                   \
    "\"exponentialHistogram\":{\"aggregationTemporality\":" #temporality                           \
    ",\"dataPoints\":[{\"count\":" #count                                                          \
    ",\"scale\":" #scale ",\"zeroCount\":" #zero ",\"sum\":10,\"positive\":{\"offset\":" #offset   \
    ",\"bucketCounts\":[" positive "]},\"negative\":{\"bucketCounts\":[" negative "]}}]}"
    /* Scale 7: two make one of ours. Index -1 and 0 of ours are on either side of 1. */
    assert_int_equal(send_metric(EXPONENTIAL(2, 7, 2, 12, "1,2,3,4", "", -2)).accepted, 1);
    const struct sonde_model_series *s = only("m");
    assert_int_equal(s->family->type, SONDE_HISTOGRAM);
    assert_int_equal(s->hist->count, 12);
    assert_int_equal(s->hist->zero, 2);
    assert_true(s->gauge == 10);
    const uint64_t below = sonde__hist_bucket(0.9999), above = sonde__hist_bucket(1.0001);
    assert_int_equal(above, below + 1);
    assert_int_equal(s->hist->octave[below / 64][below % 64], 3);
    assert_int_equal(s->hist->octave[above / 64][above % 64], 7);
    /* A delta adds; a scale below ours cannot. */
    assert_int_equal(send_metric(EXPONENTIAL(1, 6, 0, 1, "1", "", 0)).accepted, 1);
    assert_int_equal(only("m")->hist->octave[above / 64][above % 64], 8);
    assert_int_equal(send_metric(EXPONENTIAL(1, 5, 0, 1, "1", "", 0)).rejected, 1);
    /* It got too wide: buckets at its own bounds. */
    assert_int_equal(send_metric(EXPONENTIAL(2, 0, 2, 9, "1,0,3", "1,2", -1)).accepted, 1);
    assert_null(sonde_model_family_find(model, "m"));
    static const struct { const char *le; double n; } wanted[] = {
        { "le=\"-2\"", 2 }, { "le=\"-1\"", 3 }, { "le=\"0\"", 5 }, { "le=\"1\"", 6 },
        { "le=\"4\"", 9 },
        { "le=\"+Inf\"", 9 },
    };
    const struct sonde_model_family *f = sonde_model_family_find(model, "m_bucket");
    assert_int_equal(f->series_count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(f->series[i]->label_text, wanted[i].le);
        assert_true(f->series[i]->gauge == wanted[i].n);
    }
    assert_int_equal(send_metric(EXPONENTIAL(2, 0, 2, 8, "1,0,3", "1,2", -1)).rejected, 1);
    assert_int_equal(send_metric(EXPONENTIAL(2, 60, 0, 1, "1", "", 0)).rejected, 1);
}

static void test_summary(void **state)
{
    (void)state;
    assert_int_equal(send_metric("\"summary\":{\"dataPoints\":[{\"count\":\"3\","
                                 "\"sum\":6,\"quantileValues\":[{\"quantile\":0.5,\"value\":2},"
                                 "{\"quantile\":0.99,\"value\":\"NaN\"}]}]}").accepted, 1);
    const struct sonde_model_family *f = sonde_model_family_find(model, "m");
    assert_int_equal(f->series_count, 2);
    assert_string_equal(f->series[0]->label_text, "quantile=\"0.5\"");
    assert_true(f->series[0]->gauge == 2 && isnan(f->series[1]->gauge));
    assert_true(only("m_count")->gauge == 3);
}

static const char *const bad_json[] = {
    "", "[]", "{", "{\"resourceMetrics\":[7]}", "{\"resourceMetrics\":[{\"scopeMetrics\":{}}]}",
    "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":5}]}]}]}",
    "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"gauge\":{\"dataPoints\":[{"
    "\"asInt\":\"x\"}]}}]}]}]}",
    "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"gauge\":{\"dataPoints\":[{"
    "\"asInt\":1.5}]}}]}]}]}",
    "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"gauge\":{\"dataPoints\":[{"
    "\"timeUnixNano\":-1}]}}]}]}]}",
};

static void test_garbage(void **state)
{
    (void)state;
    struct sonde_otlp_result r;
    struct sonde_err err;
    for (size_t i = 0; i < sizeof(bad_json) / sizeof(bad_json[0]); i++) {
        assert_int_equal(send_json(SONDE_OTLP_METRICS, bad_json[i], &r), SONDE_EFORMAT);
    }
    static const char wire[] = "\x0a\x7f", text[] = "hello";
    assert_int_equal(sonde_otlp_take(otlp, SONDE_OTLP_METRICS, wire, 2, &r, &err), SONDE_EFORMAT);
    assert_int_equal(sonde_otlp_take(otlp, SONDE_OTLP_TRACES, text, 5, &r, &err), SONDE_EFORMAT);
    assert_int_equal(model->series_count, 0);
}

static void test_spans(void **state)
{
    (void)state;
    struct sonde_otlp_result r;
    assert_int_equal(
        send_json(SONDE_OTLP_TRACES,
                  "{\"resourceSpans\":[{"
                  "\"scopeSpans\":[{\"spans\":[{\"traceId\":\"0123456789ABCDEF0123456789abcdef\","
                  "\"spanId\":\"00000000000000ff\",\"name\":\"n\","
                  "\"startTimeUnixNano\":\"100\",\"endTimeUnixNano\":250,\"status\":{\"code\":2},"
                  "\"attributes\":[{\"key\":\"thread.id\",\"value\":{\"intValue\":\"7\"}},"
                  "{\"key\":\"l\",\"value\":{\"arrayValue\":{\"values\":[{\"intValue\":1}]}}}]},"
                  "{\"traceId\":\"0123456789abcdef0123456789abcdef\",\"spanId\":\"01\","
                  "\"name\":\"short id\"},{\"traceId\":\"0123456789abcdef0123456789abcdef\","
                  "\"spanId\":\"0000000000000001\",\"startTimeUnixNano\":\"100\","
                  "\"endTimeUnixNano\":\"99\"}]}],\"resource\":{\"attributes\":["
                  "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"svc\"}}]}}]}", &r),
        0);
    assert_int_equal(r.accepted, 1);
    assert_int_equal(r.rejected, 2);
    assert_int_equal(model->span_next, 1);
    const struct sonde_model_span *s = &model->spans[0];
    assert_string_equal(s->name, "n");
    assert_string_equal(s->program, "svc");
    assert_int_equal(s->tid, 7);
    assert_true(s->trace_hi == 0x0123456789abcdefu && s->id == 0xff && s->duration_ns == 150);
    assert_int_equal(s->outcome, SONDE_ERROR);
    assert_int_equal(s->attr_count, 1);
    assert_string_equal(s->attrs[0].value.str, "[...]");
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char json[] = "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{"
                               "\"name\":\"m\",\"gauge\":{\"dataPoints\":[{\"asInt\":1}]}}]}]}]}";
    struct sonde_otlp_result r = { 0 };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; nth < 100 && (rc || !r.accepted); nth++) {
        sonde__alloc_fail_nth(nth);
        rc = send_json(SONDE_OTLP_METRICS, json, &r);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
    }
    assert_int_equal(r.accepted, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), TEST(test_sums), TEST(test_deltas), TEST(test_restart),
        TEST(test_bounds), TEST(test_exponential), TEST(test_summary), TEST(test_garbage),
        cmocka_unit_test(json_that_becomes_too_large),
        TEST(test_spans), TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
