/* page.c - see page.h: what a page holds, where charts are on it, and pictures of it. */
#include "present/plot/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/plot/cairo_late.h"
#include "present/plot/page_private.h"
#include "sonde/sonde.h"

enum { PAGE_MARGIN = 18, PAGE_GAP = 12 };

/* ---- What it holds --------------------------------------------------------------------------- */

int sonde_plot_page_full(const struct sonde_plot_page *p)
{
    return p->count == SONDE_PLOT_CHARTS_MAX;
}

struct sonde_chart *sonde_plot_page_chart(struct sonde_plot_page *p, const char *x_unit,
                                          const char *y_unit)
{
    if (sonde_plot_page_full(p)) return NULL;
    struct sonde_chart *c = SONDE_ARRAY_ADD(p->charts, p->count, p->cap);
    if (!c) return NULL;
    memset(c, 0, sizeof(*c));
    c->x_unit = x_unit;
    c->y_unit = y_unit;
    return c;
}

void sonde_plot_page_drop_empty(struct sonde_plot_page *p)
{
    struct sonde_chart *c = &p->charts[p->count - 1];
    if (!sonde_chart_empty(c) || c->missing[0]) return;
    sonde_chart_release(c);
    p->count--;
}

void sonde_plot_page_release(struct sonde_plot_page *p)
{
    for (size_t i = 0; i < p->count; i++) sonde_chart_release(&p->charts[i]);
    sonde__free(p->charts);
    *p = (struct sonde_plot_page){ .title = "" };
}

static const char *const formats[] = {
#define SONDE__X(id, name) name,
    SONDE_PLOT_FORMATS(SONDE__X)
#undef SONDE__X
};

const char *sonde_plot_format_name(enum sonde_plot_format f) { return formats[f]; }

int sonde_plot_format_find(const char *name)
{
    for (size_t i = 0; i < SONDE_COUNT(formats); i++) {
        if (!strcmp(formats[i], name)) return (int)i;
    }
    return !strcmp(name, "htm") ? SONDE_PLOT_HTML : -1;
}

int sonde_plot_format_of(const char *path)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    return dot && (!slash || dot > slash) ? sonde_plot_format_find(dot + 1) : -1;
}

/* ---- Where charts are ------------------------------------------------------------------------ */

/* Lying bars need a line for each name. */
static double page_chart_height(const struct sonde_chart *c, int columns)
{
    const double plain = columns == 1 ? 400 : 290;
    size_t bars = 0;
    if (sonde_chart_empty(c)) return 170;
    if (!c->horizontal) return plain;
    for (size_t i = 0; i < c->series_count; i++) bars += c->series[i].mark == SONDE_MARK_BAR;
    const double each = c->stacked || bars < 2 ? 26 : 10 + 16 * (double)bars;
    const double needed = 130 + each * (double)c->name_count;
    return fmax(needed, columns == 1 ? 220 : 190);
}

size_t sonde_plot_charts_row(const struct sonde_chart *charts, size_t count, int columns,
                             double *height)
{
    size_t n = 0;
    *height = 0;
    while (n < count && n < (size_t)columns && (!charts[n].wide || !n)) {
        *height = fmax(*height, page_chart_height(&charts[n], columns));
        n++;
        if (charts[n - 1].wide) break;
    }
    return n;
}

double sonde_plot_charts_height(const struct sonde_chart *charts, size_t count, int columns)
{
    double height, all = 0;
    for (size_t i = 0; i < count;) {
        i += sonde_plot_charts_row(charts + i, count - i, columns, &height);
        all += height + (i < count ? PAGE_GAP : 0);
    }
    return all;
}

void sonde_plot_charts_draw(const struct sonde_chart *charts, size_t count, int columns,
                            struct sonde_canvas *canvas, double x, double y, double width,
                            double height)
{
    const double needed = sonde_plot_charts_height(charts, count, columns);
    for (size_t i = 0; i < count;) {
        double row;
        const size_t n = sonde_plot_charts_row(charts + i, count - i, columns, &row);
        if (height > 0 && needed > 0) row *= height / needed;
        /* What is alone in the last row has all of it. */
        const double each = (width - PAGE_GAP * (double)(n - 1)) / (double)n;
        for (size_t k = 0; k < n; k++) {
            sonde_chart_draw(&charts[i + k], canvas, x + (each + PAGE_GAP) * (double)k, y, each,
                             row);
        }
        i += n;
        y += row + PAGE_GAP;
    }
}

/* ---- The page -------------------------------------------------------------------------------- */

static int page_columns(const struct sonde_plot_page *p, double width)
{
    if (p->count < 2 || (width > 0 && width < 640)) return 1;
    return p->count > 6 && (width <= 0 || width >= 1300) ? 3 : 2;
}

struct page_layout { double width, height, head; int columns; };

