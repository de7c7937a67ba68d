/* The list of findings: where time goes, leaks, what explains what, muting, memory. */
#include "unit/analyze/finding/finding_build.h"

#include "present/report/finding.h"
#include "unit/profile/heap_build.h"

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
    struct sonde_profile *p = find_make(1000);
    struct sonde_findings *f = find_look(p);
    struct sonde_buf out;
    assert_int_equal(f->count, 0);
    sonde_buf_init(&out, 4096);
    sonde_findings_json(f, &out);
    assert_string_equal(out.data, "[]");
    sonde_buf_reset(&out);
    sonde_findings_text(f, 0, 0, &out);
    assert_string_equal(out.data, "nothing found\n");
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_functions(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(1000);
    find_samples(p, "main;hot", 600);
    find_samples(p, "main;warm", 270); /* a quarter, and it may be less */
    find_samples(p, "main;mild", 100);
    find_samples(p, "main;cold", 30);
    struct sonde_findings *f = find_look(p);
    static const struct { const char *name; enum sonde_severity severity; } wanted[] = {
        { "hot", SONDE_SEVERITY_INFO }, { "warm", SONDE_SEVERITY_INFO },
        { "mild", SONDE_SEVERITY_INFO },
    };
    assert_int_equal(f->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(f->rows[i].subject, wanted[i].name);
        assert_int_equal(f->rows[i].severity, wanted[i].severity);
        assert_string_equal(f->rows[i].kind, "cpu_hot_spot");
        assert_true(isnan(f->rows[i].count) && isnan(f->rows[i].bytes));
    }
    assert_true(fabs(f->rows[0].share - 0.6) < 1e-9 && fabs(f->rows[0].seconds - 0.6) < 1e-9);
    assert_non_null(strstr(f->rows[0].text, "0.600 of 1.000 s"));
    assert_int_equal(f->note_count, 1);
    assert_non_null(strstr(f->notes[0], "waiting was not recorded"));
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 16);
    sonde_findings_json(f, &out);
    assert_non_null(strstr(out.data, "\"severity\":\"info\",\"subject\":\"hot\","
                           "\"function\":\"hot\",\"avg_time_ms\":null,\"call_count\":null,"
                           "\"percent\":60"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Six samples say nothing of two functions, and 40 something of one. */
static void test_few_samples(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(1000);
    for (int i = 0; i < 2; i++) build_sample(p, "main;a", 10 * MS, 0, T0);
    for (int i = 0; i < 4; i++) build_sample(p, "main;b", 10 * MS, 0, T0);
    struct sonde_findings *f = find_look(p);
    struct sonde_buf out;
    assert_int_equal(f->count, 0);
    assert_non_null(strstr(f->notes[0], "2 functions with fewer than 10 samples"));
    sonde_buf_init(&out, 4096);
    sonde_findings_text(f, 200, 0, &out);
    assert_non_null(strstr(out.data, "the profile has 6, sample for longer"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    for (int i = 0; i < 40; i++) build_sample(p, "main;b", 10 * MS, 0, T0);
    f = find_look(p);
    assert_int_equal(f->count, 1);
    assert_string_equal(f->rows[0].subject, "b");
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
    struct sonde_profile *p = find_make(1000);
    const uint32_t front = sonde_profile_thread(p, 1, 0, ""),
                   engine = sonde_profile_thread(p, 2, 0, ""),
                   worker = sonde_profile_thread(p, 2, 7, "w");
    linked(p, "decode", worker, 4, 3, 120, 280);
    linked(p, "decode", worker, 5, 3, 280, 380);
    linked(p, "request", engine, 3, 2, 110, 390);
    linked(p, "front", front, 2, 0, 100, 400);
    /* Another client's, of which nothing else is known. */
    linked(p, "front", front, 12, 0, 150, 350);
    struct sonde_findings *f = find_look(p);
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
    struct sonde_profile *p = find_make(1000);
    const uint32_t engine = sonde_profile_thread(p, 2, 0, ""),
                   worker = sonde_profile_thread(p, 2, 7, "w");
    linked(p, "request", engine, 21, 0, 0, 500);
    linked(p, "request", engine, 22, 0, 0, 400);
    linked(p, "decode", worker, 23, 0, 100, 500);
    for (uint64_t id = 21; id <= 22; id++) {
        const struct sonde_profile_part part = { .request = id, .span = 2, .tokens_out = 1 };
        assert_int_equal(sonde_profile_add_part(p, &part), 0);
    }
    struct sonde_findings *f = find_look(p);
    assert_true(fabs(finding(f, "decode")->seconds - 0.4) < 1e-9);
    assert_true(fabs(finding(f, "request")->seconds - 0.2) < 1e-9);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Their own time: without that of spans inside, which end first. Requests are of no thread. */
static void test_spans(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(1000);
    const uint32_t thread = sonde_profile_thread(p, 1, 1, "t");
    for (uint64_t i = 0; i < 4; i++) {
        span(p, "inner", thread, i * 100 + 10, i * 100 + 90);
        span(p, "outer", thread, i * 100, i * 100 + 100);
    }
    span(p, "request", 0, 0, 1000);
    struct sonde_findings *f = find_look(p);
    assert_int_equal(f->count, 2);
    assert_string_equal(f->rows[0].subject, "inner");
    assert_true(fabs(f->rows[0].seconds - 0.32) < 1e-9 && fabs(f->rows[0].share - 0.8) < 1e-9);
    assert_true(f->rows[0].count == 4 && fabs(f->rows[0].avg_s - 0.08) < 1e-9);
    assert_string_equal(f->rows[1].subject, "outer");
    assert_true(fabs(f->rows[1].seconds - 0.08) < 1e-9 && fabs(f->rows[1].avg_s - 0.1) < 1e-9);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_leaks(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(1000);
    struct sonde_heap *h = build_heap_facts(p);
    h->live_bytes = build_amount(1000);
    for (uint32_t i = 0; i < h->site_count; i++) h->sites[i].verdict = SONDE_HEAP_STABLE;
    h->sites[1].verdict = SONDE_HEAP_LEAK;
    h->sites[1].live_bytes = build_amount(50);
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    struct sonde_findings *f = find_look(p);
    assert_int_equal(f->count, 1);
    assert_string_equal(f->rows[0].kind, "leak");
    assert_int_equal(f->rows[0].severity, SONDE_SEVERITY_WARNING);
    assert_string_equal(f->rows[0].subject, "serve");
    assert_true(f->rows[0].bytes == 50);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_muted(void **state)
{
    (void)state;
    static const struct { const char *muted, *kind, *subject; int yes; } cases[] = {
        { "leak", "leak", "x", 1 },
        { "leak", "leaks", "x", 0 },
        { "leak:x", "leak", "x", 1 },
        { "leak:x*", "leak", "xyz", 1 },
        { "leak:x", "leak", "xyz", 0 },
        { "span, leak:y ,leak:z", "leak", "z", 1 },
        { "", "leak", "z", 0 },
        { NULL, "leak", "z", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(
            sonde_finding_is_muted(cases[i].muted, cases[i].kind, cases[i].subject), cases[i].yes);
    }
    struct sonde_err err = { "" };
    assert_int_equal(sonde_finding_mute_check("leak,cpu_hot_spot:memcpy", &err), 0);
    assert_int_equal(sonde_finding_mute_check("leak,nonsense:memcpy", &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "'nonsense'"));

    struct sonde_profile *p = find_make(1000);
    find_samples(p, "main;hot", 600);
    find_samples(p, "main;warm", 400);
    struct sonde_findings *f = NULL;
    const struct sonde_finding_options o = { .muted = "cpu_hot_spot:h*" };
    assert_int_equal(sonde_findings_look(p, &o, &f), 0);
    assert_int_equal(f->count, 1);
    assert_string_equal(f->rows[0].subject, "warm");
    assert_int_equal(f->muted, 1);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* Allocation churn explains that malloc is a hot spot, and stands before it; what its caller does
 * itself has nothing to do with it. */
static void test_explained(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(1000);
    find_samples(p, "main;serve;malloc;_int_malloc", 400);
    find_samples(p, "main;serve;free", 200);
    find_samples(p, "main;serve", 400);
    struct sonde_findings *f = find_look(p);
    struct sonde_buf out;
    assert_string_equal(f->rows[0].kind, "allocation_churn");
    assert_int_equal(f->rows[0].severity, SONDE_SEVERITY_WARNING);
    assert_string_equal(f->rows[0].subject, "serve");
    assert_true(fabs(f->rows[0].share - 0.6) < 1e-9);
    assert_int_equal(f->causes, 2);
    assert_string_equal(f->rows[1].kind, "cpu_hot_spot");
    assert_string_equal(f->rows[1].subject, "serve");
    assert_int_equal(f->count, 4);
    for (size_t i = 2; i < f->count; i++) assert_int_equal(f->rows[i].cause, 1);
    sonde_buf_init(&out, 1 << 16);
    sonde_findings_json_answer(f, &out);
    assert_non_null(strstr(out.data, "\"symptoms\":[{\"kind\":\"cpu_hot_spot\""));
    sonde_buf_reset(&out);
    sonde_findings_text(f, 80, 1, &out);
    assert_non_null(strstr(out.data, "warning   Allocation churn"));
    assert_non_null(strstr(out.data, "+ CPU hot spot: _int_malloc"));
    sonde_buf_release(&out);
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

static void test_kinds(void **state)
{
    (void)state;
    const char *kind, *title, *summary;
    size_t n = 0;
    for (; (kind = sonde_finding_kind(n, &title, &summary)); n++) {
        assert_true(*kind && *title && *summary);
        assert_int_equal(strspn(kind, "abcdefghijklmnopqrstuvwxyz_"), strlen(kind));
        for (size_t i = 0; i < n; i++) {
            assert_string_not_equal(kind, sonde_finding_kind(i, NULL, NULL));
        }
    }
    assert_true(n >= 20);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = find_make(1000);
    build_sample(p, "main;hot", 700 * MS, 0, T0);
    span(p, "x", sonde_profile_thread(p, 1, 1, "t"), 0, 100);
    const struct sonde_finding_options o = { 0 };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 1000; nth++) {
        struct sonde_findings *f = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_findings_look(p, &o, &f);
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
        cmocka_unit_test(test_spans),   cmocka_unit_test(test_muted),
        cmocka_unit_test(test_explained), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_leaks),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_few_samples), cmocka_unit_test(test_spans_of_a_trace),
        cmocka_unit_test(test_spans_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
