/* Comparisons of runs whose truth is known: how often two of the same program are called different,
 * how often the interval holds the truth of two that differ, what repeated runs, memory and files
 * without times get, and what happens without memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/compare.h"
#include "base/alloc.h"
#include "profile/heap.h"
#include "sonde/sonde.h"
#include "unit/analyze/compare_build.h"

static const struct sonde_compare_options plain = { .kind = -1 };

static struct sonde_comparison *compare(struct sonde_profile *const *before, size_t before_count,
                                        struct sonde_profile *const *after, size_t after_count,
                                        const struct sonde_compare_options *o, const char *span)
{
    struct sonde_compare_run a[8], b[8];
    struct sonde_comparison *c = NULL;
    struct sonde_err err = { "" };
    const struct sonde_profile_filter any = { .kind = -1, .span = span };
    for (size_t i = 0; i < before_count; i++) a[i] = (struct sonde_compare_run){ before[i], any };
    for (size_t i = 0; i < after_count; i++) b[i] = (struct sonde_compare_run){ after[i], any };
    const int rc = sonde_compare(a, before_count, b, after_count, o, &c, &err);
    if (rc) fail_msg("%s", err.text);
    return c;
}

static struct sonde_comparison *compare_programs(const struct build_program *before,
                                                 const struct build_program *after, size_t runs,
                                                 const char *span)
{
    struct sonde_profile *a[8], *b[8];
    for (size_t i = 0; i < runs; i++) { /* taken in turns, as they should be */
        a[i] = build_run(before);
        b[i] = build_run(after);
    }
    struct sonde_comparison *c = compare(a, runs, b, runs, &plain, span);
    for (size_t i = 0; i < runs; i++) {
        sonde_profile_destroy(a[i]);
        sonde_profile_destroy(b[i]);
    }
    return c;
}

static const struct sonde_compare_measure *find(const struct sonde_comparison *c,
                                                enum sonde_compare_measure_group group,
                                                const char *measure, const char *subject)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        if (f->group == group && !strcmp(f->measure, measure) && !strcmp(f->subject, subject)) {
            return f;
        }
    }
    return NULL;
}

static int changed_count(const struct sonde_comparison *c)
{
    int n = 0;
    for (size_t i = 0; i < c->count; i++) n += sonde_compare_measure_changed(&c->figures[i]);
    return n;
}

/* ---- Noise is called noise ------------------------------------------------------------------- */

static void test_same_program(void **state)
{
    (void)state;
    enum { PAIRS = 1000 };
    static const struct {
        const char *what;
        struct build_program b;
        size_t runs;
        int pairs;
    } cases[] = {
        { "CPU only", { .rate_hz = 200, .seconds = 4, .stay = 0.9 }, 1, PAIRS },
        { "requests", { .rate_hz = 50, .seconds = 4, .stay = 0.8, .request_hz = 150,
                        .latency_s = 0.01, .likeness = 0.9 }, 1, PAIRS },
        { "spans", { .rate_hz = 50, .seconds = 4, .stay = 0.8, .request_hz = 150,
                     .latency_s = 0.01, .likeness = 0.9, .spans = 1 }, 1, PAIRS / 5 },
        { "few samples", { .rate_hz = 50, .seconds = 1, .stay = 0.5 }, 1, PAIRS / 5 },
        { "repeated", { .rate_hz = 100, .seconds = 1, .stay = 0.8, .request_hz = 150,
                        .latency_s = 0.01, .likeness = 0.9, .run_factor = 0.1 }, 4, PAIRS / 5 },
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        int alarms = 0, verdicts = 0;
        for (int i = 0; i < cases[k].pairs; i++) {
            struct sonde_comparison *c = compare_programs(&cases[k].b, &cases[k].b, cases[k].runs,
                                                          NULL);
            assert_true(c->count > 12);
            alarms += changed_count(c) > 0;
            verdicts += c->verdict > SONDE_VERDICT_SAME;
            sonde_comparison_destroy(c);
        }
        printf("%s: %d of %d called different, %d in some figure\n", cases[k].what, verdicts,
               cases[k].pairs, alarms);
        assert_true(alarms <= cases[k].pairs / 20);
        assert_true(verdicts <= alarms);
    }
}

