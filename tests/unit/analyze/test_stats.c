/* Student's t against tables, adjusted p-values against a worked example, and how often intervals
 * of ratios and quantiles of what is alike from one to the next hold the truth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/stats.h"
#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/analyze/random.h"

static void near(const char *what, double got, double wanted, double within)
{
    if (fabs(got - wanted) <= within) return;
    fprintf(stderr, "%s: wanted %.12g, got %.12g\n", what, wanted, got);
    fail();
}

static void test_t(void **state)
{
    (void)state;
    static const struct { double q, df, t; } table[] = {
        { 0.975, 1, 12.706204736433 },   { 0.975, 2, 4.302652729911 },
        { 0.975, 3, 3.182446305284 },    { 0.975, 5, 2.570581835636 },
        { 0.975, 10, 2.228138851965 },   { 0.975, 15, 2.131449545559 },
        { 0.975, 30, 2.042272456301 },   { 0.975, 120, 1.979930405083 },
        { 0.995, 10, 3.169272672617 },   { 0.95, 7, 1.894578605061 },
        { 0.9, 4, 1.533206274058 },      { 0.9995, 3, 12.923978636653 },
        { 0.975, INFINITY, 1.959963984540 }, { 0.995, INFINITY, 2.575829303549 },
        { 0.5, 9, 0 },                   { 0.025, 10, -2.228138851965 },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char what[64];
        snprintf(what, sizeof(what), "t(%g, %g)", table[i].q, table[i].df);
        const double t = sonde_t_quantile(table[i].q, table[i].df);
        near(what, t, table[i].t, 1e-8 * (1 + fabs(table[i].t)));
        /* And back. */
        const double p = sonde_t_p(t, table[i].df);
        near(what, p, 2 * (table[i].q > 0.5 ? 1 - table[i].q : table[i].q), 1e-9);
    }
    near("p of 2 with 10", sonde_t_p(2, 10), 0.073388034771, 1e-10);
    near("p of 1 with 1", sonde_t_p(-1, 1), 0.5, 1e-12);
    near("p of 0", sonde_t_p(0, 7), 1, 1e-12);
    near("p of 40 with 5", sonde_t_p(40, 5) * 1e7, 1.8373, 0.01);
    assert_true(sonde_t_p(INFINITY, 3) == 0);
    assert_true(isnan(sonde_t_p(NAN, 3)));
}

static void test_adjust(void **state)
{
    (void)state;
    /* The example of Benjamini and Hochberg's paper: 15 tests, of which four are called at 0.05. */
    double p[] = { 0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                   0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000 };
    assert_int_equal(sonde_stats_adjust(p, 15), 0);
    int called = 0;
    for (int i = 0; i < 15; i++) called += p[i] <= 0.05;
    assert_int_equal(called, 4);
    near("first", p[0], 0.0015, 1e-12);
    near("fourth", p[3], 0.035625, 1e-12);
    double mixed[] = { 0.04, NAN, 0.01, 0.03, 0.005 };
    assert_int_equal(sonde_stats_adjust(mixed, 5), 0);
    near("of four", mixed[4], 0.02, 1e-12);
    near("of four", mixed[2], 0.02, 1e-12);
    near("of four", mixed[3], 0.04, 1e-12);
    near("of four", mixed[0], 0.04, 1e-12);
    assert_true(isnan(mixed[1]));
    assert_int_equal(sonde_stats_adjust(NULL, 0), 0);
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_stats_adjust(p, 15), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
}

