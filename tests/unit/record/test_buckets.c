/* The histogram's index against exact arithmetic.
 *
 * Bucket p holds (2^((p-1)/64), 2^(p/64)], counted from 2^-40. A mantissa m of 53 bits (1.0 is
 * 2^52) is above the bound k of its octave exactly if (m / 2^52)^64 > 2^k, that is
 * m^64 > 2^(k + 64 * 52): integers of 3,392 bits, and no rounding anywhere. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/record/readback.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VALUES 100000
#else
#define VALUES 1000000
#endif

/* ---- Exact ----------------------------------------------------------------------------------- */

#define LIMBS 110

struct big { uint32_t limb[LIMBS]; int used; };

static void square(struct big *b)
{
    struct big r;
    memset(&r, 0, sizeof(r));
    for (int i = 0; i < b->used; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b->used || carry; j++) {
            assert_true(i + j < LIMBS);
            const uint64_t add = j < b->used ? (uint64_t)b->limb[i] * b->limb[j] : 0;
            const uint64_t sum = add + r.limb[i + j] + carry;
            r.limb[i + j] = (uint32_t)sum;
            carry = sum >> 32;
        }
    }
    r.used = LIMBS;
    while (r.used && !r.limb[r.used - 1]) r.used--;
    *b = r;
}

/* m^64 > 2^e */
static int above(uint64_t m, int e)
{
    struct big b = { { (uint32_t)m, (uint32_t)(m >> 32) }, 2 };
    for (int i = 0; i < 6; i++) square(&b);
    int high = b.used * 32 - 1;
    while (!(b.limb[high / 32] >> (high % 32) & 1)) high--;
    if (high != e) return high > e;
    /* The same power of two: above if any other bit is set. */
    for (int i = 0; i < b.used; i++) {
        const uint32_t bits = i == e / 32 ? b.limb[i] & ~(1u << (e % 32)) : b.limb[i];
        if (bits) return 1;
    }
    return 0;
}

static void bounds_are_exact(void **state)
{
    (void)state;
    for (int k = 0; k < 64; k++) {
        const uint64_t last = (1ull << 52) + sonde__hist_bound[k]; /* largest not above */
        assert_false(above(last, k + 64 * 52));
        assert_true(above(last + 1, k + 64 * 52));
        if (k) assert_true(sonde__hist_bound[k] > sonde__hist_bound[k - 1]);
    }
}

/* ---- The bucket ------------------------------------------------------------------------------ */

/* By the bounds just proved, one after the other. Negative or too large: not a bucket. */
static int64_t expected(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    const int64_t exponent = (int64_t)(bits >> 52) - 1023;
    const uint64_t m = bits & ((1ull << 52) - 1);
    int64_t k = 0;
    while (k < 64 && m > sonde__hist_bound[k]) k++;
    return (exponent + 40) * 64 + k;
}

static void check(double v)
{
    const int64_t p = expected(v);
    const uint64_t got = sonde__hist_bucket(v);
    if (p < 0 || p >= (int64_t)SONDE__HIST_BUCKETS) {
        assert_true(got >= SONDE__HIST_BUCKETS);
        return;
    }
    assert_int_equal(got, p);
    assert_true(v <= nextafter(sonde__hist_upper((uint32_t)p), DBL_MAX));
    if (p) assert_true(v > sonde__hist_upper((uint32_t)p - 1));
}

static void check_around(uint64_t bits)
{
    for (uint64_t i = 0; i < 9; i++) {
        double v;
        const uint64_t b = bits + i - 4;
        memcpy(&v, &b, sizeof(v));
        check(v);
    }
}

static void neighbours_of_all_bounds(void **state)
{
    (void)state;
    for (uint64_t e = 1023 - 42; e <= 1023 + 58; e++) {
        for (int k = 0; k < 64; k++) check_around(e << 52 | sonde__hist_bound[k]);
        for (uint64_t s = 0; s < 128; s++) check_around(e << 52 | s << 45);
    }
}

static uint64_t rng = 88172645463325252ull;

static uint64_t next(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}

static void a_million_values(void **state)
{
    (void)state;
    for (int i = 0; i < VALUES; i++) {
        const uint64_t bits = (1023 - 42 + next() % 100) << 52 | (next() & ((1ull << 52) - 1));
        double v;
        memcpy(&v, &bits, sizeof(v));
        check(v);
        /* And once by logarithm, where it is not too close to a bound to tell. */
        const long double position = log2l((long double)v) * 64 + 40 * 64;
        const long double nearest = roundl(position);
        if (fabsl(position - nearest) > 1e-12L) {
            assert_int_equal(expected(v), (int64_t)ceill(position));
        }
    }
}

static void what_is_not_a_number_in_range(void **state)
{
    (void)state;
    static const double outside[] = { 0.0, -0.0, -1, -1e-300, -1e300, 1e-300, DBL_MIN, DBL_MAX,
                                      4.9406564584124654e-324, 72057594037927936.0 };
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        assert_true(sonde__hist_bucket(outside[i]) >= SONDE__HIST_BUCKETS);
    }
    assert_true(sonde__hist_bucket((double)NAN) >= SONDE__HIST_BUCKETS);
    assert_true(sonde__hist_bucket(-(double)NAN) >= SONDE__HIST_BUCKETS);
    assert_true(sonde__hist_bucket((double)INFINITY) >= SONDE__HIST_BUCKETS);
    assert_true(sonde__hist_bucket(-(double)INFINITY) >= SONDE__HIST_BUCKETS);
}

/* ---- Recorded -------------------------------------------------------------------------------- */

/* Every value is found in the bucket of its product with the scale; none is lost at the edges. */
static void recorded_values_are_where_they_belong(void **state)
{
    (void)state;
    static const double scales[] = { 1, 1e-9, 1e-6, 1024, 1e-30, 1e30 };
    static struct readback_hist seen, want;
    for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++) {
        char name[32];
        snprintf(name, sizeof(name), "bucket_%d", (int)s);
        const struct sonde_hist h = sonde_hist(name, "x", scales[s]);
        memset(&want, 0, sizeof(want));
        for (int i = 0; i < VALUES / 20; i++) {
            const uint64_t raw = next() >> next() % 64;
            sonde_hist_record(h, raw);
            const int64_t p = raw ? expected((double)raw * scales[s]) : -1;
            if (p < 0) want.zero++;
            else want.bucket[p < (int64_t)SONDE__HIST_BUCKETS ? p : SONDE__HIST_BUCKETS - 1]++;
            want.sum += raw;
        }
        readback_hist(h, &seen);
        assert_int_equal(seen.count, VALUES / 20);
        assert_int_equal(seen.sum, want.sum);
        assert_int_equal(seen.zero, want.zero);
        assert_memory_equal(seen.bucket, want.bucket, sizeof(want.bucket));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_exact),
        cmocka_unit_test(neighbours_of_all_bounds),
        cmocka_unit_test(a_million_values),
        cmocka_unit_test(what_is_not_a_number_in_range),
        cmocka_unit_test(recorded_values_are_where_they_belong),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
