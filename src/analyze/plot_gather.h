/* plot_gather.h - from recordings to what pictures are drawn of (plot_data.h). Pure: a profile is
 * read, nothing is opened. */
#ifndef SONDE_ANALYZE_PLOT_GATHER_H
#define SONDE_ANALYZE_PLOT_GATHER_H

#include "analyze/plot_data.h"
#include "base/err.h"

struct sonde_profile;

/* All that p has, of every role but figures and scaling. label: what the run is called where there
 * are several, "" = it is the only one (then groups are programs). 0 or SONDE_ENOMEM. */
int sonde_plot_gather(const struct sonde_profile *p, const char *label,
                      struct sonde_plot_data *out);
/* The part of it that is machine learning (analyze/ml.h). */
int sonde_plot_gather_ml(const struct sonde_profile *p, const char *label,
                         struct sonde_plot_data *out);

/* Figures of two or more runs, each with a 95 % interval: those that the first has in common
 * with another (analyze/compare.h). 0 or SONDE_ENOMEM; runs that have nothing to compare give
 * nothing. */
int sonde_plot_gather_compare(const struct sonde_profile *const *runs, const char *const *labels,
                              size_t count, struct sonde_plot_data *out);

#endif
