/* The growth of one site over ticks that become longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/heap/private.h"

/* Seen late in the first ticks, and looked at soon after they have become half as many: with an
 * amount that stays, which is a number, and with one that changes, which is a series. */
static void test_coarsened(void **state)
{
    (void)state;
    const int64_t live = sonde__alloc_live();
    for (uint32_t changes = 0; changes <= 1; changes++) {
        size_t used = 0;
        const struct sonde_budget budget = { &used, 1 << 20 };
        struct heap_site s = { 0 };
        struct sonde_curve growth;
        for (uint32_t tick = 60; tick < SONDE_CURVE_POINTS; tick++) {
            assert_int_equal(heap_site_add(&s, tick, 100 + 10.0 * changes * tick, &budget), 0);
        }
        assert_int_equal(s.series != NULL, changes);
        heap_site_coarsen(&s);
        heap_site_growth(&s, SONDE_CURVE_POINTS / 2, &growth);
        assert_int_equal(growth.first, 30);
        assert_int_equal(growth.count, 2);
        assert_true(growth.value[0] == 100 + (changes ? 605 : 0));
        assert_true(growth.value[1] == 100 + (changes ? 625 : 0));
        heap_site_release(&s, &budget);
        assert_int_equal(used, 0);
    }
    assert_int_equal(sonde__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_coarsened) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
