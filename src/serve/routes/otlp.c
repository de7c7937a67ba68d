/* otlp.c - /v1/metrics and /v1/traces: what OpenTelemetry's SDKs and collectors send, by OTLP/HTTP
 * in protobuf or JSON. Answers are in the encoding of the request, as the protocol wants it; a
 * request that is no OTLP gets a google.rpc.Status. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/gz.h"
#include "base/json.h"
#include "base/pb.h"
#include "collect/ingest/otlp.h"
#include "serve/http/route.h"

enum { BODY_MAX = 16 << 20, UNPACKED_MAX = 64 << 20, INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8 };

static const char protobuf[] = "application/x-protobuf", json[] = "application/json";

static int is_type(const char *header, const char *type)
{
    const size_t len = strlen(type);
    return header && strncasecmp(header, type, len) == 0 &&
           (!header[len] || strchr("; \t", header[len]));
}

/* google.rpc.Status; in JSON also with what all our refusals have. */
static void route_otlp_refuse(struct sonde_response *answer, int is_json, unsigned status, int code,
                              const char *text)
{
    sonde_buf_reset(&answer->body);
    answer->status = status;
    answer->content_type = is_json ? json : protobuf;
    if (is_json) {
        sonde_buf_putc(&answer->body, '{');
        sonde_json_u64(&answer->body, "code", (uint64_t)code);
        sonde_json_str(&answer->body, "message", text);
        sonde_json_str(&answer->body, "error", text);
        sonde_buf_putc(&answer->body, '}');
    } else {
        sonde_pb_uint(&answer->body, 1, (uint64_t)code);
        sonde_pb_str(&answer->body, 2, text, strlen(text));
    }
}

/* Export…ServiceResponse: empty, or what was not taken and why. */
static void route_otlp_answer(struct sonde_response *answer, int is_json,
                              enum sonde_otlp_signal signal, const struct sonde_otlp_result *r)
{
    answer->content_type = is_json ? json : protobuf;
    sonde_buf_add(&answer->body, "", 0);
    if (is_json) {
        char text[24];
        sonde_buf_putc(&answer->body, '{');
        if (r->rejected) {
            snprintf(text, sizeof(text), "%llu", (unsigned long long)r->rejected);
            sonde_json_key_open(&answer->body, "partialSuccess", '{');
            sonde_json_str(&answer->body, signal == SONDE_OTLP_METRICS
                                              ? "rejectedDataPoints" : "rejectedSpans", text);
            sonde_json_str(&answer->body, "errorMessage", r->message);
            sonde_json_close(&answer->body, '}');
        }
        sonde_buf_putc(&answer->body, '}');
    } else if (r->rejected) {
        struct sonde_buf partial;
        sonde_buf_init(&partial, 4096);
        sonde_pb_uint(&partial, 1, r->rejected);
        sonde_pb_str(&partial, 2, r->message, strlen(r->message));
        sonde_pb_message(&answer->body, 1, &partial);
        sonde_buf_release(&partial);
    }
}

/* Not the 503 of what may be sent again. */
static void route_otlp_too_large(struct sonde_response *answer, int is_json)
{
    route_otlp_refuse(answer, is_json, 413, RESOURCE_EXHAUSTED,
                      "the unpacked body is larger than 64 MiB");
}

/* The body as it was before it was packed; 0, or a refusal in answer. */
static int route_otlp_unpack(const struct sonde_http_request *r, struct sonde_response *answer,
                             int is_json, struct sonde_buf *room, const char **data, size_t *len)
{
    *data = r->body;
    *len = r->body_len;
    if (!r->content_encoding || strcasecmp(r->content_encoding, "identity") == 0) return 0;
    if (strcasecmp(r->content_encoding, "gzip") != 0) {
        route_otlp_refuse(answer, is_json, 415, INVALID_ARGUMENT,
                          "Content-Encoding may be gzip or identity");
        return -1;
    }
    const int rc = sonde_gz_unpack(r->body, r->body_len, room);
    if (rc == SONDE_EFULL) {
        route_otlp_too_large(answer, is_json);
    } else if (rc == SONDE_ENOMEM) {
        route_otlp_refuse(answer, is_json, 503, RESOURCE_EXHAUSTED, "the agent is out of memory");
    } else if (rc) {
        route_otlp_refuse(answer, is_json, 400, INVALID_ARGUMENT,
                          "the body is not valid gzip, or truncated");
    }
    *data = room->len ? room->data : "";
    *len = room->len;
    return rc;
}

