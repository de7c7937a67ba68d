/* tracker.h - from events (infer/event.h) to what people ask about inference: figures of
 * each request, percentiles over windows by model and route, totals, and the timelines of requests
 * that were slow or failed.
 *
 * It is of one model and lives under that model's lock, which is asserted: events and ticks
 * come under the write lock, whoever looks has the read lock. Series it makes belong to the model
 * and are windowed, exported and queried like all others.
 *
 * Events come from rings that are read one after the other, so one of a thread may be known before
 * an earlier one of another thread. They are put in order by time: what happened is worked out a
 * fifth of a second later, when nothing earlier is to be expected. What comes later still is
 * counted by reason (sonde_infer_invalid_events_total) and used as far as it can be.
 *
 * Memory is bounded: requests in flight, finished ones, timelines, models and routes; what does not
 * fit is counted. */
#ifndef SONDE_INFER_TRACKER_H
#define SONDE_INFER_TRACKER_H

#include "infer/event.h"
#include "profile/infer.h"

struct sonde_infer_tracker;

struct sonde_infer_options {
    double slo_ttft_s, slo_itl_s, slo_total_s; /* objectives; 0 = none. Goodput: all are met */
    int aliases;              /* also series with others' names: vLLM's, llama.cpp's, plain ones */
    size_t done_max;          /* finished requests kept; 0 = 4096 */
    size_t running_max;       /* requests in flight; 0 = 4096. Over it the one that was not heard of
                                 for longest is given up */
    double from_s; /* unix time: what happened before is not counted, and requests that ended
                                 before are passed over; 0 = all that is heard of counts */
    double timeout_s;         /* not heard of for so long: given up; 0 = 600 */
    /* Each request that ended, with its timeline; write lock, r is borrowed. NULL = nobody. */
    void (*on_done)(const struct sonde_infer_request *r, void *arg);
    /* Each that begins and asks for a profile of it alone; alike. */
    void (*on_begin)(const struct sonde_infer_request *r, void *arg);
    void *on_done_arg;               /* of both */
};

/* A tracker for m. Both without the lock: before other threads know m, and after they have
 * forgotten it, before m is destroyed, since it has pointers to m's series. 0 or SONDE_ENOMEM. */
int sonde_infer_create(struct sonde_model *m, const struct sonde_infer_options *options,
                       struct sonde_infer_tracker **out);
void sonde_infer_destroy(struct sonde_infer_tracker *tracker); /* NULL is fine */

/* An event of another source than segments, from any thread and without the model's lock: it is
 * taken down and worked out when the model is drained next. pid 0, or of a process the model does
 * not know: its series have no process. Parts go before their batch. Too many at once are dropped
 * and counted. */
void sonde_infer_post(struct sonde_infer_tracker *tracker, const struct sonde_infer_event *e);

/* What the collector calls, under the write lock. An event of p, or of no process that the model
 * knows (NULL); e and its texts are borrowed. */
void sonde_infer_event(struct sonde_infer_tracker *tracker, struct sonde_model_process *p,
                       const struct sonde_infer_event *e);
/* The same as a place where readers of segments put events; tracker may be NULL. */
struct sonde_infer_sink sonde_infer_sink(struct sonde_infer_tracker *tracker);
/* All rings have been read since unix time since_ns: what happened before is known. */
void sonde_infer_drained(struct sonde_infer_tracker *tracker, uint64_t since_ns);
void sonde_infer_tick(struct sonde_infer_tracker *tracker, double now_s); /* before the model's */
/* What the next agent has to know besides series (base/state.h), under the read lock; and back,
 * before the first event, under the write lock. */
void sonde_infer_save(const struct sonde_infer_tracker *tracker, struct sonde_state *s);
void sonde_infer_load(struct sonde_infer_tracker *tracker, struct sonde_state *s,
                      const struct sonde_model_knowns *k);

/* Work out everything that is known, without waiting for what may come (write lock): nothing
 * will come, or somebody wants to see. NULL is fine. */
void sonde_infer_flush(struct sonde_infer_tracker *tracker);

/* ---- Looking (read lock) -------------------------------------------------------------------- */

/* Finished requests, age 0 = newest; NULL from sonde_infer_done_count on. */
size_t sonde_infer_done_count(const struct sonde_infer_tracker *tracker);
const struct sonde_infer_request *sonde_infer_done(const struct sonde_infer_tracker *tracker,
                                                   size_t age);

/* Requests in flight, with figures so far, oldest first: up to max into out, whose items and attrs
 * are borrowed. Returns how many there are. */
size_t sonde_infer_running(const struct sonde_infer_tracker *tracker, double now_s,
                           struct sonde_infer_request *out, size_t max);

/* One more finished request, of a recording that is looked at: with its timeline, and in the
 * totals, but in no series. r is copied. Under the write lock, or before other threads know the
 * model. 0 or SONDE_ENOMEM. */
int sonde_infer_adopt(struct sonde_infer_tracker *tracker, const struct sonde_infer_request *r);

