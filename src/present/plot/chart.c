/* chart.c - see chart.h. */
#include "bench/plot/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "bench/figure.h"
#include "sonde/sonde.h"

enum { CHART_WIDTH = 860, CHART_HEIGHT = 400, CHART_LEFT = 92, CHART_RIGHT = 24, CHART_TOP = 74,
       CHART_BOTTOM = 56, CHART_TICKS = 6 };

/* Told apart by eyes that see no red or green, on white and on black. */
static const char *const chart_colors[] = { "#3b74c4", "#d1731f", "#2a9d74", "#b4559e",
                                            "#8a8d1c", "#4aa3c7", "#c04545", "#7a62c9" };

void sonde_chart_release(struct sonde_chart *c)
{
    for (size_t i = 0; i < c->series_count; i++) sonde__free(c->series[i].points);
    sonde__free(c->names);
    memset(c, 0, sizeof(*c));
}

struct sonde_chart_series *sonde_chart_series(struct sonde_chart *c, const char *name)
{
    if (c->series_count == SONDE_CHART_SERIES_MAX) return NULL;
    struct sonde_chart_series *s = &c->series[c->series_count++];
    snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

int sonde_chart_add(struct sonde_chart *c, struct sonde_chart_series *s, double x, double y,
                    double low, double high, const char *label)
{
    if (!isfinite(x) || !isfinite(y) || (c->x_log && x <= 0) || (c->y_log && y <= 0)) return 0;
    if (s->count >= SONDE_CHART_POINTS_MAX) {
        c->left_out++;
        return 0;
    }
    struct sonde_chart_point *p = SONDE_ARRAY_ADD(s->points, s->count, s->cap);
    if (!p) return SONDE_ENOMEM;
    *p = (struct sonde_chart_point){ .x = x, .y = y, .low = NAN, .high = NAN };
    if (isfinite(low) && isfinite(high) && !(c->y_log && low <= 0)) {
        p->low = low;
        p->high = high;
    }
    if (label) snprintf(p->label, sizeof(p->label), "%s", label);
    return 0;
}

/* ---- Axes ------------------------------------------------------------------------------------ */

struct chart_axis {
    double from, to;         /* of values; of logarithms if log */
    double begin, end;       /* on the picture */
    double ticks[64];
    size_t tick_count;
    int log;
};

static double chart_place(const struct chart_axis *a, double v)
{
    const double at = a->log ? log10(v) : v;
    return a->begin + (at - a->from) / (a->to - a->from) * (a->end - a->begin);
}

/* 1, 2 or 5 times a power of ten, so that there are about as many as wanted. */
static double chart_round_step(double span, int wanted)
{
    const double raw = span / wanted, power = pow(10, floor(log10(raw)));
    const double m = raw / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static void chart_axis_ticks(struct chart_axis *a)
{
    a->tick_count = 0;
    if (a->log) {
        const double decades = a->to - a->from;
        static const double inner[] = { 1, 2, 5 };
        const size_t each = decades > 3 ? 1 : 3;
        for (double d = floor(a->from); d <= a->to; d += fmax(1, ceil(decades / 20))) {
            for (size_t i = 0; i < each; i++) {
                const double v = d + log10(inner[i]);
                if (v < a->from - 1e-9 || v > a->to + 1e-9) continue;
                if (a->tick_count < SONDE_COUNT(a->ticks)) a->ticks[a->tick_count++] = pow(10, v);
            }
        }
        return;
    }
    const double step = chart_round_step(a->to - a->from, CHART_TICKS);
    for (double v = ceil(a->from / step - 1e-9) * step; v <= a->to + step * 1e-9; v += step) {
        if (a->tick_count == SONDE_COUNT(a->ticks)) break;
        a->ticks[a->tick_count++] = fabs(v) < step * 1e-9 ? 0 : v;
    }
}

/* From the smallest to the largest value, with some air. */
static void chart_axis_fit(struct chart_axis *a, double low, double high, int zero)
{
    if (a->log) {
        low = log10(low);
        high = log10(high);
    } else if (zero && low > 0) {
        low = 0;
    }
    double span = high - low;
    if (!(span > 0)) span = a->log ? 1 : fmax(fabs(high), 1e-12) * 0.2;
    a->from = zero && low == 0 && !a->log ? 0 : low - 0.06 * span;
    a->to = high + 0.06 * span;
    chart_axis_ticks(a);
}

static void chart_axes(const struct sonde_chart *c, double top, struct chart_axis *x,
                       struct chart_axis *y)
{
    double range[2][2] = { { INFINITY, -INFINITY }, { INFINITY, -INFINITY } };
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            const struct sonde_chart_point *p = &c->series[s].points[i];
            range[0][0] = fmin(range[0][0], p->x);
            range[0][1] = fmax(range[0][1], p->x);
            range[1][0] = fmin(range[1][0], isnan(p->low) ? p->y : p->low);
            range[1][1] = fmax(range[1][1], isnan(p->high) ? p->y : p->high);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (!(range[i][0] <= range[i][1])) range[i][0] = range[i][1] = 1;
    }
    *x = (struct chart_axis){ .begin = CHART_LEFT, .end = CHART_WIDTH - CHART_RIGHT,
                              .log = c->x_log };
    *y = (struct chart_axis){ .begin = top + CHART_HEIGHT - CHART_BOTTOM, .end = top + CHART_TOP,
                              .log = c->y_log };
    chart_axis_fit(x, range[0][0], range[0][1], 0);
    chart_axis_fit(y, range[1][0], range[1][1], c->y_zero);
    if (strcmp(c->x_unit, "name") != 0) return;
    x->from = -0.6;
    x->to = (double)c->name_count - 0.4;
    x->tick_count = 0;
    for (size_t i = 0; i < c->name_count && i < SONDE_COUNT(x->ticks); i++) {
        x->ticks[x->tick_count++] = (double)i;
    }
}

/* ---- Drawing --------------------------------------------------------------------------------- */

/* Names come from files: no markup, no control characters. */
static void chart_text(struct sonde_buf *out, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '<': sonde_buf_puts(out, "&lt;"); break;
        case '>': sonde_buf_puts(out, "&gt;"); break;
        case '&': sonde_buf_puts(out, "&amp;"); break;
        case '"': sonde_buf_puts(out, "&quot;"); break;
        default: sonde_buf_putc(out, (unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s); break;
        }
    }
}

