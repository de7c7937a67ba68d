/* proxy.c - one request and its answer: passed on, looked at, told about; see
 * front_private.h. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/utf8.h"
#include "front/front_private.h"
#include "sonde/sonde.h"

enum { LAST_CHUNK = 16 }; /* bytes that end a chunked body, and a few more */
#define HELD_NS_MAX 2000000000u
#define B_RESTS_NS 5000000000u /* when it could not be reached */

/* ---- The observer ----------------------------------------------------------------------- */

static void proxy_notify(struct front_client *c, enum sonde_front_event event)
{
    const struct sonde_front_observer *o = &c->front->o.observer;
    if (!c->proxied.observed) return;
    c->front->changed = 1;
    if (o->event) o->event(o->arg, event, &c->proxied.r);
}

static void set_model(struct sonde_front_request *r, const char *model)
{
    int changed = 0;
    r->model[sonde__utf8_copy(r->model, sizeof(r->model) - 1, model, strlen(model), &changed)] = 0;
}

/* What the scan of the request's body has found so far. */
static void proxy_apply_request_scan(struct front_proxied *proxied)
{
    if (proxied->request_scan.model[0]) set_model(&proxied->r, proxied->request_scan.model);
    proxied->r.stream = proxied->request_scan.stream;
    proxied->r.max_tokens = proxied->request_scan.max_tokens;
}

static void set_failure(struct front_proxied *proxied, enum sonde_front_outcome outcome,
                        const char *error)
{
    if (proxied->failed) return; /* the first failure is the cause */
    proxied->failed = 1;
    proxied->r.outcome = outcome;
    snprintf(proxied->r.error, sizeof(proxied->r.error), "%s", error);
}

/* How a proxied request ended that ended by itself. */
static void proxy_set_outcome(struct front_proxied *proxied)
{
    char status[16];
    snprintf(status, sizeof(status), "http_%u", proxied->r.status);
    if (proxied->r.status >= 400) {
        set_failure(proxied, SONDE_FRONT_ERROR,
                    proxied->answer_scan.error[0] ? proxied->answer_scan.error : status);
    } else if (proxied->answer_scan.failed) {
        set_failure(proxied, SONDE_FRONT_ERROR,
                    proxied->answer_scan.error[0] ? proxied->answer_scan.error : "in_stream");
    }
}

void front_let_go(struct front_client *c)
{
    if (!c->proxied.held_ns) return;
    assert(c->front->held > 0);
    c->proxied.held_ns = 0;
    c->front->held--;
}

static void proxy_end(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    if (!proxied->observed) return;
    assert(c->memory || c->front->state.in_flight > 0);
    front_let_go(c);
    proxy_set_outcome(proxied);
    proxy_apply_request_scan(proxied);
    if (!proxied->r.model[0]) set_model(&proxied->r, proxied->answer_scan.model);
    proxied->r.usage = proxied->answer_scan.usage;
    proxied->r.ended_ns = front_now_ns();
    proxy_notify(c, SONDE_FRONT_ENDED);
    proxied->observed = 0;
    if (c->memory) return;
    c->front->state.in_flight--;
    if (proxied->gather || proxied->copy) {
        front_copy_leave(c, proxied->r.outcome == SONDE_FRONT_CANCELLED);
    }
}

/* ---- Failing ------------------------------------------------------------------------------ */

/* The part of the request's body that is here already goes nowhere. */
static void swallow_request(struct front_client *c)
{
    struct front_bytes *in = &c->s.in;
    struct sonde_http_span payload;
    while (c->proxied.request.progress == SONDE_HTTP_MORE && front_held(in)) {
        const size_t n = sonde_http_body_feed(&c->proxied.request, in->data + in->begin,
                                              front_held(in), &payload);
        if (!n) break;
        front_consume(in, (uint32_t)n);
        c->proxied.r.bytes_in += n;
    }
}

/* No more comes from the upstream: the client gets an error, or is cut off. */
static void proxy_give_up(struct front_client *c, unsigned status, const char *why,
                          const char *message)
{
    assert(c->state == FRONT_BUSY && status >= 400);
    struct front_proxied *proxied = &c->proxied;
    if (c->up) front_upstream_close(c->up);
    proxied->phase = FRONT_DONE;
    if (!proxied->head_passed) {
        swallow_request(c);
        if (proxied->request.progress != SONDE_HTTP_DONE) proxied->keep_alive = 0;
        proxied->r.status = status;
        proxied->head_passed = 1;
        if (front_put_error(c, status, why, message) == 0) return;
    }
    proxied->keep_alive = 0;
    proxied->cut = 1;
}

