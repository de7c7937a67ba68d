/* otlp.h - what OpenTelemetry's SDKs and collectors send over HTTP: metrics become series of the
 * model (ingest.h), traces become spans.
 *
 * There is one decoder, of protobuf; JSON is made protobuf first (otlp_json.c). A request is looked
 * at twice: once to see that it is well-formed, then into the model, so that garbage changes
 * nothing.
 *
 *   metrics   names and units as OpenTelemetry's rules for Prometheus have them:
 *             http.server.duration in s is http_server_duration_seconds, a monotonic sum ends in
 *             _total
 *   labels    attributes; job and instance from service.name, .namespace and .instance.id; the
 *             scope's name as otel_scope_name. Other attributes of the resource are in target_info
 *   sums      cumulative or delta; monotonic ones are counters, others gauges
 *   histograms with bounds stay counters (ingest.h); exponential ones become ours exactly, if their
 *             scale is 6 or more, and counters at their own bounds below that
 *   traces    spans of the model, with trace, parent, status and the first few attributes
 *
 * Exemplars, minima and maxima, links and events are not kept. */
#ifndef SONDE_COLLECT_INGEST_OTLP_H
#define SONDE_COLLECT_INGEST_OTLP_H

#include "base/buf.h"
#include "base/err.h"
#include "model/model.h"

enum sonde_otlp_signal { SONDE_OTLP_METRICS, SONDE_OTLP_TRACES };

struct sonde_otlp;

struct sonde_otlp_options {
    size_t series_max;       /* of all senders */
    double stale_s;          /* a series that nobody sent for so long is forgotten */
};

int sonde_otlp_create(struct sonde_model *m, const struct sonde_otlp_options *o,
                      struct sonde_otlp **out);
void sonde_otlp_destroy(struct sonde_otlp *o); /* NULL is fine */

struct sonde_otlp_result {
    uint64_t accepted, rejected; /* data points, or spans */
    char message[256];           /* why the first was rejected; "" = none was */
};

/* An Export…ServiceRequest. SONDE_EFORMAT: it is none; nothing was taken. Any thread. */
int sonde_otlp_take(struct sonde_otlp *o, enum sonde_otlp_signal signal, const void *data,
                    size_t len, struct sonde_otlp_result *result, struct sonde_err *err);

/* ---- otlp_json.c ----------------------------------------------------------------------------- */

/* The same in protobuf. SONDE_EFORMAT, SONDE_ENOMEM, SONDE_EFULL (more than out may hold). */
int sonde_otlp_from_json(enum sonde_otlp_signal signal, const char *text, size_t len,
                         struct sonde_buf *out, struct sonde_err *err);

#endif
