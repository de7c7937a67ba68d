/* chart_marks.c - what stands on the axes of a chart: areas and bars first, then lines, points with
 * their intervals, rules and labels. Every mark says its value to who points at it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "present/plot/chart_private.h"

enum {
    MARKS_BAR_MAX = 30,      /* points that a bar is thick, at most */
    MARKS_TIPS_MAX = 800,    /* points of a line that say their value */
    MARKS_DOTS_MAX = 60,     /* and that are seen */
    MARKS_LABELS_MAX = 64,
};

double sonde_chart_base(const struct sonde_chart *c, size_t series, size_t i)
{
    const struct sonde_chart_series *s = &c->series[series];
    double base = 0;
    for (size_t k = 0; c->stacked && k < series; k++) {
        const struct sonde_chart_series *below = &c->series[k];
        if (below->mark != s->mark) continue;
        if (s->mark == SONDE_MARK_AREA) {
            if (i < below->count && !isnan(below->points[i].y)) base += below->points[i].y;
            continue;
        }
        for (size_t j = 0; j < below->count; j++) {
            if (below->points[j].x == s->points[i].x) base += below->points[j].y;
        }
    }
    return base;
}

double sonde_chart_most(const struct sonde_chart *c)
{
    uint64_t most = 1;
    for (size_t i = 0; i < c->cell_count; i++) {
        if (c->cells[i].count > most) most = c->cells[i].count;
    }
    return (double)most;
}

/* ---- What marks say -------------------------------------------------------------------------- */

static const char *marks_x_text(const struct chart_drawing *d, double x,
                                char out[SONDE_CHART_NAME_MAX])
{
    const struct sonde_chart *c = d->chart;
    char value[SONDE_CHART_VALUE_BYTES];
    if (strcmp(c->x_unit, "name") != 0) {
        snprintf(out, SONDE_CHART_NAME_MAX, "%s", sonde_chart_value(value, x, c->x_unit));
    } else {
        const size_t i = (size_t)fmax(0, floor(x + 0.5));
        snprintf(out, SONDE_CHART_NAME_MAX, "%s", i < c->name_count ? c->names[i] : "");
    }
    return out;
}

#define MARKS_TIP_BYTES (2 * SONDE_CHART_NAME_MAX + 6 * SONDE_CHART_VALUE_BYTES)

static const char *marks_tip(const struct chart_drawing *d, const struct sonde_chart_series *s,
                             const struct sonde_chart_point *p, char out[MARKS_TIP_BYTES])
{
    const struct sonde_chart *c = d->chart;
    char x[SONDE_CHART_NAME_MAX], v[4][SONDE_CHART_VALUE_BYTES],
        between[3 * SONDE_CHART_VALUE_BYTES];
    marks_x_text(d, p->x, x);
    between[0] = '\0';
    if (!isnan(p->low)) {
        snprintf(between, sizeof(between), " (%s to %s)",
                 sonde_chart_value(v[0], p->low, c->y_unit),
                 sonde_chart_value(v[1], p->high, c->y_unit));
    }
    sonde_chart_value(v[2], p->y, c->y_unit);
    if (!isnan(p->x_end)) {
        snprintf(out, MARKS_TIP_BYTES, "%s%s%s to %s: %s", s->name, s->name[0] ? ", " : "", x,
                 sonde_chart_value(v[3], p->x_end, c->x_unit), v[2]);
    } else {
        snprintf(out, MARKS_TIP_BYTES, "%s%s%s: %s%s", s->name, s->name[0] ? ", " : "", x, v[2],
                 between);
    }
    return out;
}

static void marks_place(const struct chart_drawing *d, double x, double y, double out[2])
{
    const double at = sonde_axis_place(&d->x, x), value = sonde_axis_place(&d->y, y);
    out[0] = d->chart->horizontal ? value : at;
    out[1] = d->chart->horizontal ? at : value;
}

