/* Charts on canvases: marks at the places that the axes say, values in words beside them, names of
 * any origin harmless in all formats, and every allocation that can fail. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/plot/page.h"
#include "present/plot/pdf.h"
#include "sonde/sonde.h"

static size_t count_of(const struct sonde_buf *b, const char *what)
{
    size_t n = 0;
    for (const char *at = b->data; (at = strstr(at, what)) != NULL; at++) n++;
    return n;
}

static void page_write(const struct sonde_plot_page *p, enum sonde_plot_format f,
                       enum sonde_theme theme, struct sonde_buf *out)
{
    const struct sonde_plot_look look = { .theme = theme };
    struct sonde_err err = { "" };
    sonde_buf_init(out, 1 << 24);
    if (sonde_plot_page_write(p, f, &look, out, &err)) fail_msg("%s", err.text);
}

/* Of x = 0 and 10 the middle is that of x = 5. */
static void places(void **state)
{
    (void)state;
    struct sonde_plot_page page = { .title = "places" };
    struct sonde_chart *c = sonde_plot_page_chart(&page, "", "");
    struct sonde_chart_series *s = sonde_chart_series(c, "s");
    struct sonde_buf out;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sonde_chart_add(c, s, 5 * i, 100 * i, NAN, NAN, NULL), 0);
    }
    assert_int_equal(sonde_chart_add(c, s, NAN, 1, NAN, NAN, NULL), 0);
    assert_int_equal(sonde_chart_add(c, s, 1, 1e301, NAN, NAN, NULL), 0);
    assert_int_equal(s->count, 3);
    assert_int_equal(c->not_finite, 2);
    page_write(&page, SONDE_PLOT_HTML, SONDE_THEME_AUTO, &out);
    double x[3], y[3];
    const char *at = out.data;
    for (int i = 0; i < 3; i++) {
        at = strstr(at, "<circle cx=\"");
        assert_non_null(at);
        at += strlen("<circle cx=\"");
        x[i] = strtod(at, NULL);
        y[i] = strtod(strstr(at, "cy=\"") + 4, NULL);
    }
    assert_true(fabs(x[0] + x[2] - 2 * x[1]) < 0.3 && x[2] > x[0] + 500);
    assert_true(fabs(y[0] + y[2] - 2 * y[1]) < 0.3 && y[2] < y[0] - 150);
    assert_int_equal(strncmp(out.data, "<!doctype html>", 15), 0);
    assert_int_equal(count_of(&out, "<title>s, 5: 100</title>"), 1);
    assert_int_equal(count_of(&out, "2 values left out"), 1);
    assert_int_equal(count_of(&out, "<td class=\"n\">100</td>"), 1);
    sonde_buf_release(&out);
    sonde_plot_page_release(&page);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void fill_hostile(struct sonde_plot_page *page)
{
    static const char *const names[] = { "<script>x</script>", "a\"b'c&d", "\x1b[31m\x01", "\xff\xfe",
                                         "\xe2\x80\xae" "abc", "" };
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", "s");
    assert_non_null(c);
    snprintf(c->title, sizeof(c->title), "<b>&\"");
    c->horizontal = c->y_zero = 1;
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        struct sonde_chart_series *s = sonde_chart_series(c, names[i]);
        s->mark = SONDE_MARK_BAR;
        const int name = sonde_chart_name(c, names[i]);
        assert_int_equal(sonde_chart_add(c, s, name, 0.25 * (double)i, NAN, NAN, names[i]), 0);
    }
}