void front_fail(struct front_client *c, unsigned status, const char *why, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    set_failure(&c->proxied, SONDE_FRONT_UPSTREAM, why);
    proxy_give_up(c, status, why, message);
}

/* The client's fault. */
static void proxy_reject(struct front_client *c, unsigned status, const char *message)
{
    c->front->state.refused_total++;
    c->front->changed = 1;
    set_failure(&c->proxied, SONDE_FRONT_CANCELLED, "bad_request");
    c->proxied.keep_alive = 0;
    proxy_give_up(c, status, "bad_request", message);
}

void front_stalled(struct front_client *c)
{
    assert(c->state == FRONT_BUSY);
    set_failure(&c->proxied, SONDE_FRONT_CANCELLED, "client_stalled");
    c->proxied.keep_alive = 0;
    proxy_give_up(c, 408, "client_stalled",
                  "the rest of the request did not come within the time there is for it");
}

void front_cancel(struct front_client *c, const char *why)
{
    assert(c->state == FRONT_BUSY);
    struct front_proxied *proxied = &c->proxied;
    /* Clients that have read the last event need not wait for the end of the last chunk. */
    const int had_all = proxied->answer_scan.complete && front_held(&c->s.out) <= LAST_CHUNK;
    if (!had_all) set_failure(proxied, SONDE_FRONT_CANCELLED, why);
    if (c->up) front_upstream_close(c->up);
    proxy_end(c);
    front_client_close(c);
}

void front_finish(struct front_client *c)
{
    assert(c->state == FRONT_BUSY);
    proxy_end(c);
    front_client_next(c);
}

/* ---- Beginning ---------------------------------------------------------------------------- */

static void proxy_copy_text(char *out, size_t size, const char *text, size_t len)
{
    assert(size);
    if (len >= size) len = size - 1;
    memcpy(out, text, len);
    out[len] = 0;
}

static void set_trace(struct front_client *c, const char *head)
{
    struct front_proxied *proxied = &c->proxied;
    const struct sonde_http_field *f = sonde_http_field(&c->head, SONDE_HTTP_TRACEPARENT);
    uint64_t random[3] = { 0 };
    char text[128] = "";
    struct sonde_trace t = { 0, 0, 0 };
    if (f && f->value.len < sizeof(text)) {
        proxy_copy_text(text, sizeof(text), head + f->value.at, f->value.len);
    }
    if (c->memory) text[0] = 0; /* a copy is not the client's: its trace would have two of it */
    /* Without an id nothing can be told apart; the clock is better than none. */
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) random[0] = front_now_ns();
    proxied->r.span = random[0] | 1;
    proxied->trace_flags = 1;
    if (sonde_traceparent_parse(text, &t) == 0) {
        proxied->trace_flags = (unsigned)strtoul(text + 53, NULL, 16) & 0xff;
        proxied->r.parent = t.span;
    } else {
        t.hi = random[1];
        t.lo = random[2] | 1;
    }
    proxied->r.trace_hi = t.hi;
    proxied->r.trace_lo = t.lo;
}

/* All of proxied but what needs no value before it is written. */
static void proxy_reset(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    memset(proxied, 0, offsetof(struct front_proxied, answer_head));
    proxied->phase = FRONT_HEAD;
    sonde_http_head_init(&proxied->answer_head, 1);
    sonde_scan_request_init(&proxied->request_scan);
    sonde_scan_answer_init(&proxied->answer_scan, SONDE_SCAN_NOTHING);
    front_client_busy(c);
}

static void proxy_set_request(struct front_client *c, const char *head, struct sonde_http_span path)
{
    const struct sonde_http_head *h = &c->head;
    struct front_proxied *proxied = &c->proxied;
    struct sonde_front_request *r = &proxied->r;
    proxy_copy_text(r->method, sizeof(r->method), head + h->method.at, h->method.len);
    proxy_copy_text(r->path, sizeof(r->path), head + path.at, path.len);
    r->arrived_ns = c->arrived_ns;
    r->arrived_unix_ns = front_unix_ns() - (front_now_ns() - c->arrived_ns);
    r->bytes_in = h->len;
    r->stream = -1;
    r->max_tokens = -1;
    sonde_http_body_of_request(&proxied->request, h);
    proxied->is_head = strcmp(r->method, "HEAD") == 0;
    proxied->http10 = h->minor == 0;
    proxied->keep_alive = sonde_http_keeps_alive(h);
    const struct sonde_http_field *upgrade = sonde_http_field(h, SONDE_HTTP_UPGRADE);
    /* HTTP/2 in clear could not be measured; that a server stays with HTTP/1.1 is its right. */
    proxied->upgrade = h->says_upgrade && upgrade && !proxied->http10 &&
                       !sonde_http_list_has(head + upgrade->value.at, upgrade->value.len, "h2c");
}

