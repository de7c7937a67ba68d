/* protobuf.c - delimited io.prometheus.client.MetricFamily, with native histograms.
 *
 * The recorder's buckets are those of schema 6, so nothing is lost: bucket p, counted from the
 * octave 2^-40, has the Prometheus index p - 2560. Its bucket 0 holds the one value 2^-40, which
 * is the zero threshold and so belongs to the zero bucket.
 *
 * A histogram carries classic buckets too: scrapers without native histograms need them, and
 * Prometheus up to 2.50 looks for exemplars nowhere else. Deltas are packed, which every decoder
 * of a repeated scalar accepts. Field numbers: client_model's metrics.proto. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/pb.h"
#include "base/put.h"
#include "model/classic.h"
#include "serve/export/export.h"
#include "model/export_name.h"

enum { FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4, FAMILY_UNIT = 5 };
enum { TYPE_COUNTER = 0, TYPE_GAUGE = 1, TYPE_UNTYPED = 3, TYPE_HISTOGRAM = 4 };
enum {
    METRIC_LABEL = 1, METRIC_GAUGE = 2, METRIC_COUNTER = 3, METRIC_UNTYPED = 5, METRIC_HISTOGRAM = 7
};
enum { COUNTER_VALUE = 1, COUNTER_CREATED = 3, GAUGE_VALUE = 1, UNTYPED_VALUE = 1 };
enum {
    HIST_COUNT = 1, HIST_SUM = 2, HIST_BUCKET = 3, HIST_SCHEMA = 5, HIST_ZERO_THRESHOLD = 6,
    HIST_ZERO_COUNT = 7, HIST_SPAN = 12, HIST_DELTA = 13, HIST_CREATED = 15, HIST_EXEMPLAR = 16,
};
enum { BUCKET_COUNT = 1, BUCKET_BOUND = 2, BUCKET_EXEMPLAR = 3 };
enum { SPAN_OFFSET = 1, SPAN_LENGTH = 2 };
enum { EXEMPLAR_LABEL = 1, EXEMPLAR_VALUE = 2, EXEMPLAR_TIME = 3 };
enum { LABEL_NAME = 1, LABEL_VALUE = 2 };
enum { TIME_SECONDS = 1, TIME_NANOS = 2 };

enum {
    SCHEMA = 6,
    GAP = 2, /* as many empty buckets are cheaper as zeros than as a new span */
};

struct export_protobuf_writer {
    struct sonde_buf *out;
    struct sonde_export_twins twins;
    const struct sonde_model_family *model_family;
    struct sonde_classic classic;
    /* One for each level of nesting. */
    struct sonde_buf family, metric, value, bucket, exemplar, leaf;
    int64_t delta[SONDE__HIST_BUCKETS];
    struct { int32_t offset; uint32_t length; } span[SONDE__HIST_BUCKETS / (GAP + 1) + 1];
};

static void export_protobuf_put_label(struct export_protobuf_writer *w,
                                      struct sonde_buf *to, uint32_t field,
                                      const char *name, const char *value, size_t value_len)
{
    sonde_buf_reset(&w->leaf);
    sonde_pb_str(&w->leaf, LABEL_NAME, name, strlen(name));
    sonde_pb_str(&w->leaf, LABEL_VALUE, value, value_len);
    sonde_pb_message(to, field, &w->leaf);
}

static void export_protobuf_put_time(struct export_protobuf_writer *w, struct sonde_buf *to,
                                     uint32_t field, double time_s)
{
    if (!(time_s > 0 && time_s < 1e15)) return;
    const uint64_t ns = (uint64_t)llround(fmod(time_s, 1) * 1e9);
    sonde_buf_reset(&w->leaf);
    sonde_pb_uint(&w->leaf, TIME_SECONDS, (uint64_t)time_s + ns / 1000000000);
    sonde_pb_uint(&w->leaf, TIME_NANOS, ns % 1000000000);
    sonde_pb_message(to, field, &w->leaf);
}

static void export_protobuf_put_exemplar(struct export_protobuf_writer *w, struct sonde_buf *to,
                                         uint32_t field, const struct sonde_exemplar *e)
{
    char id[32];
    sonde_put_hex(sonde_put_hex(id, e->trace_hi), e->trace_lo);
    sonde_buf_reset(&w->exemplar);
    export_protobuf_put_label(w, &w->exemplar, EXEMPLAR_LABEL, "trace_id", id, sizeof(id));
    sonde_pb_double(&w->exemplar, EXEMPLAR_VALUE, e->value);
    export_protobuf_put_time(w, &w->exemplar, EXEMPLAR_TIME, e->time_s);
    sonde_pb_message(to, field, &w->exemplar);
}

