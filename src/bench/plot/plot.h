/* plot.h - results as charts, whichever they have the figures for:
 *
 *   distribution   a figure of the last run of each name: parts, mean and interval
 *   history        the figure over the runs of a name, where there are several
 *   scaling        copies against throughput, with the curve that was fitted (bench cmd --parallel)
 *   sweep          load against latencies and throughput (bench http --sweep)
 *   compression    ratio against speed, and the Pareto front (bench compress) */
#ifndef SONDE_BENCH_PLOT_PLOT_H
#define SONDE_BENCH_PLOT_PLOT_H

#include "base/err.h"
#include "analyze/plot_data.h"
#include "bench/saved.h"
#include "present/plot/page.h"

struct sonde_bench_plot_input { const char *name; const struct sonde_bench_saved *saved; };

/* figures: which to draw; NULL = those that are better in a direction, at most 6. SONDE_EINVAL and
 * why: there is nothing to draw. SONDE_ENOMEM. */
int sonde_bench_plot_make(const struct sonde_bench_plot_input *inputs, size_t count,
                    const char *const *figures, size_t figure_count, struct sonde_plot_page *out,
                    struct sonde_err *err);

/* The same for `sonde plot`: figures of the last run of each (role figure), and throughput by
 * copies (role scaling), added to out. 0 or SONDE_ENOMEM. */
int sonde_bench_plot_data(const struct sonde_bench_plot_input *inputs, size_t count,
                          struct sonde_plot_data *out);

#endif
