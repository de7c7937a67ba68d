/* workers.c - how busy workers were: the mean of each, and over time. */
#include <math.h>
#include <stdio.h>

#include "present/plot/kind.h"
#include "sonde/sonde.h"

static int workers_means(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    size_t left = 0;
    int rc = 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", "share");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    struct sonde_chart_series *to = sonde_chart_series(c, "");
    to->mark = SONDE_MARK_BAR;
    c->horizontal = c->y_zero = c->y_one = 1;
    snprintf(c->title, sizeof(c->title), "utilisation by worker");
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_WORKER, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES], v[SONDE_CHART_VALUE_BYTES];
        const double weight = sonde_plot_weight(s);
        if (!(weight > 0)) continue;
        const int name = sonde_chart_name(c, sonde_plot_label(d, s, label));
        if (name < 0) {
            left++;
            continue;
        }
        const double mean = sonde_plot_sum(s) / weight;
        rc = sonde_chart_add(c, to, name, mean, NAN, NAN, sonde_chart_value(v, mean, "share"));
    }
    if (left)
        snprintf(c->note, sizeof(c->note), "mean of the time; %zu more workers not shown", left);
    else snprintf(c->note, sizeof(c->note), "mean of the time");
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int workers_over_time(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    size_t left = 0;
    int rc = 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "time", "share");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "utilisation over time");
    c->y_zero = c->y_one = 1;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_WORKER, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES];
        if (!sonde_plot_has_x(s)) continue;
        if (c->series_count == SONDE_INK_SERIES) {
            left++;
            continue;
        }
        rc = sonde_plot_add_series(c, s, sonde_plot_label(d, s, label), SONDE_MARK_CURVE, 1);
    }
    if (left) snprintf(c->note, sizeof(c->note), "%zu more not shown: --of NAME chooses", left);
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int workers_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const int rc = workers_means(d, page);
    return rc ? rc : workers_over_time(d, page);
}

const struct sonde_plot_kind sonde_plot_workers = {
    .name = "workers",
    .summary = "utilisation by worker, and over time",
    .needs = "workers that say how busy they are",
    .hint = "Record them with sonde/ml.h or sonde.ml (docs/ml.md), or give a data file with series "
            "of the role worker (docs/plot.md).",
    .role = SONDE_ROLE_WORKER,
    .draw = workers_draw,
};