static void export_protobuf_put_bucket(struct export_protobuf_writer *w, uint64_t cumulative,
                                       double bound, const struct sonde_exemplar *e)
{
    sonde_buf_reset(&w->bucket);
    sonde_pb_uint(&w->bucket, BUCKET_COUNT, cumulative);
    sonde_pb_double(&w->bucket, BUCKET_BOUND, bound);
    if (e) export_protobuf_put_exemplar(w, &w->bucket, BUCKET_EXEMPLAR, e);
    sonde_pb_message(&w->value, HIST_BUCKET, &w->bucket);
}

static void put_classic(struct export_protobuf_writer *w, const struct sonde_model_series *s)
{
    uint64_t cumulative[SONDE_CLASSIC_MAX];
    const struct sonde_exemplar *exemplars[SONDE_CLASSIC_MAX + 1];
    sonde_classic_counts(&w->classic, s, cumulative);
    sonde_classic_exemplars(&w->classic, s, exemplars);
    const size_t n = w->classic.count;
    for (size_t i = 0; i < n; i++) {
        export_protobuf_put_bucket(w, cumulative[i], w->classic.bound[i], exemplars[i]);
    }
    export_protobuf_put_bucket(w, s->hist ? s->hist->count : 0, INFINITY, exemplars[n]);
}

/* Spans of buckets, and each bucket's count as a difference to the one before it. */
static void export_protobuf_put_native(struct export_protobuf_writer *w,
                                       const struct sonde_hist_value *h)
{
    size_t deltas = 0, spans = 0;
    int64_t before = 0;
    uint32_t next = 0; /* bucket after the last one put */
    for (uint32_t p = 1; h && p < SONDE__HIST_BUCKETS; p++) {
        const uint64_t *counts = h->octave[p / 64];
        if (!counts) {
            p |= 63;
            continue;
        }
        const int64_t n = (int64_t)counts[p % 64];
        if (n == 0) continue;
        if (spans && p - next <= GAP) {
            for (; next < p; next++, before = 0) {
                w->delta[deltas++] = -before;
                w->span[spans - 1].length++;
            }
        } else {
            w->span[spans].offset =
                spans ? (int32_t)(p - next) : (int32_t)p + 64 * SONDE__HIST_EXP_MIN;
            w->span[spans++].length = 0;
        }
        w->delta[deltas++] = n - before;
        w->span[spans - 1].length++;
        before = n;
        next = p + 1;
    }
    for (size_t i = 0; i < spans; i++) {
        sonde_buf_reset(&w->leaf);
        sonde_pb_sint(&w->leaf, SPAN_OFFSET, w->span[i].offset);
        sonde_pb_uint(&w->leaf, SPAN_LENGTH, w->span[i].length);
        sonde_pb_message(&w->value, HIST_SPAN, &w->leaf);
    }
    sonde_pb_packed_sint(&w->value, HIST_DELTA, w->delta, deltas);
}

static void export_protobuf_put_histogram(struct export_protobuf_writer *w,
                                          const struct sonde_model_series *s)
{
    const struct sonde_hist_value *h = s->hist;
    const uint64_t zero = h ? h->zero + (h->octave[0] ? h->octave[0][0] : 0) : 0;
    sonde_pb_uint(&w->value, HIST_COUNT, h ? h->count : 0);
    sonde_pb_double(&w->value, HIST_SUM, sonde_model_series_sum(s));
    put_classic(w, s);
    sonde_pb_sint(&w->value, HIST_SCHEMA, SCHEMA);
    sonde_pb_double(&w->value, HIST_ZERO_THRESHOLD, ldexp(1, SONDE__HIST_EXP_MIN));
    sonde_pb_uint(&w->value, HIST_ZERO_COUNT, zero);
    export_protobuf_put_native(w, h);
    export_protobuf_put_time(w, &w->value, HIST_CREATED, s->created_s);
    for (size_t i = 0; i < s->exemplar_count; i++) {
        if (s->exemplar[i].time_s > 0) {
            export_protobuf_put_exemplar(w, &w->value, HIST_EXEMPLAR, &s->exemplar[i]);
        }
    }
    sonde_pb_message(&w->metric, METRIC_HISTOGRAM, &w->value);
}