/* 1 if the request may be passed on; else it has been answered. */
static int proxy_admissible(struct front_client *c, const char *head, struct sonde_http_span target)
{
    const struct sonde_http_head *h = &c->head;
    const struct sonde_http_field *host = sonde_http_field(h, SONDE_HTTP_HOST);
    char text[300];
    if (strcmp(c->proxied.r.method, "CONNECT") == 0) {
        proxy_reject(c, 501, "this is not a proxy for other hosts: CONNECT is not done here");
        return 0;
    }
    if (target.len && head[target.at] != '/' && head[target.at] != '?' &&
        !(target.len == 1 && head[target.at] == '*')) {
        proxy_reject(c, 400, "the request's target is neither a path nor an http:// URL");
        return 0;
    }
    if (host && c->front->o.host_ok) {
        proxy_copy_text(text, sizeof(text), head + host->value.at, host->value.len);
        if (!c->front->o.host_ok(text, c->front->o.arg)) {
            proxy_reject(c, 403,
                         "this Host is not this machine: use localhost, 127.0.0.1 or [::1], or "
                         "name it in server.hosts");
            return 0;
        }
    }
    for (uint32_t i = 0; h->first[SONDE_HTTP_VIA] && i < h->field_count; i++) {
        const struct sonde_http_field *via = &h->field[i];
        if (via->id == SONDE_HTTP_VIA &&
            memmem(head + via->value.at, via->value.len, c->front->name, strlen(c->front->name))) {
            proxy_reject(c, 508, "the upstream of this front leads back to it; check --upstream");
            return 0;
        }
    }
    return 1;
}

static int says_true(const struct sonde_http_head *h, const char *head,
                     enum sonde_http_field_id id)
{
    const struct sonde_http_field *f = sonde_http_field(h, id);
    return f && (sonde_http_list_has(head + f->value.at, f->value.len, "true") ||
                 sonde_http_list_has(head + f->value.at, f->value.len, "1"));
}

/* The request is one for the upstream: it has arrived. */
static void proxy_announce(struct front_client *c, const char *head)
{
    struct front_proxied *proxied = &c->proxied;
    assert(!proxied->observed && !proxied->own);
    proxied->r.id = ++c->front->last_id;
    proxied->r.route = sonde_front_route_of(proxied->r.method, proxied->r.path);
    proxied->r.profile = says_true(&c->head, head, SONDE_HTTP_X_PROFILE);
    set_trace(c, head);
    if (c->front->o.ab.mode) front_arm_assign(c, head);
    proxied->observed = 1;
    if (!c->memory) c->front->state.in_flight++;
    proxy_notify(c, SONDE_FRONT_ARRIVED);
    const struct sonde_front_observer *o = &c->front->o.observer;
    if (proxied->r.profile && o->ready && !o->ready(o->arg, &proxied->r)) {
        proxied->held_ns = front_now_ns() + HELD_NS_MAX;
        c->front->held++;
    }
}

/* A connection, and the head to be sent on it. */
static void proxy_attach(struct front_client *c, const char *head)
{
    if (front_upstream_attach(c) == 0 && front_put_request(c, head) != 0) {
        proxy_reject(c, 431, "the fields are longer than 32 KiB");
    }
}

/* All of the request has been read. */
static void proxy_whole(struct front_client *c, uint64_t ns)
{
    c->proxied.r.whole_ns = ns;
    if (c->proxied.gather) front_copy_launch(c);
}