/* Title and note; returns where charts begin. Without ops: it is only measured. */
static double page_head(const struct sonde_plot_page *p, struct sonde_canvas *canvas, double width)
{
    double y = PAGE_MARGIN;
    if (p->title[0]) {
        const struct sonde_canvas_text t = { .x = PAGE_MARGIN, .y = y + 16, .size = 18, .bold = 1,
                                             .ink = SONDE_INK_TEXT };
        sonde_canvas_write(canvas, &t, width - 2 * PAGE_MARGIN, p->title);
        y += 28;
    }
    if (p->note[0]) {
        const struct sonde_canvas_text t = { .x = PAGE_MARGIN, .y = y + 10, .size = 11.5,
                                             .ink = SONDE_INK_SOFT };
        y += 16 * sonde_canvas_write_lines(canvas, &t, width - 2 * PAGE_MARGIN, 16, 3, p->note);
        y += 8;
    }
    return y;
}

static void page_no_text(struct sonde_canvas *c, const struct sonde_canvas_text *t,
                         const char *text)
{
    (void)c;
    (void)t;
    (void)text;
}

static int page_layout(const struct sonde_plot_page *p, const struct sonde_plot_look *look,
                       struct page_layout *out)
{
    static const struct sonde_canvas_ops measure_ops = { .text = page_no_text };
    static const double widths[] = { 0, 800, 1120, 1440 };
    struct sonde_canvas measure;
    out->columns = page_columns(p, look->width);
    out->width = look->width > 0 ? look->width : widths[out->columns];
    const int rc = sonde_canvas_init(&measure, &measure_ops, out->width, 1);
    if (rc) return rc;
    out->head = page_head(p, &measure, out->width);
    sonde_canvas_release(&measure);
    out->height = look->height;
    if (!(out->height > 0)) {
        out->height = out->head + PAGE_MARGIN +
                      sonde_plot_charts_height(p->charts, p->count, out->columns);
    }
    return 0;
}

static void page_draw(const struct sonde_plot_page *p, const struct page_layout *l,
                      struct sonde_canvas *canvas)
{
    const struct sonde_canvas_line paper = { .fill = SONDE_INK_PAGE };
    canvas->ops->rect(canvas, 0, 0, l->width, l->height, &paper);
    page_head(p, canvas, l->width);
    sonde_plot_charts_draw(p->charts, p->count, l->columns, canvas, PAGE_MARGIN, l->head,
                           l->width - 2 * PAGE_MARGIN, fmax(60, l->height - l->head - PAGE_MARGIN));
}

int sonde_plot_page_svg(const struct sonde_plot_page *p, const struct sonde_plot_look *look,
                        struct sonde_buf *out)
{
    struct page_layout l;
    struct sonde_canvas_svg s;
    int rc = page_layout(p, look, &l);
    if (!rc) rc = sonde_canvas_svg_begin(&s, out, l.width, l.height, look->theme, p->title);
    if (rc) return rc;
    page_draw(p, &l, &s.canvas);
    sonde_canvas_svg_end(&s);
    return out->error;
}

static int page_cairo(const struct sonde_plot_page *p, const struct sonde_plot_look *look, int pdf,
                      struct sonde_buf *out, struct sonde_err *err)
{
    const double scale = look->scale > 0 ? look->scale : 2;
    struct page_layout l;
    struct sonde_canvas_cairo s;
    int rc = page_layout(p, look, &l);
    if (!rc && !pdf && l.width * l.height * scale * scale > SONDE_PLOT_PIXELS_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "a PNG of %.0f x %.0f pixels is too large: take a "
                             "smaller --scale, or SVG", l.width * scale, l.height * scale);
    }
    if (!rc && pdf) rc = sonde_canvas_pdf_begin(&s, out, l.width, l.height, look->theme, p->title);
    else if (!rc) rc = sonde_canvas_png_begin(&s, out, l.width, l.height, scale, look->theme);
    if (rc) return sonde_err_memory(err);
    page_draw(p, &l, &s.canvas);
    return sonde_canvas_cairo_end(&s, err);
}

int sonde_plot_page_write(const struct sonde_plot_page *p, enum sonde_plot_format format,
                          const struct sonde_plot_look *look, struct sonde_buf *out,
                          struct sonde_err *err)
{
    int rc = sonde_cairo_load(err);
    if (rc) return rc;
    switch (format) {
    case SONDE_PLOT_PNG: return page_cairo(p, look, 0, out, err);
    case SONDE_PLOT_PDF: return page_cairo(p, look, 1, out, err);
    case SONDE_PLOT_SVG: rc = sonde_plot_page_svg(p, look, out); break;
    case SONDE_PLOT_HTML: rc = sonde_plot_page_html(p, look, out); break;
    default: return sonde_err_set(err, SONDE_EINVAL, "not a picture");
    }
    if (rc) {
        return sonde_err_set(err, rc, "the picture is too large, or memory is out");
    }
    return 0;
}
