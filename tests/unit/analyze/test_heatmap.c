/* Heat maps: a cell counts what is within its bounds and nothing else, whatever the values are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "analyze/heatmap.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "unit/analyze/random.h"

enum { POINTS = 3000 };
#define T0 1794812712.448 /* unix; in the midst of a second */

static struct { uint64_t ns; double value; int failed; } points[POINTS];

static int teardown(void **state)
{
    (void)state;
    return sonde__alloc_live() != 0;
}

/* ---- Columns --------------------------------------------------------------------------------- */

static void test_columns(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double seconds;
        uint32_t columns;
        int64_t step_ms;
    } cases[] = {
        { "an hour", 3600, 120, 30000 },
        { "an hour, fine", 3600, 500, 10000 },
        { "a minute", 60, 120, 500 },
        { "a second", 1, 120, 10 },
        { "a millisecond", 0.001, 120, 1 },
        { "one or two", 3600, 1, 3600000 },
        { "a day", 86400, 120, 900000 },
        { "a year", 86400 * 365.0, 120, 4 * 86400000ll },
        { "all times", 1e11, 2, 578704 * 86400000ll },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_heatmap h;
        const double from = cases[i].seconds > 1e9 ? 0 : T0;
        const struct sonde_heatmap_options o = { .from_s = from, .to_s = from + cases[i].seconds,
                                                 .columns = cases[i].columns };
        sonde_heatmap_init(&h, &o);
        if (h.step_ms != cases[i].step_ms) {
            fail_msg("%s: %lld ms", cases[i].name, (long long)h.step_ms);
        }
        assert_int_equal(h.from_ms % h.step_ms, 0);
        assert_true(h.columns <= cases[i].columns + 1);
        assert_true((double)h.from_ms <= from * 1e3);
        assert_true((double)(h.from_ms + h.columns * h.step_ms) >= (from + cases[i].seconds) * 1e3);
        /* None more than are needed. */
        assert_true((double)(h.from_ms + h.step_ms) > from * 1e3);
        sonde_heatmap_release(&h);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Every bound is what its shortest decimal text means, with few digits. */
static void check_edges(const struct sonde_heatmap *h, const char *name)
{
    for (uint32_t r = 0; r <= h->rows; r++) {
        struct sonde_buf b;
        sonde_buf_init(&b, 100);
        sonde_buf_json_double(&b, h->edges[r]);
        sonde_buf_putc(&b, 0);
        size_t digits = 0;
        for (const char *c = b.data; *c && *c != 'e'; c++) digits += *c >= '1' && *c <= '9';
        if (strtod(b.data, NULL) != h->edges[r] || digits > 3) fail_msg("%s: %s", name, b.data);
        sonde_buf_release(&b);
        if (r && h->edges[r] <= h->edges[r - 1]) fail_msg("%s: row %u", name, r);
    }
}

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double values[3];
        int count;
        uint32_t rows_max, rows;
        double first, last;      /* edges */
    } cases[] = {
        { "nothing", { 0 }, 0, 40, 0, 0, 0 },
        { "one value", { 0.05 }, 1, 40, 9, 0.0376, 0.0631 },
        { "zero", { 0 }, 1, 40, 10, 0, 0.00133 },
        { "a factor of ten", { 0.1, 0.99 }, 2, 40, 40, 0.1, 1 },
        { "two", { 0.1, 9.9 }, 2, 40, 40, 0.1, 10 },
        { "1, 2, 5", { 0.001, 900 }, 2, 20, 18, 0.001, 1000 },
        { "too many tens", { 1e-6, 5000 }, 2, 4, 4, 0, 10000 },
        { "one row", { 0.3, 70 }, 2, 1, 1, 0, 100 },
        { "zero and more", { 0, 0.011, 0.5 }, 3, 40, 35, 0, 0.501 },
        { "at a bound", { 0.1, 1 }, 2, 40, 21, 0.1, 1.12 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_heatmap h;
        const struct sonde_heatmap_options o = { .from_s = T0, .to_s = T0 + 60,
                                                 .rows = cases[i].rows_max };
        sonde_heatmap_init(&h, &o);
        for (int k = 0; k < cases[i].count; k++) {
            assert_int_equal(sonde_heatmap_add(&h, (uint64_t)(T0 * 1e9), cases[i].values[k], 0), 0);
        }
        assert_int_equal(sonde_heatmap_finish(&h), 0);
        if (h.rows != cases[i].rows || (h.rows && (h.edges[0] != cases[i].first ||
                                                   h.edges[h.rows] != cases[i].last))) {
            fail_msg("%s: %u rows, %.17g … %.17g", cases[i].name, h.rows, h.edges[0],
                     h.edges[h.rows]);
        }
        if (h.rows) check_edges(&h, cases[i].name);
        assert_int_equal(h.counted, cases[i].count);
        sonde_heatmap_release(&h);
    }
}