void front_begin(struct front_client *c)
{
    assert(c->head.progress == SONDE_HTTP_DONE && c->head.len <= front_held(&c->s.in));
    const struct sonde_front_options *o = &c->front->o;
    /* Stays where it is until more is read: nothing here does. */
    const char *head = c->s.in.data + c->s.in.begin;
    struct front_proxied *proxied = &c->proxied;
    proxy_reset(c);
    front_consume(&c->s.in, c->head.len);
    const struct sonde_http_span target = front_target(&c->head, head);
    struct sonde_http_span path = target;
    const char *query = memchr(head + target.at, '?', target.len);
    if (query) path.len = (uint32_t)(query - head) - target.at;
    proxy_set_request(c, head, path);

    if (proxy_admissible(c, head, target)) {
        proxied->own =
            o->own && o->own(proxied->r.path, o->arg); /* no path of ours is so long as to be cut */
        if (!proxied->own) proxy_announce(c, head);
        proxied->head_at = (uint32_t)(head - c->s.in.data);
        proxy_attach(c, head);
        if (proxied->request.progress == SONDE_HTTP_DONE) proxy_whole(c, c->arrived_ns);
    }
}

int front_fall_back(struct front_client *c, const char *why)
{
    struct front_proxied *proxied = &c->proxied;
    if (!proxied->may_fall_back) return 0;
    assert(c->state == FRONT_BUSY && c->up && !c->up->sent);
    proxied->may_fall_back = 0;
    snprintf(proxied->r.fell_back, sizeof(proxied->r.fell_back), "%s", why);
    c->front->b_rests_ns = front_now_ns() + B_RESTS_NS;
    front_upstream_close(c->up);
    proxy_attach(c, c->s.in.data + proxied->head_at);
    return 1;
}

void front_refuse(struct front_client *c, unsigned status, const char *message)
{
    proxy_reset(c);
    front_bytes_release(&c->s.in);
    c->proxied.request.progress = SONDE_HTTP_BAD;
    proxy_reject(c, status, message);
}

/* ---- Towards the upstream ----------------------------------------------------------------- */

static int pass_bytes(struct front_bytes *from, struct front_bytes *to)
{
    const uint32_t room = front_room(to);
    uint32_t n = front_held(from);
    if (n > room) n = room;
    if (!n) return 0;
    memcpy(to->data + to->end, from->data + from->begin, n);
    to->end += n;
    front_consume(from, n);
    return 1;
}

static int pass_request_body(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    struct front_bytes *in = &c->s.in, *out = &c->up->s.out;
    int moved = 0;
    while (proxied->request.progress == SONDE_HTTP_MORE && front_held(in)) {
        const uint32_t room = front_room(out);
        const uint32_t held = front_held(in);
        const char *data = in->data + in->begin;
        struct sonde_http_span payload;
        if (!room) break;
        const size_t n =
            sonde_http_body_feed(&proxied->request, data, held < room ? held : room, &payload);
        if (payload.len && proxied->r.route != SONDE_FRONT_OTHER) {
            sonde_scan_request_feed(&proxied->request_scan, data + payload.at, payload.len);
        }
        memcpy(out->data + out->end, data, n);
        if (proxied->gather) front_copy_more(c, data, n);
        out->end += (uint32_t)n;
        front_consume(in, (uint32_t)n);
        proxied->r.bytes_in += n;
        moved = 1;
    }
    if (moved && proxied->request.progress == SONDE_HTTP_DONE) proxy_whole(c, c->s.read_ns);
    if (proxied->request.progress == SONDE_HTTP_BAD) proxy_reject(c, 400, proxied->request.problem);
    return moved;
}

/* Write what is there for the upstream. */
static int write_upstream(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    struct front_upstream *u = c->up;
    int failed;
    if (u->connecting || u->write_dead || proxied->held_ns) return 0;
    const uint32_t n = front_write(&u->s, &failed);
    u->sent += n;
    if (failed && u->reused && !u->sent && !u->received) {
        front_upstream_lost(c);
        return 1;
    }
    if (failed) {
        /* It may have answered before it closed: that is read first. */
        u->write_dead = 1;
        u->s.readable = 1;
        front_consume(&u->s.out, front_held(&u->s.out));
        return 1;
    }
    if (proxied->request.progress == SONDE_HTTP_DONE && !front_held(&u->s.out) &&
        !proxied->r.sent_ns) {
        proxied->r.sent_ns = front_now_ns();
        proxy_apply_request_scan(proxied);
        proxy_notify(c, SONDE_FRONT_SENT);
    }
    return n > 0;
}

