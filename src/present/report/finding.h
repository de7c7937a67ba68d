/* finding.h - findings (analyze/finding/finding.h) as JSON and as text. */
#ifndef SONDE_PRESENT_REPORT_FINDING_H
#define SONDE_PRESENT_REPORT_FINDING_H

#include "analyze/finding/finding.h"
#include "base/buf.h"

/* An array, the weightiest first: [{"kind","title","severity","subject","function","file","line",
 * "text","advice","impact","confidence","percent","seconds","bytes","avg_time_ms","call_count",
 * "gain","gain_of","since","until","evidence":[{"type","subject","labels","file","line","value",
 * "unit","what","link"}],"symptoms":[…]}]. "function" is subject under the name that readers of
 * bottlenecks know. What is not known is null. */
void sonde_findings_json(const struct sonde_findings *f, struct sonde_buf *out);

/* {"findings":[…],"notes":[…],"muted"} with a newline. */
void sonde_findings_json_answer(const struct sonde_findings *f, struct sonde_buf *out);

/* A few lines each: what is wrong, what to do, what proves it. width: columns, 0 = 80. limit: at
 * most so many, the rest is counted; 0 = all. */
void sonde_findings_text(const struct sonde_findings *f, size_t width, size_t limit,
                         struct sonde_buf *out);

/* At most `limit` as items of a list. */
struct sonde_report_options;
void sonde_findings_markdown(const struct sonde_findings *f, const struct sonde_report_options *o,
                             size_t limit, struct sonde_buf *out);

#endif
