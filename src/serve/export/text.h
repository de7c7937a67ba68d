/* text.h - the text formats of Prometheus: 0.0.4 and OpenMetrics 1.0, which differ in
 * names of counters, escapes of help, numbers of `le`, created times, exemplars and the end. */
#ifndef SONDE_SERVE_EXPORT_TEXT_H
#define SONDE_SERVE_EXPORT_TEXT_H

#include "base/buf.h"
#include "model/model.h"

enum sonde_export_text { SONDE_TEXT_PROMETHEUS, SONDE_TEXT_OPENMETRICS };

void sonde_export_text(const struct sonde_model *m, const struct sonde_filter *f,
                       enum sonde_export_text style, struct sonde_buf *out);

#endif
