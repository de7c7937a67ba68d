/* ml.h - machine learning (analyze/ml.h) as parts of a report: text, Markdown, JSON and CSV. */
#ifndef SONDE_PRESENT_REPORT_ML_H
#define SONDE_PRESENT_REPORT_ML_H

#include "analyze/ml.h"
#include "base/buf.h"
#include "present/report/profile.h"

/* Parts of what there is; nothing if ml is NULL. limit: rows of a table. */
void sonde_ml_report(const struct sonde_ml *ml, const struct sonde_report_options *o, size_t limit,
                     struct sonde_buf *out);

/* The member "ml" of an open object; nothing if ml is NULL. */
void sonde_ml_json(const struct sonde_ml *ml, struct sonde_buf *out);

/* Rows of csv.h, in sections ml_models, ml_inference, ml_training … */
void sonde_ml_csv(const struct sonde_ml *ml, struct sonde_buf *out);

#endif