static void chart_write(struct sonde_buf *out, double x, double y, const char *kind,
                        const char *anchor, const char *text)
{
    sonde_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y,
                     kind, anchor);
    chart_text(out, text);
    sonde_buf_puts(out, "</text>\n");
}

static void chart_tick_text(const struct sonde_chart *c, const char *unit, double v, double span,
                            char text[SONDE_CHART_LABEL_MAX])
{
    char value[SONDE_BENCH_VALUE_BYTES];
    if (!strcmp(unit, "time")) {
        const time_t t = (time_t)v;
        struct tm tm;
        text[0] = '\0';
        if (localtime_r(&t, &tm)) {
            strftime(text, SONDE_CHART_LABEL_MAX, span > 2 * 86400.0 ? "%Y-%m-%d" : "%d %H:%M:%S",
                     &tm);
        }
    } else if (!strcmp(unit, "name")) {
        const size_t i = (size_t)(v + 0.5);
        snprintf(text, SONDE_CHART_LABEL_MAX, "%s", i < c->name_count ? c->names[i] : "");
    } else if (!strncmp(unit, "bytes", 5) && v > 0) {
        /* Ticks are at powers of ten, so the unit is one of those. */
        static const char *const names[] = { "B", "kB", "MB", "GB", "TB", "PB" };
        size_t i = 0;
        while (v >= 999.5 && i + 1 < SONDE_COUNT(names)) {
            v /= 1000;
            i++;
        }
        snprintf(text, SONDE_CHART_LABEL_MAX, "%.3g %s%s", v, names[i], unit + 5);
    } else if (!*unit) {
        snprintf(text, SONDE_CHART_LABEL_MAX, "%g", v);
    } else {
        snprintf(text, SONDE_CHART_LABEL_MAX, "%s", sonde_bench_value_format(value, v, unit, 0));
    }
}

static void chart_frame(const struct sonde_chart *c, double top, const struct chart_axis *x,
                        const struct chart_axis *y, struct sonde_buf *out)
{
    char text[SONDE_CHART_LABEL_MAX];
    chart_write(out, 20, top + 26, "t", "start", c->title);
    if (c->note[0]) chart_write(out, 20, top + 44, "n", "start", c->note);
    for (size_t i = 0; i < y->tick_count; i++) {
        const double at = chart_place(y, y->ticks[i]);
        sonde_buf_printf(out, "<path d=\"M%d %.1fH%d\" class=\"g\"/>\n", CHART_LEFT, at,
                         CHART_WIDTH - CHART_RIGHT);
        chart_tick_text(c, c->y_unit, y->ticks[i], y->to - y->from, text);
        chart_write(out, CHART_LEFT - 8, at + 4, "a", "end", text);
    }
    for (size_t i = 0; i < x->tick_count; i++) {
        const double at = chart_place(x, x->ticks[i]);
        sonde_buf_printf(out, "<path d=\"M%.1f %.1fv5\" class=\"l\"/>\n", at, y->begin);
        chart_tick_text(c, c->x_unit, x->ticks[i], x->to - x->from, text);
        chart_write(out, at, y->begin + 19, "a", "middle", text);
    }
    sonde_buf_printf(out, "<path d=\"M%d %.1fH%d\" class=\"l\"/>\n", CHART_LEFT, y->begin,
                     CHART_WIDTH - CHART_RIGHT);
    chart_write(out, (CHART_LEFT + CHART_WIDTH - CHART_RIGHT) / 2.0, y->begin + 42, "n", "middle",
                c->x_title);
    chart_write(out, 20, top + CHART_TOP - 10, "n", "start", c->y_title);
}

