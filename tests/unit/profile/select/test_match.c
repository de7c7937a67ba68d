/* Filters: by kind, thread, time, span and trace. Each case lists the samples that must pass. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

static struct sonde_profile *p;

static void add_span(uint32_t thread, const char *name, uint64_t start, uint64_t end,
                     uint64_t trace)
{
    const struct sonde_profile_span s = { .start_ns = start, .end_ns = end, .thread = thread,
                                          .trace_lo = trace,
                                          .name = sonde_profile_cstring(p, name) };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
}

static int set_up(void **state)
{
    (void)state;
    if (sonde_profile_create(0, &p)) return -1;
    const uint32_t one = sonde_profile_thread(p, 7, 7, "main");
    const uint32_t two = sonde_profile_thread(p, 7, 42, "worker-1");
    /*  index                           time   */
    build_sample(p, "a", 1, one, 100); /* 0: first ns of request */
    build_sample(p, "a", 1, one, 199); /* 1: last ns of it, inside prefill */
    build_sample(p, "a", 1, one, 200); /* 2: just after */
    build_sample(p, "a", 1, two, 150); /* 3: the same time, another thread */
    build_sample(p, "a", 1, one, 99);  /* 4: just before */
    build_sample(p, "a", 1, one, 0);   /* 5: time unknown */
    build_sample(p, "a", 1, 0, 150);   /* 6: thread unknown */
    build_sample(p, "a", 1, one, 350); /* 7: in the second request, after its nested decode */
    build_sample(p, "a", 1, one, 310); /* 8: in the nested decode */
    const struct sonde_profile_sample off = { .time_ns = 150, .weight = 9, .thread = one,
                                              .stack = p->samples[0].stack, .count = 1,
                                              .kind = SONDE_SAMPLE_OFFCPU };
    assert_int_equal(sonde_profile_add_sample(p, &off), 0); /* 9: blocked */
    add_span(one, "request", 300, 400, 2); /* out of order on purpose */
    add_span(one, "decode", 305, 320, 2);
    add_span(one, "request", 100, 200, 1);
    add_span(one, "prefill", 150, 200, 1);
    add_span(two, "copy", 500, 600, 1);
    add_span(one, "empty", 99, 99, 3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sonde_profile_destroy(p);
    return (int)sonde__alloc_live();
}

static const struct {
    const char *name;
    struct sonde_profile_filter filter;
    const char *pass; /* digits of the samples */
} cases[] = {
    { "everything of the first kind", { .kind = -1 }, "012345678" },
    { "another kind", { .kind = SONDE_SAMPLE_OFFCPU }, "9" },
    { "thread by name", { .thread = "main" }, "0124578" },
    { "thread by glob", { .thread = "work*" }, "3" },
    { "thread by id", { .thread = "42" }, "3" },
    { "no such thread", { .thread = "4" }, "" },
    { "from", { .from_ns = 200 }, "278" },
    { "to: the end is outside, and unknown times too", { .to_ns = 100 }, "4" },
    { "range", { .from_ns = 100, .to_ns = 200 }, "0136" },
    { "span: start inside, end outside, own thread only", { .span = "request" }, "0178" },
    { "nested span", { .span = "decode" }, "8" },
    { "spans by glob, overlapping", { .span = "[pr]*" }, "0178" },
    { "span on a thread without samples in it", { .span = "copy" }, "" },
    { "span of no length", { .span = "empty" }, "" },
    { "no such span", { .span = "nothing" }, "" },
    { "trace", { .trace_lo = 2 }, "78" },
    { "trace and span", { .trace_lo = 1, .span = "prefill" }, "1" },
    { "span of another trace", { .trace_lo = 2, .span = "prefill" }, "" },
    { "span and kind", { .span = "request", .kind = SONDE_SAMPLE_OFFCPU }, "9" },
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile_match *m;
        char got[16] = "";
        size_t n = 0;
        assert_int_equal(sonde_profile_match_create(p, &cases[i].filter, &m, NULL), 0);
        for (uint32_t s = 0; s < p->samples_count; s++) {
            if (sonde_profile_matches(m, s)) got[n++] = (char)('0' + s);
        }
        if (strcmp(got, cases[i].pass) != 0) print_error("case: %s\n", cases[i].name);
        assert_string_equal(got, cases[i].pass);
        assert_int_equal(sonde_profile_match_count(m), n);
        sonde_profile_match_destroy(m);
    }
}

static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        struct sonde_profile_filter filter;
        const char *says;
    } reasons[] = {
        { { .kind = SONDE_SAMPLE_LIVE }, "no samples of memory in use" },
        { { .thread = "nobody" }, "no thread is named, or has the id, 'nobody'" },
        { { .span = "nothing" }, "no span is named 'nothing'" },
        { { .trace_lo = 77 }, "no span is of that trace" },
        { { .span = "copy" }, "none of the 9 samples" },
    };
    struct sonde_err err;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        assert_int_equal(sonde_profile_match_none(p, &reasons[i].filter, &err), SONDE_ENOENT);
        if (!strstr(err.text, reasons[i].says)) print_error("got: %s\n", err.text);
        assert_non_null(strstr(err.text, reasons[i].says));
    }
    struct sonde_profile_match *m;
    const struct sonde_profile_filter backwards = { .from_ns = 9, .to_ns = 8 };
    assert_int_equal(sonde_profile_match_create(p, &backwards, &m, &err), SONDE_EINVAL);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    const struct sonde_profile_filter f = { .span = "request" };
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 20; nth++) {
        struct sonde_profile_match *m = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_profile_match_create(p, &f, &m, NULL);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_profile_match_destroy(m);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
