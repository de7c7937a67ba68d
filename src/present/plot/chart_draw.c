/* chart_draw.c - a chart on a canvas: where its parts are, axes, legend. What stands on the axes
 * is drawn by chart_marks.c.
 *
 *   title
 *   note
 *   ■ legend   ■ legend
 *   y title
 *        |                              the plot: between left and right, top and bottom
 *   tick |
 *        +---tick------tick--
 *                   x title
 *
 * Nothing has a place that depends on how much text there is elsewhere: what is too long is cut,
 * and whole for who points at it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "present/plot/chart_private.h"

enum { CHART_PAD = 16, CHART_LEGEND_LINES = 3 };

static const double title_size = 13.5, text_size = 10.5;

/* ---- Ranges ---------------------------------------------------------------------------------- */

struct chart_range { double low, high; };

static void chart_range_add(struct chart_range *r, double v)
{
    if (!isfinite(v)) return;
    r->low = fmin(r->low, v);
    r->high = fmax(r->high, v);
}

/* Heights of what is stacked add up. */
static void chart_range_stacked(const struct sonde_chart *c, struct chart_range *y)
{
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            chart_range_add(y, sonde_chart_base(c, s, i) + c->series[s].points[i].y);
        }
    }
}

static void chart_ranges(const struct sonde_chart *c, struct chart_range *x, struct chart_range *y)
{
    *x = *y = (struct chart_range){ INFINITY, -INFINITY };
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            const struct sonde_chart_point *p = &c->series[s].points[i];
            chart_range_add(x, p->x);
            chart_range_add(x, p->x_end);
            chart_range_add(y, p->y);
            chart_range_add(y, p->low);
            chart_range_add(y, p->high);
        }
    }
    if (c->stacked) chart_range_stacked(c, y);
    for (size_t i = 0; i < c->cell_count; i++) {
        chart_range_add(x, c->cells[i].x);
        chart_range_add(x, c->cells[i].x_end);
        chart_range_add(y, c->cells[i].y);
        chart_range_add(y, c->cells[i].y_end);
    }
    for (size_t i = 0; i < c->rule_count; i++) {
        chart_range_add(c->rules[i].of_x ? x : y, c->rules[i].at);
    }
    /* Above the bars is room for what rules say. */
    if (c->rule_count && c->rules[0].of_x && !c->y_log) y->high *= 1.15;
    if (!(x->low <= x->high)) *x = (struct chart_range){ 0, 1 };
    if (!(y->low <= y->high)) *y = (struct chart_range){ 0, 1 };
}

static int chart_named(const struct sonde_chart *c) { return !strcmp(c->x_unit, "name"); }

static void chart_axes(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    struct chart_range x, y;
    int bars = 0;
    for (size_t i = 0; i < c->series_count; i++) bars |= c->series[i].mark == SONDE_MARK_BAR;
    chart_ranges(c, &x, &y);
    const double across = d->right - d->left, down = d->bottom - d->top;
    d->x = (struct sonde_axis){ .unit = c->x_unit,
                                .log = c->x_log,
                                .tight = c->cell_count || bars || !strcmp(c->x_unit, "time"),
                                .wanted =
                                    (int)fmax(3, across / (strcmp(c->x_unit, "time") ? 70 : 90)) };
    d->y = (struct sonde_axis){ .unit = c->y_unit,
                                .log = c->y_log,
                                .zero = c->y_zero,
                                .one = c->y_one,
                                .tight = c->cell_count > 0,
                                .wanted = (int)fmax(3, down / 42) };
    if (c->horizontal) d->y.wanted = (int)fmax(3, across / 80);
    if (chart_named(c)) sonde_axis_names(&d->x, c->name_count);
    else sonde_axis_fit(&d->x, x.low, x.high);
    sonde_axis_fit(&d->y, y.low, y.high);
}

/* ---- Text around it -------------------------------------------------------------------------- */