static void chart_draw_points(const struct sonde_chart_series *s, const char *color,
                              const struct chart_axis *x, const struct chart_axis *y,
                              struct sonde_buf *out)
{
    for (size_t i = 0; i < s->count && !s->dotless; i++) {
        const struct sonde_chart_point *p = &s->points[i];
        const double px = chart_place(x, p->x), py = chart_place(y, p->y);
        if (!isnan(p->low)) {
            sonde_buf_printf(out, "<path d=\"M%.1f %.1fV%.1fm-4 0h8M%.1f %.1fh8\" stroke=\"%s\" "
                             "class=\"e\"/>\n", px, chart_place(y, p->low),
                             chart_place(y, p->high), px - 4, chart_place(y, p->low), color);
        }
        sonde_buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"%s/>\n", px, py,
                         s->faint ? "2.5" : "4.5", color, s->faint ? " opacity=\"0.4\"" : "");
        const int right = px > CHART_WIDTH - 120; /* its label would leave the picture */
        if (p->label[0]) {
            chart_write(out, px + (right ? -8 : 8), py - 6, "a", right ? "end" : "start", p->label);
        }
    }
}

static void chart_draw(const struct sonde_chart *c, double top, struct sonde_buf *out)
{
    struct chart_axis x, y;
    double legend = CHART_LEFT;
    size_t own = 0;
    chart_axes(c, top, &x, &y);
    chart_frame(c, top, &x, &y, out);
    const char *used[SONDE_CHART_SERIES_MAX];
    for (size_t i = 0; i < c->series_count; i++) {
        const struct sonde_chart_series *s = &c->series[i];
        const size_t as = s->color ? (size_t)s->color - 1 : i;
        used[i] = s->color && as < i ? used[as] : chart_colors[own++ % SONDE_COUNT(chart_colors)];
        if (s->line && s->count > 1) {
            sonde_buf_printf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s d=\"",
                             used[i], s->dotless ? " stroke-dasharray=\"5 4\"" : "");
            for (size_t k = 0; k < s->count; k++) {
                sonde_buf_printf(out, "%c%.1f %.1f", k ? 'L' : 'M', chart_place(&x, s->points[k].x),
                                 chart_place(&y, s->points[k].y));
            }
            sonde_buf_puts(out, "\"/>\n");
        }
        chart_draw_points(s, used[i], &x, &y, out);
        if (!s->name[0] || !s->count || legend > CHART_WIDTH - 140) continue;
        sonde_buf_printf(out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"11\" height=\"11\" rx=\"2\" "
                         "fill=\"%s\"/>\n", legend + 80, top + CHART_TOP - 20, used[i]);
        chart_write(out, legend + 96, top + CHART_TOP - 10, "a", "start", s->name);
        legend += 40 + 7 * (double)strlen(s->name);
    }
}

void sonde_chart_write(const struct sonde_chart *charts, size_t count, int html,
                       struct sonde_buf *out)
{
    const size_t height = CHART_HEIGHT * (count ? count : 1);
    if (html) {
        sonde_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                            "<meta name=\"viewport\" content=\"width=device-width\"><title>");
        chart_text(out, count ? charts[0].title : "sonde bench");
        sonde_buf_puts(out, "</title><style>body{margin:0;background:#fff}"
                            "@media(prefers-color-scheme:dark){body{background:#14171c}}"
                            "svg{display:block;margin:auto;max-width:100%;height:auto}"
                            "</style></head><body>\n");
    }
    sonde_buf_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                     "viewBox=\"0 0 %d %zu\" role=\"img\">\n", CHART_WIDTH, height, CHART_WIDTH,
                     height);
    sonde_buf_puts(out, "<style>text{font:12px system-ui,sans-serif;fill:#30363d}"
                        ".t{font-size:16px;font-weight:600}.n{fill:#57606a}.a{fill:#57606a}"
                        ".g{stroke:#d8dee4;fill:none}.l{stroke:#57606a;fill:none}"
                        ".e{stroke-width:1.5;fill:none}.b{fill:#fff}"
                        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n,.a{fill:#9aa4ae}"
                        ".g{stroke:#2b323a}.l{stroke:#9aa4ae}.b{fill:#14171c}}</style>\n");
    sonde_buf_printf(out, "<rect class=\"b\" width=\"%d\" height=\"%zu\"/>\n", CHART_WIDTH, height);
    for (size_t i = 0; i < count; i++) chart_draw(&charts[i], (double)(CHART_HEIGHT * i), out);
    sonde_buf_puts(out, "</svg>\n");
    if (html) sonde_buf_puts(out, "</body></html>\n");
}
