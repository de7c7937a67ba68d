/* rewrite.c - heads as they are passed on; see front_private.h.
 *
 * Fields go through byte by byte as they came, but for those that are about one connection only
 * (RFC 9110, 7.6.1), the Host, and those that a proxy adds to. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/put.h"
#include "front/front_private.h"

/* ---- Writing into a buffer ---------------------------------------------------------------- */

struct front_rewrite_writer {
    char *at, *end;
    int full;
};

static struct front_rewrite_writer writer_at(struct front_bytes *b)
{
    const uint32_t room = front_room(b);
    char *at = b->data ? b->data + b->end : NULL;
    return (struct front_rewrite_writer){ at, at ? at + room : NULL, !at };
}

static void front_rewrite_put(struct front_rewrite_writer *w, const char *data, size_t len)
{
    if (w->full || len > (size_t)(w->end - w->at)) {
        w->full = 1;
        return;
    }
    w->at = sonde_put(w->at, data, len);
}

static void puts_(struct front_rewrite_writer *w, const char *text)
{
    front_rewrite_put(w, text, strlen(text));
}

/* What was written counts, or nothing of it. */
static int writer_done(struct front_rewrite_writer *w, struct front_bytes *b)
{
    assert(w->full || (w->at >= b->data + b->end && w->at <= w->end));
    if (w->full) return -1;
    b->end = (uint32_t)(w->at - b->data);
    return 0;
}

static void front_rewrite_put_span(struct front_rewrite_writer *w, const char *head,
                                   struct sonde_http_span s)
{
    front_rewrite_put(w, head + s.at, s.len);
}

static void front_rewrite_put_field(struct front_rewrite_writer *w, const char *head,
                                    const struct sonde_http_field *f)
{
    front_rewrite_put_span(w, head, f->name);
    puts_(w, ": ");
    front_rewrite_put_span(w, head, f->value);
    puts_(w, "\r\n");
}

/* One field that holds the values of all fields of this kind, and one more. */
static void put_list(struct front_rewrite_writer *w, const struct sonde_http_head *h,
                     const char *head, enum sonde_http_field_id id, const char *name,
                     const char *more)
{
    puts_(w, name);
    puts_(w, ": ");
    for (uint32_t i = 0; h->first[id] && i < h->field_count; i++) {
        if (h->field[i].id != id || !h->field[i].value.len) continue;
        front_rewrite_put_span(w, head, h->field[i].value);
        puts_(w, ", ");
    }
    puts_(w, more);
    puts_(w, "\r\n");
}

static void put_trace(struct front_rewrite_writer *w, const char *name,
                      const struct front_proxied *proxied)
{
    char text[64], *p = text;
    p = SONDE_PUT(p, ": 00-");
    p = sonde_put_hex(sonde_put_hex(p, proxied->r.trace_hi), proxied->r.trace_lo);
    *p++ = '-';
    p = sonde_put_hex(p, proxied->r.span);
    *p++ = '-';
    *p++ = "0123456789abcdef"[proxied->trace_flags >> 4 & 15];
    *p++ = "0123456789abcdef"[proxied->trace_flags & 15];
    puts_(w, name);
    front_rewrite_put(w, text, (size_t)(p - text));
    puts_(w, "\r\n");
}

/* ---- Which fields ------------------------------------------------------------------------- */

/* 1 if a Connection field names it, so that it is not for the next hop. Fields that we act on
 * ourselves cannot be taken away so: nobody may hide the length or the sender of a request. */
static int front_rewrite_nominated(const struct sonde_http_head *h, const char *head,
                                   const struct sonde_http_field *f)
{
    char name[64];
    if (f->id != SONDE_HTTP_OTHER || f->name.len >= sizeof(name)) return 0;
    memcpy(name, head + f->name.at, f->name.len);
    name[f->name.len] = 0;
    for (uint32_t i = 0; h->first[SONDE_HTTP_CONNECTION] && i < h->field_count; i++) {
        const struct sonde_http_field *c = &h->field[i];
        if (c->id == SONDE_HTTP_CONNECTION &&
            sonde_http_list_has(head + c->value.at, c->value.len, name)) {
            return 1;
        }
    }
    return 0;
}

static int of_this_hop(enum sonde_http_field_id id)
{
    return id == SONDE_HTTP_CONNECTION || id == SONDE_HTTP_KEEP_ALIVE ||
           id == SONDE_HTTP_PROXY_CONNECTION || id == SONDE_HTTP_TE || id == SONDE_HTTP_UPGRADE ||
           id == SONDE_HTTP_HTTP2_SETTINGS;
}

