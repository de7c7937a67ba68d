/* Axes: round numbers at round places, one prefix for all of them, and ranges that hold every value
 * whatever it is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "present/plot/axis.h"

static void join(const struct sonde_axis *a, char *out, size_t size)
{
    char label[SONDE_AXIS_LABEL_BYTES];
    out[0] = '\0';
    for (size_t i = 0; i < a->tick_count; i++) {
        const size_t n = strlen(out);
        snprintf(out + n, size - n, "%s%s", i ? "|" : "", sonde_axis_label(a, a->ticks[i], label));
    }
}

static void labels(void **state)
{
    (void)state;
    static const struct { const char *unit; int log, zero, wanted; double low, high; const char *is; }
        cases[] = {
            { "", 0, 1, 5, 0, 10, "0|2|4|6|8|10" },
            { "s", 0, 1, 5, 0, 0.02, "0|5 ms|10 ms|15 ms|20 ms" },
            { "s", 0, 1, 5, 0, 0.000002, "0|0.5 µs|1.0 µs|1.5 µs|2.0 µs" },
            { "s", 0, 1, 5, 0, 90, "0|20 s|40 s|60 s|80 s" },
            { "s", 0, 1, 5, 0, 540, "0|2 min|4 min|6 min|8 min" },
            { "bytes", 0, 1, 4, 0, 1048576, "0|256 KiB|512 KiB|768 KiB|1024 KiB" },
            { "bytes", 0, 1, 4, 0, 4294967296, "0|1 GiB|2 GiB|3 GiB|4 GiB" },
            { "bytes/s", 0, 1, 4, 0, 2048, "0|0.5 KiB/s|1.0 KiB/s|1.5 KiB/s|2.0 KiB/s" },
            { "1/s", 0, 1, 3, 0, 1200, "0|500/s|1000/s" },
            { "1/s", 0, 1, 4, 0, 40000, "0|10k/s|20k/s|30k/s|40k/s" },
            { "share", 0, 1, 5, 0, 1, "0 %|20 %|40 %|60 %|80 %|100 %" },
            { "s", 1, 0, 5, 0.001, 1, "1 ms|2 ms|5 ms|10 ms|20 ms|50 ms|100 ms|200 ms|500 ms|1 s" },
            { "", 1, 0, 5, 1, 1e6, "1|10|100|1k|10k|100k|1M" },
        };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        char text[1024];
        struct sonde_axis a = { .unit = cases[i].unit, .log = cases[i].log, .zero = cases[i].zero,
                                .wanted = cases[i].wanted, .tight = 1 };
        sonde_axis_fit(&a, cases[i].low, cases[i].high);
        join(&a, text, sizeof(text));
        assert_string_equal(text, cases[i].is);
    }
}

static void times(void **state)
{
    (void)state;
    char text[1024];
    setenv("TZ", "UTC", 1);
    tzset();
    struct sonde_axis a = { .unit = "time", .tight = 1, .wanted = 4 };
    sonde_axis_fit(&a, 1700000000, 1700000040);
    join(&a, text, sizeof(text));
    assert_string_equal(text, "22:13:20|22:13:30|22:13:40|22:13:50|22:14:00");
    sonde_axis_fit(&a, 1700000000, 1700000001);
    join(&a, text, sizeof(text));
    assert_string_equal(text, "22:13:20.0|22:13:20.2|22:13:20.4|22:13:20.6|22:13:20.8|22:13:21.0");
    sonde_axis_fit(&a, 1700000000, 1700014400);
    join(&a, text, sizeof(text));
    assert_string_equal(text, "23:00|00:00|01:00|02:00");
}

/* Places go with values, and every value has one inside. */
static void places(void **state)
{
    (void)state;
    static const double ranges[][2] = {
        { 0, 0 }, { 1, 1 }, { -1, -1 }, { 5, 5.0000001 }, { 1e-320, 1e-320 }, { -1e299, 1e299 },
        { 1.7e9, 1.7e9 + 1e-3 }, { 1e18, 1e18 + 200 }, { -3, 7 }, { 1e-12, 1e12 },
    };
    for (size_t i = 0; i < SONDE_COUNT(ranges); i++) {
        for (int mode = 0; mode < 8; mode++) {
            struct sonde_axis a = { .unit = "", .zero = mode & 1, .tight = mode >> 1 & 1,
                                    .log = mode >> 2 && ranges[i][0] > 0, .begin = 0, .end = 100 };
            char label[SONDE_AXIS_LABEL_BYTES];
            sonde_axis_fit(&a, ranges[i][0], ranges[i][1]);
            const double low = sonde_axis_place(&a, ranges[i][0]);
            const double high = sonde_axis_place(&a, ranges[i][1]);
            assert_true(low >= -0.01 && high <= 100.01 && low <= high);
            assert_true(a.to > a.from && isfinite(a.from) && isfinite(a.to));
            assert_true(a.tick_count <= SONDE_AXIS_TICKS_MAX);
            for (size_t k = 0; k < a.tick_count; k++) {
                const double at = sonde_axis_place(&a, a.ticks[k]);
                assert_true(at > -1 && at < 101);
                sonde_axis_label(&a, a.ticks[k], label);
            }
        }
    }
    struct sonde_axis names = { .unit = "name", .begin = 0, .end = 100 };
    sonde_axis_names(&names, 4);
    assert_true(fabs(sonde_axis_place(&names, 0) - 12.5) < 1e-9);
    assert_int_equal(names.tick_count, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels),
        cmocka_unit_test(times),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
