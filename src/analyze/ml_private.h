/* ml_private.h - what the files of analyze/ml.h share. */
#ifndef SONDE_ANALYZE_ML_PRIVATE_H
#define SONDE_ANALYZE_ML_PRIVATE_H

#include "analyze/ml.h"

/* Of what a recording is looked at; times are unix time, 0 = open. */
struct ml_part {
    const struct sonde_profile *p;
    const struct sonde_final *final;  /* its series in that time; NULL = none */
    uint64_t from_ns, to_ns;
};

/* ---- ml.c ---------------------------------------------------------------------------------- */

/* What they hold so far, or a new one; NULL = no memory. */
struct sonde_ml_training *ml_training_of(struct sonde_ml *ml, const char *program,
                                         const char *model);
struct sonde_ml_worker *ml_worker_of(struct sonde_ml *ml, const char *program, const char *worker);
struct sonde_ml_latest *ml_latest_of(struct sonde_ml_training *t, const char *name);

/* All that series say, but for sorting. 0 or SONDE_ENOMEM. */
int ml_series_add(struct sonde_ml *ml, const struct sonde_final_series *series, size_t count);

/* ---- ml_epoch.c ---------------------------------------------------------------------------- */

/* Epochs that are spans of it; series, to know whose they are. 0 or SONDE_ENOMEM. */
int ml_epochs_of_profile(struct sonde_ml *ml, const struct ml_part *part);
int ml_epochs_of_model(struct sonde_ml *ml, const struct sonde_model *m);
/* In order, and what curves there are. */
int ml_epochs_finish(struct sonde_ml_training *t);

/* ---- ml_history.c -------------------------------------------------------------------------- */

/* Gauges over time, of what is known by now. 0 or SONDE_ENOMEM. */
int ml_histories_of_profile(struct sonde_ml *ml, const struct ml_part *part);
int ml_histories_of_model(struct sonde_ml *ml, const struct sonde_model *m);

#endif
