/* Correlation of series: simulated ones of which the truth is known. Series that know nothing of
 * each other must not be called correlated, however they drift; those that do must be, at the right
 * lag. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/correlate.h"
#include "analyze/correlate_private.h"
#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "unit/analyze/random.h"

enum { N = 120, REPEATS = 400 };

/* x[t] = phi x[t - 1] + e, from its own distribution on; phi 1 is a random walk. */
static void autoregressive(double *x, size_t n, double phi)
{
    double s = phi < 1 ? random_normal() / sqrt(1 - phi * phi) : 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = s;
        s = phi * s + random_normal();
    }
}

static void white(double *x, size_t n) { autoregressive(x, n, 0); }
static void half(double *x, size_t n) { autoregressive(x, n, 0.5); }
static void slow(double *x, size_t n) { autoregressive(x, n, 0.95); }
static void walk(double *x, size_t n) { autoregressive(x, n, 1); }
static void trend(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = 0.05 * (double)i + random_normal();
}
static void spikes(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = random_normal() + (random_uniform() < 0.01 ? 20 : 0);
}
static void sparse(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = random_uniform() < 0.05 ? floor(10 * random_uniform()) : 0;
    }
}

/* One pair; release the answer. */
static struct sonde_correlations pair_of(const double *target, const double *other, size_t n)
{
    const struct sonde_correlate_series t = { .name = "t", .values = target },
                                        o = { .name = "o", .values = other };
    struct sonde_correlations c;
    assert_int_equal(sonde_correlate(&t, 1, &o, 1, n, &(struct sonde_correlate_options){ 0 }, &c),
                     0);
    assert_int_equal(c.count, 1);
    return c;
}

/* ---- Size ------------------------------------------------------------------------------------ */

/* The share that is called correlated; *naive: by Pearson's p of n observations, at lag 0. */
static double called(void (*make_x)(double *, size_t), void (*make_y)(double *, size_t),
                     double *naive)
{
    double x[N], y[N];
    int count = 0, naively = 0;
    for (int i = 0; i < REPEATS; i++) {
        make_x(x, N);
        make_y(y, N);
        struct sonde_correlations c = pair_of(x, y, N);
        count += c.rows[0].verdict == SONDE_CORRELATE_CORRELATED;
        const double r = correlate_pearson(x, y, N);
        naively += sonde_t_p(r * sqrt((N - 2) / (1 - r * r)), N - 2) <= 0.05;
        sonde_correlations_release(&c);
    }
    *naive = (double)naively / REPEATS;
    return (double)count / REPEATS;
}

static void independent_series_are_not_correlated(void **state)
{
    static const struct {
        const char *name;
        void (*x)(double *, size_t), (*y)(double *, size_t);
        double naive_min; /* what the test is up against */
    } rows[] = {
        { "white noise", white, white, 0 },
        { "autoregressive 0.5", half, half, 0.1 },
        { "autoregressive 0.95", slow, slow, 0.4 },
        { "random walks", walk, walk, 0.5 },
        { "random walk and autoregressive", walk, slow, 0.4 },
        { "trends", trend, trend, 0.9 },
        { "trend and random walk", trend, walk, 0.5 },
        { "spikes", spikes, spikes, 0 },
        { "mostly zero", sparse, sparse, 0 },
    };
    (void)state;
    random_state = 20260117;
    double all = 0;
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        double naive;
        const double share = called(rows[i].x, rows[i].y, &naive);
        /* Nominally 5 %, and two standard errors of so many repeats. */
        if (share > 0.05 + 0.022) fail_msg("%s: %.3f are called correlated", rows[i].name, share);
        if (naive < rows[i].naive_min) fail_msg("%s: naive %.3f", rows[i].name, naive);
        all += share / (double)SONDE_COUNT(rows);
    }
    if (all > 0.05) fail_msg("%.4f are called correlated", all);
}

