/* chart.h - a picture of points as SVG: axes with round numbers, points with intervals, lines; in
 * light and in dark as the viewer prefers. Text is inside as text, nothing is loaded from anywhere,
 * and it needs no script. One file may hold several charts, one below the other. */
#ifndef SONDE_BENCH_PLOT_CHART_H
#define SONDE_BENCH_PLOT_CHART_H

#include <stddef.h>

#include "base/buf.h"

#define SONDE_CHART_SERIES_MAX 16u
#define SONDE_CHART_POINTS_MAX 20000u  /* of a series; more are left out, and it is said */
#define SONDE_CHART_LABEL_MAX 64

struct sonde_chart_point {
    double x, y;             /* not finite: left out */
    double low, high;        /* of y; NaN = no interval */
    char label[SONDE_CHART_LABEL_MAX]; /* beside it; "" = none */
};

struct sonde_chart_series {
    char name[SONDE_CHART_LABEL_MAX];
    struct sonde_chart_point *points; /* owned */
    size_t count, cap;
    int line;                /* points are joined */
    int faint;               /* small and light: single parts behind their mean */
    int dotless;             /* a curve: no points */
    int color;               /* as that of series `color` - 1; 0 = its own */
};

struct sonde_chart {
    char title[160];
    char note[200];          /* below the title; "" = none */
    char x_title[64], y_title[64];
    const char *x_unit, *y_unit; /* static, as result.h has them; "time" = unix time, "name" = the
                                    names of ticks */
    char (*names)[SONDE_CHART_LABEL_MAX]; /* owned: of x = 0, 1, 2 …, with "name" */
    size_t name_count;
    int x_log, y_log, y_zero; /* y_zero: the axis begins at 0 */
    struct sonde_chart_series series[SONDE_CHART_SERIES_MAX];
    size_t series_count;
    size_t left_out;         /* points beyond SONDE_CHART_POINTS_MAX */
};

void sonde_chart_release(struct sonde_chart *c);
/* A new series, or NULL: there are too many. */
struct sonde_chart_series *sonde_chart_series(struct sonde_chart *c, const char *name);
/* label may be NULL. 0 or SONDE_ENOMEM. */
int sonde_chart_add(struct sonde_chart *c, struct sonde_chart_series *s, double x, double y,
                    double low, double high, const char *label);

/* All charts as one SVG; html: in a page. */
void sonde_chart_write(const struct sonde_chart *charts, size_t count, int html,
                       struct sonde_buf *out);

#endif
