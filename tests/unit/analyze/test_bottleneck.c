/* What takes the most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "analyze/bottleneck.h"
#include "base/alloc.h"
#include "present/report/bottleneck.h"
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

/* So many samples of a millisecond each. */
static void samples(struct sonde_profile *p, const char *stack, int count)
{
    for (int i = 0; i < count; i++) build_sample(p, stack, MS, 0, T0);
}

static void test_functions(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    samples(p, "main;hot", 600);
    samples(p, "main;warm", 270); /* a quarter, and it may be less */
    samples(p, "main;mild", 100);
    samples(p, "main;cold", 30);
    struct sonde_findings *f = look(p);
    static const struct { const char *name; enum sonde_severity severity; } wanted[] = {
        { "hot", SONDE_SEVERITY_WARNING }, { "warm", SONDE_SEVERITY_INFO },
        { "mild", SONDE_SEVERITY_INFO },
    };
    assert_int_equal(f->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(f->rows[i].subject, wanted[i].name);
        assert_int_equal(f->rows[i].severity, wanted[i].severity);
        assert_int_equal(f->rows[i].kind, SONDE_FINDING_KIND_FUNCTION);
        assert_true(isnan(f->rows[i].count) && isnan(f->rows[i].bytes));
    }
    assert_true(fabs(f->rows[0].share - 0.6) < 1e-9 && fabs(f->rows[0].seconds - 0.6) < 1e-9);
    assert_non_null(strstr(f->rows[0].text, "0.600 s of 1.000 s"));
    assert_string_equal(f->note, "");
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 16);
    sonde_findings_json(f, &out);
    assert_non_null(strstr(out.data, "\"function\":\"hot\",\"avg_time_ms\":null,"
                           "\"call_count\":null,\"severity\":\"warning\",\"percent\":60"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Six samples say nothing of two functions, and 40 something of one. */
static void test_few_samples(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    for (int i = 0; i < 2; i++) build_sample(p, "main;a", 10 * MS, 0, T0);
    for (int i = 0; i < 4; i++) build_sample(p, "main;b", 10 * MS, 0, T0);
    struct sonde_findings *f = look(p);
    struct sonde_buf out;
    assert_int_equal(f->count, 0);
    assert_non_null(strstr(f->note, "2 functions with fewer than 10 samples"));
    sonde_buf_init(&out, 4096);
    sonde_findings_text(f, &out);
    assert_non_null(strstr(out.data, "the profile has 6, sample for longer"));
    assert_null(strstr(out.data, "nothing takes"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    for (int i = 0; i < 40; i++) build_sample(p, "main;b", 10 * MS, 0, T0);
    f = look(p);
    assert_int_equal(f->count, 1);
    assert_string_equal(f->rows[0].subject, "b");
    assert_int_equal(f->rows[0].severity, SONDE_SEVERITY_WARNING);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void linked(struct sonde_profile *p, const char *name, uint32_t thread, uint64_t id,
                   uint64_t parent, uint64_t from_ms, uint64_t to_ms)
{
    const struct sonde_profile_span s = { .start_ns = T0 + from_ms * MS, .end_ns = T0 + to_ms * MS,
                                          .name = sonde_profile_cstring(p, name), .id = id,
                                          .parent = parent, .trace_hi = 1,
                                          .trace_lo = parent ? 2 : id, .thread = thread };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
}

static const struct sonde_finding *finding(const struct sonde_findings *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->rows[i].subject, name) == 0) return &f->rows[i];
    }
    return NULL;
}

/* A request passes through three processes: each millisecond of it is of the innermost span. Two
 * that overlap are not inside of each other, though both are of no thread. */
static void test_spans_of_a_trace(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    const uint32_t front = sonde_profile_thread(p, 1, 0, ""),
                   engine = sonde_profile_thread(p, 2, 0, ""),
                   worker = sonde_profile_thread(p, 2, 7, "w");
    linked(p, "decode", worker, 4, 3, 120, 280);
    linked(p, "decode", worker, 5, 3, 280, 380);
    linked(p, "request", engine, 3, 2, 110, 390);
    linked(p, "front", front, 2, 0, 100, 400);
    /* Another client's, of which nothing else is known. */
    linked(p, "front", front, 12, 0, 150, 350);
    struct sonde_findings *f = look(p);
    const struct sonde_finding *decode = finding(f, "decode"), *other = finding(f, "front");
    assert_non_null(decode);
    assert_true(fabs(decode->seconds - 0.26) < 1e-9);
    assert_non_null(other);
    assert_true(fabs(other->seconds - (0.02 + 0.2)) < 1e-9); /* 300 - 280, and all of the other */
    assert_null(finding(f, "request"));                      /* 20 of 500 ms are its own */
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* A batch serves two requests at once: its time is its own, and of neither. */
static void test_spans_of_a_batch(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    const uint32_t engine = sonde_profile_thread(p, 2, 0, ""),
                   worker = sonde_profile_thread(p, 2, 7, "w");
    linked(p, "request", engine, 21, 0, 0, 500);
    linked(p, "request", engine, 22, 0, 0, 400);
    linked(p, "decode", worker, 23, 0, 100, 500);
    for (uint64_t id = 21; id <= 22; id++) {
        const struct sonde_profile_part part = { .request = id, .span = 2, .tokens_out = 1 };
        assert_int_equal(sonde_profile_add_part(p, &part), 0);
    }
    struct sonde_findings *f = look(p);
    assert_true(fabs(finding(f, "decode")->seconds - 0.4) < 1e-9);
    assert_true(fabs(finding(f, "request")->seconds - 0.2) < 1e-9);
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
    assert_int_equal(f->rows[0].kind, SONDE_FINDING_KIND_QUEUE);
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
    assert_int_equal(f->rows[0].kind, SONDE_FINDING_KIND_LEAK);
    assert_int_equal(f->rows[0].severity, SONDE_SEVERITY_WARNING);
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
        cmocka_unit_test(test_few_samples), cmocka_unit_test(test_spans_of_a_trace),
        cmocka_unit_test(test_spans_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
