/* api_store.h - answers of /api/… that come from the store. Each appends one JSON object. */
#ifndef SONDE_SERVE_API_STORE_H
#define SONDE_SERVE_API_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

/* {"time","from","to","step_s","series":[{"name","type","kind","unit","source","labels":{},
 *  "process","pid","value","count","total","avg","min","max","last","median","p50","p90","p95",
 *  "p99","rate","points":[{"time","value","count","min","max","last"} or, of a histogram,
 *  {"time","value","count","avg","min","max","p50","p90","p95","p99"}, …]}, …],"total","truncated",
 *  "gaps":[{"from","to","reason"}, …]}
 * Figures are of the whole range; points ascend. A point's value is what the live answer's history
 * has: a counter's increase per second, a gauge's mean, a histogram's records per second. */
int sonde_api_stored(const struct sonde_store_ops *ops, struct sonde_store *s,
                     const struct sonde_store_query *q, struct sonde_buf *out,
                     struct sonde_err *err);

/* {"runs":[{"id","name","tags","host","version","start","end","ticks","profiles","live"}, …],
 *  "store":{"ticks","points","dropped_ticks","dropped_series","failing_since","problem", …}} */
int sonde_api_runs(const struct sonde_store_ops *ops, struct sonde_store *s, struct sonde_buf *out,
                   struct sonde_err *err);

#endif
