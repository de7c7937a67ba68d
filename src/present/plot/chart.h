/* chart.h - what one chart shows: axes, series of points, bars or areas, cells of a heat map,
 * rules. Data only: chart_draw.c draws it on any canvas, and page.h puts charts side by side.
 *
 * Units are those of results of `sonde bench` (bench/result.h) and a few more:
 *
 *   s  bytes  1/s  bytes/s  ratio    as there; ratio is a plain number
 *   share                            0.5 is 50 %
 *   time                             unix time
 *   name                             x = 0, 1, 2 … are the chart's names
 *   ""                               a number */
#ifndef SONDE_PRESENT_PLOT_CHART_H
#define SONDE_PRESENT_PLOT_CHART_H

#include <stddef.h>
#include <stdint.h>

#include "present/plot/canvas.h"

#define SONDE_CHART_SERIES_MAX 16u
#define SONDE_CHART_POINTS_MAX 20000u  /* of a series; more are left out, and it is said */
#define SONDE_CHART_NAMES_MAX 40u
#define SONDE_CHART_RULES_MAX 8u
#define SONDE_CHART_LABEL_MAX 64
#define SONDE_CHART_NAME_MAX 128
#define SONDE_CHART_VALUE_BYTES 40

enum sonde_chart_mark {
    SONDE_MARK_DOTS,         /* points, with intervals if they have any */
    SONDE_MARK_LINE,         /* points that are joined */
    SONDE_MARK_CURVE,        /* a line without points */
    SONDE_MARK_DASHED,       /* the same, dashed: fitted or planned, not measured */
    SONDE_MARK_STEP,         /* x … the next x has y */
    SONDE_MARK_AREA,         /* a curve, filled down to 0, or to the area before it if stacked */
    SONDE_MARK_BAR,          /* at names, or from x to x_end */
};
const char *sonde_chart_mark_name(enum sonde_chart_mark m);

struct sonde_chart_point {
    double x, y;             /* y is NaN: a gap, what is joined is joined on both sides of it */
    double low, high;        /* of y; NaN = no interval */
    double x_end;            /* of a bar; NaN = it stands at a name */
    char label[SONDE_CHART_LABEL_MAX]; /* beside it; "" = none */
};

struct sonde_chart_series {
    char name[SONDE_CHART_NAME_MAX]; /* in the legend; "" = not there */
    enum sonde_chart_mark mark;
    struct sonde_chart_point *points; /* owned */
    size_t count, cap;
    int faint;               /* small and light: single parts behind their mean */
    int color;               /* as that of series `color` - 1; 0 = its own */
    int ink;                 /* enum sonde_ink that it has; 0 = by its color */
};

struct sonde_chart_rule {    /* a line across, with a word on it */
    double at;
    int of_x;                /* at x, else at y */
    char label[SONDE_CHART_LABEL_MAX];
};

struct sonde_chart_cell { double x, x_end, y, y_end; uint64_t count, failed; };

struct sonde_chart {
    char title[160];
    char note[240];          /* below the title; "" = none */
    char missing[400];       /* what is not there and how to get it: drawn if there is no data */
    char x_title[64], y_title[64];
    const char *x_unit, *y_unit; /* static */
    char (*names)[SONDE_CHART_NAME_MAX]; /* owned: of x = 0, 1, 2 …, with "name" */
    size_t name_count, name_cap;
    int x_log, y_log, y_zero; /* y_zero: the axis begins at 0 */
    int y_one;               /* and ends at 1 */
    int horizontal;          /* bars lie: x goes down, y to the right */
    int stacked;             /* bars and areas stand on each other */
    int wide;                /* has a row of a page for itself */
    struct sonde_chart_series series[SONDE_CHART_SERIES_MAX];
    size_t series_count;
    struct sonde_chart_rule rules[SONDE_CHART_RULES_MAX];
    size_t rule_count;
    struct sonde_chart_cell *cells; /* owned: a heat map */
    size_t cell_count, cell_cap;
    size_t left_out;         /* points beyond SONDE_CHART_POINTS_MAX */
    size_t not_finite;       /* values that were no numbers */
};

void sonde_chart_release(struct sonde_chart *c);
/* A new series, or NULL: there are too many. */
struct sonde_chart_series *sonde_chart_series(struct sonde_chart *c, const char *name);
/* What is not finite, or on a logarithmic axis not above 0, is left out and counted. label may be
 * NULL. 0 or SONDE_ENOMEM. */
int sonde_chart_add(struct sonde_chart *c, struct sonde_chart_series *s, double x, double y,
                    double low, double high, const char *label);
/* A bar from x to x_end, in place of what add has. */
int sonde_chart_add_bar(struct sonde_chart *c, struct sonde_chart_series *s, double x, double x_end,
                        double y, const char *label);
/* Nothing is known from here to the next point. */
int sonde_chart_add_gap(struct sonde_chart *c, struct sonde_chart_series *s, double x);
int sonde_chart_add_cell(struct sonde_chart *c, const struct sonde_chart_cell *cell);
/* The number of a name, a new one if it is not there; -1: no memory, or there are too many. */
int sonde_chart_name(struct sonde_chart *c, const char *name);
void sonde_chart_rule(struct sonde_chart *c, int of_x, double at, const char *label);
int sonde_chart_empty(const struct sonde_chart *c);

/* A value as it stands in labels and tooltips: "12.3 ms", "4.56k/s", "50.0 %". Returns out. */
const char *sonde_chart_value(char out[SONDE_CHART_VALUE_BYTES], double v, const char *unit);

/* Draws it into a rectangle of the canvas. */
void sonde_chart_draw(const struct sonde_chart *c, struct sonde_canvas *canvas, double x, double y,
                      double width, double height);

#endif