static void export_protobuf_put_series(struct export_protobuf_writer *w,
                                       const struct sonde_model_series *s)
{
    const enum sonde_type type = w->model_family->type;
    sonde_buf_reset(&w->metric);
    sonde_buf_reset(&w->value);
    for (size_t i = 0; i < s->label_count; i++) {
        const char *name = s->labels[i].name, *value = s->labels[i].value;
        if (type == SONDE_HISTOGRAM && strcmp(name, "le") == 0) name = "exported_le";
        export_protobuf_put_label(w, &w->metric, METRIC_LABEL, name, value, strlen(value));
    }
    if (w->model_family->shown != SONDE_SHOWN_TYPE) {
        sonde_pb_double(&w->value, UNTYPED_VALUE, s->gauge);
        sonde_pb_message(&w->metric, METRIC_UNTYPED, &w->value);
        sonde_pb_message(&w->family, FAMILY_METRIC, &w->metric);
        return;
    }
    switch (type) {
    case SONDE_COUNTER:
        sonde_pb_double(&w->value, COUNTER_VALUE, sonde_model_series_total(s));
        export_protobuf_put_time(w, &w->value, COUNTER_CREATED, s->created_s);
        sonde_pb_message(&w->metric, METRIC_COUNTER, &w->value);
        break;
    case SONDE_GAUGE:
        sonde_pb_double(&w->value, GAUGE_VALUE, s->gauge);
        sonde_pb_message(&w->metric, METRIC_GAUGE, &w->value);
        break;
    case SONDE_HISTOGRAM: export_protobuf_put_histogram(w, s); break;
    }
    sonde_pb_message(&w->family, FAMILY_METRIC, &w->metric);
}

static void export_protobuf_put_head(struct export_protobuf_writer *w, const struct sonde_model *m,
                                     struct sonde_model_family *family)
{
    struct sonde_export_name name;
    w->model_family = family;
    sonde_export_name(m, family, &name);
    sonde_buf_reset(&w->value);
    sonde_export_help(family, &w->value);
    sonde_buf_reset(&w->family);
    sonde_pb_str(&w->family, FAMILY_NAME, name.text, name.len);
    sonde_pb_str(&w->family, FAMILY_HELP, w->value.data ? w->value.data : "", w->value.len);
    sonde_pb_uint(&w->family, FAMILY_TYPE,
                  family->shown != SONDE_SHOWN_TYPE ? TYPE_UNTYPED
                  : family->type == SONDE_COUNTER ? TYPE_COUNTER
                  : family->type == SONDE_GAUGE ? TYPE_GAUGE
                                                : TYPE_HISTOGRAM);
    if (sonde_export_has_unit(family, &name)) {
        sonde_pb_str(&w->family, FAMILY_UNIT, family->unit, strlen(family->unit));
    }
    if (family->type == SONDE_HISTOGRAM) sonde_classic_bounds(family, &w->classic);
}

static void export_protobuf_put_family(
    struct export_protobuf_writer *w, const struct sonde_model *m,
    struct sonde_model_family *family, const struct sonde_filter *f)
{
    int head = 0;
    for (size_t i = 0; i < family->series_count; i++) {
        const struct sonde_model_series *s = family->series[i];
        if ((f && !sonde_filter_series(f, s)) || sonde_export_hidden(&w->twins, s)) continue;
        if (!head) export_protobuf_put_head(w, m, family);
        head = 1;
        export_protobuf_put_series(w, s);
    }
    if (head) sonde_pb_delimited(w->out, &w->family);
}

static void export_protobuf_render(const struct sonde_model *m, const struct sonde_filter *f,
                                   struct sonde_buf *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct export_protobuf_writer *w = out->error ? NULL : sonde__alloc(sizeof(*w));
    if (!w) {
        if (!out->error) out->error = SONDE_ENOMEM;
        return;
    }
    w->out = out;
    struct sonde_buf *const levels[] = { &w->family, &w->metric,   &w->value,
                                         &w->bucket, &w->exemplar, &w->leaf };
    for (size_t i = 0; i < SONDE_COUNT(levels); i++) {
        sonde_buf_init(levels[i], out->max);
    }
    out->error = sonde_export_twins_init(m, &w->twins);
    for (size_t i = 0; i < m->family_count && !out->error; i++) {
        if (f && !sonde_filter_family(f, m->families[i])) continue;
        export_protobuf_put_family(w, m, m->families[i], f);
    }
    for (size_t i = 0; i < SONDE_COUNT(levels); i++) {
        sonde_buf_release(levels[i]);
    }
    sonde_export_twins_release(&w->twins);
    sonde__free(w);
}

extern const struct sonde_export_ops sonde_export_protobuf;
const struct sonde_export_ops sonde_export_protobuf = {
    .name = "protobuf",
    .summary = "Prometheus protobuf with native histograms",
    .content_type = "application/vnd.google.protobuf; "
                    "proto=io.prometheus.client.MetricFamily; encoding=delimited",
    .render = export_protobuf_render,
};
