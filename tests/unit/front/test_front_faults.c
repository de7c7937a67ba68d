/* The front when things go wrong: clients that go away or send nonsense, upstreams that refuse,
 * crash, hang or send nonsense, memory that is not there. */
#include "front_peer.h"

#include "base/alloc.h"

#define ANSWER(body_len, body) "HTTP/1.1 200 OK\r\nContent-Length: " body_len "\r\n\r\n" body
#define CLOSES "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define STREAM                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define GET "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define CHAT "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"

/* ---- The upstream's ------------------------------------------------------------------------ */

static void test_refused(void **state)
{
    (void)state;
    close(up_listener);
    const int c = dial();
    for (size_t i = 0; i < 2; i++) { /* the connection goes on, even with a body */
        put(c, CHAT);
        const char *head = get_head(c);
        has(head, "HTTP/1.1 502 Bad Gateway");
        has(head, "content-type: application/json");
        has(head, "traceresponse: 00-");
        lacks(head, "connection: close");
        char *length = strcasestr(got, "content-length: ");
        assert_non_null(length);
        const char *body = get_n(c, (size_t)atoi(length + 16));
        has(body, "{\"error\":{\"message\":\"cannot connect to the upstream http://127.0.0.1:");
        has(body, "\"type\":\"connect_refused\",\"code\":502}}");
        const struct sonde_front_request r = ended(i);
        assert_int_equal(r.outcome, SONDE_FRONT_UPSTREAM);
        assert_string_equal(r.error, "connect_refused");
        assert_int_equal(r.status, 502);
    }
    close(c);
    up_listener = listen_on(&up_port);
}

static void test_second_address(void **state)
{
    (void)state;
    struct sonde_front_options o = { 0 };
    struct sonde_err err;
    char url[64];
    int dead_port;
    const int dead = listen_on(&dead_port);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", up_port);
    assert_int_equal(sonde_front_upstream_parse(url, &o.upstream, &err), 0);
    o.upstream.address[1] = o.upstream.address[0];
    o.upstream.address_count = 2;
    ((struct sockaddr_in *)&o.upstream.address[0])->sin_port = htons((uint16_t)dead_port);
    close(dead);
    restart_front(&o, "");
    const int c = dial();
    put(c, GET);
    const int u = up_accept();
    get_head(u);
    put(u, ANSWER("0", ""));
    has(get_head(c), "200 OK");
    close(c);
    close(u);
}

static void test_connect_timeout(void **state)
{
    (void)state;
    /* A queue of one that is full: further connections are neither accepted nor refused. */
    int port, fill[8];
    const int slow = listen_on(&port);
    assert_int_equal(listen(slow, 0), 0);
    for (size_t i = 0; i < 8; i++) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fill[i], (struct sockaddr *)&a, sizeof(a));
    }
    struct sonde_front_options o = { .connect_timeout_ms = 300 };
    struct sonde_err err;
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", port);
    assert_int_equal(sonde_front_upstream_parse(url, &o.upstream, &err), 0);
    restart_front(&o, "");
    const int c = dial();
    put(c, GET);
    has(get_head(c), "HTTP/1.1 504 Gateway Timeout");
    const struct sonde_front_request r = ended(0);
    assert_string_equal(r.error, "connect_timeout");
    close(c);
    for (size_t i = 0; i < 8; i++) close(fill[i]);
    close(slow);
}

static void test_crash(void **state)
{
    (void)state;
    static const struct { const char *sent; int reset; const char *error; } cases[] = {
        { "", 0, "closed_early" },
        { "", 1, "closed_early" },
        { "HTTP/1.1 200 OK\r\nContent-Le", 0, "closed_early" },
        { "HTTP/1.1 100 Continue\r\n\r\n", 0, "closed_early" },
        { "HTTP/1.1 2x0 OK\r\n\r\n", 0, "bad_answer" },
        { "HTTP/1.1 200 OK\nContent-Length: 0\n\n", 0, "bad_answer" },
        { "HTTP/1.1 101 Switching Protocols\r\n\r\n", 0, "bad_answer" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 0, "bad_answer" },
        { "garbage\r\n\r\n", 0, "bad_answer" },
    };
    const int c = dial();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put(c, GET);
        const int u = up_accept();
        get_head(u);
        put(u, cases[i].sent);
        const struct linger now = { 1, 0 };
        if (cases[i].reset) setsockopt(u, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        if (strcmp(cases[i].error, "bad_answer") != 0) close(u);
        const char *head = get_head(c);
        if (strstr(cases[i].sent, " 100 ")) head = get_head(c);
        has(head, "HTTP/1.1 502");
        char *length = strcasestr(got, "content-length: ");
        get_n(c, (size_t)atoi(length + 16));
        const struct sonde_front_request r = ended(i);
        assert_int_equal(r.outcome, SONDE_FRONT_UPSTREAM);
        assert_string_equal(r.error, cases[i].error);
        if (strcmp(cases[i].error, "bad_answer") == 0) {
            get_all(u); /* it is closed, not used again */
            close(u);
        }
    }
    close(c);
}

