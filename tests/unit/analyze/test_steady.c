/* Warm-ups of known length are cut, series without one are left whole, and what an AR(1) series is
 * worth is what theory says: n (1 - r) / (1 + r). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyze/steady.h"
#include "base/alloc.h"
#include "unit/analyze/random.h"

enum { N = 2000 };

static void fill(double *v, size_t n, size_t warm, double extra, uint64_t seed)
{
    random_state = seed;
    for (size_t i = 0; i < n; i++) {
        v[i] = 100 + random_normal() + (i < warm ? extra * (1 - (double)i / (double)warm) : 0);
    }
}

static void test_cut(void **state)
{
    (void)state;
    double v[N];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill(v, N, 200, 50, seed);
        const struct sonde_steady s = sonde_steady_find(v, N);
        assert_true(s.known && s.steady);
        /* Its last tenth is within the noise. */
        assert_in_range(s.cut, 150, 400);
    }
    size_t cut = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill(v, N, 0, 0, seed);
        cut += sonde_steady_find(v, N).cut;
    }
    assert_true(cut / 20 < N / 4);
}

static void test_edges(void **state)
{
    (void)state;
    double v[N];
    for (size_t i = 0; i < N; i++) v[i] = 7;
    struct sonde_steady s = sonde_steady_find(v, N);
    assert_true(s.known && s.steady);
    assert_int_equal(s.cut, 0);
    for (size_t i = 0; i < N; i++) v[i] = (double)i;
    s = sonde_steady_find(v, N);
    assert_true(s.known && !s.steady);
    assert_false(sonde_steady_find(v, SONDE_STEADY_MIN - 1).known);
    assert_false(sonde_steady_find(v, 0).known);
    assert_true(sonde_steady_effective(v, 0) == 0);
    assert_true(sonde_steady_effective(v, 1) == 1);
}

static void test_effective(void **state)
{
    (void)state;
    static const double likeness[] = { 0, 0.3, 0.6, 0.9 };
    double v[N];
    for (size_t k = 0; k < 4; k++) {
        const double r = likeness[k];
        double sum = 0;
        random_state = 11;
        for (int round = 0; round < 40; round++) {
            double x = random_normal() / sqrt(1 - r * r);
            for (size_t i = 0; i < N; i++) {
                x = r * x + random_normal();
                v[i] = 10 + x;
            }
            sum += sonde_steady_effective(v, N);
        }
        const double got = sum / 40, wanted = N * (1 - r) / (1 + r);
        if (fabs(got / wanted - 1) > 0.15) {
            fprintf(stderr, "r %g: worth %g, wanted %g\n", r, got, wanted);
            fail();
        }
    }
    double same[50];
    for (size_t i = 0; i < 50; i++) same[i] = 3;
    assert_true(sonde_steady_effective(same, 50) == 50);
}

/* More values than are looked at one by one. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    double *v = sonde__calloc(MANY, sizeof(*v));
    random_state = 5;
    double x = 0;
    for (size_t i = 0; i < MANY; i++) v[i] = x = 0.8 * x + random_normal();
    const double wanted = MANY * 0.2 / 1.8, got = sonde_steady_effective(v, MANY);
    assert_true(got > 0.8 * wanted && got < 1.25 * wanted);
    sonde__free(v);
}

static void test_trend(void **state)
{
    (void)state;
    double v[300];
    int alarms = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        random_state = seed;
        for (size_t i = 0; i < 300; i++) v[i] = 10 + random_normal();
        if (sonde_steady_trend(v, 300).p < 0.001) alarms++;
    }
    assert_true(alarms <= 3);
    random_state = 1;
    for (size_t i = 0; i < 300; i++) v[i] = 10 + 0.05 * (double)i + random_normal();
    const struct sonde_drift t = sonde_steady_trend(v, 300);
    assert_true(t.p < 0.001 && t.last > t.first + 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),  cmocka_unit_test(test_edges),
        cmocka_unit_test(test_effective), cmocka_unit_test(test_many),
        cmocka_unit_test(test_trend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
