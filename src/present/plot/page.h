/* page.h - charts side by side under a title: what `sonde plot` and `sonde bench plot` write, in
 * all formats. */
#ifndef SONDE_PRESENT_PLOT_PAGE_H
#define SONDE_PRESENT_PLOT_PAGE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "present/plot/canvas.h"
#include "present/plot/chart.h"

#define SONDE_PLOT_CHARTS_MAX 64u

struct sonde_plot_page {
    char title[200];
    char note[400];                   /* below it; "" = none */
    struct sonde_chart *charts;       /* owned */
    size_t count, cap;
};

/* A new chart, empty; units are static. NULL: no memory, or (if the page is full) there are too
 * many. Those before it may have moved. */
struct sonde_chart *sonde_plot_page_chart(struct sonde_plot_page *p, const char *x_unit,
                                          const char *y_unit);
int sonde_plot_page_full(const struct sonde_plot_page *p);
/* The last chart, if it got nothing to show and has nothing to say of that, is dropped. */
void sonde_plot_page_drop_empty(struct sonde_plot_page *p);
void sonde_plot_page_release(struct sonde_plot_page *p);

#define SONDE_PLOT_FORMATS(X)                                                                  \
    X(PNG, "png") X(SVG, "svg") X(PDF, "pdf") X(HTML, "html") X(JSON, "json")
enum sonde_plot_format {
#define SONDE__X(id, name) SONDE_PLOT_##id,
    SONDE_PLOT_FORMATS(SONDE__X)
#undef SONDE__X
    SONDE_PLOT_FORMAT_COUNT
};
const char *sonde_plot_format_name(enum sonde_plot_format f);
int sonde_plot_format_find(const char *name);           /* or -1 */
int sonde_plot_format_of(const char *path);             /* by its suffix, or -1 */

#define SONDE_PLOT_WIDTH_MIN 240
#define SONDE_PLOT_SIZE_MAX 8000      /* points */
#define SONDE_PLOT_PIXELS_MAX 100e6

struct sonde_plot_look {
    enum sonde_theme theme;           /* AUTO is light in PNG and PDF */
    double width, height;             /* points; 0 = as needed */
    double scale;                     /* pixels a point, of PNG; 0 = 2 */
};

/* PNG, SVG, PDF or HTML, appended. SONDE_EINVAL: a PNG of too many pixels; SONDE_ENOMEM,
 * SONDE_EFULL. */
int sonde_plot_page_write(const struct sonde_plot_page *p, enum sonde_plot_format format,
                          const struct sonde_plot_look *look, struct sonde_buf *out,
                          struct sonde_err *err);
/* The charts as members of a JSON object: "charts":[…]. */
void sonde_plot_page_json(const struct sonde_plot_page *p, struct sonde_buf *out);

/* Draws all charts on a canvas, `columns` in a row, from y on; returns where they end. height: of
 * all; 0 = as needed. Of a document's pages (pdf.h) and of pictures alike. */
double sonde_plot_charts_height(const struct sonde_chart *charts, size_t count, int columns);
void sonde_plot_charts_draw(const struct sonde_chart *charts, size_t count, int columns,
                            struct sonde_canvas *canvas, double x, double y, double width,
                            double height);
/* How many of them are in the next row, and how high that would be. */
size_t sonde_plot_charts_row(const struct sonde_chart *charts, size_t count, int columns,
                             double *height);

#endif
