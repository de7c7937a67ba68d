/* throughput.c - work per second over time, a panel for each kind of work. */
#include "present/plot/kind.h"

static int throughput_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    return sonde_plot_over_time(d, SONDE_ROLE_RATE, " per second", page);
}

const struct sonde_plot_kind sonde_plot_throughput = {
    .name = "throughput",
    .summary = "tokens, requests, operations and other work per second, over time",
    .needs = "series over time, of work that was done",
    .hint = "Record some seconds of a program that uses sonde.h or sonde/inference.h, or of an "
            "inference server, or give a data file with series of the role rate (docs/plot.md).",
    .role = SONDE_ROLE_RATE,
    .draw = throughput_draw,
};