/* ---- Changes are found, and their intervals hold the truth ----------------------------------- */

static void test_faster_program(void **state)
{
    (void)state;
    enum { PAIRS = 100 };
    struct build_program a = { .rate_hz = 250, .seconds = 8, .stay = 0.3, .request_hz = 200,
                               .latency_s = 0.010, .likeness = 0.5, .weights = { 10 } };
    struct build_program b = a;
    b.latency_s = 0.008;
    b.weights[0] = 5; /* 10 of 21 to 5 of 16 */
    const double share[2] = { 10.0 / 21, 5.0 / 16 };
    int found = 0, latency_held = 0, share_held = 0, function_found = 0;
    for (int i = 0; i < PAIRS; i++) {
        struct sonde_comparison *c = compare_programs(&a, &b, 1, NULL);
        const struct sonde_compare_measure *p50 = find(c, SONDE_MEASURE_REQUESTS, "p50", "");
        assert_non_null(p50);
        found += p50->verdict == SONDE_VERDICT_FASTER && c->verdict == SONDE_VERDICT_FASTER;
        latency_held += p50->d.relative_low <= -0.2 && p50->d.relative_high >= -0.2;
        sonde_comparison_destroy(c);

        struct sonde_profile *x = build_run(&a), *y = build_run(&b);
        const struct sonde_compare_options shares = { .kind = -1, .basis = SONDE_BASIS_SHARE };
        c = compare(&x, 1, &y, 1, &shares, NULL);
        const struct sonde_compare_measure *f = find(c, SONDE_MEASURE_FUNCTIONS, "self", "f0");
        assert_non_null(f);
        function_found += f->verdict == SONDE_VERDICT_LESS;
        share_held += f->d.low <= share[1] - share[0] && f->d.high >= share[1] - share[0];
        sonde_comparison_destroy(c);
        sonde_profile_destroy(x);
        sonde_profile_destroy(y);
    }
    printf("found %d, f0 %d; truth held by %d and %d of %d\n", found, function_found, latency_held,
           share_held, PAIRS);
    assert_true(found >= PAIRS * 85 / 100);
    assert_true(function_found >= PAIRS * 85 / 100);
    assert_true(latency_held >= PAIRS * 90 / 100);
    assert_true(share_held >= PAIRS * 90 / 100);
}

/* With the runs of a side being different from each other, single runs cannot know; repeated do. */
static void test_repeated_runs(void **state)
{
    (void)state;
    const struct build_program a = { .rate_hz = 100, .seconds = 2, .stay = 0.5, .request_hz = 200,
                                     .latency_s = 0.010, .run_factor = 0.03 };
    struct build_program b = a;
    b.latency_s = 0.0125;
    int slower = 0, held = 0;
    for (int i = 0; i < 50; i++) {
        struct sonde_comparison *c = compare_programs(&a, &b, 6, NULL);
        assert_true(c->by_runs);
        assert_int_equal(c->parts[0], 6);
        const struct sonde_compare_measure *p50 = find(c, SONDE_MEASURE_REQUESTS, "p50", "");
        slower += p50->verdict == SONDE_VERDICT_SLOWER;
        held += p50->d.relative_low <= 0.25 && p50->d.relative_high >= 0.25;
        assert_non_null(find(c, SONDE_MEASURE_RUN, "cpu", ""));
        sonde_comparison_destroy(c);
    }
    assert_true(slower >= 48);
    assert_true(held >= 44);
}

