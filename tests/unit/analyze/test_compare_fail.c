/* --fail-on: what is a limit and what is not, and which figures break one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/compare_fail.h"
#include "sonde/sonde.h"

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text, *measure, *glob;
        int sign;
        double limit;
        int absolute;
    } good[] = {
        { "p95>5%", "p95", "", 1, 0.05, 0 },
        { "  cpu > 3 % ", "cpu", "", 1, 0.03, 0 },
        { "peak>10%", "peak", "", 1, 0.1, 0 },
        { "requests<2.5%", "requests", "", -1, 0.025, 0 },
        { "p99:GET /v1/*>0%", "p99", "GET /v1/*", 1, 0, 0 },
        { "self:operator<<>1e1%", "self", "operator<<", 1, 0.1, 0 },
        { "total:std::map<int>::find<5%", "total", "std::map<int>::find", -1, 0.05, 0 },
        { "phase.p95:prefill>5%", "phase.p95", "prefill", 1, 0.05, 0 },
        { "cpu:handle>3%", "cpu", "handle", 1, 0.03, 0 },
        { "tokens_per_s<50", "tokens", "", -1, 50, 1 },
        { "rss>1GB", "rss", "", 1, 1e9, 1 },
        { "peak > 1.5 MiB", "peak", "", 1, 1572864, 1 },
        { "p95:load>200ms", "p95", "load", 1, 0.2, 1 },
        { "errors>0.01", "errors", "", 1, 0.01, 1 },
    };
    static const char *const bad[] = {
        "", "p95", "p95>", "p95>5 furlongs", "p95>five%", "p95>-5%", "p95>inf%", "p95>nan%",
        "p95>0x5%", "p95>5%%", "p95>5% or so", ">5%", "p95=5%", "p96>5%", "self>5%", "spans>5%",
        "phase.p95>5%", "p95>200", "p95:load>0.2", "ttft.p95<1", "time>60", "phase.p99:prefill>1",
        "rss>1000000", "alloc>5", "peak:x>5%", "p95:>5%", "p95>1e9%", "p95>5%>",
        "a_measure_that_is_much_too_long_to_be_one>5%",
    };
    struct sonde_fail_on f;
    struct sonde_err err;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (sonde_fail_on_parse(good[i].text, &f, &err)) fail_msg("%s: %s", good[i].text, err.text);
        assert_string_equal(f.measure, good[i].measure);
        assert_string_equal(f.glob, good[i].glob);
        assert_true(f.sign == good[i].sign);
        assert_true(fabs(f.limit - good[i].limit) < 1e-12 * (1 + good[i].limit));
        assert_int_equal(f.absolute, good[i].absolute);
        assert_string_equal(f.text, good[i].text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        if (sonde_fail_on_parse(bad[i], &f, &err) != SONDE_EINVAL) {
            fail_msg("'%s' is taken", bad[i]);
        }
        assert_null(strstr(err.text, "--fail-on")); /* the option is the caller's to name */
        if (!strstr(err.text, bad[i])) fail_msg("'%s' is not named: %s", bad[i], err.text);
    }
    assert_true(sonde_fail_on_parse("p96>5%", &f, &err) == SONDE_EINVAL);
    assert_non_null(strstr(err.text, "p99, ttft.p50")); /* what there is */
    assert_true(sonde_fail_on_parse("p95>200", &f, &err) == SONDE_EINVAL);
    assert_non_null(strstr(err.text, "200ms, 1.5s"));
    assert_true(sonde_fail_on_parse("rss>200", &f, &err) == SONDE_EINVAL);
    assert_non_null(strstr(err.text, "1GB"));
}

static struct sonde_compare_measure figure(enum sonde_compare_measure_group group,
                                           const char *measure, const char *subject,
                                           double relative, enum sonde_verdict v)
{
    return (struct sonde_compare_measure){ .group = group, .measure = measure, .subject = subject,
                                           .title = measure, .unit = "seconds", .before = 1,
                                           .after = 1 + relative, .verdict = v,
                                           .d = { .change = relative, .relative = relative } };
}

static void test_check(void **state)
{
    (void)state;
    struct sonde_compare_measure figures[] = {
        figure(SONDE_MEASURE_REQUESTS, "p95", "", 0.08, SONDE_VERDICT_SLOWER),
        figure(SONDE_MEASURE_REQUESTS, "p99", "", 0.30, SONDE_VERDICT_SAME),
        figure(SONDE_MEASURE_REQUESTS, "requests", "", -0.1, SONDE_VERDICT_SLOWER),
        figure(SONDE_MEASURE_SPANS, "p95", "load", 0.5, SONDE_VERDICT_SLOWER),
        figure(SONDE_MEASURE_SPANS, "p95", "store", -0.2, SONDE_VERDICT_FASTER),
        figure(SONDE_MEASURE_SPANS, "spans", "store", 0.2, SONDE_VERDICT_UNKNOWN),
        figure(SONDE_MEASURE_FUNCTIONS, "self", "new", 0.2, SONDE_VERDICT_MORE),
    };
    figures[2].unit = "per second";
    figures[6].d.relative = NAN; /* it was not there before */
    const struct sonde_comparison c = { .figures = figures, .count = 7 };
    static const struct { const char *text; int rc, which; } cases[] = {
        { "p95>5%", 1, 0 },        { "p95>8.5%", 0, 0 },       { "p95<1%", 0, 0 },
        { "p99>5%", 0, 0 },        { "requests<5%", 1, 2 },    { "requests>5%", 0, 0 },
        { "p95:load>5%", 1, 3 },   { "p95:*>5%", 1, 3 },       { "p95:s*>5%", 0, 0 },
        { "p95:store<5%", 1, 4 },  { "self:n?w>100%", 1, 6 },  { "self:new<1%", 0, 0 },
        { "p95:none>5%", SONDE_ENOENT, 0 }, { "peak>5%", SONDE_ENOENT, 0 },
        { "spans:store>5%", 1, 5 },            /* not known: a test that cannot be made fails */
        { "p95>1.05s", 1, 0 },      { "p95>1100ms", 0, 0 },     { "p95<1.1s", 1, 0 },
        { "p99>1.2s", 1, 1 },                  /* the value itself, changed or not */
        { "p95>1GB", SONDE_EINVAL, 0 },
        { "self:new>1", SONDE_EINVAL, 0 },     /* seconds, in these runs */
        { "requests<50", 1, 2 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_fail_on f;
        struct sonde_err err = { "" };
        const struct sonde_compare_measure *found = NULL;
        assert_true(sonde_fail_on_parse(cases[i].text, &f, &err) == 0);
        const int rc = sonde_fail_on_check(&f, &c, 0, &found, &err);
        if (rc != cases[i].rc) fail_msg("%s: wanted %d, got %d", cases[i].text, cases[i].rc, rc);
        if (rc == 1) assert_ptr_equal(found, &figures[cases[i].which]);
        if (rc < 0) assert_non_null(strstr(err.text, cases[i].text));
    }
    struct sonde_fail_on f;
    const struct sonde_compare_measure *found = NULL;
    struct sonde_err err = { "" };
    assert_true(sonde_fail_on_parse("rss>1GB", &f, &err) == 0);
    assert_int_equal(sonde_fail_on_check(&f, &c, 0, &found, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "recorded with its heap"));
    assert_true(sonde_fail_on_parse("spans:store>5%", &f, NULL) == 0);
    assert_int_equal(sonde_fail_on_check(&f, &c, 1, &found, NULL), 0); /* --unknown-ok */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parse),
                                        cmocka_unit_test(test_check) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
