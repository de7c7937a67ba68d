/* latency.c - how long things took: a histogram for each, with percentiles, and the cumulative
 * shares of all. Times that differ by factors are on a logarithmic axis. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

enum { LATENCY_SHOWN = 8, LATENCY_BINS = 40, LATENCY_STEPS = 400 };

struct latency_sorted {
    const struct sonde_plot_series *series;
    struct sonde_plot_value *values; /* owned */
    size_t count;
    double weight, mean;
};

/* Spans that are counted as an operation too are drawn once: the operation's are all of them. */
static int latency_is_twice(const struct sonde_plot_data *d, const struct sonde_plot_series *s)
{
    const size_t len = strlen(s->name), tail = strlen(SONDE_PLOT_SPANS);
    if (len <= tail || strcmp(s->name + len - tail, SONDE_PLOT_SPANS) != 0) return 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct sonde_plot_series *o = &d->series[i];
        if (o->role == s->role && o->count && strlen(o->name) == len - tail &&
            !strncmp(o->name, s->name, len - tail) && !strcmp(o->group, s->group)) return 1;
    }
    return 0;
}

/* Bins of equal ratio, or of equal width where values are close together or reach 0. */
static int latency_bins(struct sonde_chart *c, const struct latency_sorted *l)
{
    struct sonde_chart_series *s = sonde_chart_series(c, "");
    double bins[LATENCY_BINS] = { 0 };
    double low = l->values[0].y, high = l->values[l->count - 1].y;
    c->x_log = low > 0 && high > 10 * low;
    const int one = !(high > low);
    if (one) { /* a bar around it */
        high = low > 0 ? low * 1.05 : low + 1;
        low = low > 0 ? low * 0.95 : low - 1;
    }
    const double from = c->x_log ? log(low) : low, to = c->x_log ? log(high) : high;
    const size_t count = one ? 1 : l->weight < 60 ? 16 : LATENCY_BINS;
    const double width = (to - from) / (double)count;
    for (size_t i = 0; i < l->count; i++) {
        const double at = c->x_log ? log(l->values[i].y) : l->values[i].y;
        const size_t bin = (size_t)fmin((double)count - 1, fmax(0, (at - from) / width));
        bins[bin] += l->values[i].weight;
    }
    int rc = 0;
    s->mark = SONDE_MARK_BAR;
    for (size_t i = 0; i < count && !rc; i++) {
        const double a = from + width * (double)i, b = from + width * (double)(i + 1);
        if (!(bins[i] > 0)) continue;
        rc = sonde_chart_add_bar(c, s, c->x_log ? exp(a) : a, c->x_log ? exp(b) : b, bins[i], NULL);
    }
    return rc;
}

static int latency_histogram(const struct sonde_plot_data *d, const struct latency_sorted *l,
                             struct sonde_plot_page *page)
{
    static const struct { double q; const char *name; } marks[] = {
        { 0.5, "p50" }, { 0.95, "p95" }, { 0.99, "p99" } };
    char label[SONDE_PLOT_LABEL_BYTES], v[2][SONDE_CHART_VALUE_BYTES], rule[64];
    struct sonde_chart *c = sonde_plot_page_chart(page, l->series->unit, "");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%.150s", sonde_plot_label(d, l->series, label));
    snprintf(c->note, sizeof(c->note), "%.6g value%s, mean %s, longest %s", l->weight,
             l->weight == 1 ? "" : "s",
             sonde_chart_value(v[0], l->mean, l->series->unit),
             sonde_chart_value(v[1], l->values[l->count - 1].y, l->series->unit));
    snprintf(c->y_title, sizeof(c->y_title), "how many");
    c->y_zero = 1;
    c->not_finite = sonde_plot_not_finite(l->series);
    const int rc = latency_bins(c, l);
    for (size_t i = 0; i < SONDE_COUNT(marks); i++) {
        const double q = sonde_plot_quantile(l->values, l->count, marks[i].q);
        snprintf(rule, sizeof(rule), "%s %s", marks[i].name,
                 sonde_chart_value(v[0], q, l->series->unit));
        sonde_chart_rule(c, 1, q, rule);
    }
    return rc;
}