/* Six requests a side, twice as fast: nobody can say, and nothing else is a verdict on them. */
static void test_few_requests(void **state)
{
    (void)state;
    for (int n = 6; n <= 12; n += 6) {
        const struct build_program a = { .rate_hz = 200, .seconds = 4, .request_hz = n / 4.0,
                                         .latency_s = 0.05 };
        struct build_program b = a;
        b.latency_s = 0.025;
        struct sonde_comparison *c = compare_programs(&a, &b, 1, NULL);
        assert_true(c->requests[0] > 0 && c->requests[1] > 0);
        for (size_t i = 0; i < c->count; i++) {
            const struct sonde_compare_measure *f = &c->figures[i];
            const int time = f->group == SONDE_MEASURE_REQUESTS && !strcmp(f->unit, "seconds");
            if (time && f->verdict == SONDE_VERDICT_SAME) fail_msg("%s: not different", f->measure);
        }
        if (n == 6) assert_true(c->requests_unknown);
        sonde_comparison_destroy(c);
    }
}

/* ---- Figures --------------------------------------------------------------------------------- */

static void test_figures(void **state)
{
    (void)state;
    const struct build_program a = { .rate_hz = 200, .seconds = 5, .request_hz = 100,
                                     .latency_s = 0.005 };
    struct sonde_profile *p = build_run(&a);
    struct sonde_comparison *c = compare(&p, 1, &p, 1, &plain, NULL);
    assert_int_equal(c->verdict, SONDE_VERDICT_SAME);
    assert_int_equal(c->headline, c->count);
    assert_int_equal(c->basis, SONDE_BASIS_REQUEST);
    assert_int_equal(c->requests[0], p->infer->request_count);
    static const char *const wanted[] = { "p50", "p95", "p99", "ttft.p50", "ttft.p95", "itl.p99",
                                          "requests", "tokens", "prompt" };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        const struct sonde_compare_measure *f = find(c, SONDE_MEASURE_REQUESTS, wanted[i], "");
        if (!f) fail_msg("no %s", wanted[i]);
        assert_true(f->before == f->after && f->d.change == 0);
        assert_true(f->d.p == 1);
        const int bounded = isfinite(f->d.low) && isfinite(f->d.high);
        assert_int_equal(f->verdict, bounded ? SONDE_VERDICT_SAME : SONDE_VERDICT_UNKNOWN);
    }
    assert_int_equal(find(c, SONDE_MEASURE_REQUESTS, "p50", "")->verdict, SONDE_VERDICT_SAME);
    assert_null(find(c, SONDE_MEASURE_REQUESTS, "errors", ""));
    const struct sonde_compare_measure *prefill =
        find(c, SONDE_MEASURE_PHASES, "phase.p50", "prefill");
    assert_non_null(prefill);
    const struct sonde_compare_measure *rate = find(c, SONDE_MEASURE_REQUESTS, "requests", "");
    assert_true(fabs(rate->before - (double)p->infer->request_count / 5) < 1e-9);
    const struct sonde_compare_measure *tokens = find(c, SONDE_MEASURE_REQUESTS, "tokens", "");
    assert_true(fabs(tokens->before - 20 * rate->before) < 1e-9);
    const struct sonde_compare_measure *cpu = find(c, SONDE_MEASURE_RUN, "cpu", "");
    assert_true(fabs(cpu->before - 5 / (double)p->infer->request_count) < 0.001);
    /* main is in every sample, never by itself. */
    const struct sonde_compare_measure *main_total =
        find(c, SONDE_MEASURE_FUNCTIONS, "total", "main");
    assert_true(fabs(main_total->before - cpu->before) < 1e-9);
    assert_null(find(c, SONDE_MEASURE_FUNCTIONS, "self", "main"));
    double self = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        if (f->group == SONDE_MEASURE_FUNCTIONS && !strcmp(f->measure, "self")) self += f->before;
    }
    assert_true(fabs(self - cpu->before) < 1e-9);
    sonde_comparison_destroy(c);
    sonde_profile_destroy(p);
}