/* After part of the answer has gone out there is only one way to say that it is not whole. */
static void test_crash_in_the_middle(void **state)
{
    (void)state;
    static const struct { const char *sent, *got; int reset; } cases[] = {
        { CHUNKED "5\r\nhello\r\n", "5\r\nhello\r\n", 0 },
        { CHUNKED "5\r\nhel", "5\r\nhel", 0 },
        { ANSWER("10", "half"), "half", 0 },
        { CHUNKED "5\r\nhello\r\nnonsense", "5\r\nhello\r\n", 0 },
        { "HTTP/1.1 200 OK\r\n\r\nuntil reset", "until reset", 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int c = dial();
        put(c, GET);
        const int u = up_accept();
        get_head(u);
        put(u, cases[i].sent);
        get_head(c);
        expect(c, cases[i].got);
        const struct linger now = { 1, 0 };
        if (cases[i].reset) setsockopt(u, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(u);
        expect_end(c);
        const struct sonde_front_request r = ended(i);
        assert_int_equal(r.outcome, SONDE_FRONT_UPSTREAM);
        assert_int_equal(r.status, 200);
        close(c);
    }
}

/* An answer that comes before the request is through, from an upstream that then closes. */
static void test_early_answer(void **state)
{
    (void)state;
    const int c = dial();
    put(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nbegin");
    const int u = up_accept();
    get_head(u);
    expect(u, "begin");
    put(u, "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");
    close(u);
    const char *all = get_all(c);
    has(all, "HTTP/1.1 401 No");
    has(all, "connection: close");
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_ERROR);
    assert_string_equal(r.error, "http_401");
    close(c);
}

static void test_error_in_stream(void **state)
{
    (void)state;
    static const char event[] = "data: {\"error\":{\"type\":\"overloaded\"}}\n\n";
    const int c = dial();
    char text[256];
    put(c, CHAT);
    const int u = up_accept();
    get_head(u);
    expect(u, "{}");
    snprintf(text, sizeof(text), STREAM "%zx\r\n%s\r\n0\r\n\r\n", strlen(event), event);
    put(u, text);
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_ERROR);
    assert_string_equal(r.error, "overloaded");
    assert_int_equal(r.status, 200);
    close(c);
    close(u);
}

/* ---- The client's -------------------------------------------------------------------------- */

static void test_disconnect(void **state)
{
    (void)state;
    /* Before the answer, in the middle of it, in the middle of the request. */
    for (size_t i = 0; i < 3; i++) {
        const int c = dial();
        put(c, i < 2 ? CHAT : "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf");
        const int u = up_accept();
        get_head(u);
        if (i < 2) expect(u, "{}");
        if (i == 1) {
            put(u, STREAM "2\r\nxy\r\n");
            get_head(c);
        }
        close(c);
        if (i == 2) expect(u, "half");
        expect_end(u); /* the upstream is told */
        const struct sonde_front_request r = ended(i);
        assert_int_equal(r.outcome, SONDE_FRONT_CANCELLED);
        assert_string_equal(r.error, "client_closed");
        close(u);
    }
    until_upstreams(0);
}

/* Clients that have read the last event do not wait for the end of the chunks. */
static void test_disconnect_after_done(void **state)
{
    (void)state;
    const int c = dial();
    put(c, CHAT);
    const int u = up_accept();
    get_head(u);
    put(u, STREAM "e\r\ndata: [DONE]\n\n\r\n");
    get_head(c);
    expect(c, "e\r\ndata: [DONE]\n\n\r\n");
    close(c);
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_OK);
    close(u);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const struct { const char *text; unsigned status; } cases[] = {
        { "\x16\x03\x01", 400 },
        { "GET / HTTP/1.1\r\n\r\n", 400 },
        { "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
          "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403 },
        { "CONNECT x:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501 },
        { "GET ftp://x/ HTTP/1.1\r\nHost: h\r\n\r\n", 400 },
        { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char wanted[32];
        const int c = dial();
        put(c, cases[i].text);
        snprintf(wanted, sizeof(wanted), "HTTP/1.1 %u ", cases[i].status);
        const char *all = get_all(c);
        has(all, wanted);
        has(all, "connection: close");
        has(all, "{\"error\":{\"message\":\"");
        assert_false(up_pending());
        close(c);
    }
    assert_int_equal(seen.event_count, 0);
}

static void test_long_heads(void **state)
{
    (void)state;
    char *text = malloc(80000);
    memset(text, 'a', 80000);
    /* The longest that is taken, both ways. */
    int c = dial();
    size_t n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    text[n] = 'a';
    memcpy(text + (32 << 10) - 4, "\r\n\r\n", 4);
    put_bytes(c, text, 32 << 10);
    const int u = up_accept();
    assert_true(strlen(get_head(u)) > 32 << 10);
    /* It is kept for long: reading a head byte by byte takes seconds on a machine that is busy. */
    n = (size_t)sprintf(text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=60\r\n"
                        "X: ");
    text[n] = 'a';
    put_bytes(u, text, 32 << 10);
    assert_true(strlen(get_head(c)) > 32 << 10);
    /* One that is too long. */
    put(c, GET);
    get_head(u);
    memset(text + n, 'a', 70000 - n);
    put_bytes(u, text, 70000);
    has(get_head(c), "HTTP/1.1 502");
    close(c);
    close(u);
    c = dial();
    n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    memset(text + n, 'a', 70000 - n);
    put_bytes(c, text, 70000);
    has(get_all(c), "HTTP/1.1 431");
    close(c);
    free(text);
}

static void test_bad_body(void **state)
{
    (void)state;
    const int c = dial();
    put(c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    const int u = up_accept();
    get_head(u);
    expect(u, "3\r\nabc\r\n");
    put(c, "-5\r\nGET /smuggled");
    has(get_all(c), "HTTP/1.1 400");
    expect_end(u);
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_CANCELLED);
    assert_string_equal(r.error, "bad_request");
    close(c);
    close(u);
}

static void test_loop(void **state)
{
    (void)state;
    const int c = dial();
    put(c, GET);
    const int u = up_accept();
    const char *via = strcasestr(get_head(u), "\r\nvia: ") + 7;
    char text[256];
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 x, %.*s\r\n\r\n",
             (int)strcspn(via, "\r"), via);
    put(u, ANSWER("0", ""));
    get_head(c);
    put(c, text);
    has(get_all(c), "HTTP/1.1 508");
    close(c);
    close(u);
}

/* ---- Time, room and memory ----------------------------------------------------------------- */

static void test_timeouts(void **state)
{
    (void)state;
    restart_front(&(struct sonde_front_options){ .head_timeout_ms = 200, .idle_timeout_ms = 200 },
                  "");
    const int idle = dial(), slow = dial();
    put(slow, "GET / HT");
    has(get_all(slow), "HTTP/1.1 408");
    expect_end(idle);
    close(slow);
    close(idle);
}

static void test_many_connections(void **state)
{
    (void)state;
    restart_front(&(struct sonde_front_options){ .connections_max = 2 }, "");
    int c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = dial();
        put(c[i], GET);
    }
    int u[2];
    for (int i = 0; i < 2; i++) {
        u[i] = up_accept();
        get_head(u[i]);
    }
    assert_false(up_pending()); /* the third waits in the kernel */
    close(c[0]);
    close(c[1]);
    const int third = up_accept();
    get_head(third);
    put(third, ANSWER("0", ""));
    get_head(c[2]);
    close(c[2]);
    close(u[0]);
    close(u[1]);
    close(third);
}

/* How much a side takes that nobody reads from: not more than fits into sockets. */
static size_t push(int fd, const char *data, size_t len, size_t max)
{
    size_t sent = 0;
    while (sent < max) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        struct pollfd p = { fd, POLLOUT, 0 };
        if (poll(&p, 1, 500) == 0) break;
    }
    return sent;
}

