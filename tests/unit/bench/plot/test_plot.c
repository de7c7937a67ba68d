/* Results as pictures: what is drawn for which kind, names
 * that are markup stay text, and what is no number is left out. */
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
#include "bench/plot/plot.h"
#include "sonde/sonde.h"

static struct sonde_bench_result *plot_run(struct sonde_bench_saved *s, const char *kind)
{
    struct sonde_bench_result *r = SONDE_ARRAY_ADD(s->runs, s->count, s->cap);
    assert_non_null(r);
    sonde_bench_result_init(r, kind, "x");
    return r;
}

static size_t count_of(const struct sonde_buf *b, const char *what)
{
    size_t n = 0;
    for (const char *at = b->data; (at = strstr(at, what)) != NULL; at++) n++;
    return n;
}

static void draw(const struct sonde_bench_saved *s, const char *name, struct sonde_buf *out)
{
    const struct sonde_bench_plot_input input = { name, s };
    struct sonde_plot_page p = { .title = "" };
    struct sonde_err err = { "" };
    if (sonde_bench_plot_make(&input, 1, NULL, 0, &p, &err)) fail_msg("%s", err.text);
    sonde_buf_init(out, 1 << 22);
    const struct sonde_plot_look look = { .theme = SONDE_THEME_AUTO };
    assert_int_equal(sonde_plot_page_write(&p, SONDE_PLOT_SVG, &look, out, &err), 0);
    sonde_buf_putc(out, '\0');
    assert_int_equal(out->error, 0);
    sonde_plot_page_release(&p);
}

static void figures(void **state)
{
    (void)state;
    struct sonde_bench_saved s = { 0 };
    struct sonde_buf out;
    static const double parts[] = { 1, 2, NAN, 3 };
    for (int i = 0; i < 3; i++) {
        struct sonde_bench_result *r = plot_run(&s, "cmd");
        r->time_s = 1700000000 + 86400.0 * i;
        struct sonde_bench_figure *f = sonde_bench_figure_add(r, "<b>wall</b>", "s", -1);
        assert_int_equal(sonde_bench_figure_parts(f, parts, 4), 0);
        f->value = 2 + i;
        f->low = 1;
        f->high = 4 + i;
        sonde_bench_figure_add(r, "unknown", "s", -1); /* no value: not drawn */
    }
    draw(&s, "n&me", &out);
    /* Three parts that are numbers and a mean, then three runs. */
    assert_int_equal(count_of(&out, "<circle"), 4 + 3);
    assert_int_equal(count_of(&out, "<b>"), 0);
    assert_int_equal(count_of(&out, "&lt;b&gt;wall"), 2);
    assert_int_equal(count_of(&out, ">n&amp;me</text>"), 2);
    assert_int_equal(count_of(&out, "nan"), 0);
    assert_int_equal(count_of(&out, "inf"), 0);
    assert_int_equal(count_of(&out, "prefers-color-scheme"), 1);
    sonde_buf_release(&out);
    sonde_bench_saved_release(&s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void kinds(void **state)
{
    (void)state;
    static const struct { const char *extra; size_t circles, charts; } cases[] = {
        { "\"commands\":[{\"name\":\"c\",\"parallel\":[{\"copies\":1,\"throughput_per_s\":10,"
          "\"wall_s\":{\"low\":0.09,\"high\":0.11}},{\"copies\":2,\"throughput_per_s\":18,"
          "\"wall_s\":{\"low\":0.1,\"high\":0.12}}],\"scaling\":{\"single_per_s\":{\"value\":10},"
          "\"contention\":{\"value\":0.1},\"coherence\":{\"value\":0}}}]", 2, 1 },
        { "\"sweep\":{\"by\":\"rate\",\"points\":[{\"load\":1,\"ttft_p50_s\":0.1,"
          "\"requests_per_s\":1},{\"load\":2,\"ttft_p50_s\":0.2,\"requests_per_s\":null}]}", 3, 2 },
        { "\"rows\":[{\"codec\":\"zstd\",\"level\":3,\"ratio\":2.5,\"compress\":{\"front\":true,"
          "\"best_bytes_per_s\":1e8}},{\"codec\":7,\"ratio\":\"x\",\"compress\":3}]", 1, 1 },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct sonde_bench_saved s = { 0 };
        struct sonde_buf out;
        struct sonde_bench_result *r = plot_run(&s, "any");
        sonde_buf_puts(&r->extra, cases[i].extra);
        draw(&s, "k", &out);
        assert_int_equal(count_of(&out, "<circle"), cases[i].circles);
        assert_int_equal(count_of(&out, "font-size=\"13.5\""), cases[i].charts);
        sonde_buf_release(&out);
        sonde_bench_saved_release(&s);
    }
    /* Members that are not what they should be draw nothing. */
    struct sonde_bench_saved s = { 0 };
    struct sonde_plot_page p = { .title = "" };
    struct sonde_err err = { "" };
    struct sonde_bench_result *r = plot_run(&s, "any");
    sonde_buf_puts(&r->extra, "\"commands\":3,\"sweep\":[1],\"rows\":[[]],\"find\":null");
    const struct sonde_bench_plot_input input = { "k", &s };
    assert_int_equal(sonde_bench_plot_make(&input, 1, NULL, 0, &p, &err), SONDE_EINVAL);
    const char *const none[] = { "no such" };
    assert_int_equal(sonde_bench_plot_make(&input, 1, none, 1, &p, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "no such"));
    sonde_bench_saved_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures), cmocka_unit_test(kinds),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sonde_canvas_forget_fonts();
    return failed;
}
