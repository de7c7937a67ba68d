/* The front between a client and an upstream that the test plays: what is passed on, byte by byte,
 * and what is told about it. */
#include "front_peer.h"

#define ANSWER(body_len, body) "HTTP/1.1 200 OK\r\nContent-Length: " body_len "\r\n\r\n" body
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

/* ---- Heads --------------------------------------------------------------------------------- */

static void test_request_head(void **state)
{
    (void)state;
    char wanted[128];
    const int c = dial();
    put(c, "GET /v1/models?a=b HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-A: b\r\nConnection: x-secret, "
           "keep-alive, content-length, host\r\nX-Secret: s\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
           "Upgrade: h2c\r\nHTTP2-Settings: x\r\nX-Forwarded-For: 1.2.3.4\r\nVia: 1.0 other\r\n"
           "Accept-Encoding: gzip\r\ntracestate: a=b\r\n\r\n");
    const int u = up_accept();
    const char *head = get_head(u);
    assert_memory_equal(head, "GET /v1/models?a=b HTTP/1.1\r\n", 29);
    snprintf(wanted, sizeof(wanted), "\r\nHost: 127.0.0.1:%d\r\n", up_port);
    has(head, wanted);
    has(head, "\r\nX-A: b\r\n");
    has(head, "\r\nX-Forwarded-For: 1.2.3.4, 127.0.0.1\r\n");
    has(head, "\r\nX-Forwarded-Host: 127.0.0.1:1\r\n");
    has(head, "\r\nX-Forwarded-Proto: http\r\n");
    has(head, "\r\nVia: 1.0 other, 1.1 sonde-");
    has(head, "\r\nAccept-Encoding: gzip\r\n");
    has(head, "\r\ntraceparent: 00-");
    static const char *const gone[] = { "x-secret", "keep-alive", "\r\nTE:", "upgrade", "http2",
                                        "connection", "tracestate" };
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) lacks(head, gone[i]);

    put(u, "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nConnection: keep-alive, X-Mine\r\n"
           "Keep-Alive: timeout=5\r\nX-Mine: 1\r\nX-B: c\r\nX-B: d\r\n\r\nok");
    head = get_head(c);
    assert_memory_equal(head, "HTTP/1.1 200 Fine\r\n", 19);
    has(head, "\r\nX-B: c\r\nX-B: d\r\n");
    has(head, "\r\nVia: 1.1 sonde-");
    has(head, "\r\ntraceresponse: 00-");
    lacks(head, "keep-alive");
    lacks(head, "x-mine");
    lacks(head, "connection");
    expect(c, "ok");
    const struct sonde_front_request r = ended(0);
    assert_string_equal(r.method, "GET");
    assert_string_equal(r.path, "/v1/models");
    assert_int_equal(r.route, SONDE_FRONT_OTHER);
    assert_int_equal(r.outcome, SONDE_FRONT_OK);
    assert_int_equal(r.status, 200);
    close(c);
    close(u);
}

static void test_prefix_and_targets(void **state)
{
    (void)state;
    static const struct { const char *target, *line; } cases[] = {
        { "/", "/base/" },
        { "/x?y#z", "/base/x?y#z" },
        { "http://other/x", "/base/x" },
        { "HTTP://other", "/base/" },
        { "http://other?x", "/base/?x" },
        { "*", "*" },
    };
    restart_front(&(struct sonde_front_options){ 0 }, "/base/");
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "OPTIONS %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].target);
        put(c, text);
        if (u < 0) u = up_accept();
        snprintf(text, sizeof(text), "OPTIONS %s HTTP/1.1\r\n", cases[i].line);
        has(get_head(u), text);
        put(u, ANSWER("0", ""));
        get_head(c);
    }
    close(c);
    close(u);
}