/* Where bars and areas begin: 0, or the lower end of the axis. */
static double marks_floor(const struct chart_drawing *d)
{
    return d->y.log ? pow(10, d->y.from) : fmax(d->y.from, fmin(0, d->y.to));
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static void marks_bar_label(struct chart_drawing *d, const struct sonde_chart_point *p, double x,
                            double y)
{
    struct sonde_canvas_text t = { .x = x, .y = y, .size = d->text_size, .ink = SONDE_INK_SOFT };
    if (!p->label[0]) return;
    if (!d->chart->horizontal) t.anchor = SONDE_ANCHOR_MIDDLE;
    sonde_canvas_write(d->canvas, &t, d->chart->horizontal ? d->x1 - x : 0, p->label);
}

static void marks_bars(struct chart_drawing *d, size_t series, size_t nth, size_t of)
{
    const struct sonde_chart *c = d->chart;
    const struct sonde_chart_series *s = &c->series[series];
    char tip[MARKS_TIP_BYTES];
    int again;
    const double length = fabs(d->x.end - d->x.begin);
    const double slot = length / fmax(1, d->x.to - d->x.from);
    const double all = fmin(slot * 0.72, MARKS_BAR_MAX * (double)of), each = all / (double)of;
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_chart_point *p = &s->points[i];
        const double base = c->stacked ? sonde_chart_base(c, series, i) : marks_floor(d);
        double a[2], b[2];
        marks_place(d, p->x, base, a);
        marks_place(d, isnan(p->x_end) ? p->x : p->x_end, c->stacked ? base + p->y : p->y, b);
        if (isnan(p->x_end)) {
            const int k = c->horizontal; /* the coordinate that goes along the names */
            a[k] += (double)nth * each - all / 2;
            b[k] = a[k] + each - (of > 1 ? 1 : 0);
        }
        const struct sonde_canvas_line l = {
            .fill = sonde_chart_ink(c, series, &again), .opacity = s->faint ? 0.45 : 0,
            .stroke = isnan(p->x_end) ? SONDE_INK_NONE : SONDE_INK_CARD, .width = 0.5,
            .tip = marks_tip(d, s, p, tip) };
        d->canvas->ops->rect(d->canvas, fmin(a[0], b[0]), fmin(a[1], b[1]), fabs(b[0] - a[0]),
                             fabs(b[1] - a[1]), &l);
        if (c->horizontal) marks_bar_label(d, p, fmax(a[0], b[0]) + 6, (a[1] + b[1]) / 2 + 3.6);
        else marks_bar_label(d, p, (a[0] + b[0]) / 2, fmin(a[1], b[1]) - 4);
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Points from `from` up to a gap as a path in xy, of room for 2 * count points; steps are two each.
 * Returns the points of the path; *next: where to go on. */
static size_t marks_trace(const struct chart_drawing *d, size_t series, size_t from, double *xy,
                          size_t *next)
{
    const struct sonde_chart_series *s = &d->chart->series[series];
    size_t n = 0, i = from;
    for (; i < s->count && !isnan(s->points[i].y); i++) {
        const double y = s->points[i].y +
                         (s->mark == SONDE_MARK_AREA ? sonde_chart_base(d->chart, series, i) : 0);
        if (s->mark == SONDE_MARK_STEP && n) {
            marks_place(d, s->points[i].x, s->points[i - 1].y, xy + 2 * n);
            n++;
        }
        marks_place(d, s->points[i].x, y, xy + 2 * n);
        n++;
    }
    *next = i + 1;
    return n;
}

/* The filling: along the top, and back along what it stands on. */
static void marks_area(struct chart_drawing *d, size_t series, size_t from, size_t count,
                       double *xy)
{
    const struct sonde_chart_series *s = &d->chart->series[series];
    int again;
    const struct sonde_canvas_line l = { .fill = sonde_chart_ink(d->chart, series, &again),
                                         .opacity = d->chart->stacked ? 0.75 : 0.18 };
    for (size_t i = count; i > 0; i--) {
        const double base = d->chart->stacked ? sonde_chart_base(d->chart, series, from + i - 1)
                                              : marks_floor(d);
        marks_place(d, s->points[from + i - 1].x, base, xy + 2 * (2 * count - i));
    }
    d->canvas->ops->path(d->canvas, xy, 2 * count, 1, &l);
}

static void marks_line(struct chart_drawing *d, size_t series)
{
    const struct sonde_chart_series *s = &d->chart->series[series];
    int again;
    const enum sonde_ink ink = sonde_chart_ink(d->chart, series, &again);
    double *xy = sonde__calloc(s->count ? s->count : 1, 4 * sizeof(*xy));
    if (!xy) return; /* the picture lacks a line; the table beside it does not */
    for (size_t i = 0, next; i < s->count; i = next) {
        const size_t n = marks_trace(d, series, i, xy, &next);
        if (!n) continue;
        if (s->mark == SONDE_MARK_AREA) marks_area(d, series, i, n, xy);
        const struct sonde_canvas_line l = { .stroke = ink, .width = s->faint ? 1 : 1.8,
                                             .dashed = again || s->mark == SONDE_MARK_DASHED };
        if (n > 1) d->canvas->ops->path(d->canvas, xy, n, 0, &l);
    }
    sonde__free(xy);
}

/* ---- Points ---------------------------------------------------------------------------------- */

static void marks_interval(struct chart_drawing *d, const struct sonde_chart_point *p,
                           enum sonde_ink ink)
{
    double a[2], b[2];
    const struct sonde_canvas_line l = { .stroke = ink, .width = 1.5 };
    const double w = 4, h = d->chart->horizontal;
    if (isnan(p->low)) return;
    marks_place(d, p->x, p->low, a);
    marks_place(d, p->x, p->high, b);
    d->canvas->ops->path(d->canvas, (double[]){ a[0], a[1], b[0], b[1] }, 2, 0, &l);
    for (int k = 0; k < 2; k++) {
        const double *e = k ? b : a, dx = h > 0 ? 0 : w, dy = h > 0 ? w : 0;
        d->canvas->ops->path(d->canvas, (double[]){ e[0] - dx, e[1] - dy, e[0] + dx, e[1] + dy }, 2,
                             0, &l);
    }
}

/* A point of a line that is alone, or one of few, is seen; others only say their value. */
static double marks_radius(const struct sonde_chart_series *s, size_t i)
{
    if (s->mark == SONDE_MARK_DOTS) return s->faint ? 2.5 : 4;
    const int alone = (i == 0 || isnan(s->points[i - 1].y)) &&
                      (i + 1 == s->count || isnan(s->points[i + 1].y));
    if (alone) return 3.5;
    return s->mark == SONDE_MARK_LINE && s->count <= MARKS_DOTS_MAX ? 3 : 0;
}

static void marks_points(struct chart_drawing *d, size_t series)
{
    const struct sonde_chart_series *s = &d->chart->series[series];
    char tip[MARKS_TIP_BYTES];
    int again;
    const enum sonde_ink ink = sonde_chart_ink(d->chart, series, &again);
    for (size_t i = 0; i < s->count && s->mark != SONDE_MARK_DASHED; i++) {
        const struct sonde_chart_point *p = &s->points[i];
        double at[2];
        if (isnan(p->y)) continue;
        const double radius = marks_radius(s, i);
        if (!(radius > 0) && s->count > MARKS_TIPS_MAX) continue;
        marks_interval(d, p, ink);
        marks_place(d, p->x, p->y + (s->mark == SONDE_MARK_AREA ? sonde_chart_base(d->chart, series,
                                                                                   i) : 0), at);
        const struct sonde_canvas_line l = {
            .fill = ink, .opacity = !(radius > 0) ? 0.001 : s->faint ? 0.4 : 0,
            .tip = marks_tip(d, s, p, tip) };
        d->canvas->ops->dot(d->canvas, at[0], at[1], radius > 0 ? radius : 5, &l);
    }
}

struct marks_box { double x0, y0, x1, y1; };

/* Beside a point, where nothing else is written yet; if there is no such place, not at all: it says
 * its name to who points at it. */
static void marks_labels(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    struct marks_box taken[MARKS_LABELS_MAX];
    size_t count = 0;
    for (size_t s = 0; s < c->series_count; s++) {
        if (c->series[s].mark == SONDE_MARK_BAR) continue;
        for (size_t i = 0; i < c->series[s].count && count < MARKS_LABELS_MAX; i++) {
            const struct sonde_chart_point *p = &c->series[s].points[i];
            double at[2];
            if (!p->label[0] || isnan(p->y)) continue;
            marks_place(d, p->x, p->y, at);
            const double w = sonde_canvas_text_width(d->canvas, p->label, d->text_size, 0);
            for (int try = 0; try < 4; try++) {
                const double x = try & 1 ? at[0] - 8 - w : at[0] + 8;
                const double y = try & 2 ? at[1] + 14 : at[1] - 6;
                const struct marks_box b = { x, y - 9, x + w, y + 3 };
                int free = b.x0 >= d->left && b.x1 <= d->x1 && b.y0 >= d->top - 6 &&
                           b.y1 <= d->bottom;
                for (size_t k = 0; k < count && free; k++) {
                    free = b.x1 < taken[k].x0 || b.x0 > taken[k].x1 || b.y1 < taken[k].y0 ||
                           b.y0 > taken[k].y1;
                }
                if (!free) continue;
                const struct sonde_canvas_text t = { .x = x, .y = y, .size = d->text_size,
                                                     .ink = SONDE_INK_SOFT };
                sonde_canvas_write(d->canvas, &t, 0, p->label);
                taken[count++] = b;
                break;
            }
        }
    }
}

/* ---- Cells and rules ------------------------------------------------------------------------- */

static void marks_cells(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    const double most = log(sonde_chart_most(c) + 1);
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct sonde_chart_cell *cell = &c->cells[i];
        char v[4][SONDE_CHART_VALUE_BYTES], tip[MARKS_TIP_BYTES], failed[64];
        double a[2], b[2];
        marks_place(d, cell->x, cell->y, a);
        marks_place(d, cell->x_end, cell->y_end, b);
        const double level = most > 0 ? log((double)cell->count + 1) / most : 1;
        failed[0] = '\0';
        if (cell->failed) {
            snprintf(failed, sizeof(failed), ", %llu failed", (unsigned long long)cell->failed);
        }
        snprintf(tip, sizeof(tip), "%s to %s, %s to %s: %llu%s",
                 sonde_chart_value(v[0], cell->x, c->x_unit),
                 sonde_chart_value(v[1], cell->x_end, c->x_unit),
                 sonde_chart_value(v[2], cell->y, c->y_unit),
                 sonde_chart_value(v[3], cell->y_end, c->y_unit), (unsigned long long)cell->count,
                 failed);
        const int step = (int)fmin(SONDE_INK_HEATS - 1, level * SONDE_INK_HEATS);
        const struct sonde_canvas_line l = { .fill = (enum sonde_ink)(SONDE_INK_H0 + step),
                                             .stroke = cell->failed ? SONDE_INK_BAD
                                                                    : SONDE_INK_NONE, .tip = tip };
        d->canvas->ops->rect(d->canvas, a[0], b[1], b[0] - a[0], a[1] - b[1], &l);
    }
}

static void marks_rule_lines(struct chart_drawing *d)
{
    const struct sonde_canvas_line l = { .stroke = SONDE_INK_SOFT, .width = 1, .dashed = 1 };
    for (size_t i = 0; i < d->chart->rule_count; i++) {
        const struct sonde_chart_rule *r = &d->chart->rules[i];
        const double at = sonde_axis_place(r->of_x ? &d->x : &d->y, r->at);
        d->canvas->ops->path(d->canvas,
                             r->of_x ? (double[]){ at, d->top, at, d->bottom }
                                     : (double[]){ d->left, at, d->right, at },
                             2, 0, &l);
    }
}

/* What rules say: beside their line, one below the other where they would meet. */
static void marks_rules(struct chart_drawing *d)
{
    double ends[SONDE_CHART_RULES_MAX]; /* of labels, by line */
    for (size_t i = 0; i < SONDE_CHART_RULES_MAX; i++) ends[i] = -INFINITY;
    marks_rule_lines(d);
    for (size_t i = 0; i < d->chart->rule_count; i++) {
        const struct sonde_chart_rule *r = &d->chart->rules[i];
        const struct sonde_canvas_line behind = { .fill = SONDE_INK_CARD, .opacity = 0.85 };
        const double at = sonde_axis_place(r->of_x ? &d->x : &d->y, r->at);
        const double w = sonde_canvas_text_width(d->canvas, r->label, d->text_size, 0);
        struct sonde_canvas_text t = { .x = d->right - w, .y = at - 4, .size = d->text_size,
                                       .ink = SONDE_INK_TEXT };
        if (r->of_x) {
            size_t line = 0;
            t.x = at + 4 + w > d->x1 ? at - 4 - w : at + 4;
            while (line + 1 < SONDE_CHART_RULES_MAX && t.x < ends[line] + 4) line++;
            ends[line] = t.x + w;
            t.y = d->top + 10 + 14 * (double)line;
        } else if (t.y - 10 < d->top) {
            t.y = at + 12;
        }
        d->canvas->ops->rect(d->canvas, t.x - 2, t.y - 10, w + 4, 13, &behind);
        sonde_canvas_write(d->canvas, &t, 0, r->label);
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

void sonde_chart_marks(struct chart_drawing *d)
{
    const struct sonde_chart *c = d->chart;
    size_t bars = 0, nth = 0;
    for (size_t i = 0; i < c->series_count; i++) bars += c->series[i].mark == SONDE_MARK_BAR;
    if (c->stacked) bars = 1;
    marks_cells(d);
    for (size_t i = 0; i < c->series_count; i++) {
        if (c->series[i].mark != SONDE_MARK_BAR) continue;
        marks_bars(d, i, c->stacked ? 0 : nth++, bars);
    }
    for (size_t i = 0; i < c->series_count; i++) {
        const enum sonde_chart_mark m = c->series[i].mark;
        if (m != SONDE_MARK_BAR && m != SONDE_MARK_DOTS) marks_line(d, i);
    }
    for (size_t i = 0; i < c->series_count; i++) {
        if (c->series[i].mark != SONDE_MARK_BAR) marks_points(d, i);
    }
    marks_rules(d);
    marks_labels(d);
}
