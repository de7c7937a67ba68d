/* page_json.c - what is on a page as JSON: every number that was drawn. */
#include <math.h>

#include "base/json.h"
#include "present/plot/page.h"

static void page_json_axis(struct sonde_buf *out, const char *key, const char *title,
                           const char *unit, int log)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_str(out, "title", title);
    sonde_json_str(out, "unit", unit);
    sonde_json_bool(out, "log", log);
    sonde_json_close(out, '}');
}

static void page_json_point(struct sonde_buf *out, const struct sonde_chart_point *p)
{
    sonde_json_open(out, '{');
    sonde_json_num(out, "x", p->x);
    if (!isnan(p->x_end)) sonde_json_num(out, "x_end", p->x_end);
    sonde_json_num(out, "y", p->y);
    if (!isnan(p->low)) {
        sonde_json_num(out, "low", p->low);
        sonde_json_num(out, "high", p->high);
    }
    if (p->label[0]) sonde_json_str(out, "label", p->label);
    sonde_json_close(out, '}');
}

static void page_json_cells(struct sonde_buf *out, const struct sonde_chart *c)
{
    sonde_json_key_open(out, "cells", '[');
    for (size_t i = 0; i < c->cell_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_num(out, "x", c->cells[i].x);
        sonde_json_num(out, "x_end", c->cells[i].x_end);
        sonde_json_num(out, "y", c->cells[i].y);
        sonde_json_num(out, "y_end", c->cells[i].y_end);
        sonde_json_u64(out, "count", c->cells[i].count);
        sonde_json_u64(out, "failed", c->cells[i].failed);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void page_json_chart(struct sonde_buf *out, const struct sonde_chart *c)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "title", c->title);
    sonde_json_str(out, "note", c->note);
    if (sonde_chart_empty(c)) sonde_json_str(out, "missing", c->missing);
    page_json_axis(out, "x", c->x_title, c->x_unit, c->x_log);
    page_json_axis(out, "y", c->y_title, c->y_unit, c->y_log);
    sonde_json_key_open(out, "names", '[');
    for (size_t i = 0; i < c->name_count; i++) sonde_json_str(out, NULL, c->names[i]);
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "series", '[');
    for (size_t i = 0; i < c->series_count; i++) {
        const struct sonde_chart_series *s = &c->series[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", s->name);
        sonde_json_str(out, "mark", sonde_chart_mark_name(s->mark));
        sonde_json_key_open(out, "points", '[');
        for (size_t k = 0; k < s->count; k++) page_json_point(out, &s->points[k]);
        sonde_json_close(out, ']');
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "rules", '[');
    for (size_t i = 0; i < c->rule_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_num(out, c->rules[i].of_x ? "x" : "y", c->rules[i].at);
        sonde_json_str(out, "label", c->rules[i].label);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    if (c->cell_count) page_json_cells(out, c);
    if (c->not_finite) sonde_json_u64(out, "not_finite", c->not_finite);
    sonde_json_close(out, '}');
}

void sonde_plot_page_json(const struct sonde_plot_page *p, struct sonde_buf *out)
{
    sonde_json_key_open(out, "charts", '[');
    for (size_t i = 0; i < p->count; i++) page_json_chart(out, &p->charts[i]);
    sonde_json_close(out, ']');
}
