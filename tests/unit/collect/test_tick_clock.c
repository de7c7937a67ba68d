/* Ticks to unix time: interpolated between two looks at the clocks, counted on and back outside;
 * one offset for everybody. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "collect/tick_clock.h"

/* 2 ticks a nanosecond over all, but 2.5 between the last two looks. */
static const struct sonde_tick_clock steered = {
    .first_tsc = 0, .first_mono_ns = 0, .last_tsc = 1000000, .last_mono_ns = 500000,
    .now_tsc = 1250000, .now_mono_ns = 600000, .unix_ns = 1700000000000000000u, .tsc_ns = 0.5,
};

static const struct {
    uint64_t tick, mono_ns;
} cases[] = {
    { 1000000, 500000 }, { 1125000, 550000 }, { 1249999, 599999 }, { 1250000, 600000 },
    { 1250002, 600001 }, { 999998, 499999 },  { 0, 0 },
};

static void test_interpolated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t got = sonde_tick_unix_ns(&steered, 1, cases[i].tick);
        assert_int_equal(got - steered.unix_ns, cases[i].mono_ns);
    }
    assert_int_equal(sonde_tick_unix_ns(&steered, 0, 123456789) - steered.unix_ns, 123456789);
}

static void test_nonsense(void **state)
{
    (void)state;
    assert_int_equal(sonde_tick_unix_ns(&steered, 1, UINT64_MAX), 0);
    assert_int_equal(sonde_tick_unix_ns(&steered, 0, UINT64_MAX), 0);
    const struct sonde_tick_clock none = { .tsc_ns = 1 };
    assert_int_equal(sonde_tick_unix_ns(&none, 1, 0), 0);
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void test_one_offset(void **state)
{
    (void)state;
    const uint64_t offset = sonde_unix_offset_ns();
    for (int i = 0; i < 1000; i++) assert_true(sonde_unix_offset_ns() == offset);
    /* Between two readings of the other clock. */
    const uint64_t before = clock_ns(CLOCK_REALTIME);
    const uint64_t now = clock_ns(CLOCK_MONOTONIC) + offset;
    const uint64_t after = clock_ns(CLOCK_REALTIME);
    assert_true(now + 1000000 >= before && now <= after + 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interpolated),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_one_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
