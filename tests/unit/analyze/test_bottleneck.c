/* What takes the most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "analyze/bottleneck.h"
#include "base/alloc.h"
#include "present/bottleneck.h"
#include "profile/infer.h"
#include "sonde/sonde.h"
#include "unit/profile/heap_build.h"

#define T0 1700000000000000000ull
#define MS 1000000ull

static struct sonde_profile *make(void)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->start_ns = T0;
    p->end_ns = T0 + 1000 * MS;
    return p;
}

static struct sonde_findings *look(const struct sonde_profile *p)
{
    struct sonde_findings *f = NULL;
    const struct sonde_bottleneck_options o = { 0 };
    assert_int_equal(sonde_bottlenecks(p, &o, &f), 0);
    return f;
}

static void span(struct sonde_profile *p, const char *name, uint32_t thread, uint64_t from_ms,
                 uint64_t to_ms)
{
    const struct sonde_profile_span s = { .start_ns = T0 + from_ms * MS, .end_ns = T0 + to_ms * MS,
                                          .name = sonde_profile_cstring(p, name),
                                          .thread = thread };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    struct sonde_findings *f = look(p);
    struct sonde_buf out;
    assert_int_equal(f->count, 0);
    sonde_buf_init(&out, 4096);
    sonde_findings_json(f, &out);
    assert_string_equal(out.data, "[]");
    sonde_buf_reset(&out);
    sonde_findings_text(f, &out);
    assert_non_null(strstr(out.data, "nothing"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_functions(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    build_sample(p, "main;hot", 700 * MS, 0, T0);
    build_sample(p, "main;warm", 200 * MS, 0, T0);
    build_sample(p, "main;mild", 70 * MS, 0, T0);
    build_sample(p, "main;cold", 30 * MS, 0, T0);
    struct sonde_findings *f = look(p);
    static const struct { const char *name; enum sonde_severity severity; } wanted[] = {
        { "hot", SONDE_SEVERITY_HIGH }, { "warm", SONDE_SEVERITY_MEDIUM },
        { "mild", SONDE_SEVERITY_LOW },
    };
    assert_int_equal(f->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(f->rows[i].subject, wanted[i].name);
        assert_int_equal(f->rows[i].severity, wanted[i].severity);
        assert_int_equal(f->rows[i].kind, SONDE_FINDING_FUNCTION);
        assert_true(isnan(f->rows[i].count) && isnan(f->rows[i].bytes));
    }
    assert_true(fabs(f->rows[0].share - 0.7) < 1e-9 && fabs(f->rows[0].seconds - 0.7) < 1e-9);
    assert_non_null(strstr(f->rows[0].text, "0.700 s of 1.000 s"));
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 16);
    sonde_findings_json(f, &out);
    assert_non_null(strstr(out.data, "\"function\":\"hot\",\"avg_time_ms\":null,\"call_count\":null,"
                           "\"severity\":\"high\",\"percent\":70"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Their own time: without that of spans inside, which end first. Requests are of no thread. */
static void test_spans(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    const uint32_t thread = sonde_profile_thread(p, 1, 1, "t");
    for (uint64_t i = 0; i < 4; i++) {
        span(p, "inner", thread, i * 100 + 10, i * 100 + 90);
        span(p, "outer", thread, i * 100, i * 100 + 100);
    }
    span(p, "request", 0, 0, 1000);
    struct sonde_findings *f = look(p);
    assert_int_equal(f->count, 2);
    assert_string_equal(f->rows[0].subject, "inner");
    assert_true(fabs(f->rows[0].seconds - 0.32) < 1e-9 && fabs(f->rows[0].share - 0.8) < 1e-9);
    assert_true(f->rows[0].count == 4 && fabs(f->rows[0].avg_s - 0.08) < 1e-9);
    assert_string_equal(f->rows[1].subject, "outer");
    assert_true(fabs(f->rows[1].seconds - 0.08) < 1e-9 && fabs(f->rows[1].avg_s - 0.1) < 1e-9);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_queue(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    struct sonde_infer_request r = { .id = 1, .program = "", .model = "", .route = "",
                                     .backend = "", .error = "", .invalid = "",
                                     .arrived_ns = T0, .total_s = 1 };
    r.phase_s[SONDE_PHASE_QUEUE] = 0.5;
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
    r.id = 2;
    r.phase_s[SONDE_PHASE_QUEUE] = 0;
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
    struct sonde_findings *f = look(p);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->rows[0].kind, SONDE_FINDING_QUEUE);
    assert_true(fabs(f->rows[0].share - 0.25) < 1e-9 && f->rows[0].count == 2);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_leaks(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    struct sonde_heap *h = build_heap_facts(p);
    h->live_bytes = build_amount(1000);
    for (uint32_t i = 0; i < h->site_count; i++) h->sites[i].verdict = SONDE_HEAP_STABLE;
    h->sites[1].verdict = SONDE_HEAP_LEAK;
    h->sites[1].live_bytes = build_amount(50);
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    struct sonde_findings *f = look(p);
    assert_int_equal(f->count, 1);
    assert_int_equal(f->rows[0].kind, SONDE_FINDING_LEAK);
    assert_int_equal(f->rows[0].severity, SONDE_SEVERITY_MEDIUM);
    assert_string_equal(f->rows[0].subject, "serve");
    assert_true(f->rows[0].bytes == 50);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    build_sample(p, "main;hot", 700 * MS, 0, T0);
    span(p, "x", sonde_profile_thread(p, 1, 1, "t"), 0, 100);
    const struct sonde_bottleneck_options o = { 0 };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        struct sonde_findings *f = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_bottlenecks(p, &o, &f);
        sonde__alloc_fail_nth(0);
        assert_true(!rc || rc == SONDE_ENOMEM);
        assert_int_equal(f != NULL, rc == 0);
        sonde_findings_destroy(f);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_functions),
        cmocka_unit_test(test_spans),   cmocka_unit_test(test_queue),
        cmocka_unit_test(test_leaks),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