static void test_trace(void **state)
{
    (void)state;
    static const char id[] = "0af7651916cd43dd8448eb211c80319c";
    const int c = dial();
    put(c, "GET / HTTP/1.1\r\nHost: h\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"
           "b7ad6b7169203331-00\r\ntracestate: a=b\r\n\r\n");
    const int u = up_accept();
    const char *head = get_head(u);
    char text[128];
    snprintf(text, sizeof(text), "traceparent: 00-%s-", id);
    has(head, text);
    has(head, "-00\r\n"); /* its flags */
    has(head, "tracestate: a=b\r\n");
    lacks(head, "b7ad6b7169203331");
    put(u, ANSWER("0", ""));
    snprintf(text, sizeof(text), "traceresponse: 00-%s-", id);
    has(get_head(c), text);
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.trace_hi, 0x0af7651916cd43ddull);
    assert_int_equal(r.trace_lo, 0x8448eb211c80319cull);
    assert_int_equal(r.parent, 0xb7ad6b7169203331ull);
    assert_true(r.span && r.span != r.parent);
    /* A bad one is replaced. */
    put(c, "GET / HTTP/1.1\r\nHost: h\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"
           "0000000000000000-01\r\ntracestate: a=b\r\n\r\n");
    head = get_head(u);
    lacks(head, id);
    lacks(head, "tracestate");
    has(head, "traceparent: 00-");
    put(u, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\ntraceresponse: theirs\r\n\r\n");
    head = get_head(c);
    has(head, "traceresponse: theirs");
    lacks(head, "traceresponse: 00");
    assert_int_equal(ended(1).parent, 0);
    close(c);
    close(u);
}

/* ---- Bodies and connections ---------------------------------------------------------------- */

