/* api.h - the JSON answers of /api/…, as functions, so that the terminal views show exactly what
 * HTTP serves, whether they read segments themselves or ask an agent by URL.
 * Each appends one JSON object, and asserts the read lock. */
#ifndef SONDE_SERVE_API_API_H
#define SONDE_SERVE_API_API_H

#include "base/buf.h"
#include "model/model.h"
#include "present/report/requests.h"

struct sonde_infer_tracker;

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

/* The step of step_s seconds (a multiple of them in unix time) that the last tick has ended: 0 = it
 * has ended none, nothing was written. A point is as /api/query?step= has it (store.h); series
 * without a value in it are left out.
 * {"time","step_s","series":[{"name","type","unit","labels":{},"process","pid","point":{…}}]} */
int sonde_api_points(const struct sonde_model *m, const struct sonde_api_query *q, double step_s,
                     struct sonde_buf *out);

/* {"time","processes":[{"pid","program","state","ended","segment_bytes","lanes","threads",
 *  "cpu_ratio","rss_bytes","heap_bytes","drops":{…},"spans_seen","spans_lost","series"}]};
 *  heap_bytes is null where the heap is not profiled. */
void sonde_api_processes(const struct sonde_model *m, struct sonde_buf *out);

/* Whether all of the query's filters let a series through. */
int sonde_api_query_passes(const struct sonde_api_query *q, const struct sonde_model_series *s);
/* "process" and "pid"; NULL = null. */
void sonde_api_put_process(struct sonde_buf *out, const struct sonde_model_process *p);

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
/* One as an element; and whether q wants it. */
void sonde_api_put_span(const struct sonde_model_span *s, struct sonde_buf *out);
int sonde_api_span_passes(const struct sonde_api_spans *q, const struct sonde_model_span *s);
#define SONDE_API_SPANS_DEFAULT 100

/* {"time","total","requests":[…]}: present/report/requests.h says what a request is. total: that
 * passed. tracker, here and below: of m; NULL = there is none. */
void sonde_api_requests(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                        const struct sonde_requests_query *q, struct sonde_buf *out);

/* The newest request that id names (sonde_request_is), alone. 0 = there is none, nothing was
 * written. */
int sonde_api_request(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                      const char *id, struct sonde_buf *out);

/* Who was in the same batches, and whose work it waited for (analyze/shared.h), as far as requests
 * are in memory. 0 alike.
 * {"id","own_id","shared":[{"id","own_id","model","route","batches","tokens","seconds","share"}],
 *  "waited_for":[{"id","own_id","phase","seconds"}],"queue":{"seconds"},"complete","note"} */
int sonde_api_shared(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                     const char *id, struct sonde_buf *out);

/* {"time","window_s","totals":{"since","uptime_s","requests":{"ok","error","cancelled","timeout",
 *  "lost"},"tokens_in","tokens_reused","tokens_out","tokens_per_s","requests_per_s","hit_ratio",
 *  "memory_bytes","memory_peak_bytes","slo_met","slo_missed"},"slo":{"ttft_s","itl_s","total_s"},
 *  "invalid_events":{reason: count},
 *  "models":[{"process","pid","source","model","backend","running","waiting",
 *   "prefill_tokens_per_s","decode_tokens_per_s","output_tokens_per_s","hit_ratio",
 *   "kv":{"used","total","peak"},"memory":{kind:{"bytes","peak"}},"memory_peak_bytes","load_s",
 *   "batches","batch_requests_mean","batch_tokens_mean"}],
 *  "groups":[{"process","pid","source","model","route","requests":{…},"requests_per_s",
 *   "tokens_in","tokens_reused","tokens_out","output_tokens_per_s","slo_met","slo_missed",
 *   "user_tokens_per_s":{"count","avg","p50","p5"},"duration","ttft","tpot","itl",
 *   "phases":{"queue",…}}]}
 * duration … and each phase: {"count","total","avg","p50","p95","p99","max"} over the last window_s
 * (0 = 60), or null. Counts are since the start; totals since the last reset. */
void sonde_api_infer(const struct sonde_model *m, const struct sonde_infer_tracker *tracker,
                     double window_s, struct sonde_buf *out);

/* {"time":s,"devices":{…},"pools":{…},"tokenizers":[…]}, each null where no program tells of it
 * (sonde/engine.h); figures are since programs began. 0 or SONDE_ENOMEM. */
int sonde_api_engine(const struct sonde_model *m, struct sonde_buf *out);

/* {"time":s,"ml":{"models","inference","training","datasets",…}}, as in a report; ml is null where
 * no program tells of any (sonde/ml.h). 0 or SONDE_ENOMEM. */
int sonde_api_ml(const struct sonde_model *m, struct sonde_buf *out);

/* {"time","enabled","sources":[{"name","summary","looked_for","state","note","read_seconds",
 *  "restarts","hangs","crashes"}],
 * 
 * "devices":[{"gpu","mig","name","uuid","pci","driver","driver_version","by","state","partitioned",
 *  "figures":{"utilization_ratio","temperature_celsius.core",…},"absent":{figure: why},
 *  "xid_errors":{number: count}}],
 *  "processes":[{"gpu","mig","pid","program","watched","memory_bytes","utilization_ratio"}]}
 * Figures are families without "sonde_gpu_", and what follows a dot is the value of their label. g
 * NULL: GPUs are not read. */
struct sonde_gpu;
void sonde_api_gpu(const struct sonde_gpu *g, const struct sonde_model *m, struct sonde_buf *out);

#endif