static void test_ratio(void **state)
{
    (void)state;
    const uint32_t runs[] = { 0, 1, 2, 3 };
    const double ones[] = { 1, 1, 1, 1 }, y[] = { 2, 4, 4, 6 };
    struct sonde_estimate e = sonde_estimate_ratio(y, ones, runs, 4, 0);
    near("mean", e.value, 4, 1e-12);
    near("its error", e.se_low, sqrt(8.0 / 3 / 4), 1e-12);
    near("df", e.df, 3, 0);
    e = sonde_estimate_ratio(y, ones, runs, 4, 100);
    near("not below", e.se_high, 10, 1e-12);
    /* A ratio that is the same everywhere has no error, however large the parts. */
    const double twice[] = { 4, 8, 8, 12 };
    e = sonde_estimate_ratio(twice, y, runs, 4, 0);
    near("ratio", e.value, 2, 1e-12);
    near("its error", e.se_low, 0, 1e-12);
    const double nothing[] = { 0, 0, 0, 0 };
    assert_true(isnan(sonde_estimate_ratio(y, nothing, runs, 4, 0).value));
    assert_true(isinf(sonde_estimate_ratio(y, ones, runs, 1, 0).se_low));
    /* Neighbours that are alike say less. */
    const uint32_t one_run[8] = { 0 }, each[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const double stairs[8] = { 1, 1, 1, 1, 5, 5, 5, 5 }, eight[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    assert_true(sonde_estimate_ratio(stairs, eight, one_run, 8, 0).se_low >
                2 * sonde_estimate_ratio(stairs, eight, each, 8, 0).se_low);
}

static void test_difference(void **state)
{
    (void)state;
    /* Welch's test, worked by hand: means 10 and 12, errors 0.5 and 1, 9 and 4 degrees. */
    const struct sonde_estimate a = { 10, 0.5, 0.5, 9 }, b = { 12, 1, 1, 4 };
    struct sonde_difference d = sonde_estimate_compare(&a, &b);
    const double df = 1.25 * 1.25 / (0.0625 / 9 + 1.0 / 4), t = sonde_t_quantile(0.975, df);
    near("change", d.change, 2, 1e-12);
    near("low", d.low, 2 - t * sqrt(1.25), 1e-9);
    near("high", d.high, 2 + t * sqrt(1.25), 1e-9);
    near("p", d.p, sonde_t_p(2 / sqrt(1.25), df), 1e-12);
    near("relative", d.relative, 0.2, 1e-12);
    /* Fieller: where (b - r a)^2 = t^2 (1 + r^2 / 4). */
    for (int i = 0; i < 2; i++) {
        const double r = 1 + (i ? d.relative_high : d.relative_low);
        near("Fieller", (12 - 10 * r) * (12 - 10 * r), t * t * (1 + 0.25 * r * r), 1e-6);
    }
    assert_true(d.relative_low < 0.2 && d.relative_high > 0.2);
    const struct sonde_estimate vague = { 1, 5, 5, 4 };
    assert_true(sonde_estimate_compare(&a, &vague).relative_low == -1); /* not less than nothing */
    /* Both intervals leave 0 out at once. */
    for (double after = 10; after < 14; after += 0.01) {
        const struct sonde_estimate x = { after, 1, 1, 4 };
        d = sonde_estimate_compare(&a, &x);
        assert_int_equal(d.low > 0, d.relative_low > 0);
        assert_int_equal(d.low > 0, d.p < 0.05);
    }
    const struct sonde_estimate zero = { 0, 0.1, 0.1, 5 }, open = { 12, 1, INFINITY, 5 };
    const struct sonde_estimate blind = { 12, INFINITY, INFINITY, 1 }, none = { NAN, 1, 1, 1 };
    d = sonde_estimate_compare(&zero, &b);
    assert_true(d.p < 0.05 && isnan(d.relative) && isnan(d.relative_low));
    d = sonde_estimate_compare(&a, &open); /* known to be more, not by how much */
    assert_true(d.low > -1 && isinf(d.high) && d.p < 0.2 && isnan(d.relative_high));
    const struct sonde_estimate higher = { 14, 0.1, 0.1, 5 };
    d = sonde_estimate_compare(&open, &higher); /* may have been as much */
    assert_true(d.p == 1);
    assert_true(isnan(sonde_estimate_compare(&a, &blind).p));
    assert_true(isnan(sonde_estimate_compare(&a, &none).p));
    const struct sonde_estimate exact = { 5, 0, 0, INFINITY }, more = { 6, 0, 0, INFINITY };
    assert_true(sonde_estimate_compare(&exact, &exact).p == 1);
    assert_true(sonde_estimate_compare(&exact, &more).p == 0);
}

/* Means and percentiles of a value that wanders: AR(1) in 16 parts of 100. */
static void test_coverage(void **state)
{
    (void)state;
    enum { PARTS = 16, EACH = 100, TIMES = 2000 };
    static const double likeness[] = { 0, 0.5, 0.9, 0.97 };
    static struct sonde_observed v[PARTS * EACH];
    uint32_t run[PARTS] = { 0 };
    double work[2 * PARTS];
    for (size_t k = 0; k < sizeof(likeness) / sizeof(likeness[0]); k++) {
        const double r = likeness[k];
        int mean_held = 0, median_held = 0, tail_held = 0;
        for (int i = 0; i < TIMES; i++) {
            double y[PARTS] = { 0 }, x[PARTS], at = random_normal();
            for (uint32_t part = 0; part < PARTS; part++) {
                x[part] = EACH;
                for (uint32_t n = 0; n < EACH; n++) {
                    at = r * at + sqrt(1 - r * r) * random_normal();
                    v[part * EACH + n] = (struct sonde_observed){ at, part };
                    y[part] += at;
                }
            }
            struct sonde_estimate e = sonde_estimate_ratio(y, x, run, PARTS, 0);
            mean_held += fabs(e.value) <= sonde_t_quantile(0.975, e.df) * e.se_low;
            sonde_observed_sort(v, PARTS * EACH);
            e = sonde_estimate_quantile(v, PARTS * EACH, 0.5, run, PARTS, work);
            double t = sonde_t_quantile(0.975, e.df);
            median_held += e.value - t * e.se_low <= 0 && e.value + t * e.se_high >= 0;
            e = sonde_estimate_quantile(v, PARTS * EACH, 0.95, run, PARTS, work);
            t = sonde_t_quantile(0.975, e.df);
            tail_held += e.value - t * e.se_low <= 1.6448536 &&
                         e.value + t * e.se_high >= 1.6448536;
        }
        printf("likeness %.2f: mean %.1f %%, median %.1f %%, p95 %.1f %%\n", r,
               100.0 * mean_held / TIMES, 100.0 * median_held / TIMES, 100.0 * tail_held / TIMES);
        assert_true(mean_held > 0.93 * TIMES);
        assert_true(median_held > 0.93 * TIMES);
        assert_true(tail_held > 0.93 * TIMES);
    }
}

/* Values of a coarse clock: many are equal, and each part has its share of them. */
static void test_equal_values(void **state)
{
    (void)state;
    enum { PARTS = 16, EACH = 50 };
    static struct sonde_observed v[PARTS * EACH];
    uint32_t run[PARTS] = { 0 };
    double work[2 * PARTS];
    for (uint32_t i = 0; i < PARTS * EACH; i++) {
        v[i] = (struct sonde_observed){ 1 + i % 5, i / EACH };
    }
    sonde_observed_sort(v, PARTS * EACH);
    struct sonde_estimate e = sonde_estimate_quantile(v, PARTS * EACH, 0.5, run, PARTS, work);
    assert_true(e.value == 3 && e.se_low == 0 && e.se_high == 0);
    e = sonde_estimate_quantile(v, PARTS * EACH, 0.95, run, PARTS, work);
    assert_true(e.value == 5 && e.se_low == 0 && e.se_high == 0);
    e = sonde_estimate_quantile(v, PARTS * EACH, 0.6, run, PARTS, work); /* between two of them */
    assert_true(e.value == 3 && e.se_low == 0 && e.se_high > 0 && isfinite(e.se_high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_t),          cmocka_unit_test(test_adjust),
        cmocka_unit_test(test_ratio),      cmocka_unit_test(test_difference),
        cmocka_unit_test(test_coverage),   cmocka_unit_test(test_equal_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
