/* dataset.c - what loading datasets took, how much it was, and how fast. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

static struct sonde_chart *dataset_chart(struct sonde_plot_page *page, const char *unit,
                                         const char *title)
{
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", unit);
    if (!c) return NULL;
    snprintf(c->title, sizeof(c->title), "%s", title);
    c->horizontal = c->y_zero = 1;
    sonde_chart_series(c, "")->mark = SONDE_MARK_BAR;
    return c;
}

static int dataset_times(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    int rc = 0;
    struct sonde_chart *c = dataset_chart(page, "s", "time of a load");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->note, sizeof(c->note), "median of all loads");
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_LOAD, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES], text[2 * SONDE_CHART_VALUE_BYTES + 32],
            v[2][SONDE_CHART_VALUE_BYTES];
        size_t count;
        struct sonde_plot_value *sorted = sonde_plot_sorted(s, &count);
        const int name = count ? sonde_chart_name(c, sonde_plot_label(d, s, label)) : -1;
        if (name >= 0) {
            const double p50 = sonde_plot_quantile(sorted, count, 0.5), n = sonde_plot_weight(s);
            sonde_chart_value(v[0], p50, "s");
            if (n > 1) {
                snprintf(text, sizeof(text), "%s, p95 %s, %.0f loads", v[0],
                         sonde_chart_value(v[1], sonde_plot_quantile(sorted, count, 0.95), "s"), n);
            } else {
                snprintf(text, sizeof(text), "%s, 1 load", v[0]);
            }
            rc = sonde_chart_add(c, &c->series[0], name, p50, NAN, NAN, text);
        }
        sonde__free(sorted);
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

/* Seconds that the loads of the same dataset took. */
static double dataset_seconds(const struct sonde_plot_data *d, const struct sonde_plot_series *of)
{
    const struct sonde_plot_series *s;
    double sum = 0;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_LOAD, &at)) != NULL;) {
        if (!strcmp(s->name, of->name) && !strcmp(s->group, of->group)) sum += sonde_plot_sum(s);
    }
    return sum;
}

static int dataset_amounts(const struct sonde_plot_data *d, int speed, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    const char *unit = speed ? "bytes/s" : "bytes";
    int rc = 0;
    struct sonde_chart *c = dataset_chart(page, unit, speed ? "bytes per second of loading"
                                                            : "bytes loaded");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_BYTES, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES], v[SONDE_CHART_VALUE_BYTES];
        const double seconds = dataset_seconds(d, s);
        if (!(sonde_plot_weight(s) > 0) || (speed && !(seconds > 0))) continue;
        const int name = sonde_chart_name(c, sonde_plot_label(d, s, label));
        if (name < 0) continue;
        const double y = sonde_plot_sum(s) / (speed ? seconds : 1);
        rc = sonde_chart_add(c, &c->series[0], name, y, NAN, NAN, sonde_chart_value(v, y, unit));
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int dataset_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    int rc = dataset_times(d, page);
    if (!rc) rc = dataset_amounts(d, 0, page);
    return rc ? rc : dataset_amounts(d, 1, page);
}

const struct sonde_plot_kind sonde_plot_dataset = {
    .name = "dataset",
    .summary = "load times, bytes and bytes per second by dataset",
    .needs = "loads of datasets",
    .hint = "Record them with sonde/ml.h or sonde.ml (docs/ml.md), or give a data file with series "
            "of the roles load and bytes (docs/plot.md).",
    .role = SONDE_ROLE_LOAD,
    .draw = dataset_draw,
};