static struct sonde_canvas_text chart_text(double x, double y, enum sonde_ink ink)
{
    return (struct sonde_canvas_text){ .x = x, .y = y, .size = text_size, .ink = ink };
}

enum sonde_ink sonde_chart_ink(const struct sonde_chart *c, size_t series, int *again)
{
    size_t own = 0;
    const struct sonde_chart_series *s = &c->series[series];
    *again = 0;
    if (s->ink) return (enum sonde_ink)s->ink;
    if (s->color && (size_t)s->color - 1 < series) {
        return sonde_chart_ink(c, (size_t)s->color - 1, again);
    }
    for (size_t i = 0; i < series; i++) own += !c->series[i].color && !c->series[i].ink;
    *again = own >= SONDE_INK_SERIES;
    return (enum sonde_ink)(SONDE_INK_S1 + own % SONDE_INK_SERIES);
}

/* Few to many: what the colours of a heat map mean. */
static double chart_heat_legend(struct chart_drawing *d, double y)
{
    const double most = sonde_chart_most(d->chart);
    struct sonde_canvas_text t = chart_text(d->x0, y, SONDE_INK_SOFT);
    char text[32];
    double at = d->x0 + sonde_canvas_write(d->canvas, &t, 0, "1") + 6;
    for (int i = 0; i < SONDE_INK_HEATS; i++, at += 12) {
        const struct sonde_canvas_line l = { .fill = (enum sonde_ink)(SONDE_INK_H0 + i) };
        d->canvas->ops->rect(d->canvas, at, y - 9, 12, 10, &l);
    }
    snprintf(text, sizeof(text), "%.0f", most);
    t.x = at + 6;
    sonde_canvas_write(d->canvas, &t, 0, text);
    return y + 16;
}

static double chart_legend(struct chart_drawing *d, double y)
{
    const struct sonde_chart *c = d->chart;
    const double width = d->x1 - d->x0;
    double at = d->x0;
    int lines = 0;
    if (c->cell_count) return chart_heat_legend(d, y);
    if (c->series_count == 1 && !strcmp(c->series[0].name, c->title)) return y;
    for (size_t i = 0; i < c->series_count; i++) {
        const struct sonde_chart_series *s = &c->series[i];
        int again;
        if (!s->name[0] || !s->count) continue;
        const enum sonde_ink ink = sonde_chart_ink(c, i, &again);
        const double room = fmin(width - 16, 220);
        const double w = fmin(sonde_canvas_text_width(d->canvas, s->name, text_size, 0), room);
        if (at > d->x0 && at + 16 + w > d->x1) {
            if (++lines == CHART_LEGEND_LINES) break;
            at = d->x0;
            y += 15;
        }
        const struct sonde_canvas_text t = chart_text(at + 15, y, SONDE_INK_SOFT);
        if (s->mark == SONDE_MARK_DASHED || again) {
            const struct sonde_canvas_line l = { .stroke = ink, .width = 2, .dashed = 1 };
            d->canvas->ops->path(d->canvas, (double[]){ at - 2, y - 4, at + 12, y - 4 }, 2, 0, &l);
        } else {
            const struct sonde_canvas_line l = { .fill = ink };
            d->canvas->ops->rect(d->canvas, at, y - 9, 10, 10, &l);
        }
        sonde_canvas_write(d->canvas, &t, room, s->name);
        at += 15 + w + 16;
    }
    return at > d->x0 ? y + 16 : y;
}