static void test_spans_are_requests(void **state)
{
    (void)state;
    const struct build_program a = { .rate_hz = 200, .seconds = 5, .request_hz = 100,
                                     .latency_s = 0.005, .spans = 1 };
    struct sonde_profile *p = build_run(&a);
    struct sonde_comparison *c = compare(&p, 1, &p, 1, &plain, NULL);
    assert_int_equal(c->basis, SONDE_BASIS_SHARE);
    assert_true(fabs(c->whole[0] - 1) < 1e-12);
    const struct sonde_compare_measure *p95 = find(c, SONDE_MEASURE_SPANS, "p95", "handle");
    const struct sonde_compare_measure *cpu = find(c, SONDE_MEASURE_SPANS, "cpu", "handle");
    assert_true(p95 && cpu && cpu->before > 0);
    sonde_comparison_destroy(c);
    c = compare(&p, 1, &p, 1, &plain, "hand*");
    assert_int_equal(c->basis, SONDE_BASIS_REQUEST);
    assert_int_equal(c->requests[1], p->spans_count);
    sonde_comparison_destroy(c);
    sonde_profile_destroy(p);
}

static struct sonde_profile *heap_run(uint64_t bytes, uint64_t mean, int full)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->start_ns = BUILD_START;
    p->end_ns = BUILD_START + 2000000000u;
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    h->full = full;
    h->mean = mean;
    h->peak_bytes = bytes;
    h->live_bytes.value = (double)bytes / 2;
    h->alloc_bytes.value = (double)bytes * 10;
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){
        .stack = build_stack(p, "main;load;malloc"), .weight = bytes / 2, .count = 10,
        .kind = SONDE_SAMPLE_LIVE });
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){
        .stack = build_stack(p, "main;keep;malloc"), .weight = 1 << 20, .count = 10,
        .kind = SONDE_SAMPLE_LIVE });
    return p;
}

static void test_memory(void **state)
{
    (void)state;
    static const struct {
        uint64_t before, after, mean;
        int full;
        enum sonde_verdict peak;
    } cases[] = {
        { 100 << 20, 120 << 20, 4096, 1, SONDE_VERDICT_MORE },
        { 100 << 20, 103 << 20, 4096, 1, SONDE_VERDICT_SAME },  /* below 5 % */
        { 100 << 20, 120 << 20, 4096, 0, SONDE_VERDICT_MORE },
        { 100 << 20, 80 << 20, 512 << 10, 0, SONDE_VERDICT_SAME }, /* 200 and 160 samples */
        { 400 << 20, 200 << 20, 512 << 10, 0, SONDE_VERDICT_LESS },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *a = heap_run(cases[i].before, cases[i].mean, cases[i].full);
        struct sonde_profile *b = heap_run(cases[i].after, cases[i].mean, cases[i].full);
        struct sonde_comparison *c = compare(&a, 1, &b, 1, &plain, NULL);
        const struct sonde_compare_measure *f = find(c, SONDE_MEASURE_MEMORY, "peak", "");
        assert_int_equal(f->verdict, cases[i].peak);
        f = find(c, SONDE_MEASURE_MEMORY, "alloc", "");
        assert_true(fabs(f->before - (double)cases[i].before * 5) < 1);
        f = find(c, SONDE_MEASURE_FUNCTIONS, "total", "load");
        assert_true(fabs(f->before - (double)cases[i].before / 2) < 1);
        assert_int_equal(f->verdict, cases[i].peak);
        f = find(c, SONDE_MEASURE_FUNCTIONS, "total", "keep");
        assert_int_equal(f->verdict, SONDE_VERDICT_SAME);
        assert_null(find(c, SONDE_MEASURE_MEMORY, "rss", ""));
        sonde_comparison_destroy(c);
        sonde_profile_destroy(a);
        sonde_profile_destroy(b);
    }
}

/* A file of another tool: nobody knows when its samples were taken. */
static void test_without_times(void **state)
{
    (void)state;
    struct sonde_profile *p[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sonde_profile_create(0, &p[i]), 0);
        build_sample(p[i], "main;a", 50, 0, 0);
        build_sample(p[i], "main;b", i < 2 ? 50u + (unsigned)i : 150u + (unsigned)i, 0, 0);
    }
    struct sonde_comparison *c = compare(p, 1, p + 2, 1, &plain, NULL);
    assert_int_equal(c->verdict, SONDE_VERDICT_UNKNOWN);
    assert_false(c->timed);
    const struct sonde_compare_measure *f = find(c, SONDE_MEASURE_FUNCTIONS, "self", "a");
    assert_int_equal(f->verdict, SONDE_VERDICT_UNKNOWN);
    assert_true(f->before == 0.5 && isnan(f->d.p));
    sonde_comparison_destroy(c);
    c = compare(p, 2, p + 2, 2, &plain, NULL);
    assert_true(c->by_runs);
    f = find(c, SONDE_MEASURE_FUNCTIONS, "self", "a");
    assert_true(f->d.p >= 0);
    sonde_comparison_destroy(c);
    for (int i = 0; i < 4; i++) sonde_profile_destroy(p[i]);
}

