/* Window statistics against exact ones of data the test knows, and the trend's error rates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/window.h"

#define TAU 6.283185307179586

static uint64_t rng;

static double uniform(void) /* (0, 1) */
{
    uint64_t x = (rng += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(TAU * uniform()); }

static struct sonde_model_series *series(struct sonde_model **m, enum sonde_type type,
                                         double scale)
{
    struct sonde_model_family_spec spec = { .name = "x", .type = type, .scale = scale };
    assert_int_equal(sonde_model_create(NULL, m), 0);
    struct sonde_model_series *s =
        sonde_model_series(*m, sonde_model_family(*m, &spec), NULL, NULL, 0);
    s->from_zero = 1;
    return s;
}

#define assert_near(a, b, relative) near_(a, b, relative, __LINE__)
static void near_(double a, double b, double relative, int line)
{
    if (!(fabs(a - b) <= fabs(b) * relative)) {
        print_error("line %d: %.12g is not within %g of %.12g\n", line, a, relative, b);
        fail();
    }
}

static void gauge_is_exact(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_model_series *s = series(&m, SONDE_GAUGE, 0);
    static const double values[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 };
    struct sonde_window w;
    sonde_window_stats(m, s, 60, &w);
    assert_true(isnan(w.count) && isnan(w.avg) && w.trend == SONDE_TREND_UNKNOWN);
    for (size_t i = 0; i < 10; i++) {
        s->gauge = values[i];
        sonde_model_tick(m, 100 + (double)i);
    }
    sonde_window_stats(m, s, 60, &w);
    assert_near(w.seconds, 10, 1e-12);
    assert_near(w.count, 10, 0);
    assert_near(w.total, 39, 1e-12);
    assert_near(w.avg, 3.9, 1e-12);
    assert_near(w.min, 1, 0);
    assert_near(w.max, 9, 0);
    assert_near(w.stddev, 2.469817807, 1e-8); /* sqrt(54.9 / 9) */
    assert_near(w.last, 3, 0);
    assert_near(w.p50, 3.5, 1e-12);
    assert_near(w.p90, 6.3, 1e-12);
    assert_true(isnan(w.rate));
    sonde_window_stats(m, s, 4, &w); /* the newest four only: 2 6 5 3 */
    assert_near(w.count, 4, 0);
    assert_near(w.avg, 4, 1e-12);
    assert_int_equal(w.trend, SONDE_TREND_UNKNOWN);
    s->gauge = NAN;
    sonde_model_tick(m, 110);
    sonde_window_stats(m, s, 60, &w);
    assert_near(w.count, 10, 0);
    sonde_model_destroy(m);
}

static void counter_rates_survive_late_ticks(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_model_series *s = series(&m, SONDE_COUNTER, 0);
    static const double lengths[] = { 1, 1, 5, 0.5, 1, 2, 1, 1, 1, 3 };
    double now = 1000, seconds = 0;
    m->now_s = now;
    for (size_t i = 0; i < 10; i++) {
        now += lengths[i];
        seconds += lengths[i];
        s->counter += (uint64_t)(lengths[i] * 100);
        sonde_model_tick(m, now);
    }
    struct sonde_window w;
    sonde_window_stats(m, s, 60, &w);
    assert_near(w.seconds, seconds, 1e-9);
    assert_near(w.rate, 100, 1e-9);
    assert_near(w.min, 100, 1e-9);
    assert_near(w.max, 100, 1e-9);
    assert_near(w.total, seconds * 100, 1e-9);
    assert_true(w.stddev < 1e-9);
    assert_near(w.last, 100, 1e-9);
    sonde_model_destroy(m);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { RECORDS = 20000 };

static double draw(int shape)
{
    switch (shape) {
    case 0: return 1e6 * (1 + uniform());                 /* uniform 1-2 ms */
    case 1: return 5e6 * -log(uniform()) + 1;             /* exponential */
    case 2: return exp(13 + 1.5 * normal());              /* log-normal */
    case 3: return uniform() < 0.9 ? 1e5 + 1e4 * uniform() : 1e8 + 1e7 * uniform();
    default: return 1000 + floor(20 * uniform()) * 1000;  /* a few distinct values */
    }
}

/* Records spread over 20 ticks; every figure within 1 % of the exact one. */
static void hist_against_oracle(void **state)
{
    (void)state;
    static double exact[RECORDS];
    for (int shape = 0; shape < 5; shape++) {
        struct sonde_model *m;
        struct sonde_model_series *s = series(&m, SONDE_HISTOGRAM, 1e-9);
        struct sonde_hist_value *h = sonde_model_hist(s);
        rng = 42 + (uint64_t)shape;
        double sum = 0, squares = 0;
        for (int i = 0; i < RECORDS; i++) {
            uint64_t raw = (uint64_t)draw(shape);
            exact[i] = (double)raw * 1e-9;
            sum += exact[i];
            assert_int_equal(
                sonde_hist_value_add(h, (uint32_t)sonde__hist_bucket(exact[i]), 1), 0);
            h->sum_raw += raw;
            h->last_raw = raw;
            if (i % (RECORDS / 20) == RECORDS / 20 - 1) {
                sonde_model_tick(m, 100 + i / (RECORDS / 20));
            }
        }
        double mean = sum / RECORDS, last = exact[RECORDS - 1];
        for (int i = 0; i < RECORDS; i++) squares += (exact[i] - mean) * (exact[i] - mean);
        qsort(exact, RECORDS, sizeof(double), ascending);
        struct sonde_window w;
        sonde_window_stats(m, s, 60, &w);
        assert_near(w.count, RECORDS, 0);
        assert_near(w.total, sum, 1e-9);
        assert_near(w.avg, mean, 1e-9);
        assert_near(w.stddev, sqrt(squares / (RECORDS - 1)), 0.01);
        assert_near(w.min, exact[0], 0.0055);
        assert_near(w.max, exact[RECORDS - 1], 0.0055);
        assert_near(w.last, last, 1e-12);
        assert_near(w.p50, exact[RECORDS / 2 - 1], 0.0055);
        assert_near(w.p90, exact[RECORDS * 90 / 100 - 1], 0.0055);
        assert_near(w.p95, exact[RECORDS * 95 / 100 - 1], 0.0055);
        assert_near(w.p99, exact[RECORDS * 99 / 100 - 1], 0.0055);
        assert_near(w.rate, RECORDS / 20.0, 1e-9);
        const uint64_t *octaves[SONDE__HIST_OCTAVES];
        for (int o = 0; o < SONDE__HIST_OCTAVES; o++) octaves[o] = h->octave[o];
        assert_near(sonde_quantile(0.99, 0, octaves, s->family->scale), w.p99, 1e-12);
        assert_near(sonde_quantile(0, 0, octaves, s->family->scale), w.min, 1e-12);
        assert_near(sonde_quantile(1, 0, octaves, s->family->scale), w.max, 1e-12);
        sonde_model_destroy(m);
    }
}

/* Counts are whole: 4 requests in a batch are not 3.98. Of large ones, and without a scale, the
 * middle. */
static void whole_counts(void **state)
{
    (void)state;
    for (uint64_t v = 1; v <= 64; v++) {
        const uint32_t p = (uint32_t)sonde__hist_bucket((double)v);
        assert_true(sonde__hist_middle(p, 1) == (double)v);
        assert_near(sonde__hist_middle(p, 1e-9), (double)v, 0.0055);
        assert_near(sonde__hist_middle(p, 0), (double)v, 0.0055);
        const uint32_t ns = (uint32_t)sonde__hist_bucket((double)v * 1e-9);
        assert_near(sonde__hist_middle(ns, 1e-9), (double)v * 1e-9, 1e-12);
    }
    for (uint64_t v = 65; v < 100000; v += 37) {
        const uint32_t p = (uint32_t)sonde__hist_bucket((double)v);
        assert_near(sonde__hist_middle(p, 1), (double)v, 0.011);
    }
}

static void hist_edges(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_model_series *s = series(&m, SONDE_HISTOGRAM, 1);
    struct sonde_window w;
    sonde_model_tick(m, 100);
    sonde_window_stats(m, s, 60, &w); /* nothing recorded: known to be nothing */
    assert_true(w.count == 0 && w.rate == 0 && isnan(w.p50) && isnan(w.avg));
    struct sonde_hist_value *h = sonde_model_hist(s);
    h->zero = 3;
    h->count = 3;
    sonde_model_tick(m, 101);
    sonde_window_stats(m, s, 60, &w);
    assert_true(w.count == 3 && w.p99 == 0 && w.min == 0 && w.max == 0 && w.avg == 0);
    assert_true(w.stddev == 0);
    sonde_hist_value_add(h, (uint32_t)sonde__hist_bucket(8), 1);
    h->sum_raw += 8;
    sonde_model_tick(m, 102);
    sonde_window_stats(m, s, 60, &w);
    assert_true(w.min == 0 && w.p50 == 0);
    assert_near(w.p99, 8, 0.0055);
    assert_near(w.max, 8, 0.0055);
    assert_near(w.stddev, 4, 0.0055);
    const uint64_t *none[SONDE__HIST_OCTAVES] = { NULL };
    assert_true(isnan(sonde_quantile(0.5, 0, none, 0)));
    assert_true(sonde_quantile(0.5, 1, none, 0) == 0);
    assert_true(isnan(sonde_quantile(1.5, 1, none, 0)));
    assert_true(isnan(sonde_quantile(NAN, 1, none, 0)));
    sonde_model_destroy(m);
}

/* Share of 500 series with this slope (in noise standard deviations a second) called up/down. */
static void trend_shares(double slope, double *up, double *down)
{
    enum { TRIALS = 500 };
    *up = *down = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct sonde_model *m;
        struct sonde_model_series *s = series(&m, SONDE_GAUGE, 0);
        for (int i = 0; i < SONDE_HISTORY; i++) {
            s->gauge = 1000 + slope * i + normal();
            sonde_model_tick(m, 1e9 + i);
        }
        struct sonde_window w;
        sonde_window_stats(m, s, 60, &w);
        *up += (w.trend == SONDE_TREND_UP) / (double)TRIALS;
        *down += (w.trend == SONDE_TREND_DOWN) / (double)TRIALS;
        if (slope > 0.2) assert_near(w.trend_per_s, slope, 0.3);
        sonde_model_destroy(m);
    }
}

static void trend_is_significant(void **state)
{
    (void)state;
    double up, down;
    rng = 7;
    trend_shares(0, &up, &down); /* two standard errors: wrong in 5 % of the cases */
    assert_true(up + down > 0.02 && up + down < 0.08);
    trend_shares(0.1, &up, &down);
    assert_true(up > 0.99 && down == 0);
    trend_shares(-0.1, &up, &down);
    assert_true(down > 0.99 && up == 0);
    trend_shares(0.3, &up, &down);
    assert_true(up > 0.999);
}

static void trend_edges(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_model_series *s = series(&m, SONDE_GAUGE, 0);
    struct sonde_window w;
    for (int i = 0; i < 20; i++) { /* constant, and 0.1 is not a sum of powers of two */
        s->gauge = 0.1;
        sonde_model_tick(m, 1e9 + i);
        sonde_window_stats(m, s, 60, &w);
        assert_int_equal(w.trend, i + 1 < SONDE_TREND_TICKS ? SONDE_TREND_UNKNOWN
                                                            : SONDE_TREND_FLAT);
    }
    for (int i = 0; i < SONDE_HISTORY; i++) { /* a straight line has no error */
        s->gauge = 5 - 0.25 * i;
        sonde_model_tick(m, 1e9 + 20 + i);
    }
    sonde_window_stats(m, s, 60, &w);
    assert_int_equal(w.trend, SONDE_TREND_DOWN);
    assert_near(w.trend_per_s, -0.25, 1e-6);
    assert_null(sonde_trend_name(SONDE_TREND_UNKNOWN));
    assert_string_equal(sonde_trend_name(SONDE_TREND_UP), "up");
    sonde_model_destroy(m);
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(sonde__alloc_live(), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(gauge_is_exact, teardown),
        cmocka_unit_test_teardown(counter_rates_survive_late_ticks, teardown),
        cmocka_unit_test_teardown(hist_against_oracle, teardown),
        cmocka_unit_test(whole_counts),
        cmocka_unit_test_teardown(hist_edges, teardown),
        cmocka_unit_test_teardown(trend_is_significant, teardown),
        cmocka_unit_test_teardown(trend_edges, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