int front_pass_request(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    int moved = 0;
    if (!c->up) return 0;
    /* Nothing more is read before it is clear which server gets it. */
    if (proxied->may_fall_back && c->up->connecting) return 0;
    proxied->may_fall_back = 0;
    const int tunnel = proxied->phase == FRONT_TUNNEL;
    if (tunnel || (proxied->request.progress == SONDE_HTTP_MORE && !c->up->write_dead)) {
        moved |= (c->memory ? front_copy_read(c) : front_read(&c->s)) > 0;
        if (tunnel && c->s.broken) {
            front_cancel(c, "client_closed");
            return 1;
        }
        moved |= tunnel ? pass_bytes(&c->s.in, &c->up->s.out) : pass_request_body(c);
        if (!c->up) return 1;
    }
    if (c->s.eof && !tunnel && proxied->request.progress == SONDE_HTTP_MORE &&
        !front_held(&c->s.in)) {
        front_cancel(c, "client_closed");
        return 1;
    }
    return write_upstream(c) | moved;
}

/* ---- And back ----------------------------------------------------------------------------- */

/* Pieces of text have been read at once. */
static void proxy_tokens(struct front_client *c, unsigned pieces)
{
    struct sonde_front_request *r = &c->proxied.r;
    if (!pieces) return;
    assert(c->up);
    r->last_token_ns = c->up->s.read_ns;
    if (!r->chunks) r->first_token_ns = r->last_token_ns;
    r->chunks += pieces;
    r->pieces = pieces;
    if (!r->model[0]) set_model(r, c->proxied.answer_scan.model);
    proxy_notify(c, SONDE_FRONT_TOKEN);
}

/* Returns how many pieces of text end in it. */
static unsigned proxy_look_at(struct front_client *c, const char *data, uint32_t len)
{
    struct front_proxied *proxied = &c->proxied;
    if (!proxied->r.first_byte_ns) {
        proxied->r.first_byte_ns = c->up->s.read_ns;
        proxy_notify(c, SONDE_FRONT_BYTE);
    }
    return sonde_scan_answer_feed(&proxied->answer_scan, data, len);
}

/* The answer has come to its end. */
static void answer_over(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    const struct front_upstream *u = c->up;
    proxy_tokens(c, sonde_scan_answer_end(&proxied->answer_scan));
    proxied->phase = FRONT_DONE;
    const int whole = proxied->request.progress == SONDE_HTTP_DONE;
    if (!whole) proxied->keep_alive = 0;
    front_upstream_release(c, whole && sonde_http_keeps_alive(&proxied->answer_head) &&
                                  proxied->answer.framing != SONDE_HTTP_CLOSE && !u->s.eof &&
                                  !u->write_dead && !front_held(&u->s.in) &&
                                  !front_held(&u->s.out));
}

/* From the answer's head: how its body is passed on and looked at. */
static void set_answer(struct front_client *c, const char *head)
{
    struct front_proxied *proxied = &c->proxied;
    const struct sonde_http_head *h = &proxied->answer_head;
    const struct sonde_http_field *type = sonde_http_field(h, SONDE_HTTP_CONTENT_TYPE);
    const struct sonde_http_field *coding = sonde_http_field(h, SONDE_HTTP_CONTENT_ENCODING);
    sonde_http_body_of_response(&proxied->answer, h, proxied->is_head);
    proxied->dechunk = proxied->http10 && h->chunked;
    if (proxied->dechunk || proxied->answer.framing == SONDE_HTTP_CLOSE ||
        proxied->request.progress != SONDE_HTTP_DONE) {
        proxied->keep_alive = 0;
    }
    proxied->r.status = h->status;
    proxied->r.headers_ns = c->up->s.read_ns;
    proxied->r.encoded = coding && coding->value.len &&
                         !sonde_http_list_has(head + coding->value.at, coding->value.len,
                                              "identity");
    if (type && !proxied->r.encoded && proxied->r.route != SONDE_FRONT_OTHER) {
        sonde_scan_answer_init(&proxied->answer_scan, sonde_scan_format_of(head + type->value.at,
                                                                           type->value.len));
    }
    front_upstream_keep_alive(c, head);
}

/* A head with a status below 200: another one follows, or the connection becomes a tunnel. */
static int pass_interim(struct front_client *c, const char *head)
{
    struct front_proxied *proxied = &c->proxied;
    if (proxied->answer_head.status == 101 && !proxied->upgrade) {
        front_fail(c, 502, "bad_answer", "the upstream switched protocols, which nobody asked for");
        return 1;
    }
    if (!proxied->http10 && front_put_answer(c, head) != 0) return 0;
    front_consume(&c->up->s.in, proxied->answer_head.len);
    proxied->continued |= proxied->answer_head.status == 100;
    if (proxied->answer_head.status == 101) {
        proxied->phase = FRONT_TUNNEL;
        proxied->head_passed = 1;
        proxied->keep_alive = 0;
        proxied->r.status = 101;
        proxied->r.headers_ns = c->up->s.read_ns;
        proxy_notify(c, SONDE_FRONT_HEADERS);
    }
    sonde_http_head_init(&proxied->answer_head, 1);
    return 1;
}

