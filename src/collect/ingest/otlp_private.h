/* otlp_private.h - what the files of OTLP share: otlp.c (requests, resources, scopes, attributes),
 * otlp_name.c (names and units), otlp_metric.c (data points), otlp_span.c. */
#ifndef SONDE_COLLECT_INGEST_OTLP_PRIVATE_H
#define SONDE_COLLECT_INGEST_OTLP_PRIVATE_H

#include "base/pb_read.h"
#include "collect/ingest/ingest.h"
#include "collect/ingest/otlp.h"

enum { OTLP_LABELS_MAX = SONDE_INGEST_LABELS_MAX, OTLP_NAME_BYTES = 300 };

/* Labels that are being put together; text is one buffer, so that pointers into it are made
 * last. */
struct otlp_labels {
    struct sonde_buf text;
    size_t offset[OTLP_LABELS_MAX][2];
    struct sonde_label label[OTLP_LABELS_MAX];
    size_t count;
    int too_many;
};

/* One request on its way into the model. */
struct otlp_capture {
    struct sonde_otlp *o;
    int apply;                     /* 0 = only look whether it is well-formed */
    double now_s;
    struct sonde_otlp_result *result;
    uint64_t points;
    /* Of the resource and scope at hand. */
    struct otlp_labels labels;     /* of a point: first `common` of them are those of both */
    size_t common, common_text;
    char program[64];              /* service.name */
    uint32_t pid;
    /* Of the metric at hand. */
    char name[OTLP_NAME_BYTES];
    const char *unit;
    struct sonde_buf help;
};

/* ---- otlp.c ---- */

/* 0, or SONDE_EFORMAT: damaged. */
int otlp_text(const struct sonde_pb_field *f, struct sonde_buf *out);
/* A KeyValue as a label. */
int otlp_attribute(struct otlp_labels *l, const struct sonde_pb_field *f);
void otlp_labels_cut(struct otlp_labels *l, size_t count, size_t text);
void otlp_labels_done(struct otlp_labels *l);
double otlp_double(uint64_t bits);
/* Count a point that was rejected, with its reason if it is the first. */
void otlp_reject(struct otlp_capture *t, uint64_t n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Others get a turn at the model now and then. */
void otlp_breathe(struct otlp_capture *t);
/* An AnyValue as text, or as a number: attributes of spans. */
struct otlp_value {
    enum { OTLP_NOTHING, OTLP_TEXT, OTLP_BOOL, OTLP_INT, OTLP_DOUBLE, OTLP_OTHER } type;
    const unsigned char *data;
    size_t len;
    int64_t i;
    double d;
};
int otlp_value(const unsigned char *data, size_t len, struct otlp_value *out);
void otlp_value_text(const struct otlp_value *v, struct sonde_buf *out);

/* ---- otlp_name.c ---- */

/* The name that Prometheus has for a metric. *unit: its last word, if that is a unit. */
void otlp_name(char out[OTLP_NAME_BYTES], const char *name, const char *unit, int monotonic,
               int gauge, const char **unit_out);
void otlp_label_name(const char *name, size_t len, struct sonde_buf *out);

/* ---- otlp_metric.c, otlp_span.c ---- */

int otlp_metric(struct otlp_capture *t, const struct sonde_pb_field *f);
int otlp_span(struct otlp_capture *t, const struct sonde_pb_field *f);

struct sonde_otlp {
    struct sonde_model *model;
    struct sonde_ingest *foreign;
    struct sonde_model_series *counted[2][2]; /* signal, accepted or not */
    uint64_t total[2][2];
};

#endif
