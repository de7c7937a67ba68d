#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "present/sparkline.h"
#include "present/text.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void lines(void **state)
{
    (void)state;
    static const struct {
        const char *name; double value[9]; size_t count; int cells; enum sonde_spark_base base;
        int ascii; const char *expect;
    } cases[] = {
        { "ramp", { 0, 1, 2, 3, 4, 5, 6, 7 }, 8, 8, SONDE_SPARK_ZERO, 0, "▁▂▃▄▅▆▇█" },
        { "ascii", { 0, 1, 2, 3, 4, 5, 6, 7 }, 8, 8, SONDE_SPARK_ZERO, 1, "_.-:=+*#" },
        { "right-aligned", { 0, 7 }, 2, 5, SONDE_SPARK_ZERO, 0, "   ▁█" },
        { "gap", { 0, NAN, 7 }, 3, 3, SONDE_SPARK_ZERO, 0, "▁ █" },
        { "infinity is a gap", { 0, INFINITY, 7 }, 3, 3, SONDE_SPARK_ZERO, 0, "▁ █" },
        { "all gaps", { NAN, NAN }, 2, 2, SONDE_SPARK_ZERO, 0, "  " },
        { "none", { 0 }, 0, 3, SONDE_SPARK_ZERO, 0, "   " },
        { "zeros", { 0, 0 }, 2, 2, SONDE_SPARK_ZERO, 0, "▁▁" },
        { "a level above zero", { 5, 5 }, 2, 2, SONDE_SPARK_MIN, 0, "▄▄" },
        { "rates from zero", { 5, 10 }, 2, 2, SONDE_SPARK_ZERO, 0, "▅█" },
        { "levels from the least", { 5, 10 }, 2, 2, SONDE_SPARK_MIN, 0, "▁█" },
        { "negative", { -4, 4 }, 2, 2, SONDE_SPARK_ZERO, 0, "▁█" },
        { "means of shares", { 0, 0, 8, 8 }, 4, 2, SONDE_SPARK_ZERO, 0, "▁█" },
        { "huge", { -DBL_MAX, DBL_MAX }, 2, 2, SONDE_SPARK_ZERO, 0, "▁█" },
        { "percent", { 0, 2, 50, 100, 1e300, -1e300 }, 6, 6, SONDE_SPARK_PERCENT, 0, "▁▁▅██▁" },
        { "no cells", { 1, 2 }, 2, 0, SONDE_SPARK_ZERO, 0, "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[SONDE_SPARKLINE_BYTES(10)];
        const size_t len = sonde_sparkline(out, sizeof(out), cases[i].value, cases[i].count,
                                           cases[i].cells, cases[i].base, cases[i].ascii);
        assert_string_equal(out, cases[i].expect);
        assert_int_equal(len, strlen(out));
        assert_int_equal(sonde_text_cells(out, 0), cases[i].cells);
    }
}

static void small_buffer(void **state)
{
    (void)state;
    char out[5];
    const double value[] = { 1, 2, 3 };
    sonde_sparkline(out, sizeof(out), value, 3, 3, SONDE_SPARK_MIN, 0);
    assert_string_equal(out, "▁");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(small_buffer) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
