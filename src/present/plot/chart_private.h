/* chart_private.h - what drawing a chart shares among its files. */
#ifndef SONDE_PRESENT_PLOT_CHART_PRIVATE_H
#define SONDE_PRESENT_PLOT_CHART_PRIVATE_H

#include "present/plot/axis.h"
#include "present/plot/chart.h"

struct chart_drawing {
    const struct sonde_chart *chart;
    struct sonde_canvas *canvas;
    double x0, y0, x1, y1;              /* what may be drawn on, without the edge */
    double left, right, top, bottom;    /* the plot */
    double text_size;
    struct sonde_axis x, y;             /* of values; of lying bars x goes down */
};

/* The colour of a series; *again: it is that of another too, and has to be told apart. */
enum sonde_ink sonde_chart_ink(const struct sonde_chart *c, size_t series, int *again);
/* What point i of a series stands on; 0 if nothing is stacked. */
double sonde_chart_base(const struct sonde_chart *c, size_t series, size_t i);
/* The most that a cell counts. */
double sonde_chart_most(const struct sonde_chart *c);

void sonde_chart_marks(struct chart_drawing *d);

#endif