/* Of many pairs without any correlation there is none called so in 95 % of answers. */
static void many_pairs_are_adjusted_for(void **state)
{
    enum { OTHERS = 40 };
    static double target[N], values[OTHERS][N];
    struct sonde_correlate_series others[OTHERS];
    int any = 0;
    (void)state;
    random_state = 7;
    for (int i = 0; i < 60; i++) {
        walk(target, N);
        for (int k = 0; k < OTHERS; k++) {
            (k % 2 ? walk : half)(values[k], N);
            others[k] = (struct sonde_correlate_series){ .values = values[k] };
        }
        const struct sonde_correlate_series t = { .values = target };
        struct sonde_correlations c;
        const struct sonde_correlate_options five = { .rows_max = 5 };
        assert_int_equal(sonde_correlate(&t, 1, others, OTHERS, N, &five, &c), 0);
        assert_int_equal(c.pairs, OTHERS);
        assert_int_equal(c.count, 5);
        any += c.verdicts[SONDE_CORRELATE_CORRELATED] > 0;
        sonde_correlations_release(&c);
    }
    assert_in_range(any, 0, 6); /* 3 of 60 are expected */
}

/* ---- Power ----------------------------------------------------------------------------------- */

/* Two series with the same autocorrelation whose values correlate by r, the target later by lag. */
static void make_pair(double *target, double *other, size_t n, double phi, double r, int lag)
{
    double x[N + 20], e[N + 20];
    const size_t shift = (size_t)(lag < 0 ? -lag : lag);
    assert_true(n <= N && shift <= 20);
    autoregressive(x, n + shift, phi);
    autoregressive(e, n + shift, phi);
    for (size_t i = 0; i < n; i++) {
        const size_t now = lag < 0 ? i : i + shift, then = lag < 0 ? i + shift : i;
        other[i] = x[now];
        target[i] = r * x[then] + sqrt(1 - r * r) * e[then];
    }
}

static void correlation_and_lag_are_found(void **state)
{
    static const struct { double phi, r; int lag; } rows[] = {
        { 0, 0.7, 0 }, { 0.5, 0.7, 3 }, { 0.9, -0.8, 5 }, { 0.9, 0.7, -4 }, { 1, 0.8, 10 },
    };
    (void)state;
    random_state = 99;
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        int found = 0, covered = 0;
        for (int k = 0; k < REPEATS / 2; k++) {
            double x[N], y[N];
            make_pair(x, y, N, rows[i].phi, rows[i].r, rows[i].lag);
            struct sonde_correlations c = pair_of(x, y, N);
            const struct sonde_correlation *row = &c.rows[0];
            const int right = row->verdict == SONDE_CORRELATE_CORRELATED &&
                              row->lag == rows[i].lag;
            found += right;
            covered += right && row->level.pearson_low <= rows[i].r &&
                       row->level.pearson_high >= rows[i].r;
            sonde_correlations_release(&c);
        }
        if (found < 0.97 * REPEATS / 2) fail_msg("row %zu: found %d", i, found);
        /* A random walk has no correlation that an interval could cover. */
        if (rows[i].phi < 1 && covered < 0.88 * found) {
            fail_msg("row %zu: covered %d of %d", i, covered, found);
        }
    }
}

static void neighbours_that_are_alike_count_less(void **state)
{
    static double x[4000], y[4000];
    (void)state;
    random_state = 5;
    autoregressive(x, 4000, 0.8);
    autoregressive(y, 4000, 0.5);
    /* Bartlett: (1 - ab) / (1 + ab) of them. */
    const double worth = correlate_n_effective(x, y, 4000) / 4000;
    assert_true(fabs(worth - 0.6 / 1.4) < 0.06);
    white(x, 4000);
    assert_true(correlate_n_effective(x, y, 4000) > 0.85 * 4000);
    assert_true(isnan(correlate_n_effective(x, (double[]){ 1, 1, 1, 1 }, 4)));
}

/* A common drift is in the levels and nowhere else. */
static void a_common_trend_is_not_a_correlation(void **state)
{
    double x[N], y[N];
    int levels = 0;
    (void)state;
    random_state = 11;
    for (int i = 0; i < 100; i++) {
        trend(x, N);
        trend(y, N);
        struct sonde_correlations c = pair_of(x, y, N);
        levels += c.rows[0].verdict == SONDE_CORRELATE_LEVELS;
        assert_true(c.rows[0].level.pearson > 0.5);
        assert_true(fabs(c.rows[0].change.pearson) < 0.5);
        sonde_correlations_release(&c);
    }
    assert_in_range(levels, 90, 100);
}

