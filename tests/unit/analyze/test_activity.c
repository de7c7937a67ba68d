/* Operations, errors, caches and bandwidth out of series, and as parts of a report. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "analyze/activity.h"
#include "base/alloc.h"
#include "present/report/profile.h"
#include "sonde/sonde.h"
#include "unit/profile/engine_build.h"
#include "unit/present/report_text.h"
#include "unit/profile/profile_build.h"

static struct engine_built b;

static void seconds_set(double seconds)
{
    for (size_t i = 0; i < b.count; i++) b.series[i].seconds = seconds;
}

/* 1000 operations in two processes: 900 of 1 ms go well, 60 of 2 ms fail, 40 of 100 ms time out */
static void fill(void)
{
    memset(&b, 0, sizeof(b));
    b.program = "shop";
    b.pid = 1;
    engine_built_times(&b, "sonde_operation_duration_seconds", "load", "ok", 450, 1000000, 0);
    engine_built_times(&b, "sonde_operation_duration_seconds", "load", "error", 60, 2000000, 0);
    engine_built_times(&b, "sonde_operation_duration_seconds", "load", "timeout", 40, 100000000, 0);
    engine_built_value(&b, "sonde_operation_errors_total", "load", "io", 60);
    engine_built_value(&b, "sonde_operation_errors_total", "load", "timeout", 40);
    engine_built_value(&b, "sonde_cache_accesses_total", "l1", "hit", 750);
    engine_built_value(&b, "sonde_cache_accesses_total", "l1", "miss", 250);
    engine_built_value(&b, "sonde_cache_accesses_total", "l2", "miss", 250);
    engine_built_value(&b, "sonde_bandwidth_bytes_total", "disk", "in", 1 << 20);
    engine_built_value(&b, "sonde_bandwidth_bytes_total", "net", "out", 4 << 20);
    engine_built_value(&b, "sonde_bandwidth_bytes_total", "net", "in", 2 << 20);
    engine_built_times(&b, "sonde_operation_duration_seconds", "never", "ok", 0, 1, 0);
    b.series[b.count - 1].count = b.series[b.count - 1].bucket_count = 0;
    engine_built_times(&b, "sonde_resource_wall_seconds", "scan", "", 4, 2000000, 0);
    engine_built_times(&b, "sonde_resource_cpu_seconds", "scan", "", 4, 500000, 0);
    engine_built_value(&b, "sonde_resource_page_faults_total", "scan", "minor", 9);
    engine_built_value(&b, "sonde_resource_page_faults_total", "scan", "major", 1);
    engine_built_value(&b, "sonde_resource_memory_delta_bytes", "scan", "last", -50);
    engine_built_value(&b, "sonde_resource_memory_delta_bytes", "scan", "sum", 4096);
    engine_built_value(&b, "sonde_throughput_items_total", "scan", "", 600);
    engine_built_value(&b, "sonde_throughput_seconds_total", "scan", "", 3);
    engine_built_value(&b, "sonde_throughput_per_second", "scan", "", 250);
    engine_built_value(&b, "sonde_throughput_items_total", "never", "", 0);
    b.pid = 2;
    engine_built_times(&b, "sonde_operation_duration_seconds", "load", "ok", 450, 1000000, 0);
    seconds_set(10);
}

