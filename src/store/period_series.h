/* period_series.h - the series of a period (period.h): what reports are made of. */
#ifndef SONDE_STORE_PERIOD_SERIES_H
#define SONDE_STORE_PERIOD_SERIES_H

#include "store/history.h"
#include "store/store.h"

/* Those that analyze/final_model.h names, with their buckets, and the facts of models of inference,
 * into p. q: from_s and to_s are times, and program and pid say whose. 0, SONDE_ENOMEM, or what the
 * store says. */
int sonde_period_series(const struct sonde_store_ops *ops, struct sonde_store *s,
                        const struct sonde_history_query *q, struct sonde_profile *p,
                        struct sonde_err *err);

#endif
