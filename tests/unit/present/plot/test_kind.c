/* Kinds of pictures: what each draws of data whose figures are known, data files that are read and
 * written alike, and files that are not what they should be. */
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
#include "base/json.h"
#include "present/plot/data_file.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

static void data_read(const char *text, int role, struct sonde_plot_data *d)
{
    struct sonde_err err = { "" };
    *d = (struct sonde_plot_data){ .kind = "" };
    if (sonde_plot_file_read(text, strlen(text), "f", role, "", d, &err)) fail_msg("%s", err.text);
}

static void data_draw(const char *kind, const struct sonde_plot_data *d,
                      struct sonde_plot_page *page, int empty_wanted)
{
    int empty;
    *page = (struct sonde_plot_page){ .title = "" };
    assert_int_equal(sonde_plot_kind_draw(sonde_plot_kind_find(kind), d, page, &empty), 0);
    assert_int_equal(empty, empty_wanted);
}

static const struct sonde_chart *chart_of(const struct sonde_plot_page *p, const char *title)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!strcmp(p->charts[i].title, title)) return &p->charts[i];
    }
    fail_msg("no chart '%s'", title);
    return NULL;
}

/* Every kind has words, draws nothing of nothing, and says what is missing. */
static void empty(void **state)
{
    (void)state;
    const struct sonde_plot_data none = { .kind = "" };
    for (size_t i = 0; sonde_plot_kinds[i]; i++) {
        const struct sonde_plot_kind *k = sonde_plot_kinds[i];
        struct sonde_plot_page page;
        assert_true(k->name[0] && k->summary[0] && k->needs[0] && k->hint[0]);
        assert_ptr_equal(sonde_plot_kind_find(k->name), k);
        data_draw(k->name, &none, &page, 1);
        assert_int_equal(page.count, 1);
        assert_non_null(strstr(page.charts[0].missing, k->needs));
        sonde_plot_page_release(&page);
    }
    assert_null(sonde_plot_kind_find("pie"));
}

