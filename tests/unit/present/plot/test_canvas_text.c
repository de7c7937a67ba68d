/* Text in several scripts: widths add up over runs, whatever fonts there are, and nothing fails. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "present/plot/canvas.h"
#include "sonde/sonde.h"

static struct sonde_buf out;
static struct sonde_canvas_cairo png;

static int open_canvas(void **state)
{
    (void)state;
    sonde_buf_init(&out, 1 << 20);
    return sonde_canvas_png_begin(&png, &out, 400, 40, 1, SONDE_THEME_LIGHT);
}

static int close_canvas(void **state)
{
    struct sonde_err err = { "" };
    (void)state;
    const int rc = sonde_canvas_cairo_end(&png, &err);
    sonde_buf_release(&out);
    sonde_canvas_forget_fonts();
    return rc;
}

static double width_of(const char *text)
{
    return sonde_canvas_text_width(&png.canvas, text, 12, 0);
}

static void runs(void **state)
{
    (void)state;
    static const char *const parts[] = { "plain", "\xe6\x97\xa5\xe6\x9c\xac", "\xd0\x96", "\xe0\xa4\xb9",
                                         "\xf0\x9f\x9a\x80", " " };
    char all[64] = "";
    double sum = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_true(width_of(parts[i]) > 0);
        sum += width_of(parts[i]);
        strcat(all, parts[i]);
    }
    assert_true(fabs(width_of(all) - sum) < 3); /* pairs of letters may be closer to each other */
    assert_true(width_of("") == 0);
}

static void long_text(void **state)
{
    (void)state;
    char text[1801];
    for (size_t i = 0; i < 600; i++) memcpy(text + 3 * i, "\xe6\x97\xa5", 4);
    const double one = width_of("\xe6\x97\xa5");
    assert_true(fabs(width_of(text) - 600 * one) < 0.01 * 600 * one);
}

static void drawn(void **state)
{
    (void)state;
    static const char text[] = "\xe6\x97\xa5 x \xe6\x9c\xac";
    const struct sonde_canvas_text t = { .x = 200, .y = 20, .size = 12, .bold = 1,
                                         .ink = SONDE_INK_TEXT };
    const double all = sonde_canvas_write(&png.canvas, &t, 0, text);
    assert_true(all > 0);
    assert_true(fabs(all - sonde_canvas_text_width(&png.canvas, text, 12, 1)) < 1e-6);
    assert_true(sonde_canvas_write(&png.canvas, &t, 0.7 * all, text) <= 0.7 * all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(runs), cmocka_unit_test(long_text),
                                        cmocka_unit_test(drawn) };
    return cmocka_run_group_tests(tests, open_canvas, close_canvas);
}
