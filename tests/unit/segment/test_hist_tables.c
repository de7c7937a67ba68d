/* The histogram's tables against the plain formulas they were made of, in the widest floating-point
 * type there is. tests/unit/record/test_buckets.c proves the bounds with whole numbers and drives
 * the index with random doubles; this says what the tables are, so that one could be made again. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "segment/segment.h"

#define ONE (1ull << 52) /* a mantissa of 1.0 */

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

/* bound[k] = floor((2^(k/64) - 1) * 2^52). exp2l is right to the last bit or two of 64, so only a
 * result that lies within 2^-8 of a whole number could be rounded the other way: none does. */
static void bounds_by_exp2(void **state)
{
    (void)state;
    assert_int_equal(sonde__hist_bound[0], 0);
    for (int k = 1; k < 64; k++) {
        const long double v = (exp2l((long double)k / 64) - 1) * (long double)ONE;
        const long double part = v - floorl(v);
        assert_true(part > 1.0L / 256 && part < 1 - 1.0L / 256);
        assert_true(sonde__hist_bound[k] == (uint64_t)floorl(v));
    }
}

/* The formula over sonde__hist_add, done slowly. */
static void adds_by_their_formula(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 128; s++) {
        const uint64_t start = s << 45, end = (s + 1) << 45;
        uint64_t below = 0, inside = 0, t = end - start - 1; /* no bound: none of it is above */
        for (int k = 0; k < 64; k++) {
            below += sonde__hist_bound[k] < start;
            if (sonde__hist_bound[k] >= start && sonde__hist_bound[k] < end) {
                t = sonde__hist_bound[k] - start;
                inside++;
            }
        }
        assert_true(inside <= 1);
        const uint64_t base = (uint64_t)(1023 + SONDE__HIST_EXP_MIN) * 64 << 46;
        const uint64_t expected = ((below + 1) << 46) - (s << 45) - (t + 1) - base;
        if (sonde__hist_add[s] != expected) {
            fail_msg("slot %d: %llx instead of %llx", (int)s,
                     (unsigned long long)sonde__hist_add[s], (unsigned long long)expected);
        }
    }
}

/* Of each bucket the largest value, the next one up, and the middle. */
static void upper_bounds_are_in_their_bucket(void **state)
{
    (void)state;
    double before = 0;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        const double upper = sonde__hist_upper(p);
        const long double exact = exp2l(SONDE__HIST_EXP_MIN + (long double)p / 64);
        assert_true(upper > before);
        assert_true((long double)upper <= exact * (1 + LDBL_EPSILON * 4));
        assert_true((long double)nextafter(upper, INFINITY) > exact);
        assert_int_equal(sonde__hist_bucket(upper), p);
        assert_int_equal(sonde__hist_bucket(nextafter(upper, INFINITY)), p + 1);
        before = upper;
    }
    assert_true(sonde__hist_upper(0) == ldexp(1, SONDE__HIST_EXP_MIN));
    assert_true(sonde__hist_upper(64) == ldexp(1, SONDE__HIST_EXP_MIN + 1));
    assert_true(sonde__hist_upper(40 * 64) == 1);
}

static void values_without_a_bucket(void **state)
{
    (void)state;
    static const double cases[] = {
        0.0, -0.0, -1.0, -1e300, DBL_MIN, 0x1p-1074, 0x1p-41, 0x1.fffffffffffffp-42, 0x1p57, 1e300,
        DBL_MAX, INFINITY, -INFINITY, NAN, -NAN,
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (sonde__hist_bucket(cases[i]) < SONDE__HIST_BUCKETS) {
            fail_msg("%a (%llx) has a bucket", cases[i], (unsigned long long)bits_of(cases[i]));
        }
    }
    assert_int_equal(sonde__hist_bucket(0x1p-40), 0);
    assert_int_equal(sonde__hist_bucket(sonde__hist_upper(SONDE__HIST_BUCKETS - 1)),
                     SONDE__HIST_BUCKETS - 1);
}

/* Against ceil(64 log2 v), where v is not so near to a bound that a logarithm cannot tell. */
static void buckets_by_logarithm(void **state)
{
    (void)state;
    uint64_t random = 0x9e3779b97f4a7c15ull;
    size_t compared = 0;
    for (int i = 0; i < 200000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const double v = ldexp((double)(ONE | random >> 12), (int)(random % 95) - 39 - 52);
        const long double p = 64 * (log2l((long double)v) - SONDE__HIST_EXP_MIN);
        if (fabsl(p - roundl(p)) < 1e-12L) continue;
        const uint64_t expected = (uint64_t)ceill(p);
        if (sonde__hist_bucket(v) != expected) {
            fail_msg("%a: %d instead of %d", v, (int)sonde__hist_bucket(v), (int)expected);
        }
        compared++;
    }
    assert_true(compared > 199000);
}

static void middle_lies_within(void **state)
{
    (void)state;
    for (uint32_t p = 1; p < SONDE__HIST_BUCKETS; p++) {
        const double low = sonde__hist_upper(p - 1), high = sonde__hist_upper(p);
        const double middle = sonde__hist_middle(p, 0);
        assert_true(middle > low && middle < high);
        assert_true(fabs(middle / sqrt(low * high) - 1) < 1e-14);
        assert_true(high / middle < 1.00545 && middle / low < 1.00545);
        assert_true(sonde__hist_middle(p, NAN) == middle);   /* no scale at all */
        assert_true(sonde__hist_middle(p, -1) == middle);
    }
}

/* A bucket that a single count can be in stands for just that. */
static void small_counts_are_exact(void **state)
{
    (void)state;
    static const double scales[] = { 1, 1e-9, 1e-6, 1e-3, 1024, 0.5, 60, 1.0 / 3 };
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        for (int count = 1; count < 64; count++) {
            const double value = count * scales[i];
            const uint64_t p = sonde__hist_bucket(value);
            assert_true(p < SONDE__HIST_BUCKETS);
            const double got = sonde__hist_middle((uint32_t)p, scales[i]);
            if (fabs(got / value - 1) > 1e-12) fail_msg("%d of %g: %.17g", count, scales[i], got);
        }
    }
    /* Two counts in a bucket: neither of them. */
    const uint64_t p = sonde__hist_bucket(1000);
    assert_int_equal(sonde__hist_bucket(1001), p);
    assert_true(sonde__hist_middle((uint32_t)p, 1) == sonde__hist_middle((uint32_t)p, 0));
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(bounds_by_exp2), T(adds_by_their_formula), T(upper_bounds_are_in_their_bucket),
        T(values_without_a_bucket), T(buckets_by_logarithm), T(middle_lies_within),
        T(small_counts_are_exact),
    };
    return cmocka_run_group_tests_name("hist_tables", tests, NULL, NULL);
}
