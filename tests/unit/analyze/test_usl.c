/* The universal scalability law: curves that are known are found, parameters stay where they may be,
 * intervals hold the truth as often as they say, and what cannot be fitted is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyze/usl.h"
#include "base/random.h"
#include "sonde/sonde.h"

enum { POINTS = 6 };
static const double workers[POINTS] = { 1, 2, 4, 8, 16, 32 };

static double curve(double l, double s, double k, double n)
{
    return l * n / (1 + s * (n - 1) + k * n * (n - 1));
}

static void fill(struct sonde_usl_point *p, double l, double s, double k, double error)
{
    for (size_t i = 0; i < POINTS; i++) {
        const double x = curve(l, s, k, workers[i]);
        p[i] = (struct sonde_usl_point){ workers[i], x, error * x, 20 };
    }
}

static void near(const char *what, double got, double wanted, double within)
{
    if (fabs(got - wanted) > within) fail_msg("%s: wanted %.12g, got %.12g", what, wanted, got);
}

static void test_known(void **state)
{
    (void)state;
    static const struct { const char *name; double l, s, k; } cases[] = {
        { "both", 995.6486, 0.02671591, 0.0007690945 }, /* of Gunther's worked example in R (usl) */
        { "contention alone", 120, 0.1, 0 },
        { "coherence alone", 3, 0, 0.002 },
        { "neither", 7, 0, 0 },
        { "nothing in parallel", 10, 1, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_usl_point p[POINTS];
        struct sonde_usl u;
        fill(p, cases[i].l, cases[i].s, cases[i].k, 0.01);
        assert_int_equal(sonde_usl_fit(p, POINTS, 1, &u), 0);
        near(cases[i].name, u.single.value, cases[i].l, 1e-6 * cases[i].l);
        near(cases[i].name, u.contention.value, cases[i].s, 1e-6);
        near(cases[i].name, u.coherence.value, cases[i].k, 1e-8);
        assert_true(u.contention.low <= cases[i].s + 1e-9 && u.contention.high >= cases[i].s - 1e-9);
        assert_true(u.coherence.low >= 0 && u.contention.low >= 0);
        near("r2", u.r2, i == 4 ? u.r2 : 1, 1e-9);
        near("at 8", sonde_usl_at(&u, 8), curve(cases[i].l, cases[i].s, cases[i].k, 8),
             1e-6 * cases[i].l);
        const double best = cases[i].s >= 1 ? 1 : cases[i].k > 0
                                ? sqrt((1 - cases[i].s) / cases[i].k) : INFINITY;
        if (isfinite(best)) near("best", u.best_n.value, best, 1e-3 * best);
    }
}

/* More than linear, as when caches add up: the parameters stay at 0. */
static void test_border(void **state)
{
    (void)state;
    struct sonde_usl_point p[4] = { { 1, 100, 1, 10 }, { 2, 210, 1, 10 }, { 4, 450, 1, 10 },
                                    { 8, 900, 1, 10 } };
    struct sonde_usl u;
    assert_int_equal(sonde_usl_fit(p, 4, 1, &u), 0);
    assert_true(u.contention.value == 0 && u.coherence.value == 0);
    assert_true(isinf(u.best_n.value) && isinf(u.best_throughput));
    assert_true(u.single.value > 100 && u.single.value < 115);
}

static void test_refused(void **state)
{
    (void)state;
    struct sonde_usl u;
    struct sonde_usl_point p[POINTS];
    fill(p, 10, 0.1, 0, 0.01);
    assert_int_equal(sonde_usl_fit(p, 2, 1, &u), SONDE_EINVAL);
    p[1].n = p[2].n = 1;
    assert_int_equal(sonde_usl_fit(p, 3, 1, &u), SONDE_EINVAL); /* one number of workers */
    fill(p, 10, 0.1, 0, 0.01);
    p[1].throughput = 0;
    assert_int_equal(sonde_usl_fit(p, POINTS, 1, &u), SONDE_EINVAL);
    p[1].throughput = NAN;
    assert_int_equal(sonde_usl_fit(p, POINTS, 1, &u), SONDE_EINVAL);
    fill(p, 10, 0.1, 0, 0.01);
    p[0].n = 0;
    assert_int_equal(sonde_usl_fit(p, POINTS, 1, &u), SONDE_EINVAL);
    /* Without errors there are no intervals, but there is a curve. */
    fill(p, 10, 0.1, 0.001, 0);
    assert_int_equal(sonde_usl_fit(p, POINTS, 1, &u), 0);
    near("contention", u.contention.value, 0.1, 1e-9);
    assert_true(isnan(u.contention.low) && isnan(u.best_n.high));
}

/* Intervals of 95 %: 300 curves with noise of 2 %, all seeded, so that this never differs. */
static void test_coverage(void **state)
{
    (void)state;
    enum { TIMES = 300 };
    const double s = 0.05, k = 0.001, best = sqrt((1 - s) / k);
    int in_s = 0, in_k = 0, in_best = 0;
    uint64_t seed = 42;
    for (int t = 0; t < TIMES; t++) {
        struct sonde_usl_point p[POINTS];
        struct sonde_usl u;
        fill(p, 50, s, k, 0.02);
        for (size_t i = 0; i < POINTS; i++) p[i].throughput *= 1 + 0.02 * sonde_random_normal(&seed);
        assert_int_equal(sonde_usl_fit(p, POINTS, (uint64_t)t, &u), 0);
        in_s += u.contention.low <= s && s <= u.contention.high;
        in_k += u.coherence.low <= k && k <= u.coherence.high;
        in_best += u.best_n.low <= best && best <= u.best_n.high;
    }
    print_message("of %d: contention %d, coherence %d, best %d\n", TIMES, in_s, in_k, in_best);
    assert_true(in_s >= 0.93 * TIMES && in_k >= 0.93 * TIMES && in_best >= 0.93 * TIMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known), cmocka_unit_test(test_border),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_coverage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
