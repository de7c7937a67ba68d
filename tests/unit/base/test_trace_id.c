/* Ids of 128 bits, with and without dashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/trace_id.h"

static void test_parse(void **state)
{
    (void)state;
    static const struct { const char *text; int good; } cases[] = {
        { "0af7651916cd43dd8448eb211c80319c", 1 },
        { "0AF7651916CD43DD8448EB211C80319C", 1 },
        { "0af76519-16cd-43dd-8448-eb211c80319c", 1 },
        { "0AF76519-16cd-43DD-8448-eb211c80319c", 1 },
        { "", 0 },
        { "0af7651916cd43dd8448eb211c80319", 0 },
        { "0af7651916cd43dd8448eb211c80319c0", 0 },
        { "0af7651916cd43dd8448eb211c80319g", 0 },
        { "0af76519-16cd-43dd-8448-eb211c80319", 0 },
        { "0af76519016cd-43dd-8448-eb211c80319c", 0 },
        { "0af7651-916cd-43dd-8448-eb211c80319c", 0 },
        { "0af76519-16cd-43dd-8448-eb211c8031-c", 0 },
        { "{af76519-16cd-43dd-8448-eb211c80319c", 0 },
        { "00000000000000000000000000000000", 0 },
        { "00000000-0000-0000-0000-000000000000", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t hi = 7, lo = 8;
        assert_int_equal(sonde_trace_id_parse(cases[i].text, &hi, &lo), cases[i].good);
        assert_true(hi == (cases[i].good ? 0x0af7651916cd43ddu : 7u));
        assert_true(lo == (cases[i].good ? 0x8448eb211c80319cu : 8u));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parse) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