static void test_back_pressure(void **state)
{
    (void)state;
    enum { BIG = 200 << 20 };
    static char data[1 << 16];
    char text[128];
    memset(data, 'x', sizeof(data));
    snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", BIG);
    int c = dial();
    put(c, text);
    int u = up_accept();
    get_head(u);
    /* The upstream does not read: the client cannot send for ever. And it all arrives. */
    size_t sent = push(c, data, sizeof(data), BIG);
    assert_in_range(sent, 1, BIG - 1);
    for (size_t all = 0; all < sent;) {
        all += strlen(get_n(u, sent - all < 4096 ? sent - all : 4096));
    }
    close(c);
    get_all(u);
    close(u);
    ended(0);
    /* The other way. */
    c = dial();
    put(c, GET);
    u = up_accept();
    get_head(u);
    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    put(u, text);
    sent = push(u, data, sizeof(data), BIG);
    assert_in_range(sent, 1, BIG - 1);
    get_head(c);
    for (size_t all = 0; all < sent;) {
        all += strlen(get_n(c, sent - all < 4096 ? sent - all : 4096));
    }
    close(c);
    close(u);
    assert_int_equal(ended(1).outcome, SONDE_FRONT_CANCELLED);
}

static void test_stop(void **state)
{
    (void)state;
    const int c = dial();
    put(c, GET);
    const int u = up_accept();
    get_head(u);
    sonde_front_stop(front);
    front = NULL;
    expect_end(c);
    expect_end(u);
    assert_int_equal(seen.ended_count, 1);
    assert_string_equal(seen.ended[0].error, "stopped");
    assert_int_equal(seen.state.in_flight, 0);
    assert_int_equal(seen.state.clients, 0);
    assert_int_equal(seen.state.upstreams, 0);
    close(c);
    close(u);
    start_front("");
}

