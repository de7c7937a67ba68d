/* store.h - answers of /api/… that come from the store. Each appends one JSON object. */
#ifndef SONDE_SERVE_API_STORE_H
#define SONDE_SERVE_API_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "serve/api/api.h"
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

/* One of those, as an element. */
void sonde_api_put_point(struct sonde_buf *out, const struct sonde_store_point *p,
                         enum sonde_type type);

/* {"runs":[{"id","name","tags","host","version","start","end","ticks","profiles","spans",
 *  "requests","findings","live"}, …],
 *  "store":{"ticks","points","dropped_ticks","dropped_series","failing_since","problem", …}}
 * clock_ahead_s: nothing is deleted for its age; only then. */
int sonde_api_runs(const struct sonde_store_ops *ops, struct sonde_store *s, struct sonde_buf *out,
                   struct sonde_err *err);

/* ---- store_events.c ------------------------------------------------------------------- */

/* As sonde_api_spans answers, with "stored":true and "seen" and "kept": of the time that was looked
 * at, how many there were and are in the store. */
int sonde_api_stored_spans(const struct sonde_store_ops *ops, struct sonde_store *s,
                           const struct sonde_api_spans *q, struct sonde_buf *out,
                           struct sonde_err *err);
/* "stored", "seen" and "kept". */
void sonde_api_put_counts(struct sonde_buf *out, const struct sonde_store_counts *c);

struct sonde_finding_watch;

struct sonde_api_findings {
    struct sonde_store_range range;
    const char *kind;            /* glob; NULL = any */
    int severity;                /* at least */
    struct sonde_finding_watch *watch; /* with what it found last, as "active"; NULL = none looks */
};
/* {"findings":[{"id","run","time","kind","subject","severity","value","unit","text"}, …],
 * "active":[…],"looked"}, newest first; active as sonde_findings_json, looked when that was. */
int sonde_api_findings(const struct sonde_store_ops *ops, struct sonde_store *s,
                       const struct sonde_api_findings *q, struct sonde_buf *out,
                       struct sonde_err *err);

/* A run as in sonde_api_runs, with "config":{…},"modules":[{"path","build_id"}, …],
 * "heaps":[{"profile","time","program","exact","live_bytes","live_count","alloc_bytes",
 * "alloc_count","peak_bytes","rss_bytes","lost_bytes"}, …]. SONDE_ENOENT: there is none. */
int sonde_api_run(const struct sonde_store_ops *ops, struct sonde_store *s, uint32_t id,
                  struct sonde_buf *out, struct sonde_err *err);
void sonde_api_put_run(struct sonde_buf *out, const struct sonde_store_run *r);

#endif
