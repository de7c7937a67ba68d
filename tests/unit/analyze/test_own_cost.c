/* The statistics of what sampling costs: the interval, what is compared and left out, words. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/own_cost.h"
#include "unit/analyze/random.h"

/* Tables of the signed-rank test, two-sided 5 %: the largest T that is significant, and one. */
static void test_outside(void **state)
{
    (void)state;
    static const struct { size_t n, outside; } rows[] = {
        { 6, 1 }, { 7, 3 }, { 8, 4 }, { 9, 6 }, { 10, 9 }, { 12, 14 }, { 15, 26 }, { 20, 53 },
        { 25, 90 }, { 30, 138 }, { 50, 435 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(sonde_own_cost_outside(rows[i].n), rows[i].outside);
    }
    /* The exact ones and those of the normal distribution meet. */
    const size_t a = sonde_own_cost_outside(100), b = sonde_own_cost_outside(101);
    assert_true(b > a && b - a < 60);
}

static void test_estimate(void **state)
{
    (void)state;
    double d[40], *work = calloc(40 * 41 / 2, sizeof(double));
    assert_non_null(work);
    for (size_t i = 0; i < 40; i++) d[i] = -log1p(-0.05) + ((double)i - 19.5) * 0.001;
    struct sonde_own_cost_estimate e =
        sonde_own_cost_estimate(d, SONDE_OWN_COST_PAIRS_MIN - 1, work);
    assert_true(isnan(e.ratio) && isnan(e.low) && isnan(e.high));
    e = sonde_own_cost_estimate(d, 40, work);
    assert_int_equal(e.pairs, 40);
    assert_true(fabs(e.ratio - 0.05) < 1e-9 && e.low < 0.05 && e.high > 0.05);
    assert_true(e.high - e.low < 0.01);
    /* Some outliers, however far, move it by little. */
    d[3] = 1000;
    d[17] = -1000;
    d[30] = 50;
    const struct sonde_own_cost_estimate far = sonde_own_cost_estimate(d, 40, work);
    assert_true(fabs(far.ratio - 0.05) < 0.002 && far.high - far.low < 0.015);
    free(work);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static struct sonde_own_cost_pair pair_make(double off_count, double on_count)
{
    struct sonde_own_cost_pair p = { .off = { .seconds = 2, .cpu_s = 1.5 },
                                     .on = { .seconds = 2, .cpu_s = 1.5 } };
    p.off.work[0] = (struct sonde_own_cost_done){ .count = off_count, .sum_s = 1 };
    p.on.work[0] = (struct sonde_own_cost_done){ .count = on_count, .sum_s = 1 };
    return p;
}

static void test_difference(void **state)
{
    (void)state;
    struct sonde_own_cost_pair p = pair_make(1000, 950);
    for (int m = 0; m < SONDE_OWN_COST_MEASURE_COUNT; m++) {
        const double d = sonde_own_cost_difference(&p, 0, (enum sonde_own_cost_measure)m);
        assert_true(fabs(1 - exp(-d) - 0.05) < 1e-12); /* all three say 5 % */
    }
    p.on.cpu_s = NAN;
    assert_true(isnan(sonde_own_cost_difference(&p, 0, SONDE_OWN_COST_CPU)));
    p = pair_make(1000, 49); /* too few */
    assert_true(isnan(sonde_own_cost_difference(&p, 0, SONDE_OWN_COST_THROUGHPUT)));
    p = pair_make(1000, 950);
    p.on.work[0].sum_s = 950 * 0.3; /* these began in another window */
    assert_true(isnan(sonde_own_cost_difference(&p, 0, SONDE_OWN_COST_THROUGHPUT)));
    assert_true(isnan(sonde_own_cost_difference(&p, 0, SONDE_OWN_COST_LATENCY)));
    assert_true(isnan(sonde_own_cost_difference(&p, 3, SONDE_OWN_COST_CPU))); /* nothing there */
}

/* ---- What speaks for all --------------------------------------------------------------------- */

static void work_set(struct sonde_own_cost *o, size_t i, const char *name,
                     enum sonde_own_cost_rank rank)
{
    strcpy(o->works[i].name, name);
    o->works[i].rank = rank;
    if (o->work_count <= i) o->work_count = i + 1;
}

/* Pairs of two works that vary by so much, and a clock. */
static void pairs_add(struct sonde_own_cost *o, size_t n, double noise_a, double noise_b)
{
    for (size_t i = 0; i < n; i++) {
        struct sonde_own_cost_pair p = { .off = { .seconds = 2, .cpu_s = 2 },
                                         .on = { .seconds = 2, .cpu_s = 2 } };
        p.off.work[0].count = 1e5 * exp(noise_a * random_normal());
        p.on.work[0].count = 1e5 * exp(noise_a * random_normal());
        p.off.work[1].count = 1e4 * exp(noise_b * random_normal());
        p.on.work[1].count = 1e4 * exp(noise_b * random_normal());
        p.off.work[2].count = 200;
        p.on.work[2].count = 200 + (double)(i % 2);
        sonde_own_cost_add(o, &p);
    }
}

static void test_choice(void **state)
{
    (void)state;
    struct sonde_own_cost o;
    struct sonde_own_cost_figure f[12];
    size_t count = 0;
    random_state = 1;
    assert_int_equal(sonde_own_cost_init(&o), 0);
    work_set(&o, 0, "a", SONDE_OWN_COST_COUNTED);
    work_set(&o, 1, "b", SONDE_OWN_COST_COUNTED);
    work_set(&o, 2, "beat", SONDE_OWN_COST_COUNTED);
    pairs_add(&o, 7, 0.1, 0.01);
    assert_false(sonde_own_cost_judge(&o, f, 12, &count)); /* too few to choose by */
    pairs_add(&o, 13, 0.1, 0.01);
    assert_true(sonde_own_cost_judge(&o, f, 12, &count));
    assert_int_equal(f[0].work, 1); /* the steadier one, and not the clock */
    assert_int_equal(count, 4);     /* CPU and throughput of a and b */
    for (size_t i = 0; i < count; i++) assert_true(f[i].work != 2);
    /* Chosen once, though another is steadier now. */
    pairs_add(&o, 60, 0.001, 0.05);
    assert_true(sonde_own_cost_judge(&o, f, 12, &count));
    assert_int_equal(f[0].work, 1);
    /* At most so many are kept. */
    pairs_add(&o, SONDE_OWN_COST_PAIRS_MAX, 0.01, 0.01);
    sonde_own_cost_judge(&o, f, 12, &count);
    assert_int_equal(f[0].estimate.pairs, SONDE_OWN_COST_PAIRS_MAX);
    /* It has ended: another one takes its place. */
    struct sonde_own_cost_pair p = pair_make(1e5, 1e5);
    for (int i = 0; i < 20; i++) {
        p.on.work[0].count = 1e5 * exp(0.02 * random_normal());
        sonde_own_cost_add(&o, &p);
    }
    assert_true(sonde_own_cost_judge(&o, f, 12, &count));
    assert_int_equal(f[0].work, 0);
    sonde_own_cost_release(&o);
}

static void test_named(void **state)
{
    (void)state;
    struct sonde_own_cost o;
    struct sonde_own_cost_figure f[12];
    size_t count = 0;
    random_state = 2;
    assert_int_equal(sonde_own_cost_init(&o), 0);
    work_set(&o, 0, "a", SONDE_OWN_COST_COUNTED);
    work_set(&o, 1, "b", SONDE_OWN_COST_COUNTED);
    work_set(&o, 2, "beat", SONDE_OWN_COST_NAMED); /* who names it knows */
    pairs_add(&o, 20, 0.05, 0.05);
    assert_true(sonde_own_cost_judge(&o, f, 12, &count));
    assert_int_equal(f[0].work, 2);
    sonde_own_cost_clear(&o);
    assert_false(sonde_own_cost_judge(&o, f, 12, &count));
    assert_int_equal(count, 0);
    sonde_own_cost_release(&o);
}

static void test_share(void **state)
{
    (void)state;
    const struct sonde_own_cost_estimate none = { .ratio = NAN, .low = NAN, .high = NAN },
                                         wide = { 20, 0.01, -0.01, 0.03 },
                                         narrow = { 90, 0.01, 0.008, 0.012 };
    assert_true(sonde_own_cost_off_share(NULL, 0.1) > 0.3);
    assert_true(sonde_own_cost_off_share(&none, 0.1) > 0.3);
    assert_true(sonde_own_cost_off_share(&wide, 0.1) == 0.1);
    assert_true(sonde_own_cost_off_share(&narrow, 0.1) == 0.02);
}

static void test_percent(void **state)
{
    (void)state;
    static const struct { double ratio, low, high; const char *text; } rows[] = {
        { 0.0031, 0.0012, 0.0048, "0.3 ± 0.2 %" },
        { 0.0512, 0.0401, 0.0633, "5 ± 2 %" },
        { 0.2171, 0.1, 0.3, "22 ± 12 %" },
        { 0.00012, 0.00003, 0.00021, "0.012 ± 0.009 %" },
        { -0.0004, -0.005, 0.005, "0.0 ± 0.6 %" },
        { -0.02, -0.05, 0.01, "-2 ± 3 %" },
        { 0, 0, 0, "0.000 ± 0.000 %" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct sonde_own_cost_estimate e = { 20, rows[i].ratio, rows[i].low, rows[i].high };
        char text[64];
        sonde_own_cost_percent(&e, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside),    cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_difference), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_named),      cmocka_unit_test(test_share),
        cmocka_unit_test(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