/* ---- What cannot be known -------------------------------------------------------------------- */

static void what_cannot_be_known_is_said(void **state)
{
    double x[N], y[N], flat[N];
    (void)state;
    random_state = 3;
    white(x, N);
    white(y, N);
    for (int i = 0; i < N; i++) flat[i] = 0.1;
    struct sonde_correlations c = pair_of(x, y, SONDE_CORRELATE_POINTS_MIN - 1);
    assert_string_equal(c.rows[0].reason, "the target has too few values in a row");
    assert_int_equal(c.rows[0].verdict, SONDE_CORRELATE_UNKNOWN);
    assert_true(isnan(c.rows[0].p_adjusted) && isnan(c.rows[0].level.pearson));
    assert_int_equal(c.reasons[0].count, 1);
    sonde_correlations_release(&c);
    c = pair_of(x, flat, N);
    assert_string_equal(c.rows[0].reason, "it does not vary");
    sonde_correlations_release(&c);
    c = pair_of(flat, x, N);
    assert_string_equal(c.rows[0].reason, "the target does not vary");
    sonde_correlations_release(&c);
    /* Of a series with gaps the longest part without; both must be there at the same time. */
    for (int i = 0; i < N; i++) y[i] = i < 40 ? x[i] + 0.1 * y[i] : NAN;
    c = pair_of(x, y, N);
    assert_int_equal(c.rows[0].verdict, SONDE_CORRELATE_CORRELATED);
    assert_in_range(c.rows[0].points, 30, 40);
    for (int i = 0; i < N; i++) x[i] = i < 80 ? NAN : x[i];
    sonde_correlations_release(&c);
    c = pair_of(x, y, N);
    assert_string_equal(c.rows[0].reason, "too few values at the same times");
    sonde_correlations_release(&c);
    /* One jump in both at once, and nothing else. */
    for (int i = 0; i < N; i++) x[i] = y[i] = i == 60;
    y[61] = 1e-3;
    c = pair_of(x, y, N);
    assert_int_equal(c.rows[0].verdict, SONDE_CORRELATE_UNKNOWN);
    assert_string_equal(c.rows[0].reason, "it rests on too few moments");
    sonde_correlations_release(&c);
    assert_int_equal(sonde_correlate(NULL, 0, NULL, 0, SONDE_CORRELATE_POINTS_MAX + 1,
                                     &(struct sonde_correlate_options){ 0 }, &c), SONDE_EINVAL);
    assert_int_equal(sonde_correlate(NULL, 0, NULL, 0, 0, &(struct sonde_correlate_options){ 0 },
                                     &c), 0);
    assert_int_equal(c.count, 0);
    sonde_correlations_release(&c);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void ranks_share_what_is_equal(void **state)
{
    double v[] = { 3, 1, 3, 2, 3 };
    const double wanted[] = { 4, 1, 4, 2, 4 };
    (void)state;
    assert_int_equal(correlate_rank(v, 5), 0);
    for (int i = 0; i < 5; i++) assert_true(v[i] == wanted[i]);
}

static void every_allocation_may_fail(void **state)
{
    double x[N], y[N];
    (void)state;
    random_state = 8;
    walk(x, N);
    half(y, N);
    int rc = SONDE_ENOMEM;
    for (uint64_t n = 1; rc; n++) {
        const struct sonde_correlate_series t = { .values = x }, o = { .values = y };
        struct sonde_correlations c = { .rows = NULL };
        sonde__alloc_fail_nth(n);
        rc = sonde_correlate(&t, 1, &o, 1, N, &(struct sonde_correlate_options){ 0 }, &c);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && !c.rows));
        sonde_correlations_release(&c);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_series_are_not_correlated),
        cmocka_unit_test(many_pairs_are_adjusted_for),
        cmocka_unit_test(correlation_and_lag_are_found),
        cmocka_unit_test(neighbours_that_are_alike_count_less),
        cmocka_unit_test(a_common_trend_is_not_a_correlation),
        cmocka_unit_test(what_cannot_be_known_is_said),
        cmocka_unit_test(ranks_share_what_is_equal),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
