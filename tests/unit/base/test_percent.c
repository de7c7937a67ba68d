/* Shares as people read them: never with an exponent. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/percent.h"

static void texts(void **state)
{
    (void)state;
    static const struct { double ratio; const char *expect; } cases[] = {
        { 0, "0 %" }, { 1, "100 %" }, { 0.123, "12.3 %" }, { 0.0123, "1.23 %" },
        { 0.00006, "0.006 %" }, { 0.000002, "<0.001 %" }, { -0.000002, ">-0.001 %" },
        { -0.5, "-50.0 %" }, { 12.345, "1234 %" }, { 1e6, ">9999999 %" }, { -1e6, "<-9999999 %" },
        { NAN, "unknown" }, { INFINITY, ">9999999 %" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[SONDE_PERCENT_BYTES];
        assert_string_equal(sonde_percent_text(out, cases[i].ratio), cases[i].expect);
    }
}

static void no_exponent(void **state)
{
    (void)state;
    for (double v = 1e-30; v < 1e30; v *= 1.7) {
        char out[SONDE_PERCENT_BYTES];
        assert_null(strchr(sonde_percent_text(out, v), 'e'));
        assert_null(strchr(sonde_percent_text(out, -v), 'e'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts), cmocka_unit_test(no_exponent) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
