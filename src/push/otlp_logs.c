/* otlp_logs.c - findings as log records of OTLP: /v1/logs. One request for each: they are rare. */
#include <assert.h>
#include <string.h>

#include "base/pb.h"
#include "push/otlp.h"
#include "sonde/sonde.h"

/* opentelemetry-proto 1.x, logs/v1. */
enum { REQUEST_RESOURCE_LOGS = 1, RESOURCE_LOGS_RESOURCE = 1, RESOURCE_LOGS_SCOPE_LOGS = 2,
       SCOPE_LOGS_SCOPE = 1, SCOPE_LOGS_RECORDS = 2 };
enum { RECORD_TIME = 1, RECORD_SEVERITY = 2, RECORD_SEVERITY_TEXT = 3, RECORD_BODY = 5,
       RECORD_ATTRIBUTES = 6, RECORD_OBSERVED = 11 };
enum { LOG_BYTES_MAX = 1 << 20 };

static void otlp_log_record(struct sonde_buf *to, struct push_otlp_scratch *s,
                            const struct sonde_push_log *log)
{
    sonde_pb_fixed64(to, RECORD_TIME, log->time_ns);
    sonde_pb_uint(to, RECORD_SEVERITY, log->severity);
    sonde_pb_str(to, RECORD_SEVERITY_TEXT, log->severity_text, strlen(log->severity_text));
    sonde_buf_reset(&s->value);
    sonde_pb_str(&s->value, ANY_STRING, log->body, strlen(log->body));
    sonde_pb_message(to, RECORD_BODY, &s->value);
    for (size_t i = 0; i < log->attribute_count; i++) {
        push_otlp_str(to, RECORD_ATTRIBUTES, log->attributes[i].name, log->attributes[i].value);
    }
    sonde_pb_fixed64(to, RECORD_OBSERVED, log->time_ns);
}

int push_otlp_log(struct push_dest *d, const struct sonde_push_log *log)
{
    struct push_otlp_scratch s;
    struct sonde_buf inner, scope, resource, out;
    push_otlp_scratch_init(&s, LOG_BYTES_MAX);
    sonde_buf_init(&inner, LOG_BYTES_MAX);
    sonde_buf_init(&scope, LOG_BYTES_MAX);
    sonde_buf_init(&resource, LOG_BYTES_MAX);
    sonde_buf_init(&out, LOG_BYTES_MAX);
    push_otlp_scope(&scope, SCOPE_LOGS_SCOPE, &s);
    otlp_log_record(&inner, &s, log);
    sonde_pb_message(&scope, SCOPE_LOGS_RECORDS, &inner);
    sonde_buf_reset(&inner);
    push_otlp_resource(&inner, &s, push_origin(d), &(struct push_otlp_who){ .program = "" });
    sonde_pb_message(&resource, RESOURCE_LOGS_RESOURCE, &inner);
    sonde_pb_message(&resource, RESOURCE_LOGS_SCOPE_LOGS, &scope);
    sonde_pb_message(&out, REQUEST_RESOURCE_LOGS, &resource);
    const int rc = out.error;
    if (!rc) push_emit(d, SONDE_PUSH_LOGS, "/v1/logs", 1, &out);
    push_otlp_scratch_release(&s);
    sonde_buf_release(&inner);
    sonde_buf_release(&scope);
    sonde_buf_release(&resource);
    sonde_buf_release(&out);
    return rc;
}