static int pass_answer_head(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    struct front_upstream *u = c->up;
    const char *head = u->s.in.data + u->s.in.begin;
    switch (sonde_http_head_feed(&proxied->answer_head, head, front_held(&u->s.in))) {
    case SONDE_HTTP_MORE:
        if (!u->s.eof) return 0;
        front_upstream_lost(c);
        return 1;
    case SONDE_HTTP_BAD:
        front_fail(c, 502, "bad_answer", "the upstream's answer is not good HTTP: %s",
                   proxied->answer_head.problem);
        return 1;
    case SONDE_HTTP_DONE: break;
    }
    /* Room for all of it and what is added; interim answers may still be on their way. */
    if (front_held(&c->s.out) && front_room(&c->s.out) < proxied->answer_head.len + 2048) return 0;
    if (proxied->answer_head.status < 200) return pass_interim(c, head);
    set_answer(c, head);
    proxy_notify(c, SONDE_FRONT_HEADERS);
    if (front_put_answer(c, head) != 0) {
        front_fail(c, 502, "bad_answer", "the fields of the upstream's answer are too long");
        return 1;
    }
    proxied->head_passed = 1;
    proxied->phase = FRONT_BODY;
    front_consume(&u->s.in, proxied->answer_head.len);
    return 1;
}

static int pass_answer_body(struct front_client *c)
{
    struct front_proxied *proxied = &c->proxied;
    struct front_upstream *u = c->up;
    struct front_bytes *in = &u->s.in, *out = &c->s.out;
    unsigned pieces = 0;
    int moved = 0;
    while (proxied->answer.progress == SONDE_HTTP_MORE && front_held(in)) {
        const uint32_t room = front_room(out), held = front_held(in);
        const char *data = in->data + in->begin;
        struct sonde_http_span payload;
        if (!room) break;
        const size_t n =
            sonde_http_body_feed(&proxied->answer, data, held < room ? held : room, &payload);
        if (payload.len) pieces += proxy_look_at(c, data + payload.at, payload.len);
        const struct sonde_http_span kept =
            proxied->dechunk ? payload : (struct sonde_http_span){ 0, (uint32_t)n };
        memcpy(out->data + out->end, data + kept.at, kept.len);
        out->end += kept.len;
        front_consume(in, (uint32_t)n);
        moved = 1;
    }
    proxy_tokens(c, pieces);
    if (proxied->answer.progress == SONDE_HTTP_MORE && u->s.eof && !front_held(in)) {
        if (u->s.broken) proxied->answer.progress = SONDE_HTTP_BAD;
        else sonde_http_body_end(&proxied->answer);
    }
    if (proxied->answer.progress == SONDE_HTTP_DONE) {
        answer_over(c);
        return 1;
    }
    if (proxied->answer.progress == SONDE_HTTP_BAD) {
        front_fail(c, 502, u->s.eof ? "closed_early" : "bad_answer", "the answer is broken off");
        return 1;
    }
    return moved;
}

/* Bytes both ways; over when the upstream has ended and the client has all. */
static int pass_tunnel(struct front_client *c)
{
    struct front_upstream *u = c->up;
    const int moved = pass_bytes(&u->s.in, &c->s.out);
    if (c->s.eof && !front_held(&c->s.in) && !front_held(&u->s.out) && !u->write_dead) {
        shutdown(u->s.fd, SHUT_WR);
        u->write_dead = 1;
    }
    if (u->s.eof && !front_held(&u->s.in)) {
        front_upstream_close(u);
        c->proxied.phase = FRONT_DONE;
        return 1;
    }
    return moved;
}

int front_pass_answer(struct front_client *c)
{
    struct front_upstream *u = c->up;
    if (!u || u->connecting) return 0;
    const uint32_t n = front_read(&u->s);
    u->received += n;
    int moved = n > 0;
    if (c->proxied.phase == FRONT_TUNNEL) return pass_tunnel(c) | moved;
    if (c->proxied.phase == FRONT_HEAD) moved |= pass_answer_head(c);
    if (c->proxied.phase == FRONT_BODY && c->up) moved |= pass_answer_body(c);
    return moved;
}
