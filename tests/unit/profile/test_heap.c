/* Heap facts: bounds of estimates, size classes, copies, merging. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "segment/heap.h"
#include "sonde/sonde.h"
#include "unit/profile/heap_build.h"

static void test_verdicts(void **state)
{
    (void)state;
    for (int v = 0; v < SONDE_HEAP_VERDICT_COUNT; v++) {
        const enum sonde_heap_verdict verdict = (enum sonde_heap_verdict)v;
        assert_int_equal(sonde_heap_verdict_find(sonde_heap_verdict_name(verdict)), v);
        assert_true(strlen(sonde_heap_verdict_text(verdict)) > 0);
    }
    assert_int_equal(sonde_heap_verdict_find("leaks"), -1);
    assert_string_equal(sonde_heap_verdict_name(SONDE_HEAP_CACHE), "cache filling");
}

/* The same classes as the process counts by. */
static void test_size_classes(void **state)
{
    uint64_t low, high, end = 0;
    (void)state;
    assert_int_equal(SONDE_HEAP_SIZES, SONDE__HEAP_SIZES);
    assert_int_equal(SONDE_HEAP_LIFETIMES, SONDE__HEAP_LIFETIMES);
    for (uint32_t i = 0; i < SONDE_HEAP_SIZES; i++) {
        sonde_heap_size_bounds(i, &low, &high);
        assert_int_equal(low, end);
        assert_true(high > low);
        assert_int_equal(sonde__heap_size_class(low), i);
        assert_int_equal(sonde__heap_size_class(high - 1), i);
        end = high;
    }
    assert_true(end == UINT64_MAX);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static void test_exact(void **state)
{
    (void)state;
    const struct sonde_heap_amount a = sonde_heap_amount(1234, 0, 0);
    assert_true(a.value == 1234 && a.low == 1234 && a.high == 1234);
}

/* How often the interval holds the truth, when samples of that weight come as a Poisson process. */
static double coverage(double expected, double weight)
{
    double pmf = exp(-expected), held = 0;
    for (int n = 0; n < 2000; n++) {
        const struct sonde_heap_amount a =
            sonde_heap_amount(n * weight, n * weight * weight, weight);
        assert_true(a.low >= 0 && a.low <= a.value && a.value <= a.high);
        if (a.low <= expected * weight && expected * weight <= a.high) held += pmf;
        pmf *= expected / (n + 1);
    }
    return held;
}

static void test_coverage(void **state)
{
    static const double expected[] = { 0.1, 0.5, 1, 2, 4, 7.3, 10, 30, 100, 500 };
    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const double got = coverage(expected[i], 524288);
        if (got < 0.95) fail_msg("with %g samples %g of 1", expected[i], got);
    }
}

static void test_many_samples(void **state)
{
    (void)state;
    const double n = 1e6;
    const struct sonde_heap_amount a = sonde_heap_amount(n, n, 1);
    assert_true(fabs(a.low - (n - 1.96 * sqrt(n))) < 0.002 * sqrt(n) + 2);
    assert_true(fabs(a.high - (n + 1.96 * sqrt(n))) < 0.002 * sqrt(n) + 2);
}

/* Large ones are all sampled: next to no variance, next to no interval. */
static void test_nearly_certain(void **state)
{
    (void)state;
    const struct sonde_heap_amount a = sonde_heap_amount(1e9, 1e-3, 1e-2);
    assert_true(a.high - a.low < 1);
    const struct sonde_heap_amount none = sonde_heap_amount(0, 0, 100);
    assert_true(none.low == 0 && none.high > 300 && none.high < 400);
    const struct sonde_heap_amount below = sonde_heap_amount(-5, -3, 0); /* torn readings */
    assert_true(below.value == -5 && below.low <= below.high);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static struct sonde_profile *create(size_t bytes_max)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(bytes_max, &p), 0);
    return p;
}

