/* measure.h - from the records of a load to what it says of the server.
 *
 *   begin ──warm-up──▶ from ──────── steady window ────────▶ to ──drain──▶ end
 *
 * Latencies are of requests that were due in the window and ended well; rates count what ended in
 * it. `to` is when the last request was sent: behind it fewer and fewer are under way. The warm-up
 * is found (analyze/steady.h, of latencies and of completions over time) unless it is given; a load
 * whose rate changes by plan has none.
 *
 * What failed is counted by class and is in no latency.
 *
 * Tokens are those of the server's usage. Where it says nothing, an event of a stream counts as a
 * token, and token_basis says so. Gaps "by chunk" are between events. "By token" they are the same
 * gaps where every event was a token; else the time between the first and the last event by the
 * tokens between them, of each answer, since what lies within an event nobody outside can see. */
#ifndef SONDE_BENCH_HTTP_MEASURE_H
#define SONDE_BENCH_HTTP_MEASURE_H

#include "base/err.h"
#include "bench/http/arrival.h"
#include "bench/http/load.h"
#include "bench/http/metric.h"

#define SONDE_LOAD_METRICS(X)                                                                   \
    X(TTFT, "ttft_s", "time to first token")                                                    \
    X(TTFT_CONTENT, "ttft_content_s", "to first non-reasoning token")                           \
    X(TTFT_SCHEDULE, "ttft_from_schedule_s", "first token, from schedule")                      \
    X(ITL, "itl_s", "between tokens")                                                           \
    X(ITL_CHUNK, "itl_chunk_s", "between chunks")                                               \
    X(TPOT, "tpot_s", "time per output token")                                                  \
    X(E2E, "e2e_s", "whole answer")                                                             \
    X(E2E_SCHEDULE, "e2e_from_schedule_s", "whole answer, from schedule")
enum sonde_load_metric_id {
#define SONDE__X(id, name, text) SONDE_LOAD_METRIC_##id,
    SONDE_LOAD_METRICS(SONDE__X)
#undef SONDE__X
    SONDE_LOAD_METRIC_COUNT
};
const char *sonde_load_metric_name(enum sonde_load_metric_id id);
const char *sonde_load_metric_text(enum sonde_load_metric_id id);

#define SONDE_LOAD_RATES(X)                                                                     \
    X(REQUESTS, "requests_per_s") X(OUTPUT, "output_tokens_per_s")                              \
    X(TOTAL, "total_tokens_per_s") X(GOODPUT, "goodput_per_s")
enum sonde_load_rate_id {
#define SONDE__X(id, name) SONDE_LOAD_RATE_##id,
    SONDE_LOAD_RATES(SONDE__X)
#undef SONDE__X
    SONDE_LOAD_RATE_COUNT
};
const char *sonde_load_rate_name(enum sonde_load_rate_id id);

struct sonde_load_rate {
    double value, low, high; /* per second; NaN = not known */
    double parts[SONDE_LOAD_PARTS_MAX];
    size_t part_count;
};

/* "ttft<500ms,itl<50ms,e2e<5s": 0 = no such limit. */
struct sonde_load_slo {
    double ttft_s, itl_s, tpot_s, e2e_s;
};
int sonde_load_slo_parse(const char *text, struct sonde_load_slo *out, struct sonde_err *err);
static inline int sonde_load_slo_any(const struct sonde_load_slo *s)
{
    return s->ttft_s > 0 || s->itl_s > 0 || s->tpot_s > 0 || s->e2e_s > 0;
}

struct sonde_load_measure_options {
    int open;
    const struct sonde_load_arrival *arrival; /* what was planned; NULL = closed, or a replay */
    double planned_s;         /* how long requests were to be sent; 0 = until they were all sent */
    double warmup_s;          /* < 0 = find it */
    uint64_t warmup_requests; /* if not 0, as many instead */
    int unlevel;              /* the rate changes by plan: there is no steady state to look for */
    struct sonde_load_slo slo;
};

enum sonde_load_token_basis {
    SONDE_LOAD_TOKENS_USAGE, SONDE_LOAD_TOKENS_EVENTS, SONDE_LOAD_TOKENS_NONE
};

struct sonde_load_measures {
    uint64_t from_ns, to_ns;       /* the window, CLOCK_MONOTONIC */
    double warmup_s, window_s, run_s;
    int warmup_found;              /* it was looked for */
    int steady_known, steady;      /* whether a steady state was found */
    int at_once;                   /* all were sent before any ended: there is no window */
    uint64_t sent, due;            /* of the whole run */
    uint64_t outcomes[SONDE_LOAD_OUTCOME_COUNT]; /* of the whole run */
    uint64_t statuses[6];          /* STATUS by hundreds; [0] = others */
    uint64_t measured;             /* requests whose latencies these are */
    double effective;              /* independent ones that they are worth */
    struct sonde_load_metric metrics[SONDE_LOAD_METRIC_COUNT];
    struct sonde_load_rate rates[SONDE_LOAD_RATE_COUNT];
    enum sonde_load_token_basis token_basis;
    double tokens_per_chunk;       /* NaN = not known */
    int itl_of_gaps;               /* by token = by chunk */
    double prompt_tokens_mean, output_tokens_mean, cached_ratio; /* NaN = not known */
    double reasoning_ratio;        /* of output tokens; NaN = not known */
    double good_ratio, good_low, good_high; /* of those measured, with interval; NaN = no SLO */
    double planned_rate, sent_rate; /* in the window; planned NaN = closed loop */
    double send_delay_p50_s, send_delay_p99_s; /* sent - intended; NaN = none */
    double in_flight, little;      /* mean requests under way, and rate times latency */
    double in_flight_first, in_flight_last; /* of the first and last tenth of the window */
    double trend_first_s, trend_last_s, trend_p; /* e2e: first third, last third */
};

/* SONDE_ENOMEM. A result without records leaves NaN everywhere. */
int sonde_load_measure(const struct sonde_load_result *r,
                       const struct sonde_load_measure_options *o, struct sonde_load_measures *out);

/* 1 if it is one of those measured. */
int sonde_load_measured(const struct sonde_load_measures *m, const struct sonde_load_record *r);

#endif
