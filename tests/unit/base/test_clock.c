#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/clock.h"

/* What cannot be said in nanoseconds is not undefined. */
static void test_ns_of(void **state)
{
    (void)state;
    assert_int_equal(sonde_clock_ns_of(1.5), 1500000000);
    assert_int_equal(sonde_clock_ns_of(0.1), 100000000);
    assert_int_equal(sonde_clock_ns_of(0), 0);
    assert_int_equal(sonde_clock_ns_of(-3), 0);
    assert_int_equal(sonde_clock_ns_of(NAN), 0);
    assert_true(sonde_clock_ns_of(1e11) == UINT64_MAX);
    assert_true(sonde_clock_ns_of(INFINITY) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ns_of) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
