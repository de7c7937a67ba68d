/* The machine and its processes out of tracks, and what series gained in a part of a recording;
 * both with figures that are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "analyze/activity.h"
#include "analyze/final_tracks.h"
#include "analyze/system.h"
#include "base/alloc.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

static struct sonde_profile *p;

static void put(const char *family, const char *labels, const char *program, uint32_t pid,
                int gauge, double value)
{
    const struct sonde_track t = { .family = family, .labels = labels, .program = program,
                                   .pid = pid, .gauge = (uint32_t)gauge };
    assert_int_equal(sonde_tracks_put(p, &t, value), 0);
}

static void host(const char *family, const char *labels, int gauge, double value)
{
    put(family, labels, "", 0, gauge, value);
}

/* Three ticks that end at 101, 102 and 106 s: of 1, 1 and 4 s. */
static void fill(void)
{
    static const double ends[] = { 101, 102, 106 }, lengths[] = { 1, 1, 4 };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sonde_tracks_tick(p, ends[i], lengths[i]), 0);
        host("sonde_host_cpu_utilization_ratio", "", 1, (double[]){ 0.2, 0.8, 0.5 }[i]);
        host("sonde_host_cpus", "", 1, 4);
        host("sonde_host_memory_total_bytes", "", 1, 1000);
        host("sonde_host_memory_available_bytes", "", 1, (double[]){ 900, 500, 750 }[i]);
        host("sonde_host_disk_read_bytes_total", "device=\"a\"", 0, 100);
        host("sonde_host_disk_read_bytes_total", "device=\"b\"", 0, 10 * i);
        host("sonde_host_disk_io_time_seconds_total", "device=\"a\"", 0, 0.1);
        host("sonde_host_disk_io_time_seconds_total", "device=\"b\"", 0, 0.3);
        /* Called by its file at first. */
        put("sonde_process_resident_memory_bytes", "", i ? "shop" : "example_shop", 7, 1, 100 + i);
        put("sonde_process_cpu_seconds_total", "mode=\"user\"", "shop", 7, 0, 0.5);
        put("sonde_process_cpu_seconds_total", "mode=\"system\"", "shop", 7, 0, 0.25);
        put("sonde_process_threads", "", "idle", 9, 1, 3);
        put("sonde_cache_accesses_total", "tier=\"l\\\"1\\n\",result=\"hit\"", "shop", 7, 0, 10);
        put("sonde_cache_accesses_total", "tier=\"l\\\"1\\n\",result=\"miss\"", "shop", 7, 0, 30);
        put("sonde_operation_duration_seconds_count", "operation=\"op\",outcome=\"ok\"", "shop", 7,
            0, 2);
        put("sonde_operation_duration_seconds_sum", "operation=\"op\",outcome=\"ok\"", "shop", 7, 0,
            0.5);
    }
}

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) < 1e-6)) fail_msg("got %.9g, wanted %.9g", got, wanted);
}