/* Series of one model and route in one process. */
#define SONDE_INFER_GROUP_SLOTS(X)                                                             \
    X(DURATION) X(TTFT) X(TPOT) X(ITL) X(USAGE_IN) X(USAGE_OUT)                                \
    X(PHASE_QUEUE) X(PHASE_ENCODE) X(PHASE_PREFILL) X(PHASE_DECODE) X(PHASE_SAMPLE)            \
    X(PHASE_DETOKENIZE)                                                                        \
    X(OK) X(ERROR) X(CANCELLED) X(TIMEOUT) X(LOST)                                             \
    X(TOKENS_IN) X(TOKENS_REUSED) X(TOKENS_OUT) X(PREFIX_QUERIES) X(PREFIX_HITS)               \
    X(SLO_MET) X(SLO_MISSED) X(SLO_TTFT) X(SLO_ITL) X(SLO_TOTAL)

enum sonde_infer_group_slot {
#define SONDE__X(id) SONDE_INFER_G_##id,
    SONDE_INFER_GROUP_SLOTS(SONDE__X)
#undef SONDE__X
    SONDE_INFER_GROUP_SLOT_COUNT
};

struct sonde_infer_group_view {
    const struct sonde_model_process *process;  /* NULL = of none */
    uint32_t source;
    const char *model, *route;
    const struct sonde_model_series *series[SONDE_INFER_GROUP_SLOT_COUNT]; /* NULL = nothing yet */
    uint64_t counted[SONDE_INFER_GROUP_SLOT_COUNT]; /* of counters: since the last reset */
};
size_t sonde_infer_group_count(const struct sonde_infer_tracker *tracker);
void sonde_infer_group(const struct sonde_infer_tracker *tracker, size_t i,
                       struct sonde_infer_group_view *out);

/* One model in one process. */
struct sonde_infer_model_view {
    const struct sonde_model_process *process;
    struct sonde_infer_model facts;  /* texts are borrowed */
    uint64_t running, waiting;       /* requests */
    double prefill_per_s, decode_per_s, output_per_s; /* tokens, in the last tick */
    double hit_ratio;                /* of all prompts so far; NaN before the first */
};
size_t sonde_infer_model_count(const struct sonde_infer_tracker *tracker);
void sonde_infer_model_at(const struct sonde_infer_tracker *tracker, size_t i,
                          struct sonde_infer_model_view *out);

/* Since the start, or since the last reset. */
struct sonde_infer_totals {
    double since_s, uptime_s;
    uint64_t requests[SONDE_INFER_OUTCOMES];
    uint64_t tokens_in, tokens_reused, tokens_out;
    double tokens_per_s;             /* tokens out by wall time */
    double requests_per_s;
    double hit_ratio;                /* NaN before the first prompt */
    uint64_t memory_bytes, memory_peak; /* of all models */
    uint64_t slo_met, slo_missed;
};
void sonde_infer_totals(const struct sonde_infer_tracker *tracker, double now_s,
                        struct sonde_infer_totals *out);
/* Totals, counts of groups and their windows begin anew; series themselves do not, since a counter
 * never goes back. Under the write lock. */
void sonde_infer_reset(struct sonde_infer_tracker *tracker, double now_s);
/* The first tick of the model, and how many of the newest finished requests, are after the
 * reset. */
uint64_t sonde_infer_reset_tick(const struct sonde_infer_tracker *tracker);
size_t sonde_infer_reset_done(const struct sonde_infer_tracker *tracker);

/* Why an event was not used, or not as it was. */
#define SONDE_INFER_REASONS(X)                                                                 \
    X(unknown_request, "of a request nobody began, or that was given up")                      \
    X(after_end, "of a request that had ended")                                                \
    X(duplicate, "told before")                                                                \
    X(repeated_id, "a request began with the id of one that had not ended")                    \
    X(negative, "ended before it began")                                                       \
    X(before_arrival, "before its request arrived")                                            \
    X(out_of_order, "before one that was known already; its tokens count, its time does not")  \
    X(bad_time, "at no time, or in the future")                                                \
    X(bad_value, "a number that cannot be")                                                    \
    X(queue_full, "more at once than are kept")                                                \
    X(went_on, "of a request that was silent and counted as ended; its figures are corrected, "  \
      "percentiles keep what was known then")                                                    \
    X(overwritten, "the end of a request, which was overwritten before it was read")

enum sonde_infer_reason {
#define SONDE__X(name, text) SONDE_INFER_BAD_##name,
    SONDE_INFER_REASONS(SONDE__X)
#undef SONDE__X
    SONDE_INFER_REASON_COUNT
};
uint64_t sonde_infer_invalid(const struct sonde_infer_tracker *tracker,
                             enum sonde_infer_reason reason);
const char *sonde_infer_reason_name(enum sonde_infer_reason reason);  /* "unknown_request" … */
const char *sonde_infer_reason_text(const char *name); /* what it means; "" for an unknown name */

/* The options it was attached with; defaults are filled in. */
const struct sonde_infer_options *sonde_infer_options(const struct sonde_infer_tracker *tracker);

/* Give the requests of p's run (profile/infer.h) the timelines that are still kept here, and p the
 * facts of models, the objectives, and which events were not used. 0 or SONDE_ENOMEM. */
int sonde_infer_complete_run(const struct sonde_infer_tracker *tracker, struct sonde_profile *p);

#endif
