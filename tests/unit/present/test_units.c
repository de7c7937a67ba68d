#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "present/text.h"
#include "present/units.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void values(void **state)
{
    (void)state;
    static const struct { double v; enum sonde_unit u; const char *expect; } cases[] = {
        { 0, SONDE_UNIT_COUNT, "0" },
        { 950, SONDE_UNIT_COUNT, "950" },
        { 7, SONDE_UNIT_COUNT, "7" },
        { 7.25, SONDE_UNIT_COUNT, "7.25" },
        { 999.4, SONDE_UNIT_COUNT, "999" },
        { 999.6, SONDE_UNIT_COUNT, "1.00k" },
        { 12345, SONDE_UNIT_COUNT, "12.3k" },
        { -12345, SONDE_UNIT_COUNT, "-12.3k" },
        { 4560000, SONDE_UNIT_COUNT, "4.56M" },
        { 0.004, SONDE_UNIT_COUNT, "0.004" },
        { 0.0003, SONDE_UNIT_COUNT, "0.0003" },
        { -0.00002, SONDE_UNIT_COUNT, "-0.00002" },
        { 0.00098, SONDE_UNIT_COUNT, "0.001" },
        { 2e-7, SONDE_UNIT_COUNT, "2e-07" },
        { 1e300, SONDE_UNIT_COUNT, "1e+300" },
        { 0, SONDE_UNIT_SECONDS, "0 s" },
        { 1.2e-9, SONDE_UNIT_SECONDS, "1.20 ns" },
        { 340e-6, SONDE_UNIT_SECONDS, "340 µs" },
        { 5e-3, SONDE_UNIT_SECONDS, "5.00 ms" },
        { 0.99996, SONDE_UNIT_SECONDS, "1.00 s" },
        { 59, SONDE_UNIT_SECONDS, "59.0 s" },
        { 750, SONDE_UNIT_SECONDS, "12.5 min" },
        { 7200, SONDE_UNIT_SECONDS, "2.00 h" },
        { 200000, SONDE_UNIT_SECONDS, "2.31 d" },
        { 1.7e9, SONDE_UNIT_SECONDS, "19676 d" }, /* a time of day since 1970 */
        { 512, SONDE_UNIT_BYTES, "512 B" },
        { 1024, SONDE_UNIT_BYTES, "1.00 KiB" },
        { 1023 * 1024, SONDE_UNIT_BYTES, "1023 KiB" },
        { -1023.0 * 1024, SONDE_UNIT_BYTES, "-1023 KiB" },
        { 1023.7 * 1024, SONDE_UNIT_BYTES, "1.00 MiB" },
        { 5e12, SONDE_UNIT_BYTES, "4.55 TiB" },
        { 0.123, SONDE_UNIT_RATIO, "12.3 %" },
        { 1.0, SONDE_UNIT_RATIO, "100 %" },
        { 0.07, SONDE_UNIT_RATIO, "7.00 %" },
        { 0.00006, SONDE_UNIT_RATIO, "0.006 %" },
        { 0.000001, SONDE_UNIT_RATIO, "<0.001 %" },
        { -0.000001, SONDE_UNIT_RATIO, ">-.001 %" },
        { 5000, SONDE_UNIT_RATIO, ">99999 %" },
        { 0.006, SONDE_UNIT_PERCENT, "0.006 %" },
        { 0.004, SONDE_UNIT_WATTS, "0.004 W" },
        { 4e-12, SONDE_UNIT_SECONDS, "0.004 ns" },
        { 1e12, SONDE_UNIT_SECONDS, ">99999 d" },
        { 12.3, SONDE_UNIT_PERCENT, "12.3 %" },
        { 1.2e9, SONDE_UNIT_HERTZ, "1.20 GHz" },
        { 45, SONDE_UNIT_CELSIUS, "45.0 C" },
        { 12, SONDE_UNIT_WATTS, "12.0 W" },
        { 1794835034, SONDE_UNIT_DATE, "16 Nov 26" },
        { NAN, SONDE_UNIT_SECONDS, "–" },
        { INFINITY, SONDE_UNIT_BYTES, "+Inf" },
        { -INFINITY, SONDE_UNIT_BYTES, "-Inf" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[SONDE_VALUE_BYTES];
        assert_string_equal(sonde_value_format(out, cases[i].v, cases[i].u, 0), cases[i].expect);
    }
    char out[SONDE_VALUE_BYTES];
    assert_string_equal(sonde_value_format(out, 340e-6, SONDE_UNIT_SECONDS, 1), "340 us");
    assert_string_equal(sonde_value_format(out, NAN, SONDE_UNIT_SECONDS, 1), "-");
}

/* No value of any size or sign is wider than SONDE_VALUE_CELLS. */
static void widths(void **state)
{
    (void)state;
    for (int u = SONDE_UNIT_COUNT; u <= SONDE_UNIT_DATE; u++) {
        for (double v = 1e-100; v < 1e120; v *= 1.037) {
            char out[SONDE_VALUE_BYTES];
            for (int sign = -1; sign <= 1; sign += 2) {
                sonde_value_format(out, sign * v, (enum sonde_unit)u, 0);
                if (sonde_text_cells(out, 0) > SONDE_VALUE_CELLS) fail_msg("%s", out);
            }
        }
    }
}

static void units(void **state)
{
    (void)state;
    static const struct { const char *unit, *name; enum sonde_unit expect; } cases[] = {
        { "seconds", "x", SONDE_UNIT_SECONDS },
        { "", "request_duration_seconds", SONDE_UNIT_SECONDS },
        { NULL, "net_bytes_total", SONDE_UNIT_BYTES },
        { NULL, "hit_ratio", SONDE_UNIT_RATIO },
        { "tokens", "out_total", SONDE_UNIT_COUNT },
        { "tokens", "memory_bytes", SONDE_UNIT_BYTES },
        { NULL, "seconds", SONDE_UNIT_COUNT },
        { NULL, "milliseconds", SONDE_UNIT_COUNT },
        { NULL, "total", SONDE_UNIT_COUNT },
        { NULL, NULL, SONDE_UNIT_COUNT },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sonde_unit_of(cases[i].unit, cases[i].name), cases[i].expect);
    }
    assert_int_equal(sonde_unit_rate(SONDE_UNIT_SECONDS), SONDE_UNIT_RATIO);
    assert_int_equal(sonde_unit_rate(SONDE_UNIT_BYTES), SONDE_UNIT_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values), cmocka_unit_test(widths), cmocka_unit_test(units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
