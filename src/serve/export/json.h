/* json.h - what is shown of a series as JSON: the same in exports and in answers of /api/. */
#ifndef SONDE_SERVE_EXPORT_JSON_H
#define SONDE_SERVE_EXPORT_JSON_H

#include "base/json.h"
#include "model/model.h"

void sonde_export_json_labels(struct sonde_buf *out, const struct sonde_model_series *s);
void sonde_export_json_value(struct sonde_buf *out, const struct sonde_model_series *s);
/* "count" … "trend_per_s" over the last window_s. */
void sonde_export_json_stats(struct sonde_buf *out, const struct sonde_model *m,
                             const struct sonde_model_series *s, double window_s);

#endif