/* 1 if the upstream gets it as it is. */
static int passes_to_upstream(const struct front_proxied *proxied, enum sonde_http_field_id id)
{
    if (proxied->own) return 1;
    switch (id) {
    case SONDE_HTTP_HOST:
    case SONDE_HTTP_TRACEPARENT:
    case SONDE_HTTP_VIA:
    case SONDE_HTTP_X_FORWARDED_FOR: return 0;
    case SONDE_HTTP_TRACESTATE: return proxied->r.parent != 0; /* means nothing in a new trace */
    /* A compressed answer could not be read; one that is not is always acceptable. */
    case SONDE_HTTP_ACCEPT_ENCODING: return proxied->r.route == SONDE_FRONT_OTHER;
    default: return 1;
    }
}

static int passes_to_client(const struct front_proxied *proxied, enum sonde_http_field_id id)
{
    const int no_body = proxied->answer_head.status < 200 || proxied->answer_head.status == 204;
    switch (id) {
    case SONDE_HTTP_TRANSFER_ENCODING: return !proxied->dechunk && !no_body;
    case SONDE_HTTP_CONTENT_LENGTH: return !no_body;
    case SONDE_HTTP_VIA: return proxied->own;
    default: return 1;
    }
}

/* ---- Requests ----------------------------------------------------------------------------- */

struct sonde_http_span front_target(const struct sonde_http_head *h, const char *head)
{
    struct sonde_http_span t = h->target;
    static const char scheme[] = "http://";
    const uint32_t skip = sizeof(scheme) - 1;
    if (t.len < skip || strncasecmp(head + t.at, scheme, skip) != 0) return t;
    uint32_t before = skip;
    while (before < t.len && head[t.at + before] != '/' && head[t.at + before] != '?') before++;
    return (struct sonde_http_span){ t.at + before, t.len - before };
}

static void put_forwarded(struct front_rewrite_writer *w, const struct front_client *c,
                          const char *head)
{
    const struct sonde_http_head *h = &c->head;
    const struct sonde_http_field *host = sonde_http_field(h, SONDE_HTTP_HOST);
    put_list(w, h, head, SONDE_HTTP_X_FORWARDED_FOR, "X-Forwarded-For", c->peer);
    if (host && !sonde_http_field(h, SONDE_HTTP_X_FORWARDED_HOST)) {
        puts_(w, "X-Forwarded-Host: ");
        front_rewrite_put_span(w, head, host->value);
        puts_(w, "\r\n");
    }
    if (!sonde_http_field(h, SONDE_HTTP_X_FORWARDED_PROTO)) {
        puts_(w, "X-Forwarded-Proto: http\r\n");
    }
}

static void put_request_line(struct front_rewrite_writer *w, const struct front_client *c,
                             const char *head)
{
    const struct sonde_http_span target = front_target(&c->head, head);
    front_rewrite_put_span(w, head, c->head.method);
    puts_(w, " ");
    if (!c->proxied.own && !(target.len && head[target.at] == '*')) {
        puts_(w, front_arm_server(c->up)->prefix);
    }
    if (!target.len || head[target.at] == '?') puts_(w, "/");
    front_rewrite_put_span(w, head, target);
    puts_(w, " HTTP/1.1\r\n");
}