static void test_copy(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    struct sonde_heap *h = build_heap_facts(p);
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    struct sonde_heap *c = sonde_heap_copy(h);
    assert_non_null(c);
    assert_memory_equal(c->sites, h->sites, h->site_count * sizeof(*h->sites));
    assert_memory_equal(c->points, h->points, h->point_count * sizeof(*h->points));
    assert_memory_equal(c->threads, h->threads, h->thread_count * sizeof(*h->threads));
    assert_memory_equal(c->pools, h->pools, h->pool_count * sizeof(*h->pools));
    assert_true(c->sites != h->sites && c->pools != h->pools);
    assert_int_equal(sonde_heap_bytes(c), sonde_heap_bytes(h));
    sonde_heap_destroy(c);

    for (uint64_t nth = 1; nth <= 5; nth++) {
        sonde__alloc_fail_nth(nth);
        assert_null(sonde_heap_copy(h));
        sonde__alloc_fail_nth(0);
    }
    const struct sonde_heap empty = { .mean = 1 };
    c = sonde_heap_copy(&empty);
    assert_true(c && !c->sites && c->mean == 1);
    sonde_heap_destroy(c);
    sonde_heap_destroy(NULL);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_memory_is_counted(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    struct sonde_heap *h = build_heap_facts(p);
    const size_t before = p->bytes, bytes = sonde_heap_bytes(h);
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    assert_int_equal(p->bytes, before + bytes);
    h = sonde_heap_copy(h);
    assert_int_equal(sonde_profile_take_heap(p, h), 0); /* replaces */
    assert_int_equal(p->bytes, before + bytes);
    h = sonde_heap_copy(h);
    p->bytes_max = before + bytes - 1;
    assert_int_equal(sonde_profile_take_heap(p, h), SONDE_ENOMEM);
    assert_true(p->heap && p->heap != h);
    sonde_heap_destroy(h);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Merging --------------------------------------------------------------------------------- */

static const char *innermost(const struct sonde_profile *p, uint32_t stack)
{
    const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
    return sonde_profile_str(p, p->functions[p->lines[l->line].function].name);
}

static void test_merge(void **state)
{
    (void)state;
    struct sonde_profile *from = create(0), *p = create(0);
    assert_int_equal(sonde_profile_take_heap(from, build_heap_facts(from)), 0);
    build_stack(p, "other;things;first"); /* so that ids differ */
    sonde_profile_thread(p, 1, 99, "someone");
    assert_int_equal(sonde_profile_merge(p, from), 0);
    const struct sonde_heap *h = p->heap;
    assert_non_null(h);
    assert_int_equal(h->site_count, BUILD_HEAP_SITES);
    assert_string_equal(innermost(p, h->sites[1].stack), "malloc");
    assert_string_equal(innermost(p, p->stacks[h->sites[1].stack].parent), "serve");
    assert_int_not_equal(h->sites[1].stack, from->heap->sites[1].stack);
    assert_string_equal(sonde_profile_str(p, h->allocator), "/lib/libc.so.6");
    assert_int_equal(p->threads[h->threads[0].thread].tid, 2);
    assert_string_equal(sonde_profile_str(p, h->pools[1].name), "kv");
    assert_memory_equal(&h->sites[2].growth, &from->heap->sites[2].growth,
                        sizeof(h->sites[2].growth));

    from->heap->mean = 777;
    assert_int_equal(sonde_profile_merge(p, from), 0);
    assert_int_equal(p->heap->mean, 4096); /* its own are kept */
    sonde_profile_destroy(from);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_merge_without_memory(void **state)
{
    (void)state;
    struct sonde_profile *from = create(0);
    assert_int_equal(sonde_profile_take_heap(from, build_heap_facts(from)), 0);
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        struct sonde_profile *p = create(0);
        sonde__alloc_fail_nth(nth);
        rc = sonde_profile_merge(p, from);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(p->heap != NULL, rc == 0);
        sonde_profile_destroy(p);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(from);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),       cmocka_unit_test(test_size_classes),
        cmocka_unit_test(test_exact),          cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_many_samples),   cmocka_unit_test(test_nearly_certain),
        cmocka_unit_test(test_copy),           cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_merge),          cmocka_unit_test(test_merge_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
