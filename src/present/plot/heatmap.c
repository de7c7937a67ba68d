/* heatmap.c - how many of what happened at a time took how long (analyze/heatmap.h). */
#include <math.h>
#include <stdio.h>

#include "analyze/heatmap.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

enum { HEATMAP_SHOWN = 4, HEATMAP_COLUMNS = 80, HEATMAP_ROWS = 30 };

static int heatmap_cells(const struct sonde_heatmap *h, struct sonde_chart *c)
{
    int rc = 0;
    for (uint32_t column = 0; column < h->columns && !rc; column++) {
        for (uint32_t row = 0; row < h->rows && !rc; row++) {
            const struct sonde_heatmap_cell *cell = &h->cells[column * h->rows + row];
            if (!cell->count) continue;
            const double step = (double)h->step_ms * 1e-3;
            struct sonde_chart_cell to = {
                .x = (double)h->from_ms * 1e-3 + step * column, .y = h->edges[row],
                .y_end = h->edges[row + 1], .count = cell->count, .failed = cell->failed };
            to.x_end = to.x + step;
            /* The row of 0 has no lower end on a logarithmic axis: it is drawn as high as its
             * neighbour. */
            if (!(to.y > 0)) {
                to.y = h->rows > 1 ? to.y_end * to.y_end / h->edges[row + 2] : to.y_end / 2;
            }
            rc = sonde_chart_add_cell(c, &to);
        }
    }
    return rc;
}

static int heatmap_chart(const struct sonde_plot_data *d, const struct sonde_plot_series *s,
                         struct sonde_plot_page *page)
{
    struct sonde_heatmap_options o = { .from_s = INFINITY, .to_s = -INFINITY,
                                       .columns = HEATMAP_COLUMNS, .rows = HEATMAP_ROWS };
    struct sonde_heatmap h;
    char label[SONDE_PLOT_LABEL_BYTES];
    for (size_t i = 0; i < s->count; i++) {
        const double x = s->values[i].x;
        if (!isfinite(s->values[i].y) || !(x > -1e10 && x < 1e10)) continue;
        o.from_s = fmin(o.from_s, x);
        o.to_s = fmax(o.to_s, x);
    }
    if (!(o.from_s <= o.to_s)) return 0;
    o.to_s += 1e-3;
    struct sonde_chart *c = sonde_plot_page_chart(page, "time", s->unit);
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%.140s over time", sonde_plot_label(d, s, label));
    c->y_log = 1;
    sonde_heatmap_init(&h, &o);
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_plot_value *v = &s->values[i];
        const double weight = fmin(1000, floor(v->weight + 0.5));
        for (double n = 0; n < weight && v->x > 0 && v->x < 1e10; n++) {
            sonde_heatmap_add(&h, (uint64_t)(v->x * 1e9), v->y, v->failed != 0);
        }
    }
    int rc = sonde_heatmap_finish(&h);
    snprintf(c->note, sizeof(c->note), "%llu values%s; colours: how many",
             (unsigned long long)h.counted, h.truncated ? " (there was no room for more)" : "");
    if (!rc) rc = heatmap_cells(&h, c);
    sonde_heatmap_release(&h);
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int heatmap_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    const size_t first = page->count;
    int rc = 0;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_LATENCY, &at)) != NULL;) {
        if (page->count - first < HEATMAP_SHOWN) rc = heatmap_chart(d, s, page);
    }
    return rc;
}

const struct sonde_plot_kind sonde_plot_heatmap = {
    .name = "heatmap",
    .summary = "how many had which latency, over time",
    .needs = "requests or spans, with their times",
    .hint = "Record an inference server, or a program that uses spans (sonde.h), or give a data "
            "file with series of the role latency that have x (docs/plot.md).",
    .role = SONDE_ROLE_LATENCY,
    .draw = heatmap_draw,
};
