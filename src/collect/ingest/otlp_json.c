/* otlp_json.c - OTLP in JSON made protobuf, by tables of OpenTelemetry's messages.
 *
 * What is special about OTLP's JSON: names in lowerCamelCase, 64-bit numbers as text (or not), ids
 * in hexadecimal, enums as numbers; unknown names are passed over. Rejected: a second decoder that
 * walks the JSON tree; two that have to agree in everything are twice the work and never do. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/pb.h"
#include "collect/ingest/otlp.h"
#include "sonde/sonde.h"

enum { DEPTH_MAX = 32 };

enum otlp_json_kind {
    MESSAGE, STRING, HEX, BASE64, BOOL, UINT, SINT, INT64, FIXED64, SFIXED64, DOUBLE,
    LIST = 32, /* several */
};

struct message;
struct field { const char *name; uint32_t number; int kind; const struct message *message; };
struct message { const struct field *field; size_t count; };
#define MESSAGE_OF(name)                                                                         \
    static const struct message name = { name##_fields, SONDE_COUNT(name##_fields) }

static const struct message any_value, key_value;
static const struct field list_fields[] = { { "values", 1, MESSAGE | LIST, &any_value } };
static const struct field kvlist_fields[] = { { "values", 1, MESSAGE | LIST, &key_value } };
MESSAGE_OF(list);
MESSAGE_OF(kvlist);
static const struct field any_value_fields[] = {
    { "stringValue", 1, STRING, NULL },    { "boolValue", 2, BOOL, NULL },
    { "intValue", 3, INT64, NULL },        { "doubleValue", 4, DOUBLE, NULL },
    { "arrayValue", 5, MESSAGE, &list },   { "kvlistValue", 6, MESSAGE, &kvlist },
    { "bytesValue", 7, BASE64, NULL },
};
MESSAGE_OF(any_value);
static const struct field key_value_fields[] = {
    { "key", 1, STRING, NULL }, { "value", 2, MESSAGE, &any_value },
};
MESSAGE_OF(key_value);
#define ATTRIBUTES(number) { "attributes", number, MESSAGE | LIST, &key_value }
static const struct field resource_fields[] = { ATTRIBUTES(1) };
MESSAGE_OF(resource);
static const struct field scope_fields[] = {
    { "name", 1, STRING, NULL }, { "version", 2, STRING, NULL }, ATTRIBUTES(3),
};
MESSAGE_OF(scope);

/* ---- Metrics --------------------------------------------------------------------------------- */

#define TIMES { "startTimeUnixNano", 2, FIXED64, NULL }, { "timeUnixNano", 3, FIXED64, NULL }
static const struct field number_fields[] = {
    ATTRIBUTES(7), TIMES, { "asDouble", 4, DOUBLE, NULL }, { "asInt", 6, SFIXED64, NULL },
    { "flags", 8, UINT, NULL },
};
MESSAGE_OF(number);
static const struct field histogram_point_fields[] = {
    ATTRIBUTES(9), TIMES, { "count", 4, FIXED64, NULL }, { "sum", 5, DOUBLE, NULL },
    { "bucketCounts", 6, FIXED64 | LIST, NULL }, { "explicitBounds", 7, DOUBLE | LIST, NULL },
    { "flags", 10, UINT, NULL },
};
MESSAGE_OF(histogram_point);
static const struct field buckets_fields[] = {
    { "offset", 1, SINT, NULL }, { "bucketCounts", 2, UINT | LIST, NULL },
};
MESSAGE_OF(buckets);
static const struct field exponential_point_fields[] = {
    ATTRIBUTES(1), TIMES, { "count", 4, FIXED64, NULL }, { "sum", 5, DOUBLE, NULL },
    { "scale", 6, SINT, NULL }, { "zeroCount", 7, FIXED64, NULL },
    { "positive", 8, MESSAGE, &buckets }, { "negative", 9, MESSAGE, &buckets },
    { "flags", 10, UINT, NULL }, { "zeroThreshold", 14, DOUBLE, NULL },
};
MESSAGE_OF(exponential_point);
static const struct field quantile_fields[] = {
    { "quantile", 1, DOUBLE, NULL }, { "value", 2, DOUBLE, NULL },
};
MESSAGE_OF(quantile);
static const struct field summary_point_fields[] = {
    ATTRIBUTES(7), TIMES, { "count", 4, FIXED64, NULL }, { "sum", 5, DOUBLE, NULL },
    { "quantileValues", 6, MESSAGE | LIST, &quantile }, { "flags", 8, UINT, NULL },
};
MESSAGE_OF(summary_point);
static const struct field gauge_fields[] = { { "dataPoints", 1, MESSAGE | LIST, &number } };
MESSAGE_OF(gauge);
static const struct field sum_fields[] = {
    { "dataPoints", 1, MESSAGE | LIST, &number }, { "aggregationTemporality", 2, UINT, NULL },
    { "isMonotonic", 3, BOOL, NULL },
};
MESSAGE_OF(sum);
static const struct field histogram_fields[] = {
    { "dataPoints", 1, MESSAGE | LIST, &histogram_point },
    { "aggregationTemporality", 2, UINT, NULL },
};
MESSAGE_OF(histogram);
static const struct field exponential_fields[] = {
    { "dataPoints", 1, MESSAGE | LIST, &exponential_point },
    { "aggregationTemporality", 2, UINT, NULL },
};
MESSAGE_OF(exponential);
static const struct field summary_fields[] = { { "dataPoints", 1, MESSAGE | LIST,
                                                 &summary_point } };
MESSAGE_OF(summary);
static const struct field metric_fields[] = {
    { "name", 1, STRING, NULL }, { "description", 2, STRING, NULL }, { "unit", 3, STRING, NULL },
    { "gauge", 5, MESSAGE, &gauge }, { "sum", 7, MESSAGE, &sum },
    { "histogram", 9, MESSAGE, &histogram },
    { "exponentialHistogram", 10, MESSAGE, &exponential }, { "summary", 11, MESSAGE, &summary },
};
MESSAGE_OF(metric);
static const struct field scope_metrics_fields[] = {
    { "scope", 1, MESSAGE, &scope }, { "metrics", 2, MESSAGE | LIST, &metric },
};
MESSAGE_OF(scope_metrics);
static const struct field resource_metrics_fields[] = {
    { "resource", 1, MESSAGE, &resource }, { "scopeMetrics", 2, MESSAGE | LIST, &scope_metrics },
};
MESSAGE_OF(resource_metrics);
static const struct field metrics_request_fields[] = {
    { "resourceMetrics", 1, MESSAGE | LIST, &resource_metrics },
};
MESSAGE_OF(metrics_request);

/* ---- Traces ---------------------------------------------------------------------------------- */

static const struct field status_fields[] = { { "message", 2, STRING, NULL },
                                              { "code", 3, UINT, NULL } };
MESSAGE_OF(status);
static const struct field span_fields[] = {
    { "traceId", 1, HEX, NULL }, { "spanId", 2, HEX, NULL }, { "parentSpanId", 4, HEX, NULL },
    { "name", 5, STRING, NULL }, { "kind", 6, UINT, NULL },
    { "startTimeUnixNano", 7, FIXED64, NULL }, { "endTimeUnixNano", 8, FIXED64, NULL },
    ATTRIBUTES(9), { "status", 15, MESSAGE, &status },
};
MESSAGE_OF(span);
static const struct field scope_spans_fields[] = {
    { "scope", 1, MESSAGE, &scope }, { "spans", 2, MESSAGE | LIST, &span },
};
MESSAGE_OF(scope_spans);
static const struct field resource_spans_fields[] = {
    { "resource", 1, MESSAGE, &resource }, { "scopeSpans", 2, MESSAGE | LIST, &scope_spans },
};
MESSAGE_OF(resource_spans);
static const struct field traces_request_fields[] = {
    { "resourceSpans", 1, MESSAGE | LIST, &resource_spans },
};
MESSAGE_OF(traces_request);

/* ---- Making it protobuf ---------------------------------------------------------------------- */

struct otlp_json_writer {
    struct sonde_err *err;
    size_t max;
};

static int otlp_json_bad(struct otlp_json_writer *w, const struct field *f, const char *must)
{
    return sonde_err_set(w->err, SONDE_EFORMAT, "%s must be %s", f->name, must);
}

/* A whole number, or one as text; of doubles "NaN" and "Infinity" too. */
static int whole_of(const json_t *v, int is_signed, uint64_t *out)
{
    if (json_is_integer(v)) {
        if (!is_signed && json_integer_value(v) < 0) return -1;
        *out = (uint64_t)json_integer_value(v);
        return 0;
    }
    if (json_is_real(v)) { /* 1e3, or 18446744073709551615, which jansson cannot hold as a whole */
        const double d = json_real_value(v);
        if (d < floor(d) || d > floor(d) || d >= 0x1p64 || d < (is_signed ? -0x1p63 : 0)) return -1;
        *out = d < 0 ? (uint64_t)(int64_t)d : (uint64_t)d;
        return 0;
    }
    const char *text = json_string_value(v);
    if (!text || !*text || text[strspn(text, "-0123456789")]) return -1;
    char *end;
    errno = 0;
    if (*text == '-') {
        const int64_t n = strtoll(text, &end, 10);
        *out = (uint64_t)n;
        return errno || *end || !is_signed ? -1 : 0;
    }
    *out = strtoull(text, &end, 10);
    return errno || *end || (is_signed && *out > INT64_MAX) ? -1 : 0;
}

static int otlp_json_double_of(const json_t *v, double *out)
{
    if (json_is_number(v)) {
        *out = json_number_value(v);
        return 0;
    }
    const char *text = json_string_value(v);
    if (!text) return -1;
    if (strcmp(text, "NaN") == 0) *out = NAN;
    else if (strcmp(text, "Infinity") == 0) *out = INFINITY;
    else if (strcmp(text, "-Infinity") == 0) *out = -INFINITY;
    else return -1;
    return 0;
}

static int otlp_json_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int otlp_json_put_hex(struct otlp_json_writer *w, const struct field *f, const json_t *v,
                             struct sonde_buf *out)
{
    char bytes[16];
    const char *text = json_string_value(v);
    const size_t len = text ? strlen(text) : 1;
    if (len % 2 || len > 32) return otlp_json_bad(w, f, "hexadecimal, 32 digits at the most");
    for (size_t i = 0; i < len / 2; i++) {
        const int high = otlp_json_hex_digit(text[2 * i]),
                  low = otlp_json_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return otlp_json_bad(w, f, "hexadecimal");
        bytes[i] = (char)(high << 4 | low);
    }
    sonde_pb_bytes(out, f->number, bytes, len / 2);
    return 0;
}

/* Bytes are passed on as the text that they came as: they are only ever shown. */
static int put_scalar(struct otlp_json_writer *w, const struct field *f, const json_t *v,
                      struct sonde_buf *out)
{
    uint64_t n = 0;
    double d = 0;
    switch (f->kind & (LIST - 1)) {
    case STRING:
    case BASE64:
        if (!json_is_string(v)) return otlp_json_bad(w, f, "a text");
        sonde_pb_str(out, f->number, json_string_value(v), json_string_length(v));
        return 0;
    case HEX: return otlp_json_put_hex(w, f, v, out);
    case BOOL:
        if (!json_is_boolean(v)) return otlp_json_bad(w, f, "true or false");
        sonde_pb_uint(out, f->number, json_is_true(v));
        return 0;
    case UINT:
        if (whole_of(v, 0, &n)) return otlp_json_bad(w, f, "a whole number, 0 or more");
        sonde_pb_uint(out, f->number, n);
        return 0;
    case INT64:
        if (whole_of(v, 1, &n)) return otlp_json_bad(w, f, "a whole number");
        sonde_pb_uint(out, f->number, n);
        return 0;
    case SINT:
        if (whole_of(v, 1, &n)) return otlp_json_bad(w, f, "a whole number");
        sonde_pb_sint(out, f->number, (int64_t)n);
        return 0;
    case FIXED64:
    case SFIXED64:
        if (whole_of(v, (f->kind & (LIST - 1)) == SFIXED64, &n)) {
            return otlp_json_bad(w, f, "a whole number");
        }
        sonde_pb_fixed64(out, f->number, n);
        return 0;
    default:
        if (otlp_json_double_of(v, &d)) return otlp_json_bad(w, f, "a number");
        sonde_pb_double(out, f->number, d);
        return 0;
    }
}

static int otlp_json_put_message(struct otlp_json_writer *w, const struct message *m,
                                 json_t *object, int depth, struct sonde_buf *out);

static int put_one(struct otlp_json_writer *w, const struct field *f, json_t *v, int depth,
                   struct sonde_buf *out)
{
    if ((f->kind & (LIST - 1)) != MESSAGE) return put_scalar(w, f, v, out);
    struct sonde_buf inner;
    sonde_buf_init(&inner, w->max);
    const int rc = json_is_object(v) ? otlp_json_put_message(w, f->message, v, depth + 1, &inner)
                                     : otlp_json_bad(w, f, "an object");
    if (!rc) sonde_pb_message(out, f->number, &inner);
    sonde_buf_release(&inner);
    return rc;
}

static int otlp_json_put_message(struct otlp_json_writer *w, const struct message *m,
                                 json_t *object, int depth, struct sonde_buf *out)
{
    if (depth > DEPTH_MAX) return sonde_err_set(w->err, SONDE_EFORMAT, "nested too deeply");
    for (size_t i = 0; i < m->count; i++) {
        const struct field *f = &m->field[i];
        json_t *v = json_object_get(object, f->name), *element;
        size_t k;
        int rc = 0;
        if (!v || json_is_null(v)) continue;
        if (!(f->kind & LIST)) {
            rc = put_one(w, f, v, depth, out);
            if (rc) return rc;
            continue;
        }
        if (!json_is_array(v)) return otlp_json_bad(w, f, "an array");
        json_array_foreach(v, k, element)
        {
            rc = put_one(w, f, element, depth, out);
            if (rc) return rc;
        }
    }
    return 0;
}

int sonde_otlp_from_json(enum sonde_otlp_signal signal, const char *text, size_t len,
                         struct sonde_buf *out, struct sonde_err *err)
{
    json_error_t problem;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
    struct otlp_json_writer w = { err, out->max };
    if (!root) return sonde_err_set(err, SONDE_EFORMAT, "not valid JSON: %s", problem.text);
    int rc = 0;
    if (!json_is_object(root)) rc = sonde_err_set(err, SONDE_EFORMAT, "not a JSON object");
    else
        rc = otlp_json_put_message(
            &w, signal == SONDE_OTLP_METRICS ? &metrics_request : &traces_request, root, 0, out);
    if (!rc && out->error) rc = sonde_err_set(err, out->error, "no memory for what was sent");
    json_decref(root);
    return rc;
}