static void figures(void **state)
{
    (void)state;
    struct sonde_activity *a;
    fill();
    assert_int_equal(sonde_activity_build(b.series, b.count, &a), 0);
    assert_int_equal(a->operation_count, 1);
    const struct sonde_activity_operation *o = &a->operations[0];
    assert_int_equal(o->count, 1000);
    assert_int_equal(o->errors, 100);
    assert_int_equal(o->outcomes[SONDE_ACTIVITY_TIMEOUT], 40);
    assert_true(fabs(o->rate - 100) < 1e-9); /* 55 and 45 per second */
    assert_true(fabs(o->seconds - 5.02) < 1e-9 && fabs(o->mean_s - 0.00502) < 1e-12);
    assert_true(fabs(o->p50_s - 0.001) < 1e-5 && fabs(o->p95_s - 0.002) < 2e-5);
    assert_true(fabs(o->p99_s - 0.1) < 1e-3 && fabs(o->max_s - 0.1) < 1e-3);
    assert_int_equal(a->error_count, 2);
    assert_string_equal(a->errors[0].type, "io");
    assert_true(fabs(a->errors[0].share - 0.06) < 1e-12);
    assert_int_equal(a->cache_count, 2);
    assert_string_equal(a->caches[0].tier, "l1");
    assert_true(a->caches[0].hit_ratio == 0.75 && a->caches[1].hit_ratio == 0);
    assert_true(fabs(a->caches[0].rate - 100) < 1e-9);
    assert_int_equal(a->bandwidth_count, 2);
    assert_string_equal(a->bandwidths[0].source, "net");
    assert_true(a->bandwidths[0].out_bytes == 4 << 20 && a->bandwidths[0].in_bytes == 2 << 20);
    assert_true(fabs(a->bandwidths[1].in_rate - (1 << 20) / 10.0) < 1e-6);
    assert_int_equal(a->scope_count, 1);
    const struct sonde_activity_scope *s = &a->scopes[0];
    assert_true(s->count == 4 && fabs(s->wall_s - 0.008) < 1e-12);
    assert_true(fabs(s->cpu_ratio - 0.25) < 1e-9);
    assert_true(fabs(s->wall_mean_s - 0.002) < 1e-12 && fabs(s->wall_p95_s - 0.002) < 2e-5);
    assert_true(s->faults_minor == 9 && s->faults_major == 1);
    assert_true(s->memory_last_bytes == -50 && s->memory_sum_bytes == 4096);
    assert_int_equal(a->throughput_count, 1);
    assert_true(fabs(a->throughputs[0].rate - 200) < 1e-9 && a->throughputs[0].last_rate == 250);
    assert_int_equal(a->several, 0);
    sonde_activity_destroy(a);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Of old files it is not known how long series counted. */
static void rates_that_are_not_known(void **state)
{
    (void)state;
    struct sonde_activity *a;
    fill();
    seconds_set(0);
    assert_int_equal(sonde_activity_build(b.series, b.count, &a), 0);
    assert_true(isnan(a->operations[0].rate) && isnan(a->caches[0].rate));
    sonde_activity_destroy(a);
    memset(&b, 0, sizeof(b));
    engine_built_value(&b, "sonde_memory_pool_bytes", "kv", "", 5);
    engine_built_value(&b, "sonde_cache_accesses_total", "l1", "hit", 0);
    assert_int_equal(sonde_activity_build(b.series, b.count, &a), 0);
    assert_null(a);
    assert_int_equal(sonde__alloc_live(), 0);
}

static struct sonde_profile *profile_of(int samples)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    if (samples) build_sample(p, "main;work", 1000000, 0, 1000000000);
    for (size_t i = 0; i < b.count; i++) assert_int_equal(sonde_final_add(p, &b.series[i]), 0);
    return p;
}

static void parts_of_a_report(void **state)
{
    (void)state;
    for (int samples = 0; samples < 2; samples++) {
        fill();
        struct sonde_profile *p = profile_of(samples);
        char *text = report(p, (struct sonde_report_options){ .ascii = 1 });
        has(text, "\nOperations\n");
        has(text, "\nload        1000         100     100  10.0 %  5.02 s  5.02 ms  1.00 ms");
        has(text, "\nErrors by type\n");
        has(text, "\nload       io          60           6           6.0 %\n");
        has(text, "\nCaches\n");
        has(text, "\nl1         1000         100   750     250  75.0 %\n");
        has(text, "\nBandwidth\n");
        has(text, "\nnet     2.00 MiB     205 KiB  4.00 MiB     410 KiB\n");
        sonde__free(text);
        text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_JSON });
        json_t *j = json_loads(text, 0, NULL);
        assert_non_null(j);
        json_t *row = json_array_get(json_object_get(j, "operations"), 0);
        assert_int_equal(json_integer_value(json_object_get(row, "errors")), 100);
        assert_int_equal(json_array_size(json_object_get(j, "operation_errors")), 2);
        assert_int_equal(json_array_size(json_object_get(j, "caches")), 2);
        assert_int_equal(json_array_size(json_object_get(j, "bandwidth")), 2);
        json_decref(j);
        sonde__free(text);
        sonde_profile_destroy(p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Where there is nothing to say there is no heading, and programs are told apart. */
static void what_is_empty_is_not_there(void **state)
{
    (void)state;
    memset(&b, 0, sizeof(b));
    b.program = "one";
    engine_built_value(&b, "sonde_cache_accesses_total", "l1", "hit", 3);
    b.program = "two";
    engine_built_value(&b, "sonde_cache_accesses_total", "l1", "hit", 4);
    struct sonde_profile *p = profile_of(1);
    char *text = report(p, (struct sonde_report_options){ .ascii = 1, .limit = 1 });
    has(text, "\nCaches, the first 1 of 2\n");
    has(text, "\nl1 of two ");
    assert_null(strstr(text, "Operations"));
    assert_null(strstr(text, "Errors by type"));
    assert_null(strstr(text, "Bandwidth"));
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fill();
    int rc = SONDE_ENOMEM;
    for (uint64_t n = 1; rc; n++) {
        struct sonde_activity *a = NULL;
        sonde__alloc_fail_nth(n);
        rc = sonde_activity_build(b.series, b.count, &a);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && !a));
        sonde_activity_destroy(a);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(rates_that_are_not_known),
        cmocka_unit_test(parts_of_a_report),
        cmocka_unit_test(what_is_empty_is_not_there),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