/* A step for every value, or where there are many for every share. */
static int latency_shares(struct sonde_chart *c, struct sonde_chart_series *s,
                          const struct latency_sorted *l)
{
    double below = 0, next = 0;
    int rc = 0;
    for (size_t i = 0; i < l->count && !rc; i++) {
        below += l->values[i].weight;
        const double share = fmin(1, below / l->weight);
        const int last = i + 1 == l->count || l->values[i + 1].y > l->values[i].y;
        if (!last || (share < next && i + 1 < l->count)) continue;
        if (c->x_log && l->values[i].y <= 0) continue;
        rc = sonde_chart_add(c, s, l->values[i].y, share, NAN, NAN, NULL);
        if (l->count > LATENCY_STEPS) next = share + 1.0 / LATENCY_STEPS;
    }
    return rc;
}

static int latency_cumulative(const struct sonde_plot_data *d, const struct latency_sorted *all,
                              size_t count, struct sonde_plot_page *page)
{
    double low = INFINITY, high = 0;
    int rc = 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, all[0].series->unit, "share");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "cumulative share");
    snprintf(c->y_title, sizeof(c->y_title), "share that took at most so long");
    c->y_zero = c->y_one = 1;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < all[i].count; k++) {
            if (all[i].values[k].y > 0) low = fmin(low, all[i].values[k].y);
        }
        high = fmax(high, all[i].values[all[i].count - 1].y);
    }
    c->x_log = high > 10 * low;
    for (size_t i = 0; i < count && !rc; i++) {
        char label[SONDE_PLOT_LABEL_BYTES];
        struct sonde_chart_series *s = sonde_chart_series(c, sonde_plot_label(d, all[i].series,
                                                                             label));
        if (!s) break;
        s->mark = SONDE_MARK_STEP;
        rc = latency_shares(c, s, &all[i]);
    }
    sonde_chart_rule(c, 0, 0.5, "p50");
    sonde_chart_rule(c, 0, 0.95, "p95");
    return rc;
}

/* Of one name, those of all groups beside each other: the runs that are compared. */
static size_t latency_of_name(const struct sonde_plot_data *d, const char *name,
                              struct latency_sorted *out)
{
    const struct sonde_plot_series *s;
    size_t count = 0;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_LATENCY, &at)) != NULL;) {
        if (strcmp(s->name, name) != 0 || latency_is_twice(d, s)) continue;
        struct latency_sorted l = { .series = s, .weight = sonde_plot_weight(s) };
        l.values = sonde_plot_sorted(s, &l.count);
        if (!l.count) continue;
        l.mean = sonde_plot_sum(s) / l.weight;
        out[count++] = l;
    }
    return count;
}

static int latency_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    struct latency_sorted *all = d->count ? sonde__calloc(d->count, sizeof(*all)) : NULL;
    const struct sonde_plot_series *s;
    size_t count = 0;
    int rc = 0;
    if (!all) return d->count ? SONDE_ENOMEM : 0;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_LATENCY, &at)) != NULL;) {
        int known = 0;
        for (size_t i = 0; i < count; i++) known |= !strcmp(all[i].series->name, s->name);
        if (!known) count += latency_of_name(d, s->name, all + count);
    }
    const size_t shown = count < LATENCY_SHOWN ? count : LATENCY_SHOWN;
    for (size_t i = 0; i < shown && !rc; i++) rc = latency_histogram(d, &all[i], page);
    if (!rc && shown) rc = latency_cumulative(d, all, shown, page);
    if (!rc && count > shown && !page->note[0]) {
        snprintf(page->note, sizeof(page->note), "%zu of %zu are shown; --of NAME draws others",
                 shown, count);
    }
    for (size_t i = 0; i < count; i++) sonde__free(all[i].values);
    sonde__free(all);
    return rc;
}

const struct sonde_plot_kind sonde_plot_latency = {
    .name = "latency",
    .summary = "histogram and cumulative share of times, with p50, p95 and p99",
    .needs = "requests, operations or spans",
    .hint = "Record a program that uses sonde.h or sonde/inference.h, or an inference server "
            "(`sonde help record`), or give a data file with series of the role latency "
            "(docs/plot.md).",
    .role = SONDE_ROLE_LATENCY,
    .draw = latency_draw,
};
