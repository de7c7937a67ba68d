/* bottleneck.h - findings (analyze/bottleneck.h) as JSON and as lines of text. */
#ifndef SONDE_PRESENT_REPORT_BOTTLENECK_H
#define SONDE_PRESENT_REPORT_BOTTLENECK_H

#include "analyze/bottleneck.h"
#include "base/buf.h"

/* An array: [{"kind","function","severity","percent","seconds","bytes","avg_time_ms",
 * "call_count","file","line","text"}]. What is not known is null. */
void sonde_findings_json(const struct sonde_findings *f, struct sonde_buf *out);

/* A line each: severity, kind, what was measured. */
void sonde_findings_text(const struct sonde_findings *f, struct sonde_buf *out);

#endif
