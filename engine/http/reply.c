/* reply.c - answers on the wire: JSON, errors, streams, and what stands in all heads. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/server_private.h"

enum { STREAM_BLOCK = 16 << 10, TEXT_ROOM_MIN = 256, RETRY_AFTER_S = 1 };

/* ---- Text ----------------------------------------------------------------------------------- */

static int text_room(struct http_text *t, size_t more)
{
    if (t->bytes + more <= t->room) return 0;
    size_t room = t->room ? t->room : TEXT_ROOM_MIN;
    while (room < t->bytes + more) room *= 2;
    char *at = realloc(t->at, room);
    if (!at) return -1;
    t->at = at;
    t->room = room;
    return 0;
}

int http_text_add(struct http_text *t, const void *bytes, size_t count)
{
    if (text_room(t, count)) return -1;
    if (count) memcpy(t->at + t->bytes, bytes, count);
    t->bytes += count;
    return 0;
}

int http_text_print(struct http_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || text_room(t, (size_t)n + 1)) return -1;
    va_start(args, format);
    vsnprintf(t->at + t->bytes, (size_t)n + 1, format, args);
    va_end(args);
    t->bytes += (size_t)n;
    return 0;
}

/* ---- Heads ---------------------------------------------------------------------------------- */

const char *http_header(struct http_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* X-Profile-Id is what the agent calls the request: its span's id (docs/request-profiles.md). */
void http_reply_headers(struct http_call *c, struct MHD_Response *response)
{
    char text[40];
    if (c->id[0]) MHD_add_response_header(response, "X-Request-Id", c->id);
    if (c->sonde.id) {
        snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, c->sonde.trace.hi,
                 c->sonde.trace.lo);
        MHD_add_response_header(response, "X-Trace-Id", text);
    }
    if (c->sonde.id && c->profiled) {
        snprintf(text, sizeof(text), "%016" PRIx64, c->sonde.id);
        MHD_add_response_header(response, "X-Profile-Id", text);
    }
    if (__atomic_load_n(&c->server->stopping, __ATOMIC_RELAXED)) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
}

static enum MHD_Result reply_send(struct http_call *c, unsigned status,
                                  struct MHD_Response *response)
{
    if (!response) return MHD_NO;
    http_reply_headers(c, response);
    const enum MHD_Result queued = MHD_queue_response(c->connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

enum MHD_Result http_reply_json(struct http_call *c, unsigned status, json_t *take)
{
    char *text = take ? json_dumps(take, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(take);
    if (!text) return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, c->route->methods);
    }
    if (status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE) {
        char seconds[16];
        snprintf(seconds, sizeof(seconds), "%d", RETRY_AFTER_S);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    return reply_send(c, status, response);
}

/* ---- Errors --------------------------------------------------------------------------------- */

json_t *http_error_json(unsigned status, const char *param, const char *code, const char *message)
{
    const char *type = status == MHD_HTTP_TOO_MANY_REQUESTS      ? "rate_limit_error"
                       : status == MHD_HTTP_SERVICE_UNAVAILABLE  ? "unavailable_error"
                       : status >= MHD_HTTP_INTERNAL_SERVER_ERROR ? "server_error"
                                                                  : "invalid_request_error";
    json_t *text = json_string(message);
    if (!text) text = json_string("invalid request"); /* the message quotes what is not UTF-8 */
    return json_pack("{s:{s:o,s:s,s:s?,s:s?}}", "error", "message", text, "type", type, "param",
                     param, "code", code);
}

enum MHD_Result http_reply_error(struct http_call *c, unsigned status, const char *param,
                                 const char *code, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    return http_reply_json(c, status, http_error_json(status, param, code, message));
}

/* ---- Streams -------------------------------------------------------------------------------- */

static ssize_t stream_read(void *arg, uint64_t at, char *buffer, size_t max)
{
    struct http_call *c = arg;
    ssize_t n = 0;
    (void)at;
    pthread_mutex_lock(&c->lock);
    if (c->sse_at == c->sse.bytes) {
        c->sse_at = c->sse.bytes = 0;
        if (http_answer_chunks(c)) {
            n = MHD_CONTENT_READER_END_WITH_ERROR;
        } else if (!c->sse.bytes && c->ended) {
            n = MHD_CONTENT_READER_END_OF_STREAM;
        } else if (!c->sse.bytes) {
            c->suspended = 1;
            MHD_suspend_connection(c->connection);
        }
    }
    if (c->sse_at < c->sse.bytes) {
        const size_t left = c->sse.bytes - c->sse_at;
        n = (ssize_t)(left < max ? left : max);
        memcpy(buffer, c->sse.at + c->sse_at, (size_t)n);
        c->sse_at += (size_t)n;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

enum MHD_Result http_reply_stream(struct http_call *c)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, c, NULL);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    return reply_send(c, MHD_HTTP_OK, response);
}