static void hostile(void **state)
{
    (void)state;
    struct sonde_plot_page page = { .title = "</title><script>" };
    struct sonde_buf out;
    fill_hostile(&page);
    page_write(&page, SONDE_PLOT_HTML, SONDE_THEME_AUTO, &out);
    assert_int_equal(count_of(&out, "<script>"), 1); /* its own */
    assert_int_equal(count_of(&out, "<b>"), 0);
    assert_null(memchr(out.data, 0x1b, out.len));
    assert_null(memchr(out.data, 0xff, out.len));
    assert_int_equal(count_of(&out, "\xe2\x80\xae"), 0);
    assert_true(count_of(&out, "a&quot;b&#39;c&amp;d") > 1);
    assert_int_equal(count_of(&out, "prefers-color-scheme:dark"), 2);
    sonde_buf_release(&out);
    page_write(&page, SONDE_PLOT_SVG, SONDE_THEME_DARK, &out);
    assert_int_equal(count_of(&out, "prefers-color-scheme"), 0);
    assert_int_equal(count_of(&out, "#171b22"), 2); /* the dark card: filling and line */
    sonde_buf_release(&out);
    page_write(&page, SONDE_PLOT_PNG, SONDE_THEME_DARK, &out);
    assert_memory_equal(out.data, "\x89PNG\r\n\x1a\n", 8);
    sonde_buf_release(&out);
    page_write(&page, SONDE_PLOT_PDF, SONDE_THEME_LIGHT, &out);
    assert_memory_equal(out.data, "%PDF-", 5);
    sonde_buf_release(&out);
    sonde_plot_page_release(&page);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* What is cut ends in an ellipsis, is no wider than it may be, and is whole for who points at it. */
static void cut(void **state)
{
    (void)state;
    struct sonde_buf out;
    struct sonde_canvas_svg svg;
    char name[400];
    memset(name, 'W', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    sonde_buf_init(&out, 1 << 20);
    assert_int_equal(sonde_canvas_svg_begin(&svg, &out, 100, 100, SONDE_THEME_LIGHT, "t"), 0);
    const struct sonde_canvas_text t = { .size = 10, .ink = SONDE_INK_TEXT };
    const double w = sonde_canvas_write(&svg.canvas, &t, 60, name);
    assert_true(w <= 60 && w > 40);
    assert_int_equal(count_of(&out, "W…<title>WWW"), 1);
    assert_true(sonde_canvas_write(&svg.canvas, &t, 60, "שלום") < 60);
    assert_true(sonde_canvas_write(&svg.canvas, &t, 1, "é") >= 0);
    const int lines = sonde_canvas_write_lines(&svg.canvas, &t, 60, 12, 0, "one two three four five");
    assert_true(lines > 1 && lines < 6);
    sonde_canvas_svg_end(&svg);
    sonde_buf_release(&out);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void values(void **state)
{
    (void)state;
    static const struct { double v; const char *unit, *is; } cases[] = {
        { 0.0123, "s", "12.3 ms" },    { 1536, "bytes", "1.50 KiB" }, { 12345, "1/s", "12.3k/s" },
        { 2048, "bytes/s", "2.00 KiB/s" }, { 0.5, "share", "50.0 %" }, { 0.00123, "", "0.00123" },
        { 2.71, "ratio", "2.71" },     { NAN, "", "–" },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        char text[SONDE_CHART_VALUE_BYTES];
        assert_string_equal(sonde_chart_value(text, cases[i].v, cases[i].unit), cases[i].is);
    }
    assert_int_equal(sonde_plot_format_of("a.b/c.png"), SONDE_PLOT_PNG);
    assert_int_equal(sonde_plot_format_of("a.png/c"), -1);
    assert_int_equal(sonde_plot_format_of("x.gif"), -1);
}

/* Areas that are stacked stand on each other, bars at names alike. */
static void stacked(void **state)
{
    (void)state;
    struct sonde_plot_page page = { .title = "" };
    struct sonde_buf out;
    for (int kind = 0; kind < 2; kind++) {
        struct sonde_chart *c = sonde_plot_page_chart(&page, kind ? "name" : "", "");
        c->stacked = c->y_zero = 1;
        for (int k = 0; k < 2; k++) {
            struct sonde_chart_series *s = sonde_chart_series(c, k ? "b" : "a");
            s->mark = kind ? SONDE_MARK_BAR : SONDE_MARK_AREA;
            for (int i = 0; i < 3; i++) {
                const int x = kind ? sonde_chart_name(c, i ? "p" : "q") : i;
                if (!kind || i < 2) sonde_chart_add(c, s, x, 10 + i, NAN, NAN, NULL);
            }
        }
    }
    page_write(&page, SONDE_PLOT_SVG, SONDE_THEME_LIGHT, &out);
    assert_int_equal(count_of(&out, "<rect") - 3, 4 + 4); /* page and cards; bars and legends */
    sonde_buf_release(&out);
    sonde_plot_page_release(&page);
}

static void documents(void **state)
{
    (void)state;
    static const struct sonde_column columns[] = { { .title = "NAME" },
                                                   { .title = "VALUE", .align = SONDE_RIGHT } };
    struct sonde_plot_page page = { .title = "" };
    struct sonde_pdf *pdf;
    struct sonde_table t;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    fill_hostile(&page);
    fill_hostile(&page);
    sonde_table_init(&t, columns, 2);
    for (int i = 0; i < 200; i++) {
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "row %d of a name that is so long that it has to be cut somewhere, "
                         "since paper is only so wide and this goes on and on and on", i);
        sonde_table_cell(&t, 1, "%d", i);
    }
    assert_int_equal(sonde_pdf_create(&(struct sonde_pdf_options){ .title = "t <&>" }, &pdf, NULL),
                     0);
    sonde_pdf_heading(pdf, 1, "Heading");
    sonde_pdf_text(pdf, "A paragraph.\nWith a second line, and\xff bytes.");
    sonde_pdf_note(pdf, "");
    sonde_pdf_table(pdf, &t);
    sonde_pdf_charts(pdf, page.charts, page.count, 2);
    sonde_pdf_new_page(pdf);
    sonde_pdf_new_page(pdf);
    sonde_buf_init(&out, 1 << 24);
    assert_int_equal(sonde_pdf_finish(pdf, &out, &err), 0);
    assert_memory_equal(out.data, "%PDF-", 5);
    assert_true(out.len > 5000);
    sonde_buf_release(&out);
    sonde_table_release(&t);
    sonde_plot_page_release(&page);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Fail the 1st allocation, then the 2nd …: an error or a picture, and nothing is left behind. */
static void memory(void **state)
{
    (void)state;
    struct sonde_plot_page page = { .title = "t" };
    fill_hostile(&page);
    const int64_t live = sonde__alloc_live();
    for (uint64_t nth = 1; nth < 40; nth++) {
        const struct sonde_plot_look look = { .theme = SONDE_THEME_AUTO };
        struct sonde_err err = { "" };
        struct sonde_buf out;
        sonde_buf_init(&out, 1 << 24);
        sonde__alloc_fail_nth(nth);
        const int rc = sonde_plot_page_write(&page, SONDE_PLOT_HTML, &look, &out, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && err.text[0]));
        sonde_buf_release(&out);
        assert_int_equal(sonde__alloc_live(), live);
    }
    sonde_plot_page_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places), cmocka_unit_test(hostile), cmocka_unit_test(cut),
        cmocka_unit_test(values), cmocka_unit_test(stacked), cmocka_unit_test(documents),
        cmocka_unit_test(memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sonde_canvas_forget_fonts();
    return failed;
}