static void test_time_range(void **state)
{
    (void)state;
    const struct build_program b = { .rate_hz = 200, .seconds = 4, .request_hz = 100,
                                     .latency_s = 0.005 };
    struct sonde_profile *p = build_run(&b);
    struct sonde_compare_run early = { p, { .kind = -1, .to_ns = BUILD_START + 2000000000u } };
    struct sonde_compare_run late = { p, { .kind = -1, .from_ns = BUILD_START + 2000000000u } };
    struct sonde_comparison *c;
    struct sonde_err err;
    assert_int_equal(sonde_compare(&early, 1, &late, 1, &plain, &c, &err), 0);
    assert_true(c->requests[0] > 150 && c->requests[1] > 150);
    assert_int_equal(c->requests[0] + c->requests[1], p->infer->request_count);
    const struct sonde_compare_measure *f = find(c, SONDE_MEASURE_RUN, "cores", "");
    assert_true(fabs(f->before - 1) < 0.02 && fabs(f->after - 1) < 0.02);
    sonde_comparison_destroy(c);
    sonde_profile_destroy(p);
}

static void test_refused(void **state)
{
    (void)state;
    const struct build_program b = { .rate_hz = 100, .seconds = 1 };
    struct sonde_profile *p = build_run(&b);
    struct sonde_compare_run r = { p, { .kind = -1 } };
    struct sonde_comparison *c = NULL;
    struct sonde_err err;
    const struct sonde_compare_options per_request = { .kind = -1, .basis = SONDE_BASIS_REQUEST };
    assert_true(sonde_compare(&r, 1, &r, 1, &per_request, &c, &err) == SONDE_EINVAL);
    assert_non_null(strstr(err.text, "requests cannot be counted"));
    p->end_ns = p->start_ns;
    const struct sonde_compare_options per_second = { .kind = -1, .basis = SONDE_BASIS_SECOND };
    assert_true(sonde_compare(&r, 1, &r, 1, &per_second, &c, &err) == SONDE_EINVAL);
    assert_null(c);
    assert_int_equal(sonde_compare_basis_find("second"), SONDE_BASIS_SECOND);
    assert_true(sonde_compare_basis_find("minute") < 0);
    sonde_profile_destroy(p);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct build_program b = { .rate_hz = 50, .seconds = 1, .request_hz = 50,
                                     .latency_s = 0.005, .spans = 1 };
    struct sonde_profile *p = build_run(&b);
    const struct build_program inference = { .rate_hz = 50, .seconds = 1, .request_hz = 50,
                                             .latency_s = 0.005 };
    struct sonde_profile *q = build_run(&inference);
    struct sonde_profile *const both[2] = { p, q };
    for (int which = 0; which < 2; which++) {
        const struct sonde_compare_run r = { both[which], { .kind = -1 } };
        const int64_t live = sonde__alloc_live();
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc; nth++) {
            assert_true(nth < 20000);
            struct sonde_comparison *c = NULL;
            sonde__alloc_fail_nth(nth);
            rc = sonde_compare(&r, 1, &r, 1, &plain, &c, NULL);
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            assert_int_equal(c != NULL, rc == 0);
            sonde_comparison_destroy(c);
            assert_int_equal(sonde__alloc_live(), live);
        }
    }
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_program), cmocka_unit_test(test_faster_program),
        cmocka_unit_test(test_repeated_runs), cmocka_unit_test(test_few_requests),
        cmocka_unit_test(test_figures),       cmocka_unit_test(test_spans_are_requests),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_without_times),
        cmocka_unit_test(test_time_range),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
