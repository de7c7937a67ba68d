/* Gaps in buckets by sub-windows: buckets are narrow, windows widen and lose nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/http/load_answer.h"

static uint64_t windows_count(const struct sonde_load_gaps *g, size_t from, size_t to)
{
    uint64_t n = 0;
    for (size_t i = from * sonde_load_gap_buckets(); i < to * sonde_load_gap_buckets(); i++) {
        n += g->counts[i];
    }
    return n;
}

static void test_buckets(void **state)
{
    (void)state;
    size_t last = 0;
    for (uint64_t ns = 0; ns < 1ull << 39; ns += 1 + ns / 1000) {
        const size_t b = sonde_load_gap_bucket(ns);
        const double middle = sonde_load_gap_middle_ns(b), off = middle - (double)ns;
        assert_true(b < sonde_load_gap_buckets() && b >= last);
        assert_int_equal(sonde_load_gap_bucket((uint64_t)middle), b);
        assert_true((off < 0 ? -off : off) <= (double)ns / 1024 + 0.5);
        last = b;
    }
    assert_int_equal(sonde_load_gap_bucket(UINT64_MAX), sonde_load_gap_buckets() - 1);
    assert_int_equal(sonde_load_gap_bucket(0), 0);
}

static void test_windows(void **state)
{
    (void)state;
    struct sonde_load_gaps g;
    assert_int_equal(load_gaps_init(&g, 1000, 10), 0);
    for (uint64_t i = 0; i < 1280; i++) load_gaps_add(&g, 1000 + i, 100);
    assert_int_equal(g.window_count, 128);
    assert_int_equal(g.width_ns, 10);
    for (size_t w = 0; w < 128; w++) assert_int_equal(windows_count(&g, w, w + 1), 10);
    load_gaps_add(&g, 2280, 100); /* one too late for them */
    assert_int_equal(g.width_ns, 20);
    assert_int_equal(g.window_count, 65);
    for (size_t w = 0; w < 64; w++) assert_int_equal(windows_count(&g, w, w + 1), 20);
    assert_int_equal(windows_count(&g, 64, 128), 1);
    assert_int_equal(g.counts[sonde_load_gap_bucket(100)], 20);
    load_gaps_add(&g, 1000000000, 5);
    assert_int_equal(windows_count(&g, 0, g.window_count), 1282);
    load_gaps_add(&g, 0, 5); /* before the begin */
    assert_int_equal(windows_count(&g, 0, g.window_count), 1283);
    sonde_load_gaps_release(&g);
}

static void test_merge(void **state)
{
    (void)state;
    struct sonde_load_gaps a, b;
    assert_int_equal(load_gaps_init(&a, 0, 10), 0);
    assert_int_equal(load_gaps_init(&b, 0, 10), 0);
    for (uint64_t i = 0; i < 100; i++) load_gaps_add(&a, i, 7);
    for (uint64_t i = 0; i < 5000; i++) load_gaps_add(&b, i, 7);
    const uint64_t width = b.width_ns;
    load_gaps_merge(&a, &b);
    assert_int_equal(a.width_ns, width);
    assert_int_equal(a.window_count, b.window_count);
    assert_int_equal(windows_count(&a, 0, a.window_count), 5100);
    assert_int_equal(windows_count(&a, 0, 1), width + (width < 100 ? width : 100));
    sonde_load_gaps_release(&a);
    sonde_load_gaps_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets), cmocka_unit_test(test_windows), cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
