/* api.h - the JSON answers of /api/…, as functions, so that the terminal views show exactly what
 * HTTP serves, whether they read segments themselves or ask an agent by URL.
 * Each appends one JSON object; read lock held by the caller. */
#ifndef SONDE_SERVE_API_H
#define SONDE_SERVE_API_H

#include "base/buf.h"
#include "collect/model.h"

/* {"time","families":[{"name","type","kind","unit","help","source","series":[{"labels":{}}]}]} */
void sonde_api_series(const struct sonde_model *m, const struct sonde_filter *f, size_t limit,
                      struct sonde_buf *out);

struct sonde_api_query {
    const struct sonde_filter *filters; /* chained: all must match */
    size_t filter_count;
    double window_s;     /* statistics over the last window_s (capped by the history); 0 = 60 */
    double from_s, to_s; /* history points in this unix time range only; 0 = open */
    size_t limit;        /* series; 0 = 1000 */
    size_t history;      /* newest points per series, newest first; 0 = none */
};

/* {"time","interval_s","window_s","total","truncated","series":[{"name","type","kind","unit",
 *  "source","labels":{},"process","pid","value","count","total","avg","min","max","stddev",
 *  "last","median","p50","p90","p95","p99","rate","trend","trend_per_s",
 *  "history":[[unix_s,value],…]}]}
 * value: counter total, gauge value, histogram count. Statistics that cannot be known (too
 * little data) are null. rate: per second over the window. trend: "up", "down", "flat" or null. */
void sonde_api_query(const struct sonde_model *m, const struct sonde_api_query *q,
                     struct sonde_buf *out);

/* {"time","processes":[{"pid","program","state","ended","segment_bytes","lanes","threads",
 *  "cpu_ratio","rss_bytes","drops":{…},"spans_seen","spans_lost","series"}]} */
void sonde_api_processes(const struct sonde_model *m, struct sonde_buf *out);

struct sonde_api_spans {
    uint64_t trace_hi, trace_lo;  /* 0 0 = any */
    const char *name;             /* glob; NULL = any */
    uint32_t pid;                 /* 0 = any */
    double from_s, to_s;
    size_t limit;                 /* newest first; 0 = 100 */
};
/* {"time","spans":[{"name","program","pid","tid","start","duration_s","trace_id","span_id",
 *  "parent_id","outcome","attributes":{}}]} */
void sonde_api_spans(const struct sonde_model *m, const struct sonde_api_spans *q,
                     struct sonde_buf *out);

#endif
