#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "present/grid.h"

static void expect(const struct sonde_grid *g, const char *text)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_grid_print(g, &b);
    assert_string_equal(b.data ? b.data : "", text);
    sonde_buf_release(&b);
}

static void drawing(void **state)
{
    (void)state;
    struct sonde_grid g;
    assert_int_equal(sonde_grid_init(&g, 10, 3, 0), 0);
    expect(&g, "");
    assert_int_equal(sonde_grid_text(&g, 0, 0, 10, 0, "hello"), 5);
    assert_int_equal(sonde_grid_text(&g, 8, 1, 10, 0, "clip"), 2);
    expect(&g, "hello\n        cl\n");
    sonde_grid_field(&g, 0, 0, 4, 0, 0, "hello");
    expect(&g, "hel…o\n        cl\n");
    sonde_grid_field_middle(&g, 0, 0, 6, 0, "beginning");
    expect(&g, "be…ing\n        cl\n");
    sonde_grid_field_middle(&g, 0, 0, 6, 0, "日本語日本");
    expect(&g, "日…本\n        cl\n");
    sonde_grid_field_middle(&g, 0, 0, 10, 0, "whole");
    expect(&g, "whole\n        cl\n");
    sonde_grid_field_middle(&g, 0, 0, 2, 0, "whole");
    expect(&g, "w…ole\n        cl\n");
    sonde_grid_field(&g, 0, 0, 10, 1, 0, "right");
    expect(&g, "     right\n        cl\n");
    sonde_grid_restyle(&g, 0, 0, 99, SONDE_STYLE_REVERSE);
    assert_int_equal(sonde_grid_at(&g, 9, 0)->style, SONDE_STYLE_REVERSE);
    assert_int_equal(sonde_grid_at(&g, 9, 1)->style, 0);
    sonde_grid_release(&g);
}

/* A wide character is never left in halves. */
static void wide(void **state)
{
    (void)state;
    struct sonde_grid g;
    assert_int_equal(sonde_grid_init(&g, 5, 1, 0), 0);
    assert_int_equal(sonde_grid_text(&g, 0, 0, 5, 0, "日本語"), 4); /* the third does not fit */
    expect(&g, "日本\n");
    sonde_grid_text(&g, 1, 0, 1, 0, "x");
    expect(&g, " x本\n");
    sonde_grid_text(&g, 2, 0, 1, 0, "y");
    expect(&g, " xy\n");
    sonde_grid_text(&g, 1, 0, 4, 0, "語");
    expect(&g, " 語\n");
    sonde_grid_text(&g, 0, 0, 2, 0, "語");
    expect(&g, "語\n");
    sonde_grid_release(&g);
}

static void outside(void **state)
{
    (void)state;
    struct sonde_grid g;
    assert_int_equal(sonde_grid_init(&g, 0, -5, 0), 0);
    assert_int_equal(g.width, 1);
    assert_int_equal(g.height, 1);
    sonde_grid_release(&g);
    assert_int_equal(sonde_grid_init(&g, 7, 3, 0), 0);
    srand(3);
    for (int i = 0; i < 20000; i++) {
        const int x = rand() % 20 - 6, y = rand() % 10 - 3, n = rand() % 14 - 3;
        static const char *const texts[] = { "日本語", "abc", "", "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81",
                                             "\xff\x1b[2J\n", "🙂🙂" };
        const char *text = texts[rand() % 6];
        switch (rand() % 4) {
        case 2: sonde_grid_field_middle(&g, x, y, n, 0, text); break;
        case 0: sonde_grid_text(&g, x, y, n, 0, text); break;
        case 1: sonde_grid_field(&g, x, y, n, rand() % 2, 0, text); break;
        default: sonde_grid_restyle(&g, x, y, n, SONDE_STYLE_BOLD); break;
        }
    }
    /* Rows are as wide as they were, and what is printed is clean. */
    for (int y = 0; y < 3; y++) {
        int cells = 0;
        for (int x = 0; x < 7; x++) cells += sonde_grid_at(&g, x, y)->cells;
        assert_int_equal(cells, 7);
    }
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_grid_print(&g, &b);
    assert_true(!b.data || sonde__utf8_valid(b.data, b.len));
    assert_true(!b.data || !strchr(b.data, 0x1b));
    sonde_buf_release(&b);
    sonde_grid_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawing), cmocka_unit_test(wide), cmocka_unit_test(outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
