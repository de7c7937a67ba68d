/* trial_private.h - shared by trial.c (processes) and trial_figures.c (figures). */
#ifndef SONDE_BENCH_TUNE_TRIAL_PRIVATE_H
#define SONDE_BENCH_TUNE_TRIAL_PRIVATE_H

#include "bench/tune/trial.h"

/* From the records of a load. 0, SONDE_ENOMEM; SONDE_EIO: requests failed, and reason says how. */
int trial_figures(const struct sonde_tune_plan *p, const struct sonde_load_result *load,
                  struct sonde_tune_figures *out);
/* Memory and SLO; what is broken is said in reason. */
enum sonde_tune_outcome trial_constraints(const struct sonde_tune_plan *p,
                                          struct sonde_tune_figures *out);

#endif