static void test_keep_alive(void **state)
{
    (void)state;
    const int c = dial();
    int u = -1;
    for (int i = 0; i < 5; i++) {
        put(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        if (i == 0) u = up_accept();
        get_head(u);
        put(u, ANSWER("3", "abc"));
        get_head(c);
        expect(c, "abc");
        ended((size_t)i);
    }
    assert_false(up_pending());
    /* An upstream that closes is not used again. */
    put(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    get_head(u);
    put(u, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    lacks(get_head(c), "connection");
    expect_end(u);
    close(u);
    /* Nor one that closed while it was idle. */
    for (int i = 0; i < 2; i++) {
        put(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        u = up_accept();
        get_head(u);
        put(u, ANSWER("0", ""));
        get_head(c);
        close(u);
        until_upstreams(0);
    }
    /* A client that wants to close. */
    put(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    u = up_accept();
    get_head(u);
    put(u, ANSWER("0", ""));
    has(get_all(c), "connection: close");
    close(c);
    close(u);
}

static void test_pipelining(void **state)
{
    (void)state;
    const int c = dial();
    put(c, "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\n"
           "Host: h\r\n\r\n"
           "POST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
           "GET /4 HTTP/1.1\r\nHo");
    const int u = up_accept();
    has(get_head(u), "POST /1 ");
    expect(u, "abc");
    put(u, ANSWER("1", "1"));
    has(get_head(u), "GET /2 ");
    put(u, CHUNKED "1\r\n2\r\n0\r\n\r\n");
    has(get_head(u), "POST /3 ");
    expect(u, "1\r\nx\r\n0\r\n\r\n");
    put(u, ANSWER("1", "3"));
    get_head(c);
    expect(c, "1");
    has(get_head(c), "chunked");
    expect(c, "1\r\n2\r\n0\r\n\r\n");
    get_head(c);
    expect(c, "3");
    put(c, "st: h\r\n\r\n");
    has(get_head(u), "GET /4 ");
    put(u, ANSWER("1", "4"));
    get_head(c);
    expect(c, "4");
    assert_int_equal(ended(3).status, 200);
    close(c);
    close(u);
}

/* Not a byte waits for the next one. */
static void test_unbuffered(void **state)
{
    (void)state;
    static const char body[] = "9\r\ndata: \xc3\xa9\n\r\n1;x=y\r\n\n\r\n0\r\nT: v\r\n\r\n";
    const int c = dial();
    put(c, "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    const int u = up_accept();
    get_head(u);
    for (const char *p = body; *p; p++) {
        put_bytes(c, p, 1);
        assert_memory_equal(get_n(u, 1), p, 1);
    }
    put(u, CHUNKED);
    get_head(c);
    for (const char *p = body; *p; p++) {
        put_bytes(u, p, 1);
        assert_memory_equal(get_n(c, 1), p, 1);
    }
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_OK);
    close(c);
    close(u);
}

static void test_no_body(void **state)
{
    (void)state;
    static const struct { const char *method, *answer; } cases[] = {
        { "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" },
        { "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { "GET", "HTTP/1.1 204 No Content\r\n\r\n" },
        { "GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" },
        { "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 55\r\n\r\n" },
        { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" },
    };
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].method);
        put(c, text);
        if (u < 0) u = up_accept();
        get_head(u);
        put(u, cases[i].answer);
        const char *head = get_head(c);
        if (strstr(cases[i].answer, "204")) lacks(head, "transfer-encoding");
        if (strstr(cases[i].answer, "1000")) has(head, "content-length: 1000");
        assert_int_equal(ended(i).outcome, SONDE_FRONT_OK);
    }
    close(c);
    close(u);
}

static void test_http10(void **state)
{
    (void)state;
    int c = dial();
    put(c, "GET / HTTP/1.0\r\n\r\n");
    int u = up_accept();
    has(get_head(u), "GET / HTTP/1.1\r\n");
    put(u, "HTTP/1.1 100 Continue\r\n\r\n" CHUNKED "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    const char *all = get_all(c); /* the end of the body is the end of the connection */
    lacks(all, "transfer-encoding");
    lacks(all, "100 continue");
    has(all, "connection: close");
    assert_string_equal(strstr(all, "\r\n\r\n") + 4, "abcde");
    close(c);
    /* One that asks to be kept, and an answer that allows it. */
    c = dial();
    for (int i = 0; i < 2; i++) {
        put(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        get_head(u);
        put(u, ANSWER("2", "ok"));
        has(get_head(c), "connection: keep-alive");
        expect(c, "ok");
    }
    close(c);
    close(u);
    /* An upstream of that age. */
    c = dial();
    put(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    u = up_accept();
    get_head(u);
    put(u, "HTTP/1.0 200 OK\r\n\r\nuntil the end");
    shutdown(u, SHUT_WR);
    all = get_all(c);
    has(all, "connection: close");
    has(all, "\r\n\r\nuntil the end");
    assert_int_equal(ended(3).outcome, SONDE_FRONT_OK);
    close(c);
    close(u);
}

static void test_continue(void **state)
{
    (void)state;
    const int c = dial();
    put(c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    const int u = up_accept();
    has(get_head(u), "expect: 100-continue");
    put(u, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_string_equal(get_head(c), "HTTP/1.1 100 Continue\r\n\r\n");
    put(c, "body");
    expect(u, "body");
    put(u, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" ANSWER("2", "ok"));
    assert_string_equal(get_head(c), "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    has(get_head(c), "HTTP/1.1 200 OK");
    expect(c, "ok");
    /* Refused without the body: the connection cannot go on, but the answer arrives. */
    put(c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    get_head(u);
    put(u, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    const char *all = get_all(c);
    has(all, "HTTP/1.1 413");
    has(all, "connection: close");
    const struct sonde_front_request r = ended(1);
    assert_int_equal(r.outcome, SONDE_FRONT_ERROR);
    assert_string_equal(r.error, "http_413");
    assert_int_equal(r.sent_ns, 0);
    close(c);
    close(u);
}

static void test_tunnel(void **state)
{
    (void)state;
    const int c = dial();
    put(c,
        "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: k\r\n\r\nearly");
    const int u = up_accept();
    const char *head = get_head(u);
    has(head, "upgrade: websocket");
    has(head, "connection: upgrade");
    has(head, "sec-websocket-key: k");
    put(u, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        "hello");
    head = get_head(c);
    has(head, "HTTP/1.1 101 ");
    has(head, "upgrade: websocket");
    has(head, "connection: upgrade");
    expect(c, "hello");
    expect(u, "early");
    for (int i = 0; i < 3; i++) {
        put(c, "\x00\x01 ping");
        expect(u, "\x00\x01 ping");
        put(u, "pong\r\n");
        expect(c, "pong\r\n");
    }
    shutdown(c, SHUT_WR);
    expect_end(u);
    put(u, "last");
    close(u);
    expect(c, "last");
    expect_end(c);
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.status, 101);
    assert_int_equal(r.outcome, SONDE_FRONT_OK);
    close(c);
}

static void test_own(void **state)
{
    (void)state;
    const int c = dial();
    put(c, "GET /own/metrics?x=y HTTP/1.1\r\nHost: 127.0.0.1:5\r\nConnection: close\r\n\r\n");
    pthread_mutex_lock(&seen.lock);
    while (!adopted_count) seen_wait("a connection to sonde's own server");
    const int own = adopted[0];
    pthread_mutex_unlock(&seen.lock);
    const char *head = get_head(own);
    has(head, "GET /own/metrics?x=y HTTP/1.1\r\n");
    has(head, "host: 127.0.0.1:5\r\n"); /* who asks for what is the server's to judge */
    lacks(head, "via");
    lacks(head, "traceparent");
    put(own, ANSWER("2", "ok"));
    const char *all = get_all(c);
    lacks(all, "via");
    lacks(all, "traceresponse");
    has(all, "ok");
    assert_int_equal(seen.event_count, 0);
    assert_false(up_pending());
    close(c);
}

/* The server is told who asks by the connection: it is kept for the next request of the same one,
 * and never used for another's. */
static void test_own_who(void **state)
{
    (void)state;
    static const int64_t callers[] = { 1000, 1000, 0, 1000, 0, -1 };
    static const size_t connections[] = { 1, 1, 2, 2, 2, 3 };
    for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++) {
        __atomic_store_n(&who_calls, callers[i], __ATOMIC_SEQ_CST);
        const int c = dial();
        put(c, "GET /own HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        pthread_mutex_lock(&seen.lock);
        while (adopted_count < connections[i]) seen_wait("a connection to sonde's own server");
        assert_int_equal(adopted_count, connections[i]);
        int own = -1;
        for (size_t k = 0; k < adopted_count; k++) {
            if (adopted_who[k] == callers[i]) own = adopted[k];
        }
        pthread_mutex_unlock(&seen.lock);
        has(get_head(own), "GET /own HTTP/1.1\r\n");
        put(own, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=60\r\nContent-Length: 2\r\n\r\nok");
        has(get_all(c), "\r\n\r\nok");
        close(c);
    }
    __atomic_store_n(&who_calls, 0, __ATOMIC_SEQ_CST);
}

/* ---- What is measured ---------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put_chunk(int fd, const char *data)
{
    char text[1024];
    snprintf(text, sizeof(text), "%zx\r\n%s\r\n", strlen(data), data);
    put(fd, text);
    got_len = 0;
}

/* Wait until the client has all that was sent, so that times can be compared. */
static void put_and_get(int u, int c, const char *data)
{
    char text[1024];
    snprintf(text, sizeof(text), "%zx\r\n%s\r\n", strlen(data), data);
    put(u, text);
    expect(c, text);
}

static void test_stream(void **state)
{
    (void)state;
    static const char request[] =
        "{\"model\":\"m-1\",\"messages\":[],\"stream\":true,\"max_tokens\":9}";
    const int c = dial();
    char text[512];
    const uint64_t before = now_ns();
    snprintf(text, sizeof(text),
             "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Profile: true\r\n"
             "Accept-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n%s", strlen(request), request);
    put(c, text);
    const int u = up_accept();
    lacks(get_head(u), "accept-encoding");
    const uint64_t arrived = now_ns();
    expect(u, request);
    put(u,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    has(get_head(c), "x-profile-id: prof-1\r\n");
    put_and_get(u, c,
                "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n");
    const uint64_t first_sent = now_ns();
    put_and_get(u, c, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    const uint64_t first_got = now_ns();
    put_and_get(u, c, "data: {\"choices\":[{\"delta\":{\"con");
    put_and_get(u, c, "tent\":\"\xc3");
    put_and_get(u, c, "\xa9\"}}]}\n");
    const uint64_t second_sent = now_ns();
    put_and_get(u, c, "\n");
    const uint64_t second_got = now_ns();
    put_chunk(u,
              "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n"
              "data: [DONE]\n\n");
    put(u, "0\r\n\r\n");
    const struct sonde_front_request r = ended(0);
    assert_string_equal(seen.events, "ASHBTTE");
    assert_int_equal(r.route, SONDE_FRONT_CHAT);
    assert_string_equal(r.model, "m-1");
    assert_int_equal(r.stream, 1);
    assert_int_equal(r.max_tokens, 9);
    assert_int_equal(r.profile, 1);
    assert_int_equal(r.chunks, 2);
    assert_int_equal(r.usage.prompt_tokens, 5);
    assert_int_equal(r.usage.completion_tokens, 2);
    assert_int_equal(r.outcome, SONDE_FRONT_OK);
    assert_int_equal(r.bytes_in, strlen(text));
    assert_in_range(r.arrived_ns, before, arrived);
    assert_in_range(r.sent_ns, r.arrived_ns, first_sent);
    assert_in_range(r.headers_ns, r.sent_ns, first_sent);
    assert_in_range(r.first_byte_ns, r.headers_ns, first_sent);
    assert_in_range(seen.token_ns[0], first_sent, first_got);
    assert_in_range(seen.token_ns[1], second_sent, second_got);
    assert_int_equal(r.first_token_ns, seen.token_ns[0]);
    assert_int_equal(r.last_token_ns, seen.token_ns[1]);
    assert_true(r.ended_ns >= r.last_token_ns);
    const int64_t off = (int64_t)(r.arrived_unix_ns / 1000000000u) - (int64_t)time(NULL);
    assert_in_range(off + 100, 0, 101);
    close(c);
    close(u);
}

static void until_looked(int n)
{
    const uint64_t end = now_ns() + WAIT_MS * 1000000ull;
    while (looked < n && now_ns() < end) usleep(1000);
    assert_true(looked >= n);
}

/* Nothing of a request goes to the upstream before the observer is ready for it. */
static void test_held(void **state)
{
    (void)state;
    static const char asks[] =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Profile: true\r\n"
        "Content-Length: 2\r\n\r\n{}";
    char byte;
    hold = 1;
    const int c = dial(), gone = dial();
    put(c, asks);
    const int u = up_accept();
    put(gone, asks);
    const int u2 = up_accept();
    until_looked(looked + 10);
    assert_int_equal(recv(u, &byte, 1, MSG_DONTWAIT), -1);
    close(gone); /* the one whose client goes away is let go */
    assert_int_equal(ended(0).outcome, SONDE_FRONT_CANCELLED);
    assert_string_equal(get_all(u2), "");
    close(u2);
    /* Others are not held. */
    const int other = dial();
    put(other, "GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n");
    const int u3 = up_accept();
    has(get_head(u3), "get /v1/models");
    assert_int_equal(recv(u, &byte, 1, MSG_DONTWAIT), -1);
    hold = 0;
    has(get_head(u), "x-profile: true\r\n");
    expect(u, "{}");
    put(u, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    has(get_head(c), "x-profile-id: prof-1\r\n");
    close(u);
    close(u3);
    close(other);
    close(c);
    /* There is an end to it. */
    hold = 1;
    const int last = dial();
    put(last, asks);
    const int u4 = up_accept();
    has(get_head(u4), "x-profile: true\r\n");
    close(u4);
    close(last);
}

static void test_routes(void **state)
{
    (void)state;
    static const struct { const char *method, *path; enum sonde_front_route route; } cases[] = {
        { "POST", "/v1/chat/completions", SONDE_FRONT_CHAT },
        { "POST", "/openai/v1/chat/completions/", SONDE_FRONT_CHAT },
        { "GET", "/v1/chat/completions", SONDE_FRONT_OTHER },
        { "POST", "/v1/completions", SONDE_FRONT_COMPLETIONS },
        { "POST", "/completion", SONDE_FRONT_LLAMA_COMPLETION },
        { "POST", "/infill", SONDE_FRONT_LLAMA_COMPLETION },
        { "POST", "/v1/responses", SONDE_FRONT_RESPONSES },
        { "POST", "/v1/embeddings", SONDE_FRONT_EMBEDDINGS },
        { "POST", "/v1/messages", SONDE_FRONT_MESSAGES },
        { "POST", "/api/chat", SONDE_FRONT_OLLAMA_CHAT },
        { "POST", "/api/generate", SONDE_FRONT_OLLAMA_GENERATE },
        { "POST", "/api/embeddings", SONDE_FRONT_OLLAMA_EMBED },
        { "POST", "/generate_stream", SONDE_FRONT_TGI_GENERATE },
        { "POST", "/v1/models", SONDE_FRONT_OTHER },
        { "POST", "completions", SONDE_FRONT_OTHER },
        { "POST", "/", SONDE_FRONT_OTHER },
        { "POST", "", SONDE_FRONT_OTHER },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_front_route_of(cases[i].method, cases[i].path), cases[i].route);
    }
}

static void test_upstream_urls(void **state)
{
    (void)state;
    static const struct { const char *url, *problem; } bad[] = {
        { "https://127.0.0.1:1", "HTTPS" },      { "127.0.0.1:8000", "no http:// URL" },
        { "http://", "no host" },                { "http:///x", "no host" },
        { "http://127.0.0.1:0", "port" },        { "http://127.0.0.1:65536", "port" },
        { "http://127.0.0.1:", "port" },         { "http://127.0.0.1:8x", "port" },
        { "http://[::1", "no ]" },               { "http://[::1]8", "port must follow" },
        { "http://u:p@127.0.0.1", "port" },      { "http://127.0.0.1/a?b", "no query" },
        { "http://127.0.0.1/a b", "blanks" },    { "http://a b", "cannot have" },
        { "", "no http:// URL" },
    };
    struct sonde_front_upstream u;
    struct sonde_err err;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sonde_front_upstream_parse(bad[i].url, &u, &err), SONDE_EINVAL);
        has(err.text, bad[i].problem);
    }
    assert_int_equal(sonde_front_upstream_parse("http://127.0.0.1:8000/a/b//", &u, &err), 0);
    assert_string_equal(u.authority, "127.0.0.1:8000");
    assert_string_equal(u.prefix, "/a/b");
    assert_int_equal(u.address_count, 1);
    assert_int_equal(sonde_front_upstream_parse("http://[::1]:8000", &u, &err), 0);
    assert_string_equal(u.authority, "[::1]:8000");
    assert_int_equal(u.address[0].ss_family, AF_INET6);
    assert_int_equal(sonde_front_upstream_parse("HTTP://127.0.0.1", &u, &err), 0);
    assert_string_equal(u.prefix, "");
    assert_int_equal(((struct sockaddr_in *)&u.address[0])->sin_port, htons(80));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_front, teardown_front)
    const struct CMUnitTest tests[] = {
        TEST(test_request_head), TEST(test_prefix_and_targets), TEST(test_trace),
        TEST(test_keep_alive),   TEST(test_pipelining),         TEST(test_unbuffered),
        TEST(test_no_body),      TEST(test_http10),             TEST(test_continue),
        TEST(test_tunnel),       TEST(test_own),                TEST(test_own_who),
        TEST(test_stream),
        TEST(test_held),
        cmocka_unit_test(test_routes), cmocka_unit_test(test_upstream_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
