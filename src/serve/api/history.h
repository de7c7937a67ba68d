/* history.h - what is in the history of profiles (store/history.h), as JSON. */
#ifndef SONDE_SERVE_API_HISTORY_H
#define SONDE_SERVE_API_HISTORY_H

#include "base/buf.h"
#include "base/err.h"
#include "store/history_summary.h"

/* {"from","to","parts":[{"id","tier","process","start","end","step_s","samples","cpu_seconds",
 *  "allocated_bytes","in_use_bytes","top":{"function","ratio"},"bytes"}, …],"total","truncated"}
 * Parts ascend; of more than limit the newest are there. top: what took most of the CPU itself, of
 * heaps most of what is in use; null = nothing. summaries NULL: all are looked at anew. */
int sonde_api_history(const struct sonde_store_ops *ops, struct sonde_store *s,
                      struct sonde_history_summaries *summaries,
                      const struct sonde_history_query *q, size_t limit, struct sonde_buf *out,
                      struct sonde_err *err);

#endif
