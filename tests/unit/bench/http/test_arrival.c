/* Arrival processes: rates and variances against theory, ramps against their integral, the same
 * times for the same seed, and texts that are not a process. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "bench/http/arrival.h"
#include "sonde/sonde.h"

static void near(const char *what, double got, double wanted, double within)
{
    if (fabs(got - wanted) <= within) return;
    fprintf(stderr, "%s: wanted %g, got %g\n", what, wanted, got);
    fail();
}

static struct sonde_load_arrival arrival_of(const char *kind, const char *stages)
{
    struct sonde_load_arrival a = { 0 };
    struct sonde_err err;
    assert_int_equal(sonde_load_arrival_parse(kind, &a, &err), 0);
    if (stages) assert_int_equal(sonde_load_stages_parse(stages, &a, &err), 0);
    else assert_int_equal(sonde_load_arrival_stage(&a, 100, 100, INFINITY), 0);
    sonde_load_arrival_start(&a, 7);
    return a;
}

/* Mean gap 1/rate, and the squared coefficient of variation that the kind has. */
static void test_moments(void **state)
{
    (void)state;
    static const struct { const char *kind; double scv; } cases[] = {
        { "constant", 0 }, { "poisson", 1 }, { "gamma:0.5", 2 }, { "gamma:4", 0.25 },
        { "gamma:1", 1 },
    };
    enum { N = 200000 };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct sonde_load_arrival a = arrival_of(cases[k].kind, NULL);
        double sum = 0, squares = 0;
        uint64_t before = 0, at;
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(sonde_load_arrival_next(&a, &at), 0);
            assert_true(at >= before);
            if (i) {
                const double gap = (double)(at - before) * 1e-9;
                sum += gap;
                squares += gap * gap;
            }
            before = at;
        }
        const double mean = sum / (N - 1), scv = squares / (N - 1) / (mean * mean) - 1;
        /* Five deviations of the mean of N gaps. */
        near(cases[k].kind, mean, 0.01, 0.01 * (5 * sqrt(cases[k].scv / N) + 1e-6));
        near(cases[k].kind, scv, cases[k].scv, 0.06 * (cases[k].scv + 0.001));
        sonde_load_arrival_release(&a);
    }
}

static void test_burst(void **state)
{
    (void)state;
    struct sonde_load_arrival a = arrival_of("burst:5", NULL);
    for (uint64_t i = 0; i < 50; i++) {
        uint64_t at;
        assert_int_equal(sonde_load_arrival_next(&a, &at), 0);
        near("burst", (double)at, (double)(i / 5) * 5e7, 2);
    }
    sonde_load_arrival_release(&a);
}

/* 10/s for 2 s, then from 10 to 30 in 4 s, then nothing more: 20 + 80 requests; and where the i-th
 * of a ramp is due follows from its integral. */
static void test_stages(void **state)
{
    (void)state;
    struct sonde_load_arrival a = arrival_of("constant", "10:2s,10..30:4s");
    uint64_t at = 0, n = 0;
    while (sonde_load_arrival_next(&a, &at) == 0) {
        if (n < 20) near("level", (double)at, (double)n * 1e8, 2);
        else {
            const double t = (double)at * 1e-9 - 2;
            near("ramp", 10 * t + 2.5 * t * t, (double)n - 20, 1e-6);
        }
        n++;
    }
    assert_int_equal(n, 100);
    assert_int_equal(sonde_load_arrival_next(&a, &at), SONDE_ENOENT);
    near("expected", sonde_load_arrival_expected(&a, 0, 6), 100, 1e-9);
    near("expected", sonde_load_arrival_expected(&a, 1, 4), 10 + 20 + 10, 1e-9);
    near("seconds", sonde_load_arrival_seconds(&a), 6, 1e-9);
    assert_false(sonde_load_arrival_level(&a));
    sonde_load_arrival_release(&a);
    /* Downwards to nothing. */
    a = arrival_of("constant", "20..0:10s");
    for (n = 0; sonde_load_arrival_next(&a, &at) == 0; n++) assert_true(at <= 10000000000u);
    assert_int_equal(n, 100);
    sonde_load_arrival_release(&a);
}

static void test_seed(void **state)
{
    (void)state;
    struct sonde_load_arrival a = arrival_of("gamma:0.7", "5..50:100s");
    struct sonde_load_arrival b = arrival_of("gamma:0.7", "5..50:100s");
    uint64_t x, y, same = 0;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(sonde_load_arrival_next(&a, &x), 0);
        assert_int_equal(sonde_load_arrival_next(&b, &y), 0);
        assert_int_equal(x, y);
    }
    sonde_load_arrival_start(&a, 7);
    sonde_load_arrival_start(&b, 8);
    for (int i = 0; i < 1000; i++) {
        sonde_load_arrival_next(&a, &x);
        sonde_load_arrival_next(&b, &y);
        same += x == y;
    }
    assert_true(same < 10);
    sonde_load_arrival_release(&a);
    sonde_load_arrival_release(&b);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const kinds[] = { "", "poison", "gamma", "gamma:", "gamma:0", "gamma:-1",
                                         "gamma:nan", "burst:0", "burst:1.5", "burst:x",
                                         "constant:2" };
    static const char *const stages[] = { "", "10", "10:", ":5s", "10:0s", "0:5s", "-1:5s",
                                          "1..:5s", "10:5s;20:5s", "1e9:5s", "inf:1s", "5:1y" };
    struct sonde_err err;
    struct sonde_load_arrival a = { 0 };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(sonde_load_arrival_parse(kinds[i], &a, &err), SONDE_EINVAL);
    }
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        assert_int_equal(sonde_load_stages_parse(stages[i], &a, &err), SONDE_EINVAL);
    }
    sonde_load_arrival_release(&a);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_seconds(void **state)
{
    (void)state;
    static const struct { const char *text; double s; } cases[] = {
        { "30", 30 }, { "30s", 30 }, { "1.5m", 90 }, { "500ms", 0.5 }, { "2h", 7200 },
        { "250us", 250e-6 }, { "3min", 180 },
    };
    double s;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_load_seconds_parse(cases[i].text, strlen(cases[i].text), &s), 0);
        near(cases[i].text, s, cases[i].s, 1e-12);
    }
    assert_int_equal(sonde_load_seconds_parse("s", 1, &s), SONDE_EINVAL);
    assert_int_equal(sonde_load_seconds_parse("", 0, &s), SONDE_EINVAL);
    assert_int_equal(sonde_load_seconds_parse("-3s", 3, &s), SONDE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments), cmocka_unit_test(test_burst),
        cmocka_unit_test(test_stages),  cmocka_unit_test(test_seed),
        cmocka_unit_test(test_bad),     cmocka_unit_test(test_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