static double chart_head(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    double y = d->y0 + title_size - 2;
    struct sonde_canvas_text t = chart_text(d->x0, y, SONDE_INK_TEXT);
    t.size = title_size;
    t.bold = 1;
    sonde_canvas_write(d->canvas, &t, d->x1 - d->x0, c->title);
    y += 17;
    char note[400];
    size_t n = (size_t)snprintf(note, sizeof(note), "%s", c->note);
    if (c->left_out) {
        n += (size_t)snprintf(note + n, sizeof(note) - n, "%s%zu more points left out",
                              n ? "; " : "", c->left_out);
    }
    if (c->not_finite) {
        snprintf(note + n, sizeof(note) - n, "%s%zu value%s left out: not a finite number",
                 n ? "; " : "", c->not_finite, c->not_finite == 1 ? "" : "s");
    }
    t = chart_text(d->x0, y, SONDE_INK_SOFT);
    if (note[0]) {
        y += 14 * sonde_canvas_write_lines(d->canvas, &t, d->x1 - d->x0, 14, 2, note) + 3;
    }
    return chart_legend(d, y + 1);
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static const char *chart_tick_text(const struct chart_drawing *d, const struct sonde_axis *a,
                                   double tick, char out[SONDE_AXIS_LABEL_BYTES])
{
    if (a == &d->x && chart_named(d->chart)) return d->chart->names[(size_t)(tick + 0.5)];
    return sonde_axis_label(a, tick, out);
}

static double chart_ticks_width(const struct chart_drawing *d, const struct sonde_axis *a)
{
    char text[SONDE_AXIS_LABEL_BYTES];
    double w = 0;
    for (size_t i = 0; i < a->tick_count; i++) {
        w = fmax(w, sonde_canvas_text_width(d->canvas, chart_tick_text(d, a, a->ticks[i], text),
                                            text_size, 0));
    }
    return w;
}

/* The axis that goes up, or of lying bars that with the names. */
static void chart_axis_side(struct chart_drawing *d, const struct sonde_axis *a)
{
    char text[SONDE_AXIS_LABEL_BYTES];
    const int names = d->chart->horizontal;
    for (size_t i = 0; i < a->tick_count; i++) {
        const double at = sonde_axis_place(a, a->ticks[i]);
        const struct sonde_canvas_line grid = { .stroke = SONDE_INK_LINE };
        if (!names) {
            d->canvas->ops->path(d->canvas, (double[]){ d->left, at, d->right, at }, 2, 0, &grid);
        }
        struct sonde_canvas_text t = chart_text(d->left - 8, at + 3.6, SONDE_INK_SOFT);
        if (names) t.ink = SONDE_INK_TEXT;
        t.anchor = SONDE_ANCHOR_END;
        sonde_canvas_write(d->canvas, &t, d->left - 8 - d->x0,
                           chart_tick_text(d, a, a->ticks[i], text));
    }
}

/* The axis at the foot; ticks that would run into each other are left out, names are cut. */
static void chart_axis_foot(struct chart_drawing *d, const struct sonde_axis *a)
{
    char text[SONDE_AXIS_LABEL_BYTES];
    const int names = a == &d->x && chart_named(d->chart);
    const double slot = (d->right - d->left) / fmax(1, (double)a->tick_count);
    double free = -INFINITY;
    for (size_t i = 0; i < a->tick_count; i++) {
        const double at = sonde_axis_place(a, a->ticks[i]);
        const char *label = chart_tick_text(d, a, a->ticks[i], text);
        double w = sonde_canvas_text_width(d->canvas, label, text_size, 0);
        if (names) w = fmin(w, fmax(slot - 8, 24));
        const struct sonde_canvas_line l = { .stroke = SONDE_INK_LINE };
        if (!names && d->chart->horizontal) {
            d->canvas->ops->path(d->canvas, (double[]){ at, d->top, at, d->bottom }, 2, 0, &l);
        }
        struct sonde_canvas_text t = chart_text(at, d->bottom + 16, SONDE_INK_SOFT);
        t.anchor = SONDE_ANCHOR_MIDDLE;
        /* At the very edge it may lean inwards. */
        if (at + w / 2 > d->x1) {
            t.x = d->x1 - w / 2;
        }
        if (t.x - w / 2 < free + 6) continue;
        free = t.x + w / 2;
        const struct sonde_canvas_line tick = { .stroke = SONDE_INK_AXIS };
        if (!names) {
            d->canvas->ops->path(d->canvas, (double[]){ at, d->bottom, at, d->bottom + 4 }, 2, 0,
                                 &tick);
        }
        sonde_canvas_write(d->canvas, &t, names ? w + 0.5 : 0, label);
    }
}

static void chart_frame(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    const struct sonde_canvas_line l = { .stroke = SONDE_INK_AXIS };
    chart_axis_side(d, c->horizontal ? &d->x : &d->y);
    chart_axis_foot(d, c->horizontal ? &d->y : &d->x);
    d->canvas->ops->path(d->canvas, c->horizontal
                             ? (double[]){ d->left, d->top, d->left, d->bottom }
                             : (double[]){ d->left, d->bottom, d->right, d->bottom }, 2, 0, &l);
    const char *foot = c->horizontal ? c->y_title : c->x_title;
    struct sonde_canvas_text t = chart_text((d->left + d->right) / 2, d->bottom + 33,
                                            SONDE_INK_SOFT);
    t.anchor = SONDE_ANCHOR_MIDDLE;
    if (foot[0]) sonde_canvas_write(d->canvas, &t, d->right - d->left, foot);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void chart_draw_missing(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    const char *text = c->missing[0] ? c->missing : "there is no data for this chart";
    struct sonde_canvas_text t = chart_text(d->x0, d->top + 22, SONDE_INK_SOFT);
    t.size = 12;
    sonde_canvas_write_lines(d->canvas, &t, d->x1 - d->x0, 18, 8, text);
}

/* Labels of lying bars stand behind their ends. */
static double chart_labels_width(const struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    double w = 0;
    for (size_t s = 0; c->horizontal && s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            const char *label = c->series[s].points[i].label;
            if (!label[0]) continue;
            w = fmax(w, 8 + sonde_canvas_text_width(d->canvas, label, text_size, 0));
        }
    }
    return fmin(w, (d->x1 - d->x0) / 3);
}

void sonde_chart_draw(const struct sonde_chart *c, struct sonde_canvas *canvas, double x, double y,
                      double width, double height)
{
    struct chart_drawing d = { .chart = c, .canvas = canvas, .x0 = x + CHART_PAD,
                               .x1 = x + width - CHART_PAD, .y0 = y + CHART_PAD,
                               .y1 = y + height - CHART_PAD, .text_size = text_size };
    const struct sonde_canvas_line card = { .fill = SONDE_INK_CARD, .stroke = SONDE_INK_LINE };
    canvas->ops->rect(canvas, x + 0.5, y + 0.5, width - 1, height - 1, &card);
    d.top = chart_head(&d);
    if (sonde_chart_empty(c)) {
        chart_draw_missing(&d);
        return;
    }
    const char *above = c->horizontal ? c->x_title : c->y_title;
    const struct sonde_canvas_text t = chart_text(d.x0, d.top, SONDE_INK_SOFT);
    if (above[0]) {
        sonde_canvas_write(canvas, &t, d.x1 - d.x0, above);
        d.top += 8;
    }
    d.top += 4;
    d.bottom = d.y1 - 18 - ((c->horizontal ? c->y_title : c->x_title)[0] ? 17 : 0);
    if (d.bottom < d.top + 20) d.bottom = d.top + 20;
    d.left = d.x0 + 60;
    d.right = d.x1;
    chart_axes(&d);
    const double side = chart_ticks_width(&d, c->horizontal ? &d.x : &d.y);
    d.left = d.x0 + fmin(side, (d.x1 - d.x0) * 0.36) + 8;
    d.right = d.x1 - chart_labels_width(&d);
    d.x.begin = c->horizontal ? d.top : d.left;
    d.x.end = c->horizontal ? d.bottom : d.right;
    d.y.begin = c->horizontal ? d.left : d.bottom;
    d.y.end = c->horizontal ? d.right : d.top;
    chart_frame(&d);
    sonde_chart_marks(&d);
}