int front_put_request(struct front_client *c, const char *head)
{
    assert(c->up && !front_held(&c->up->s.out));
    const struct sonde_front *f = c->front;
    const struct sonde_http_head *h = &c->head;
    const struct front_proxied *proxied = &c->proxied;
    char via[40];
    struct front_rewrite_writer w = writer_at(&c->up->s.out);
    put_request_line(&w, c, head);
    if (!proxied->own) {
        puts_(&w, "Host: ");
        puts_(&w, front_arm_server(c->up)->authority);
        puts_(&w, "\r\n");
    } else if (!sonde_http_field(h, SONDE_HTTP_HOST)) {
        puts_(&w, "Host: localhost\r\n"); /* HTTP/1.0 needs none */
    }
    for (uint32_t i = 0; i < h->field_count; i++) {
        const struct sonde_http_field *field = &h->field[i];
        if (of_this_hop(field->id) || !passes_to_upstream(proxied, field->id)) continue;
        if (!front_rewrite_nominated(h, head, field)) front_rewrite_put_field(&w, head, field);
    }
    if (!proxied->own) {
        snprintf(via, sizeof(via), "1.%d %s", h->minor, f->name);
        put_list(&w, h, head, SONDE_HTTP_VIA, "Via", via);
        put_forwarded(&w, c, head);
        put_trace(&w, "traceparent", proxied);
        if (proxied->r.copy) puts_(&w, "X-Sonde-Mirror: true\r\n"); /* for B's log */
    }
    if (proxied->upgrade) {
        front_rewrite_put_field(&w, head, sonde_http_field(h, SONDE_HTTP_UPGRADE));
        puts_(&w, "Connection: Upgrade\r\n");
    }
    puts_(&w, "\r\n");
    return writer_done(&w, &c->up->s.out);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void put_connection(struct front_rewrite_writer *w, const struct front_proxied *proxied)
{
    if (!proxied->keep_alive) puts_(w, "Connection: close\r\n");
    else if (proxied->http10) puts_(w, "Connection: keep-alive\r\n");
}

static void front_rewrite_put_profile(struct front_rewrite_writer *w,
                                      const struct front_proxied *proxied)
{
    if (!proxied->r.profile_id[0]) return;
    puts_(w, "X-Profile-Id: ");
    puts_(w, proxied->r.profile_id);
    puts_(w, "\r\n");
}

/* Fields of ours in a final answer. */
static void put_ours(struct front_rewrite_writer *w, const struct front_client *c, const char *head)
{
    const struct front_proxied *proxied = &c->proxied;
    char via[40];
    snprintf(via, sizeof(via), "1.%d %s", proxied->answer_head.minor, c->front->name);
    put_list(w, &proxied->answer_head, head, SONDE_HTTP_VIA, "Via", via);
    if (!sonde_http_field(&proxied->answer_head, SONDE_HTTP_TRACERESPONSE)) {
        put_trace(w, "traceresponse", proxied);
    }
    front_rewrite_put_profile(w, proxied);
}

int front_put_answer(struct front_client *c, const char *head)
{
    struct front_proxied *proxied = &c->proxied;
    const struct sonde_http_head *h = &proxied->answer_head;
    char line[32];
    struct front_rewrite_writer w = writer_at(&c->s.out);
    snprintf(line, sizeof(line), "HTTP/1.1 %03u ", h->status);
    puts_(&w, line);
    front_rewrite_put_span(&w, head, h->reason);
    puts_(&w, "\r\n");
    for (uint32_t i = 0; i < h->field_count; i++) {
        const struct sonde_http_field *field = &h->field[i];
        if (of_this_hop(field->id) || !passes_to_client(proxied, field->id)) continue;
        if (!front_rewrite_nominated(h, head, field)) front_rewrite_put_field(&w, head, field);
    }
    if (h->status == 101) {
        const struct sonde_http_field *upgrade = sonde_http_field(h, SONDE_HTTP_UPGRADE);
        if (upgrade) front_rewrite_put_field(&w, head, upgrade);
        puts_(&w, "Connection: Upgrade\r\n");
    } else if (h->status >= 200) {
        if (!proxied->own) put_ours(&w, c, head);
        put_connection(&w, proxied);
    }
    puts_(&w, "\r\n");
    return writer_done(&w, &c->s.out);
}

static const char *front_rewrite_reason_of(unsigned status)
{
    static const struct { unsigned status; const char *reason; } known[] = {
        { 400, "Bad Request" },       { 403, "Forbidden" },
        { 408, "Request Timeout" },   { 414, "URI Too Long" },
        { 417, "Expectation Failed" }, { 431, "Request Header Fields Too Large" },
        { 501, "Not Implemented" },   { 502, "Bad Gateway" },
        { 503, "Service Unavailable" }, { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" }, { 508, "Loop Detected" },
    };
    for (size_t i = 0; i < SONDE_COUNT(known); i++) {
        if (known[i].status == status) return known[i].reason;
    }
    return "Error";
}

int front_put_error(struct front_client *c, unsigned status, const char *type,
                    const char *message)
{
    assert(status >= 400);
    const struct front_proxied *proxied = &c->proxied;
    struct sonde_buf body;
    char line[128];
    sonde_buf_init(&body, 4096);
    sonde_buf_puts(&body, "{\"error\":{");
    sonde_json_str(&body, "message", message);
    sonde_json_str(&body, "type", type);
    sonde_json_u64(&body, "code", status);
    sonde_buf_puts(&body, "}}\n");

    struct front_rewrite_writer w = writer_at(&c->s.out);
    snprintf(line, sizeof(line), "HTTP/1.1 %u %s\r\n", status, front_rewrite_reason_of(status));
    puts_(&w, line);
    puts_(&w, "Content-Type: application/json\r\nCache-Control: no-store\r\n");
    snprintf(line, sizeof(line), "Content-Length: %zu\r\n", body.len);
    puts_(&w, line);
    if (proxied->observed) put_trace(&w, "traceresponse", proxied);
    front_rewrite_put_profile(&w, proxied);
    put_connection(&w, proxied);
    puts_(&w, "\r\n");
    if (body.error) w.full = 1;
    else if (!proxied->is_head) front_rewrite_put(&w, body.data, body.len);
    sonde_buf_release(&body);
    return writer_done(&w, &c->s.out);
}