static void training(void **state)
{
    (void)state;
    struct sonde_plot_data d;
    struct sonde_plot_page page;
    data_read("{\"series\":[{\"name\":\"train_loss\",\"x\":[1,2,3],\"y\":[3,2,1]},"
              "{\"name\":\"val_loss\",\"x\":[1,2,3],\"y\":[3.5,null,NaN]},"
              "{\"name\":\"val_acc\",\"x\":[1,2],\"y\":[0.5,0.75]},"
              "{\"name\":\"lr\",\"x\":[1,2],\"y\":[0.1,0.001]},"
              "{\"name\":\"seconds\",\"x\":[1,2],\"y\":[30,31]},"
              "{\"name\":\"norm\",\"x\":[1,2],\"y\":[7,8]}],"
              "\"kind\":\"training\",\"sonde_plot\":1}", -1, &d);
    data_draw("training", &d, &page, 0);
    assert_int_equal(page.count, 5);
    const struct sonde_chart *loss = chart_of(&page, "loss");
    assert_int_equal(loss->series_count, 2);
    assert_int_equal(loss->series[0].count, 3);
    assert_int_equal(loss->series[1].count, 1);
    assert_int_equal(loss->not_finite, 1); /* NaN was measured, null was not */
    assert_string_equal(chart_of(&page, "accuracy")->y_unit, "share");
    assert_true(chart_of(&page, "learning rate")->y_log);
    assert_string_equal(chart_of(&page, "time of an epoch")->y_unit, "s");
    assert_true(chart_of(&page, "norm")->series[0].points[1].y == 8);
    sonde_plot_page_release(&page);
    sonde_plot_data_release(&d);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* 1 … 100 ms: percentiles are the values themselves, bars add up to all. */
static void latency(void **state)
{
    (void)state;
    struct sonde_plot_data d = { .kind = "" };
    struct sonde_plot_page page;
    struct sonde_plot_series *s = sonde_plot_series_add(&d, SONDE_ROLE_LATENCY, "", "t");
    for (int i = 100; i > 0; i--) sonde_plot_xy_add(&d, s, 1.7e9 + i, i * 1e-3);
    data_draw("latency", &d, &page, 0);
    const struct sonde_chart *c = chart_of(&page, "t");
    double sum = 0;
    for (size_t i = 0; i < c->series[0].count; i++) sum += c->series[0].points[i].y;
    assert_true(sum == 100);
    assert_int_equal(c->rule_count, 3);
    assert_true(fabs(c->rules[0].at - 0.050) < 1e-12 && fabs(c->rules[1].at - 0.095) < 1e-12 &&
                fabs(c->rules[2].at - 0.099) < 1e-12);
    assert_string_equal(c->rules[1].label, "p95 95.0 ms");
    const struct sonde_chart *all = chart_of(&page, "cumulative share");
    assert_int_equal(all->series[0].count, 100);
    assert_true(fabs(all->series[0].points[49].y - 0.5) < 1e-12);
    sonde_plot_page_release(&page);
    data_draw("heatmap", &d, &page, 0);
    uint64_t cells = 0;
    for (size_t i = 0; i < page.charts[0].cell_count; i++) cells += page.charts[0].cells[i].count;
    assert_int_equal(cells, 100);
    sonde_plot_page_release(&page);
    sonde_plot_data_release(&d);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void batch(void **state)
{
    (void)state;
    struct sonde_plot_data d;
    struct sonde_plot_page page;
    /* A series of one size whose sum is known better than its buckets say, and one of two sizes. */
    data_read("{\"sonde_plot\":1,\"kind\":\"batch\",\"series\":["
              "{\"name\":\"m\",\"x\":[8],\"y\":[0.11],\"weight\":[10],\"sum\":1},"
              "{\"name\":\"m\",\"x\":[1,1,4],\"y\":[0.01,0.03,0.04]}]}", -1, &d);
    data_draw("batch", &d, &page, 0);
    const struct sonde_chart *time = chart_of(&page, "time of a batch");
    const struct sonde_chart *items = chart_of(&page, "items per second");
    assert_int_equal(time->name_count, 3);
    assert_string_equal(time->names[0], "1");
    assert_string_equal(time->names[2], "8");
    assert_int_equal(items->series_count, 1);
    assert_true(fabs(items->series[0].points[0].y - 2 / 0.04) < 1e-9);
    assert_true(fabs(items->series[0].points[1].y - 100) < 1e-9);
    assert_true(fabs(items->series[0].points[2].y - 80) < 1e-9);
    sonde_plot_page_release(&page);
    sonde_plot_data_release(&d);
}

/* Totals count, not what was seen of them over time as well. */
static void cache(void **state)
{
    (void)state;
    struct sonde_plot_data d;
    struct sonde_plot_page page;
    data_read("{\"sonde_plot\":1,\"series\":[{\"role\":\"hits\",\"name\":\"l1\",\"y\":[30]},"
              "{\"role\":\"misses\",\"name\":\"l1\",\"y\":[10]},"
              "{\"role\":\"hits\",\"name\":\"l1\",\"x\":[1,2],\"y\":[3,1]},"
              "{\"role\":\"misses\",\"name\":\"l1\",\"x\":[1,2],\"y\":[1,0]},"
              "{\"role\":\"misses\",\"name\":\"l2\",\"x\":[1,2],\"y\":[4,5]}]}", -1, &d);
    data_draw("cache", &d, &page, 0);
    const struct sonde_chart *ratio = chart_of(&page, "hit ratio by tier");
    assert_true(ratio->series[0].points[0].y == 0.75 && ratio->series[0].points[1].y == 0);
    const struct sonde_chart *all = chart_of(&page, "look-ups by tier");
    assert_true(all->series[0].points[0].y == 30 && all->series[1].points[1].y == 9);
    const struct sonde_chart *over = chart_of(&page, "hit ratio over time");
    assert_true(over->series[0].points[0].y == 0.75 && over->series[0].points[1].y == 1);
    sonde_plot_page_release(&page);
    sonde_plot_data_release(&d);
}

/* The curve of a law is drawn where it is: contention 5 %, coherence 0.1 %. */
static void scaling(void **state)
{
    (void)state;
    struct sonde_plot_data d = { .kind = "" };
    struct sonde_plot_page page;
    struct sonde_plot_series *s = sonde_plot_series_add(&d, SONDE_ROLE_SCALING, "", "x");
    for (int n = 1; n <= 32; n *= 2) {
        sonde_plot_xy_add(&d, s, n, 100.0 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1)));
    }
    data_draw("scaling", &d, &page, 0);
    const struct sonde_chart *c = &page.charts[0];
    assert_int_equal(c->series_count, 2);
    assert_int_equal(c->series[1].mark, SONDE_MARK_DASHED);
    for (size_t i = 0; i < c->series[1].count; i++) {
        const double n = c->series[1].points[i].x;
        const double law = 100.0 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1));
        assert_true(fabs(c->series[1].points[i].y - law) < 1e-6 * law);
    }
    assert_non_null(strstr(c->note, "contention 5.00 %, coherence 0.100 %, most with 30.8"));
    sonde_plot_page_release(&page);
    sonde_plot_data_release(&d);
}

