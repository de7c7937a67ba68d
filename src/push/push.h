/* push.h - what the agent knows, sent on to others as it comes: metrics, traces and profiles to an
 * OTLP/HTTP collector, metrics by Prometheus remote write, profiles to Pyroscope.
 *
 * One thread, the feeder, looks at the model once an interval, under its read lock like any scrape,
 * and makes batches of bytes of it; each destination has a sender, a thread of its own, with a
 * queue between the two. What cannot be sent waits in a spool on disk (queue.h), oldest first, so
 * that a collector that is away for an hour gets that hour, also from the next agent. Nothing here
 * ever holds up the collector.
 *
 * A kind of destination = one .c file with a const struct sonde_push_ops (push_private.h) + one row
 * in push_list.h. */
#ifndef SONDE_PUSH_PUSH_H
#define SONDE_PUSH_PUSH_H

#include "base/err.h"
#include "model/model.h"
#include "profile/infer.h"
#include "profile/profile.h"

struct sonde_push;

#define SONDE_PUSH_METRICS 1u
#define SONDE_PUSH_TRACES 2u
#define SONDE_PUSH_PROFILES 4u
#define SONDE_PUSH_LOGS 8u

struct sonde_push_target {
    const char *kind;           /* "otlp", "remote_write", "pyroscope" */
    const char *url;            /* http or https, without credentials */
    const char *headers;        /* lines "Name: value"; "" or NULL = none */
};

#define SONDE_PUSH_LABELS_MAX 16

struct sonde_push_options {
    const struct sonde_push_target *targets;
    size_t target_count;
    uint32_t signals;           /* SONDE_PUSH_…, for those that take several */
    struct sonde_model *model;  /* borrowed; NULL = profiles only */
    int requests;               /* sonde_push_request is called for each inference request: their
                                   spans are made there, with what is known of them */
    double interval_s;          /* between looks at the model */
    double timeout_s;           /* for one try */
    const char *labels;         /* "a=b,c=d": to all series, or resources; "" or NULL = none */
    int native_histograms;      /* by remote write, beside the classic ones */
    const char *spool;          /* folder; NULL = what cannot be sent stays in memory */
    uint64_t spool_bytes;       /* for each destination; more: the oldest is dropped */
    double spool_age_s;         /* older is dropped */
};

/* Checks and copies the options; no thread yet, nothing is sent. SONDE_EINVAL: a URL, header or
 * label that cannot be, named. */
int sonde_push_create(const struct sonde_push_options *options, struct sonde_push **out,
                      struct sonde_err *err);
int sonde_push_start(struct sonde_push *p, struct sonde_err *err);
/* A last look at the model; then senders have flush_s to empty their queues. What is left is in the
 * spool, or lost and counted. Call it while the model is there. NULL is fine. */
void sonde_push_stop(struct sonde_push *p, double flush_s);
void sonde_push_destroy(struct sonde_push *p); /* NULL is fine; stops without flushing */

/* A profile that is finished, with names, to all destinations that take profiles. Borrowed; encoded
 * on this thread, sent by others. Any thread, p NULL: nothing happens. 0, or the first error. */
int sonde_push_profile(struct sonde_push *p, const struct sonde_profile *profile);

/* One log record; texts are valid UTF-8 and borrowed. severity is OpenTelemetry's number: 9 is
 * info, 13 warning, 17 error. */
#define SONDE_PUSH_LOG_ATTRIBUTES 12
struct sonde_push_log {
    uint64_t time_ns;           /* unix time */
    uint32_t severity;
    const char *severity_text, *body;
    struct { const char *name, *value; } attributes[SONDE_PUSH_LOG_ATTRIBUTES];
    size_t attribute_count;
};
/* To all destinations that take logs. Any thread, p NULL: nothing happens. */
void sonde_push_log(struct sonde_push *p, const struct sonde_push_log *log);

/* A request that ended (on_done of infer/tracker.h; asserts the model's write lock). */
void sonde_push_request(struct sonde_push *p, const struct sonde_infer_request *r);

/* Send profile once, now, without a spool or another try: for `sonde push`. */
int sonde_push_once(const struct sonde_push_target *target, const char *labels, double timeout_s,
                    const struct sonde_profile *profile, struct sonde_err *err);

/* What would be sent to each destination of m as it is now, not compressed, one body after the
 * other: for tests and benchmarks. Asserts m's read lock, and that p is not started. */
int sonde_push_encode(struct sonde_push *p, struct sonde_model *m,
                      void (*each)(const char *kind, const char *body, size_t len, void *arg),
                      void *arg);

/* Connect, with TLS if that is asked for, and send nothing: for `sonde doctor`. SONDE_EINVAL: what
 * sonde_push_create would refuse; SONDE_EIO: why it cannot be reached. */
int sonde_push_reach(const struct sonde_push_target *target, const char *labels, double timeout_s,
                     struct sonde_err *err);

/* Kinds of destinations, for help and checks: NULL-terminated names. */
const char *sonde_push_kind(size_t i);

/* "metrics,traces": which, or SONDE_EINVAL with the word named. */
int sonde_push_signals(const char *text, uint32_t *out, struct sonde_err *err);

#endif