static void test_whole(void **state)
{
    (void)state;
    struct sonde_system *s;
    fill();
    assert_int_equal(sonde_system_build(p->tracks, 0, 0, &s), 0);
    const struct sonde_system_figure *f = &s->host[SONDE_HOST_CPU];
    near(f->min, 0.2);
    near(f->max, 0.8);
    near(f->mean, (0.2 + 0.8 + 4 * 0.5) / 6); /* by time */
    near(s->host[SONDE_HOST_MEMORY].max, 0.5);
    near(s->host[SONDE_HOST_MEMORY_USED].mean, (100 + 500 + 4 * 250) / 6.0);
    near(s->host[SONDE_HOST_DISK_READ].max, 120); /* of all disks */
    near(s->host[SONDE_HOST_DISK_BUSY].max, 0.3); /* of the busiest */
    assert_int_equal(s->host[SONDE_HOST_SENT].points, 0);
    assert_true(isnan(s->host[SONDE_HOST_SENT].mean));
    near(s->cpus, 4);
    near(s->seconds, 6);
    assert_int_equal(s->process_count, 2);
    assert_string_equal(s->processes[0].program, "shop"); /* one process of two names */
    near(s->processes[0].figures[SONDE_PROCESS_CPU].mean, 0.75);
    near(s->processes[0].figures[SONDE_PROCESS_MEMORY].min, 100);
    near(s->processes[0].figures[SONDE_PROCESS_MEMORY].max, 102);
    assert_string_equal(s->processes[1].program, "idle");
    sonde_system_destroy(s);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_part(void **state)
{
    (void)state;
    struct sonde_system *s;
    struct sonde_final_part part;
    struct sonde_activity *a;
    fill();
    assert_int_equal(sonde_system_build(p->tracks, 101, 101.5, &s), 0);
    near(s->host[SONDE_HOST_CPU].min, 0.8); /* the second tick alone */
    near(s->host[SONDE_HOST_CPU].max, 0.8);
    sonde_system_destroy(s);
    assert_int_equal(sonde_system_build(p->tracks, 200, 300, &s), 0);
    assert_null(s);
    assert_int_equal(sonde_system_build(NULL, 0, 0, &s), 0);
    assert_null(s);

    /* Half of the second tick and a quarter of the third: 1.5 s. */
    assert_int_equal(sonde_final_of_tracks(p->tracks, 101.5, 103, &part), 0);
    assert_int_equal(part.final.count, 3);
    assert_string_equal(part.final.series[0].subject, "l\"1\n");
    near(part.final.series[0].value, 15);
    near(part.final.series[0].seconds, 1.5);
    assert_int_equal(sonde_activity_build(part.final.series, part.final.count, &a), 0);
    assert_int_equal(a->caches[0].hits, 15);
    assert_int_equal(a->caches[0].misses, 45);
    near(a->caches[0].rate, 40);
    assert_int_equal(a->operations[0].count, 3);
    near(a->operations[0].mean_s, 0.25);
    assert_true(isnan(a->operations[0].p95_s)); /* there are no buckets */

    /* Unless there are its spans. */
    for (uint64_t i = 1; i <= 3; i++) {
        const uint64_t end = 102000000000u + i;
        assert_int_equal(sonde_profile_add_span(p, &(struct sonde_profile_span){
            .start_ns = end - i * 1000000, .end_ns = end,
            .name = sonde_profile_cstring(p, "op") }), 0);
    }
    assert_int_equal(sonde_activity_of_spans(a, p, 103000000000u, 0), 0);
    assert_true(isnan(a->operations[0].p50_s)); /* none ended then */
    assert_int_equal(sonde_activity_of_spans(a, p, 101500000000u, 103000000000u), 0);
    near(a->operations[0].p50_s, 0.002);
    near(a->operations[0].max_s, 0.003);
    sonde_activity_destroy(a);
    sonde_final_part_release(&part);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_labels(void **state)
{
    (void)state;
    static const struct { const char *labels, *name, *value; } cases[] = {
        { "a=\"b\",c=\"d\"", "c", "d" },
        { "a=\"b\",c=\"d\"", "a", "b" },
        { "a=\"b\"", "x", "" },
        { "", "a", "" },
        { "ab=\"1\",a=\"2\"", "a", "2" },
        { "a=\"c=\\\"no\\\",b=\",b=\"yes\"", "b", "yes" },
        { "a=\"\\\\n\"", "a", "\\n" },
        { "a=\"\\n\"", "a", "\n" },
        { "broken", "broken", "" },
        { "a=\"open", "a", "open" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_buf out;
        sonde_buf_init(&out, 100);
        assert_int_equal(sonde_track_label(cases[i].labels, cases[i].name, &out), 0);
        assert_string_equal(out.len ? out.data : "", cases[i].value);
        sonde_buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_whole), cmocka_unit_test(test_part),
                                        cmocka_unit_test(test_labels) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