/* What is written is read as the same. */
static void round_trip(void **state)
{
    (void)state;
    struct sonde_plot_data a, b;
    struct sonde_buf text[2];
    data_read("{\"sonde_plot\":1,\"kind\":\"compare\",\"title\":\"t\\u0000x\",\"note\":\"n\",\"more\":[1],"
              "\"series\":[{\"name\":\"f\",\"group\":\"g\",\"unit\":\"1/s\",\"y\":[1.1],\"low\":[1],"
              "\"high\":[1.25],\"better\":1},{\"role\":\"latency\",\"name\":\"l\",\"x\":[5,6],\"y\":[1,2],"
              "\"weight\":[1,3],\"failed\":[0,1],\"sum\":7.5}]}", -1, &a);
    for (int i = 0; i < 2; i++) {
        sonde_buf_init(&text[i], 1 << 16);
        sonde_json_open(&text[i], '{');
        sonde_json_u64(&text[i], "sonde_plot", 1);
        sonde_plot_file_write(i ? &b : &a, &text[i]);
        sonde_json_close(&text[i], '}');
        if (!i) data_read(text[0].data, -1, &b);
    }
    assert_string_equal(text[0].data, text[1].data);
    assert_true(b.series[1].values[1].failed && b.series[1].sum == 7.5 && b.series[0].better == 1);
    sonde_plot_data_keep(&b, "F*");
    assert_int_equal(b.count, 1);
    for (int i = 0; i < 2; i++) sonde_buf_release(&text[i]);
    sonde_plot_data_release(&a);
    sonde_plot_data_release(&b);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void bad_files(void **state)
{
    (void)state;
    static const struct { const char *text, *says; int code; } cases[] = {
        { "{\"sonde_plot\":2,\"series\":[]}", "is not 1", SONDE_EVERSION },
        { "{\"sonde_plot\":1}", "without \"series\"", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[{\"y\":[1]}]}", "has no role", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[{\"role\":\"pie\",\"y\":[1]}]}", "'pie'", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[{\"role\":\"rate\",\"unit\":\"furlong\",\"y\":[1]}]}",
          "'furlong'", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[{\"role\":\"rate\",\"name\":\"n\",\"x\":[1,2],\"y\":[1]}]}",
          "1 values in y and 2 in x", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[{\"role\":\"rate\",\"y\":[\"1\"]}]}", "a number was expected",
          SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[{\"role\":\"rate\",\"y\":[1]", "", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":[]} x", "more behind", SONDE_EFORMAT },
        { "{\"sonde_plot\":1,\"series\":3}", "", SONDE_EFORMAT },
        { "", "", SONDE_EFORMAT },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct sonde_plot_data d = { .kind = "" };
        struct sonde_err err = { "" };
        const int rc = sonde_plot_file_read(cases[i].text, strlen(cases[i].text), "a file", -1, "",
                                            &d, &err);
        assert_int_equal(rc, cases[i].code);
        assert_non_null(strstr(err.text, "a file"));
        assert_non_null(strstr(err.text, cases[i].says));
        sonde_plot_data_release(&d);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty),   cmocka_unit_test(training),   cmocka_unit_test(latency),
        cmocka_unit_test(batch),   cmocka_unit_test(cache),      cmocka_unit_test(scaling),
        cmocka_unit_test(round_trip), cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