static void route_otlp_take(const struct sonde_http_request *r, struct sonde_response *answer,
                            int is_json, enum sonde_otlp_signal signal, const char *data,
                            size_t len)
{
    struct sonde_buf made;
    struct sonde_err err = { "" };
    struct sonde_otlp_result result;
    int rc = 0;
    sonde_buf_init(&made, UNPACKED_MAX);
    if (is_json) {
        rc = sonde_otlp_from_json(signal, data, len, &made, &err);
        data = made.len ? made.data : "";
        len = made.len;
    }
    if (!rc) rc = sonde_otlp_take(r->agent->otlp, signal, data, len, &result, &err);
    if (rc == SONDE_EFORMAT) route_otlp_refuse(answer, is_json, 400, INVALID_ARGUMENT, err.text);
    else if (rc == SONDE_EFULL) route_otlp_too_large(answer, is_json);
    else if (rc) route_otlp_refuse(answer, is_json, 503, RESOURCE_EXHAUSTED, err.text);
    else route_otlp_answer(answer, is_json, signal, &result);
    sonde_buf_release(&made);
}

static void route_otlp_handle(const struct sonde_http_request *r, struct sonde_response *answer,
                              enum sonde_otlp_signal signal)
{
    const int is_json = is_type(r->content_type, json);
    const char *data;
    size_t len;
    struct sonde_buf room;
    if (!r->agent->otlp) {
        sonde_response_error(answer, 404, "OTLP input is disabled in this agent (ingest.enabled)");
        return;
    }
    if (!is_json && !is_type(r->content_type, protobuf)) {
        sonde_response_error(answer, 415, "Content-Type must be %s or %s", protobuf, json);
        return;
    }
    sonde_buf_init(&room, UNPACKED_MAX);
    if (route_otlp_unpack(r, answer, is_json, &room, &data, &len) == 0) {
        route_otlp_take(r, answer, is_json, signal, data, len);
    }
    sonde_buf_release(&room);
}

static void handle_metrics(const struct sonde_http_request *r, struct sonde_response *answer)
{
    route_otlp_handle(r, answer, SONDE_OTLP_METRICS);
}

static void handle_traces(const struct sonde_http_request *r, struct sonde_response *answer)
{
    route_otlp_handle(r, answer, SONDE_OTLP_TRACES);
}

extern const struct sonde_route sonde_route_otlp_metrics, sonde_route_otlp_traces;
const struct sonde_route sonde_route_otlp_metrics = {
    .method = "POST",
    .path = "/v1/metrics",
    .summary = "accepts metrics by OTLP/HTTP, as protobuf or JSON",
    .params = (const char *const[]){ NULL },
    .body_max = BODY_MAX,
    .body_type = "application/json|application/x-protobuf",
    .produces = "application/json|application/x-protobuf",
    .statuses = "400*,404,413*,415*,503*",
    .handle = handle_metrics,
};

const struct sonde_route sonde_route_otlp_traces = {
    .method = "POST",
    .path = "/v1/traces",
    .summary = "accepts traces by OTLP/HTTP, as protobuf or JSON",
    .params = (const char *const[]){ NULL },
    .body_max = BODY_MAX,
    .body_type = "application/json|application/x-protobuf",
    .produces = "application/json|application/x-protobuf",
    .statuses = "400*,404,413*,415*,503*",
    .handle = handle_traces,
};
