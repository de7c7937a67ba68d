/* memory.c - memory by kind: over time where that is known, and as it was at the end. Parts of one
 * whole (pools, kinds of a model) stand on each other; what is of the process as a whole ("process:
 * resident") overlaps, and is lines. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "present/plot/kind.h"
#include "sonde/sonde.h"

#define MEMORY_PROCESS "process"

static int memory_is_whole(const struct sonde_plot_series *s)
{
    char panel[SONDE_PLOT_NAME_MAX];
    sonde_plot_panel(s, panel);
    return !strcmp(panel, MEMORY_PROCESS);
}

/* Something of what is stacked is known at this time. */
static int memory_at_tick(const struct sonde_plot_data *d, size_t i)
{
    const struct sonde_plot_series *s;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_MEMORY, &at)) != NULL;) {
        if (!memory_is_whole(s) && i < s->count && isfinite(s->values[i].y)) return 1;
    }
    return 0;
}

/* What was not measured while others were counts as nothing, so that all that is stacked has the
 * same times. */
static int memory_stack(struct sonde_chart *c, const struct sonde_plot_data *d,
                        const struct sonde_plot_series *s, const char *label)
{
    struct sonde_chart_series *to = sonde_chart_series(c, label);
    int rc = 0;
    if (!to) return 0;
    to->mark = SONDE_MARK_AREA;
    for (size_t i = 0; i < s->count && !rc; i++) {
        const double y = s->values[i].y;
        if (!memory_at_tick(d, i)) continue;
        rc = sonde_chart_add(c, to, s->values[i].x, isfinite(y) ? y : 0, NAN, NAN, NULL);
    }
    return rc;
}

/* Only series that have the times of the first can stand on it. */
static int memory_same_times(const struct sonde_plot_series *a, const struct sonde_plot_series *b)
{
    if (a->count != b->count) return 0;
    for (size_t i = 0; i < a->count; i++) {
        if (!(a->values[i].x == b->values[i].x)) return 0;
    }
    return 1;
}

static int memory_over_time(const struct sonde_plot_data *d, int whole,
                            struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s, *first = NULL;
    int rc = 0, stacked = !whole;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_MEMORY, &at)) != NULL;) {
        if (memory_is_whole(s) != whole || !sonde_plot_has_x(s)) continue;
        if (!first) first = s;
        stacked &= memory_same_times(first, s);
    }
    if (!first) return 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "time", "bytes");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s", whole ? "memory of the process over time"
                                                     : "memory by kind over time");
    c->y_zero = 1;
    c->stacked = stacked;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_MEMORY, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES], panel[SONDE_PLOT_NAME_MAX];
        if (memory_is_whole(s) != whole || !sonde_plot_has_x(s)) continue;
        const char *name = sonde_plot_label(d, s, label) +
                           (whole ? sonde_plot_panel(s, panel) - s->name : 0);
        rc = stacked ? memory_stack(c, d, s, name)
                     : sonde_plot_add_series(c, s, name, SONDE_MARK_CURVE, 1);
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

/* The last that is known of each, but of the process. */
static int memory_at_end(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    int rc = 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", "bytes");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    struct sonde_chart_series *to = sonde_chart_series(c, "");
    to->mark = SONDE_MARK_BAR;
    c->horizontal = c->y_zero = 1;
    snprintf(c->title, sizeof(c->title), "memory by kind at the end");
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_MEMORY, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES], v[SONDE_CHART_VALUE_BYTES];
        size_t last = s->count;
        while (last && !isfinite(s->values[last - 1].y)) last--;
        if (!last) continue;
        const int name = sonde_chart_name(c, sonde_plot_label(d, s, label));
        const double y = s->values[last - 1].y;
        if (name < 0) continue;
        rc = sonde_chart_add(c, to, name, y, NAN, NAN, sonde_chart_value(v, y, "bytes"));
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int memory_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    int rc = memory_over_time(d, 0, page);
    if (!rc) rc = memory_over_time(d, 1, page);
    return rc ? rc : memory_at_end(d, page);
}

const struct sonde_plot_kind sonde_plot_memory = {
    .name = "memory",
    .summary = "memory by kind and pool, and resident memory over time",
    .needs = "memory over time, pools, or a heap profile",
    .hint = "Record some seconds of a program (`sonde help record`), with --heap for what it "
            "allocates, or give a data file with series of the role memory (docs/plot.md).",
    .role = SONDE_ROLE_MEMORY,
    .draw = memory_draw,
};
