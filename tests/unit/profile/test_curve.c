/* Amounts over time: joined when there are too many, coarser, summed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/curve.h"

static double mean_of(const struct sonde_curve *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->count; i++) sum += (double)s->value[i] * s->per_point;
    return (sum + s->pending_sum) / (s->count * s->per_point + s->pending);
}

static void near(double got, double wanted)
{
    const double off = 1e-5 * (wanted < 0 ? -wanted : wanted) + 1e-9;
    if (got < wanted - off || got > wanted + off) fail_msg("%g, wanted %g", got, wanted);
}

static void test_first_points_are_ticks(void **state)
{
    struct sonde_curve s = { 0 };
    (void)state;
    for (uint32_t i = 0; i < SONDE_CURVE_POINTS; i++) {
        sonde_curve_add(&s, 10 * i);
        assert_int_equal(s.count, i + 1);
        near((double)s.value[i], 10 * i);
    }
    assert_int_equal(s.per_point, 1);
    assert_int_equal(s.pending, 0);
}

static void test_joins_when_full(void **state)
{
    struct sonde_curve s = { 0 };
    (void)state;
    for (uint32_t i = 0; i < SONDE_CURVE_POINTS + 1; i++) sonde_curve_add(&s, i);
    assert_int_equal(s.count, SONDE_CURVE_POINTS / 2);
    assert_int_equal(s.per_point, 2);
    assert_int_equal(s.pending, 1);
    near(s.pending_sum, SONDE_CURVE_POINTS);
    for (uint32_t i = 0; i < s.count; i++) near((double)s.value[i], 2 * i + 0.5);
}

/* However long it goes on, all of it is there and points are as long as each other. */
static void test_covers_everything(void **state)
{
    struct sonde_curve s = { 0 };
    (void)state;
    for (uint32_t n = 1; n <= 100000; n++) {
        sonde_curve_add(&s, n);
        assert_int_equal(s.count * s.per_point + s.pending, n);
        assert_true(s.count <= SONDE_CURVE_POINTS && s.pending < s.per_point);
        assert_true(n < SONDE_CURVE_POINTS || s.count >= SONDE_CURVE_POINTS / 2);
        assert_int_equal(s.per_point & (s.per_point - 1), 0);
        if (n % 977 == 0) near(mean_of(&s), (n + 1) / 2.0);
    }
}

static void test_coarser(void **state)
{
    static const struct {
        uint32_t first, count, then_first, then_count;
        float values[4];
    } cases[] = {
        { 0, 0, 0, 0, { 0 } },
        { 7, 0, 3, 0, { 0 } },
        { 4, 4, 2, 2, { 1.5f, 3.5f } },
        { 4, 5, 2, 3, { 1.5f, 3.5f, 5 } },
        { 5, 5, 2, 3, { 1, 2.5f, 4.5f } },
        { 5, 1, 2, 1, { 1 } },
        { 5, 4, 2, 3, { 1, 2.5f, 4 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_curve s = { .first = cases[i].first };
        for (uint32_t k = 0; k < cases[i].count; k++) sonde_curve_add(&s, k + 1);
        sonde_curve_coarsen(&s);
        assert_int_equal(s.first, cases[i].then_first);
        assert_int_equal(s.count, cases[i].then_count);
        for (uint32_t k = 0; k < s.count; k++) near((double)s.value[k], (double)cases[i].values[k]);
    }
}

static void test_sum_of_equal_ones(void **state)
{
    struct sonde_curve a = { 0 }, b = { 0 };
    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        sonde_curve_add(&a, i);
        sonde_curve_add(&b, 3);
    }
    sonde_curve_sum(&a, &b);
    near(mean_of(&a), 999 / 2.0 + 3);
    assert_int_equal(a.count * a.per_point + a.pending, 1000);
}

/* Tick by tick, for all kinds of beginnings, ends and lengths of points. */
static void test_sum_is_that_of_its_parts(void **state)
{
    static const struct { uint32_t first, count; } cases[] = {
        { 0, 0 }, { 0, 1 }, { 3, 10 }, { 0, 64 }, { 90, 1 }, { 60, 70 }, { 0, 1000 }, { 999, 200 },
        { 5000, 3 }, { 17, 4321 },
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    (void)state;
    for (int i = 0; i < CASES * CASES; i++) {
        struct sonde_curve s[2] = { 0 };
        double all = 0;
        uint32_t first = UINT32_MAX, end = 0;
        for (int k = 0; k < 2; k++) {
            const uint32_t n = cases[k ? i / CASES : i % CASES].count;
            s[k].first = cases[k ? i / CASES : i % CASES].first;
            for (uint32_t t = 0; t < n; t++) {
                const double v = k ? 5 : s[k].first + t;
                sonde_curve_add(&s[k], v);
                all += v;
            }
            if (n && s[k].first < first) first = s[k].first;
            if (n && s[k].first + n > end) end = s[k].first + n;
        }
        sonde_curve_sum(&s[0], &s[1]);
        if (end == 0) {
            assert_int_equal(s[0].count + s[0].pending, 0);
            continue;
        }
        assert_int_equal(s[0].first, first);
        assert_int_equal(s[0].count * s[0].per_point + s[0].pending, end - first);
        assert_true(s[0].count <= SONDE_CURVE_POINTS && s[0].pending < s[0].per_point);
        near(mean_of(&s[0]) * (end - first), all);
        sonde_curve_add(&s[0], 1); /* goes on */
        assert_int_equal(s[0].count * s[0].per_point + s[0].pending, end - first + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_points_are_ticks),
        cmocka_unit_test(test_joins_when_full),
        cmocka_unit_test(test_covers_everything),
        cmocka_unit_test(test_coarser),
        cmocka_unit_test(test_sum_of_equal_ones),
        cmocka_unit_test(test_sum_is_that_of_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
