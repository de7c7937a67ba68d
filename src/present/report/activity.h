/* activity.h - operations, errors, caches, bandwidth and scopes (analyze/activity.h) as parts of a
 * report: text, Markdown and JSON. */
#ifndef SONDE_PRESENT_REPORT_ACTIVITY_H
#define SONDE_PRESENT_REPORT_ACTIVITY_H

#include "analyze/activity.h"
#include "base/buf.h"
#include "present/report/profile.h"

/* Parts of what there is; nothing if a is NULL. limit: rows of a table. */
void sonde_activity_report(const struct sonde_activity *a, const struct sonde_report_options *o,
                           size_t limit, struct sonde_buf *out);

/* Members "operations", "operation_errors", "caches", "bandwidth", "scopes" and "throughput" of an
 * open object: those of which there is something. */
void sonde_activity_json(const struct sonde_activity *a, struct sonde_buf *out);

#endif
