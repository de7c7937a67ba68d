/* batch.c - what a batch size costs and brings. Sizes are names on the axis, in order: they usually
 * double, and each is measured for itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

struct batch_sizes { double *sizes; size_t count; };

static int batch_by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All sizes of all series, each once. */
static int batch_sizes_of(const struct sonde_plot_data *d, struct batch_sizes *out)
{
    const struct sonde_plot_series *s;
    size_t room = 0, n = 0;
    *out = (struct batch_sizes){ NULL, 0 };
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_BATCH, &at)) != NULL;) room += s->count;
    if (!room) return 0;
    double *sizes = sonde__calloc(room, sizeof(*sizes));
    if (!sizes) return SONDE_ENOMEM;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_BATCH, &at)) != NULL;) {
        for (size_t i = 0; i < s->count; i++) {
            if (isfinite(s->values[i].x) && isfinite(s->values[i].y)) sizes[n++] = s->values[i].x;
        }
    }
    qsort(sizes, n, sizeof(*sizes), batch_by_size);
    for (size_t i = 0; i < n; i++) {
        if (!i || sizes[i] > sizes[out->count - 1]) sizes[out->count++] = sizes[i];
    }
    out->sizes = sizes;
    return 0;
}

/* The values of one size of a model, alone, from all series of it. */
static int batch_part(const struct sonde_plot_data *d, const struct sonde_plot_series *of,
                      double size, struct sonde_plot_series *out)
{
    const struct sonde_plot_series *s;
    size_t room = 0;
    double sum = 0;
    *out = (struct sonde_plot_series){ .role = of->role, .unit = of->unit, .sum = NAN };
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_BATCH, &at)) != NULL;) room += s->count;
    out->values = sonde__calloc(room, sizeof(*out->values));
    if (!out->values) return SONDE_ENOMEM;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_BATCH, &at)) != NULL;) {
        if (strcmp(s->name, of->name) != 0 || strcmp(s->group, of->group) != 0) continue;
        struct sonde_plot_series its = { .values = out->values + out->count, .sum = NAN };
        for (size_t i = 0; i < s->count; i++) {
            if (s->values[i].x == size) its.values[its.count++] = s->values[i];
        }
        if (its.count == s->count) its.sum = s->sum; /* all of it is of this size */
        sum += sonde_plot_sum(&its);
        out->count += its.count;
    }
    out->sum = sum;
    return 0;
}

/* It is the first of its model. */
static int batch_first(const struct sonde_plot_data *d, const struct sonde_plot_series *s)
{
    for (const struct sonde_plot_series *e = d->series; e < s; e++) {
        if (e->role == SONDE_ROLE_BATCH && e->count && !strcmp(e->name, s->name) &&
            !strcmp(e->group, s->group)) return 0;
    }
    return 1;
}

static struct sonde_chart *batch_chart(struct sonde_plot_page *page, const struct batch_sizes *b,
                                       const char *title, const char *unit)
{
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", unit);
    char name[32];
    if (!c) return NULL;
    snprintf(c->title, sizeof(c->title), "%s", title);
    snprintf(c->x_title, sizeof(c->x_title), "batch size");
    c->y_zero = 1;
    for (size_t i = 0; i < b->count; i++) {
        snprintf(name, sizeof(name), "%g", b->sizes[i]);
        sonde_chart_name(c, name);
    }
    return c;
}

static int batch_latency_add(struct sonde_chart *c, const struct sonde_plot_data *d,
                             const struct batch_sizes *b, const struct sonde_plot_series *s,
                             double q, const char *label, int color, enum sonde_chart_mark mark)
{
    struct sonde_chart_series *to = sonde_chart_series(c, label);
    int rc = 0;
    if (!to) return 0;
    to->mark = mark;
    to->color = color;
    for (size_t i = 0; i < b->count && i < SONDE_CHART_NAMES_MAX && !rc; i++) {
        struct sonde_plot_series part;
        size_t count;
        rc = batch_part(d, s, b->sizes[i], &part);
        if (rc) break;
        struct sonde_plot_value *sorted = sonde_plot_sorted(&part, &count);
        if (count) {
            rc = sonde_chart_add(c, to, (double)i, sonde_plot_quantile(sorted, count, q), NAN, NAN,
                                 NULL);
        }
        sonde__free(sorted);
        sonde__free(part.values);
    }
    return rc;
}

static int batch_latency(const struct sonde_plot_data *d, const struct batch_sizes *b,
                         struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    struct sonde_chart *c = batch_chart(page, b, "time of a batch", "s");
    int rc = 0;
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->note, sizeof(c->note), "p50; dashed: p95");
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_BATCH, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES];
        if (!batch_first(d, s)) continue;
        rc = batch_latency_add(c, d, b, s, 0.5, sonde_plot_label(d, s, label), 0, SONDE_MARK_LINE);
        const int color = (int)c->series_count;
        if (!rc) rc = batch_latency_add(c, d, b, s, 0.95, "", color, SONDE_MARK_DASHED);
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int batch_throughput(const struct sonde_plot_data *d, const struct batch_sizes *b,
                            struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    struct sonde_chart *c = batch_chart(page, b, "items per second", "1/s");
    int rc = 0;
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->note, sizeof(c->note), "while such a batch was computed");
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_BATCH, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES];
        if (!batch_first(d, s)) continue;
        struct sonde_chart_series *to = sonde_chart_series(c, sonde_plot_label(d, s, label));
        if (!to) break;
        to->mark = SONDE_MARK_BAR;
        for (size_t i = 0; i < b->count && i < SONDE_CHART_NAMES_MAX && !rc; i++) {
            struct sonde_plot_series part;
            rc = batch_part(d, s, b->sizes[i], &part);
            if (rc) break;
            const double weight = sonde_plot_weight(&part), sum = sonde_plot_sum(&part);
            sonde__free(part.values);
            if (weight > 0 && sum > 0) {
                rc = sonde_chart_add(c, to, (double)i, b->sizes[i] * weight / sum, NAN, NAN, NULL);
            }
        }
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int batch_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    struct batch_sizes b;
    int rc = batch_sizes_of(d, &b);
    if (!rc && b.count) rc = batch_latency(d, &b, page);
    if (!rc && b.count) rc = batch_throughput(d, &b, page);
    sonde__free(b.sizes);
    return rc;
}

const struct sonde_plot_kind sonde_plot_batch = {
    .name = "batch",
    .summary = "time and items per second by batch size",
    .needs = "inference by batch size",
    .hint =
        "Record it with sonde/ml.h or sonde.ml (docs/ml.md), or give a data file with series of "
        "the role batch (docs/plot.md).",
    .role = SONDE_ROLE_BATCH,
    .draw = batch_draw,
};