static void *stop_it(void *arg)
{
    sonde_front_stop(front);
    return arg;
}

/* What is under way may come to its end. */
static void test_drain(void **state)
{
    (void)state;
    restart_front(&(struct sonde_front_options){ .drain_ms = WAIT_MS }, "");
    const int c = dial(), idle = dial();
    put(c, GET);
    const int u = up_accept();
    get_head(u);
    put(u, CHUNKED "1\r\na\r\n");
    get_head(c);
    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, stop_it, NULL), 0);
    expect_end(idle);
    put(u, "1\r\nb\r\n0\r\n\r\n");
    expect(c, "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    expect_end(c);
    pthread_join(stopper, NULL);
    assert_int_equal(seen.ended[0].outcome, SONDE_FRONT_OK);
    close(c);
    close(idle);
    close(u);
    front = NULL;
    options.drain_ms = 0;
    start_front("");
}

/* Each allocation of an exchange fails in turn: the client gets an answer, or its connection ends;
 * the front goes on. */
static void test_no_memory(void **state)
{
    (void)state;
    int answered = 0;
    for (uint64_t nth = 1; nth <= 12; nth++) { /* an exchange has about seven */
        sonde__alloc_fail_nth(nth);
        const int c = dial();
        put(c, CHAT);
        struct pollfd p[2] = { { c, POLLIN, 0 }, { up_listener, POLLIN, 0 } };
        assert_true(poll(p, 2, WAIT_MS) > 0);
        if (p[1].revents) {
            const int u = up_accept();
            send(u, CLOSES, strlen(CLOSES), MSG_NOSIGNAL);
            get_all(u);
            close(u);
        }
        got_len = 0;
        got[0] = 0;
        get_some(c, sizeof(got) - 1);
        answered += strstr(got, "200 OK") != NULL;
        sonde__alloc_fail_nth(0);
        close(c);
        until_clients(0);
    }
    assert_true(answered > 0 && answered < 12);
    const int c = dial();
    put(c, GET);
    const int u = up_accept();
    get_head(u);
    put(u, ANSWER("0", ""));
    has(get_head(c), "200 OK");
    close(c);
    close(u);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_front, teardown_front)
    const struct CMUnitTest tests[] = {
        TEST(test_refused),         TEST(test_second_address),
        TEST(test_connect_timeout), TEST(test_crash),
        TEST(test_crash_in_the_middle), TEST(test_early_answer),
        TEST(test_error_in_stream), TEST(test_disconnect),
        TEST(test_disconnect_after_done), TEST(test_nonsense),
        TEST(test_long_heads),      TEST(test_bad_body),
        TEST(test_loop),            TEST(test_timeouts),
        TEST(test_many_connections), TEST(test_back_pressure),
        TEST(test_stop),            TEST(test_drain),
        TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