/* ---- Cells ----------------------------------------------------------------------------------- */

static double make_value(int shape)
{
    switch (shape) {
    case 0: return 0.05 * exp(0.5 * random_normal());
    case 1: return random_uniform() < 0.1 ? 0 : random_uniform();
    case 2: return pow(10, -12 + 24 * random_uniform()); /* some are too small or too great */
    case 3: return 0.25;
    default: return (double)(int)(random_uniform() * 20) / 10; /* at bounds, often */
    }
}

static void make_points(int shape, double seconds)
{
    for (int i = 0; i < POINTS; i++) {
        const double at = T0 + seconds * (1.2 * random_uniform() - 0.1);
        points[i].ns = (uint64_t)(at * 1e3) * 1000000; /* whole milliseconds: at bounds, often */
        if (i % 2) points[i].ns += (uint64_t)(random_uniform() * 1e6);
        points[i].value = make_value(shape);
        points[i].failed = random_uniform() < 0.2;
    }
}

/* Counted one by one. */
static struct sonde_heatmap_cell count_cell(const struct sonde_heatmap *h, uint32_t column,
                                            uint32_t row)
{
    const uint64_t from_ns = (uint64_t)(h->from_ms + column * h->step_ms) * 1000000;
    const uint64_t to_ns = from_ns + (uint64_t)h->step_ms * 1000000;
    struct sonde_heatmap_cell c = { 0, 0 };
    for (int i = 0; i < POINTS; i++) {
        if (points[i].ns < from_ns || points[i].ns >= to_ns) continue;
        if (points[i].value < h->edges[row] || points[i].value >= h->edges[row + 1]) continue;
        c.count++;
        c.failed += (uint32_t)points[i].failed;
    }
    return c;
}

static void check_cells(int shape, double seconds, uint32_t columns, uint32_t rows)
{
    struct sonde_heatmap h;
    const struct sonde_heatmap_options o = { .from_s = T0, .to_s = T0 + seconds, .columns = columns,
                                             .rows = rows };
    uint64_t counted = 0;
    make_points(shape, seconds);
    sonde_heatmap_init(&h, &o);
    for (int i = 0; i < POINTS; i++) {
        assert_int_equal(sonde_heatmap_add(&h, points[i].ns, points[i].value, points[i].failed), 0);
    }
    assert_int_equal(sonde_heatmap_finish(&h), 0);
    assert_true(h.rows > 0 && h.rows <= rows);
    for (uint32_t c = 0; c < h.columns; c++) {
        for (uint32_t r = 0; r < h.rows; r++) {
            const struct sonde_heatmap_cell want = count_cell(&h, c, r);
            const struct sonde_heatmap_cell is = h.cells[(size_t)c * h.rows + r];
            if (is.count != want.count || is.failed != want.failed) {
                fail_msg("shape %d, column %u, row %u: %u, not %u", shape, c, r, is.count,
                         want.count);
            }
            counted += is.count;
        }
    }
    assert_int_equal(counted, h.counted);
    assert_true(h.counted > POINTS / 2 || shape == 2);
    sonde_heatmap_release(&h);
}

static void test_cells(void **state)
{
    (void)state;
    static const double seconds[] = { 0.5, 60, 3600, 86400 };
    static const uint32_t rows[] = { 1, 2, 7, 40 };
    random_state = 11;
    for (int shape = 0; shape < 5; shape++) {
        for (int i = 0; i < 4; i++) check_cells(shape, seconds[i], 30, rows[(i + shape) % 4]);
    }
}

static void test_limit(void **state)
{
    (void)state;
    struct sonde_heatmap h;
    const struct sonde_heatmap_options o = { .from_s = T0, .to_s = T0 + 60, .points_max = 5 };
    sonde_heatmap_init(&h, &o);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sonde_heatmap_add(&h, (uint64_t)(T0 * 1e9), 1, 0), 0);
    }
    assert_false(h.truncated);
    assert_int_equal(sonde_heatmap_add(&h, 0, 1, 0), 0); /* is not wanted anyhow */
    assert_int_equal(sonde_heatmap_add(&h, (uint64_t)(T0 * 1e9), NAN, 0), 0);
    assert_false(h.truncated);
    assert_int_equal(sonde_heatmap_add(&h, (uint64_t)(T0 * 1e9), 1, 0), 1);
    assert_true(h.truncated);
    assert_int_equal(sonde_heatmap_finish(&h), 0);
    assert_int_equal(h.counted, 5);
    sonde_heatmap_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_columns, teardown),
        cmocka_unit_test_teardown(test_rows, teardown),
        cmocka_unit_test_teardown(test_cells, teardown),
        cmocka_unit_test_teardown(test_limit, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
