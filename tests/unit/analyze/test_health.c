/* What /health is made of: percentiles and errors of all series together, over the window only. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "analyze/health.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

static struct sonde_model *new_model(void)
{
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    m->now_s = 1000;
    return m;
}

static struct sonde_model_series *series_of(struct sonde_model *m, const char *name,
                                            enum sonde_type type, double scale,
                                            const char *outcome)
{
    const struct sonde_model_family_spec spec = { .name = name, .type = type, .scale = scale };
    struct sonde_model_family *f = sonde_model_family(m, &spec);
    assert_non_null(f);
    const struct sonde_label label = { "outcome", outcome };
    struct sonde_model_series *s = sonde_model_series(m, f, NULL, &label, outcome ? 1 : 0);
    assert_non_null(s);
    s->from_zero = 1;
    return s;
}

static void tick(struct sonde_model *m, int times)
{
    for (int i = 0; i < times; i++) sonde_model_tick(m, m->now_s + 1);
}

static void test_nothing(void **unused)
{
    (void)unused;
    struct sonde_model *m = new_model();
    struct sonde_health h;
    assert_int_equal(sonde_health_measure(m, 60, &h), 0);
    assert_null(h.source);
    assert_true(isnan(h.p95_s) && isnan(h.gpu_ratio) && isnan(h.memory_total) && !(h.count > 0));
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_spans(void **unused)
{
    (void)unused;
    struct sonde_model *m = new_model();
    struct sonde_health h;
    struct sonde_model_series *ok =
        series_of(m, "sonde_span_duration_seconds", SONDE_HISTOGRAM, 1e-9, "ok");
    struct sonde_model_series *bad =
        series_of(m, "sonde_span_duration_seconds", SONDE_HISTOGRAM, 1e-9, "error");
    struct sonde_model_series *left =
        series_of(m, "sonde_span_duration_seconds", SONDE_HISTOGRAM, 1e-9, "cancelled");
    tick(m, 1);
    sonde_model_record(ok, 1000000, 80);    /* 1 ms */
    sonde_model_record(bad, 100000000, 15); /* 100 ms */
    sonde_model_record(left, 1000000, 5);
    tick(m, 1);
    assert_int_equal(sonde_health_measure(m, 60, &h), 0);
    assert_string_equal(h.source, "spans");
    assert_true(h.count == 100 && h.failed == 15);
    assert_true(fabs(h.p50_s - 0.001) < 0.00002 && fabs(h.p95_s - 0.1) < 0.002);
    tick(m, 20); /* it is over */
    assert_int_equal(sonde_health_measure(m, 10, &h), 0);
    assert_null(h.source);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_inference_first(void **unused)
{
    (void)unused;
    struct sonde_model *m = new_model();
    struct sonde_health h;
    struct sonde_model_series *span =
        series_of(m, "sonde_span_duration_seconds", SONDE_HISTOGRAM, 1e-9, "ok");
    struct sonde_model_series *request =
        series_of(m, "gen_ai_server_request_duration_seconds", SONDE_HISTOGRAM, 1e-9, NULL);
    struct sonde_model_series *good = series_of(m, "sonde_infer_requests_total", SONDE_COUNTER, 1,
                                                "ok");
    struct sonde_model_series *lost = series_of(m, "sonde_infer_requests_total", SONDE_COUNTER, 1,
                                                "lost");
    series_of(m, "sonde_host_memory_total_bytes", SONDE_GAUGE, 1, NULL)->gauge = 1000;
    series_of(m, "sonde_host_memory_available_bytes", SONDE_GAUGE, 1, NULL)->gauge = 250;
    series_of(m, "sonde_gpu_utilization_ratio", SONDE_GAUGE, 1, "0")->gauge = 0.25;
    series_of(m, "sonde_gpu_utilization_ratio", SONDE_GAUGE, 1, "1")->gauge = 0.75;
    tick(m, 1);
    sonde_model_record(span, 1000, 1000);
    sonde_model_record(request, 2000000000, 9);
    good->counter += 9;
    lost->counter += 1;
    tick(m, 1);
    assert_int_equal(sonde_health_measure(m, 60, &h), 0);
    assert_string_equal(h.source, "inference");
    assert_true(h.count == 10 && h.failed == 1 && fabs(h.p50_s - 2) < 0.02);
    assert_true(h.memory_total == 1000 && h.memory_available == 250 && h.gpu_ratio == 0.5);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Of the front's requests, those that the upstream broke off; not those of clients. */
static void test_front(void **unused)
{
    (void)unused;
    struct sonde_model *m = new_model();
    struct sonde_health h;
    static const struct { const char *family, *label, *value; uint64_t n; } counters[] = {
        { "sonde_front_requests_total", "status", "200", 7 },
        { "sonde_front_requests_total", "status", "502", 3 },
        { "sonde_front_errors_total", "error", "connect_refused", 2 },
        { "sonde_front_errors_total", "error", "client_closed", 5 },
    };
    assert_int_equal(sonde_health_measure(m, 60, &h), 0);
    assert_true(isnan(h.front_count) && isnan(h.front_failed));
    series_of(m, "sonde_front_in_flight", SONDE_GAUGE, 1, NULL);
    struct sonde_model_series *s[4];
    for (size_t i = 0; i < 4; i++) {
        const struct sonde_model_family_spec spec = { .name = counters[i].family,
                                                      .type = SONDE_COUNTER, .scale = 1 };
        const struct sonde_label label = { counters[i].label, counters[i].value };
        s[i] = sonde_model_series(m, sonde_model_family(m, &spec), NULL, &label, 1);
        assert_non_null(s[i]);
        s[i]->from_zero = 1;
        s[i]->counter = counters[i].n;
    }
    tick(m, 1);
    assert_int_equal(sonde_health_measure(m, 60, &h), 0);
    assert_true(h.front_count == 10 && h.front_failed == 2);
    tick(m, 70);
    assert_int_equal(sonde_health_measure(m, 60, &h), 0);
    assert_true(h.front_count == 0 && h.front_failed == 0);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_inference_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
