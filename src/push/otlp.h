/* otlp.h - what OTLP's metrics and traces have in common: resources, scopes, attributes. Field
 * numbers are those of opentelemetry-proto 1.x (common, resource, metrics, trace: v1). */
#ifndef SONDE_PUSH_OTLP_H
#define SONDE_PUSH_OTLP_H

#include "base/lock.h"
#include "push/push_private.h"
#include "push/sent.h"

enum { OTLP_RAW_MAX = 4 << 20 }; /* a request is not made larger than about this */

enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_BOOL = 2, ANY_INT = 3, ANY_DOUBLE = 4 };

/* For messages inside others. */
struct push_otlp_scratch {
    struct sonde_buf pair, value;
};
void push_otlp_scratch_init(struct push_otlp_scratch *s, size_t max);
void push_otlp_scratch_release(struct push_otlp_scratch *s);

void push_otlp_str(struct sonde_buf *to, uint32_t field, const char *key, const char *value);
void push_otlp_int(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s,
                   const char *key, int64_t value);
void push_otlp_double(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s,
                      const char *key, double value);

/* Who recorded it. pid 0: the host and the agent itself. */
struct push_otlp_who {
    const char *program;
    uint32_t pid;
    uint64_t start_time;   /* tells it from a later process with the same pid */
};

/* A Resource message's bytes. */
void push_otlp_resource(struct sonde_buf *to, struct push_otlp_scratch *s,
                        const struct push_origin *o, const struct push_otlp_who *who);
/* InstrumentationScope as field of `to`. */
void push_otlp_scope(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s);

void push_otlp_id(struct sonde_buf *to, uint32_t field, const uint64_t *words, size_t count);

int push_otlp_metrics(struct push_dest *d, struct sonde_model *m);
int push_otlp_traces(struct push_dest *d, const struct push_spans *s);
int push_otlp_log(struct push_dest *d, const struct sonde_push_log *log);

/* ---- otlp_spans.c: spans on their way -------------------------------------------------------- */

/* Of one process: its resource, and its spans as fields of a ScopeSpans message. */
struct push_span_group {
    uint32_t pid;
    char program[64];            /* its start */
    uint64_t start_time;
    struct sonde_buf resource, spans;
    uint32_t count;
};

enum { PUSH_GROUPS_MAX = 1024 };

struct push_spans {
    struct sonde_lock lock;
    const struct push_origin *origin;
    struct sonde_model *model;
    int requests;                /* request spans come by sonde_push_request */
    struct sonde_model_listener listener;
    struct push_span_group *groups;
    size_t group_count, group_cap;
    size_t bytes;
    uint64_t dropped;            /* spans that did not fit */
    const struct push_sent *sent; /* by agents before this one; NULL = nothing is known */
    uint64_t since_ns;           /* spans that ended before are looked up there; unix time */
    struct sonde_buf ids;        /* of all in groups, 8 bytes each */
    struct push_otlp_scratch scratch; /* under lock, as is span */
    struct sonde_buf span;
};

int push_spans_init(struct push_spans *s, const struct push_origin *o, struct sonde_model *m,
                    int requests);
void push_spans_release(struct push_spans *s);
void push_spans_request(struct push_spans *s, const struct sonde_infer_request *r);
/* What has come so far is out's from now on, to be released. */
void push_spans_take(struct push_spans *s, struct push_spans *out);
/* So many have come that they should be sent now. */
int push_spans_many(struct push_spans *s);

#endif
