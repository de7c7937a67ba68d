/* The front with a second server: requests are split or mirrored, whatever that server does. */
#include "front_peer.h"

#include "base/alloc.h"

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define STREAM                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHAT(session) "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Session-Id: " session   \
                      "\r\nContent-Length: 11\r\n\r\n{\"model\":1}"
#define BODY "{\"model\":1}"

/* Of half the requests; found by sonde_front_arm_of, see choose_sessions. */
static char session_a[16], session_b[16];
static int b_listener, b_port;

static void choose_sessions(uint32_t share_ppm)
{
    session_a[0] = session_b[0] = 0;
    for (int i = 0; !session_a[0] || !session_b[0]; i++) {
        char name[16];
        const size_t len = (size_t)snprintf(name, sizeof(name), "s%d", i);
        const int b = sonde_front_arm_of(share_ppm, name, len, 0, 0) == SONDE_FRONT_B;
        memcpy(b ? session_b : session_a, name, len + 1);
    }
}

static void start_ab(enum sonde_front_ab_mode mode, struct sonde_front_options o)
{
    struct sonde_err err = { "" };
    char url[64];
    b_listener = listen_on(&b_port);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/b", b_port);
    assert_int_equal(sonde_front_upstream_parse(url, &o.ab.upstream, &err), 0);
    o.ab.mode = mode;
    if (!o.ab.share_ppm) o.ab.share_ppm = mode == SONDE_FRONT_MIRROR ? SONDE_FRONT_SHARE_ALL
                                                                     : 500000;
    strcpy(o.ab.session, "X-Session-Id");
    if (mode == SONDE_FRONT_SPLIT) choose_sessions(o.ab.share_ppm);
    restart_front(&o, "");
}

static int teardown_ab(void **state)
{
    if (b_listener >= 0) close(b_listener);
    b_listener = -1;
    return teardown_front(state);
}

static int b_accept(void)
{
    wait_for(b_listener, POLLIN);
    const int fd = accept4(b_listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int b_pending(void)
{
    struct pollfd p = { b_listener, POLLIN, 0 };
    return poll(&p, 1, 0) == 1;
}

static void put_chat(int c, const char *session)
{
    char text[256];
    snprintf(text, sizeof(text), "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nx-session-ID: "
             "%s\r\nContent-Length: 11\r\n\r\n" BODY, session);
    put(c, text);
}

/* The one of those that have ended that is a copy, or the one that is not. */
static struct sonde_front_request ended_copy(int copy)
{
    pthread_mutex_lock(&seen.lock);
    for (;;) {
        for (size_t i = 0; i < seen.ended_count; i++) {
            if (seen.ended[i].copy != copy) continue;
            const struct sonde_front_request r = seen.ended[i];
            pthread_mutex_unlock(&seen.lock);
            return r;
        }
        seen_wait("the end of a request or copy");
    }
}

static void until_dropped(enum sonde_front_drop reason, uint64_t n)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.state.dropped_total[reason] != n) seen_wait("a copy that is dropped");
    pthread_mutex_unlock(&seen.lock);
}

static void until_copies(uint64_t total, uint64_t now)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.state.copies_total != total || seen.state.copies != now) seen_wait("copies");
    pthread_mutex_unlock(&seen.lock);
}

/* ---- Split --------------------------------------------------------------------------------- */

static void test_split(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_SPLIT, (struct sonde_front_options){ 0 });
    char wanted[64];
    const int c = dial();
    put_chat(c, session_b);
    const int b = b_accept();
    const char *head = get_head(b);
    assert_memory_equal(head, "POST /b/v1/chat/completions HTTP/1.1\r\n", 38);
    snprintf(wanted, sizeof(wanted), "\r\nHost: 127.0.0.1:%d\r\n", b_port);
    has(head, wanted);
    has(head, "x-session-id: ");
    lacks(head, "x-sonde-mirror");
    expect(b, BODY);
    put(b, OK_ANSWER);
    get_head(c);
    expect(c, "ok");
    put_chat(c, session_a);
    const int u = up_accept();
    head = get_head(u);
    assert_memory_equal(head, "POST /v1/chat/completions HTTP/1.1\r\n", 36);
    snprintf(wanted, sizeof(wanted), "\r\nHost: 127.0.0.1:%d\r\n", up_port);
    has(head, wanted);
    expect(u, BODY);
    put(u, OK_ANSWER);
    get_head(c);
    expect(c, "ok");
    /* Each by the connection it had. */
    put_chat(c, session_b);
    get_head(b);
    expect(b, BODY);
    put(b, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    has(get_head(c), "503");
    assert_false(b_pending());
    assert_false(up_pending());
    static const enum sonde_front_arm arms[] = { SONDE_FRONT_B, SONDE_FRONT_A, SONDE_FRONT_B };
    for (size_t i = 0; i < 3; i++) {
        const struct sonde_front_request r = ended(i);
        assert_int_equal(r.arm, arms[i]);
        assert_int_equal(r.copy, 0);
        assert_string_equal(r.fell_back, "");
        assert_true(r.whole_ns >= r.arrived_ns && r.whole_ns <= r.sent_ns);
        assert_string_equal(r.error, i == 2 ? "http_503" : "");
    }
    close(c);
    close(b);
    close(u);
}

/* What is no inference request is A's, whatever session it names. */
static void test_split_other(void **state)
{
    (void)state;
    static const char *const lines[] = { "GET /v1/chat/completions", "POST /v1/files",
                                         "DELETE /v1/chat/completions", "POST /api/pull" };
    start_ab(SONDE_FRONT_SPLIT, (struct sonde_front_options){ .ab.share_ppm = 999999 });
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\nX-Session-Id: %s\r\n"
                 "Content-Length: 0\r\n\r\n", lines[i], session_b);
        put(c, text);
        if (u < 0) u = up_accept();
        has(get_head(u), lines[i]);
        put(u, OK_ANSWER);
        get_head(c);
        expect(c, "ok");
        assert_int_equal(ended(i).arm, SONDE_FRONT_NO_ARM);
    }
    assert_false(b_pending());
    close(c);
    close(u);
}

static void test_split_refused(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_SPLIT, (struct sonde_front_options){ 0 });
    close(b_listener);
    b_listener = -1;
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < 2; i++) {
        put_chat(c, session_b);
        if (u < 0) u = up_accept();
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "\r\nHost: 127.0.0.1:%d\r\n", up_port);
        const char *head = get_head(u);
        assert_memory_equal(head, "POST /v1/", 9);
        has(head, wanted);
        expect(u, BODY);
        put(u, OK_ANSWER);
        get_head(c);
        expect(c, "ok");
        const struct sonde_front_request r = ended(i);
        assert_int_equal(r.arm, SONDE_FRONT_B);
        assert_int_equal(r.outcome, SONDE_FRONT_OK);
        assert_string_equal(r.fell_back, i == 0 ? "connect_refused" : "resting");
    }
    close(c);
    close(u);
}

/* B's queue is full, so that connecting to it takes its time: A has the request then, with all of
 * its body, the part too that the client sent while B was tried. */
static void test_split_timeout(void **state)
{
    (void)state;
    int fill[8];
    start_ab(SONDE_FRONT_SPLIT, (struct sonde_front_options){ .connect_timeout_ms = 300 });
    assert_int_equal(listen(b_listener, 0), 0);
    for (size_t i = 0; i < 8; i++) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)b_port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fill[i], (struct sockaddr *)&a, sizeof(a));
    }
    char text[256];
    enum { LEN = 100000 };
    char *body = calloc(1, LEN + 1);
    assert_non_null(body);
    memset(body, 'x', LEN);
    const int c = dial();
    snprintf(text, sizeof(text), "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Session-Id: "
             "%s\r\nContent-Length: %d\r\n\r\nx", session_b, LEN);
    put(c, text);
    put_bytes(c, body + 1, LEN - 1);
    const int u = up_accept();
    assert_memory_equal(get_head(u), "POST /v1/", 9);
    for (int left = LEN, n; left; left -= n) {
        n = left < 10000 ? left : 10000;
        assert_memory_equal(get_n(u, (size_t)n), body, (size_t)n);
    }
    put(u, OK_ANSWER);
    get_head(c);
    expect(c, "ok");
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.arm, SONDE_FRONT_B);
    assert_string_equal(r.fell_back, "connect_timeout");
    assert_int_equal(r.bytes_in > LEN, 1);
    free(body);
    close(c);
    close(u);
    for (size_t i = 0; i < 8; i++) close(fill[i]);
}

/* Once B has the request it is B's: nobody knows whether it acted on it. */
static void test_split_reset(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_SPLIT, (struct sonde_front_options){ 0 });
    const int c = dial();
    put_chat(c, session_b);
    const int b = b_accept();
    get_head(b);
    const struct linger hard = { 1, 0 };
    setsockopt(b, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(b);
    has(get_head(c), "HTTP/1.1 502");
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.arm, SONDE_FRONT_B);
    assert_string_equal(r.fell_back, "");
    assert_string_equal(r.error, "closed_early");
    assert_false(up_pending());
    close(c);
}

/* ---- Mirror -------------------------------------------------------------------------------- */

static void test_mirror(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){ 0 });
    char wanted[64], trace[64] = "";
    const int c = dial();
    put(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
           "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
           "X-Profile: true\r\n\r\n5\r\n{\"mod");
    const int u = up_accept();
    const char *head = get_head(u);
    has(head, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-");
    lacks(head, "x-sonde-mirror");
    assert_false(b_pending()); /* it is not whole */
    put(c, "\r\n6\r\nel\":1}\r\n0\r\n\r\n");
    expect(u, "5\r\n{\"mod\r\n6\r\nel\":1}\r\n0\r\n\r\n");
    const int b = b_accept();
    head = get_head(b);
    assert_memory_equal(head, "POST /b/v1/chat/completions HTTP/1.1\r\n", 38);
    snprintf(wanted, sizeof(wanted), "\r\nHost: 127.0.0.1:%d\r\n", b_port);
    has(head, wanted);
    has(head, "\r\nX-Sonde-Mirror: true\r\n");
    lacks(head, "0af7651916cd43dd8448eb211c80319c"); /* it is not in the client's trace */
    const char *at = strcasestr(head, "traceparent: ");
    assert_non_null(at);
    memcpy(trace, at + 13, 55);
    expect(b, "5\r\n{\"mod\r\n6\r\nel\":1}\r\n0\r\n\r\n");
    /* B answers first, another answer, and longer. */
    put(b, STREAM "2e\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\r\n1\r\n\n\r\n"
           "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    const struct sonde_front_request copy = ended_copy(1);
    assert_int_equal(copy.arm, SONDE_FRONT_B);
    assert_int_equal(copy.outcome, SONDE_FRONT_OK);
    assert_int_equal(copy.chunks, 1);
    assert_int_equal(copy.profile, 0);
    assert_true(copy.first_token_ns > copy.arrived_ns);
    put(u, OK_ANSWER);
    head = get_head(c);
    has(head, "traceresponse: 00-0af7651916cd43dd8448eb211c80319c-");
    expect(c, "ok");
    const struct sonde_front_request r = ended_copy(0);
    assert_int_equal(r.arm, SONDE_FRONT_A);
    assert_int_equal(r.whole_ns, copy.arrived_ns);
    assert_int_equal(copy.whole_ns, copy.arrived_ns);
    assert_true(r.span != copy.span && r.trace_hi != copy.trace_hi);
    until_copies(1, 0);
    /* A second one, by the same connections. */
    put(c, CHAT("x"));
    get_head(u);
    expect(u, BODY);
    get_head(b);
    expect(b, BODY);
    put(u, OK_ANSWER);
    put(b, OK_ANSWER);
    get_head(c);
    expect(c, "ok");
    until_copies(2, 0);
    assert_false(b_pending());
    close(c);
    close(u);
    close(b);
}

static void test_mirror_other(void **state)
{
    (void)state;
    static const char *const lines[] = { "GET /v1/chat/completions", "POST /v1/files",
                                         "DELETE /v1/responses/1", "POST /api/pull",
                                         "POST /own/chat/completions" };
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){ 0 });
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",
                 lines[i]);
        put(c, text);
        int at = u;
        if (strstr(lines[i], "/own")) {
            pthread_mutex_lock(&seen.lock);
            while (!adopted_count) seen_wait("a connection to sonde's server");
            at = adopted[0];
            pthread_mutex_unlock(&seen.lock);
        } else if (u < 0) {
            at = u = up_accept();
        }
        has(get_head(at), lines[i]);
        expect(at, "{}");
        put(at, OK_ANSWER);
        get_head(c);
        expect(c, "ok");
    }
    assert_false(b_pending());
    assert_int_equal(seen.state.copies_total, 0);
    close(c);
    close(u);
}

/* One exchange with A; its answer is as A gave it. */
static void exchange(int c, int *u)
{
    put(c, CHAT("x"));
    if (*u < 0) *u = up_accept();
    get_head(*u);
    expect(*u, BODY);
    put(*u, OK_ANSWER);
    has(get_head(c), "200 OK");
    expect(c, "ok");
}

static void test_mirror_dead(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){ 0 });
    close(b_listener);
    b_listener = -1;
    const int c = dial();
    int u = -1;
    for (int i = 0; i < 3; i++) exchange(c, &u);
    const struct sonde_front_request r = ended_copy(1);
    assert_string_equal(r.error, "connect_refused");
    assert_int_equal(r.outcome, SONDE_FRONT_UPSTREAM);
    until_copies(3, 0);
    close(c);
    close(u);
}

/* B takes connections and does nothing: so many copies wait, the rest is dropped; and those that
 * wait are given up in the end. */
static void test_mirror_stalled(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_MIRROR,
             (struct sonde_front_options){ .ab = { .copies_max = 3, .copy_timeout_ms = 300 } });
    const int c = dial();
    int u = -1;
    for (int i = 0; i < 10; i++) exchange(c, &u);
    const struct sonde_front_request r = ended_copy(1);
    assert_string_equal(r.error, "timeout");
    pthread_mutex_lock(&seen.lock);
    while (seen.state.copies) seen_wait("the end of all copies");
    const struct sonde_front_state s = seen.state;
    size_t arms = 0;
    for (size_t i = 0; i < seen.ended_count; i++) arms += seen.ended[i].arm == SONDE_FRONT_A;
    pthread_mutex_unlock(&seen.lock);
    assert_int_equal(s.copies_total + s.dropped_total[SONDE_FRONT_DROP_BUSY], 10);
    assert_true(s.copies_total >= 3);
    assert_int_equal(arms, s.copies_total); /* compared are those that have a copy */
    close(c);
    close(u);
}

static void test_mirror_reset(void **state)
{
    (void)state;
    static const char *const sent[] = {
        "", "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab", "junk" };
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){ 0 });
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
        put(c, CHAT("x"));
        if (u < 0) u = up_accept();
        get_head(u);
        expect(u, BODY);
        const int b = b_accept();
        get_head(b);
        expect(b, BODY);
        put(b, sent[i]);
        const struct linger hard = { 1, 0 };
        setsockopt(b, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        close(b);
        until_copies(i + 1, 0);
        put(u, OK_ANSWER);
        has(get_head(c), "200 OK");
        expect(c, "ok");
    }
    assert_int_equal(ended_copy(1).outcome, SONDE_FRONT_UPSTREAM);
    close(c);
    close(u);
}

/* Requests that are too long, or more than memory may hold, are A's alone. */
static void test_mirror_room(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){
        .ab = { .copy_bytes_max = 4096, .copies_bytes_max = 5000 } });
    static const int chunked[] = { 0, 1 };
    const int c = dial();
    int u = -1;
    for (size_t i = 0; i < 2; i++) {
        char text[256];
        static char body[5000];
        memset(body, 'x', sizeof(body));
        if (chunked[i]) {
            snprintf(text, sizeof(text), "POST /v1/completions HTTP/1.1\r\nHost: h\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n1388\r\n");
        } else {
            snprintf(text, sizeof(text), "POST /v1/completions HTTP/1.1\r\nHost: h\r\n"
                     "Content-Length: 5000\r\n\r\n");
        }
        put(c, text);
        put_bytes(c, body, sizeof(body));
        if (chunked[i]) put(c, "\r\n0\r\n\r\n");
        if (u < 0) u = up_accept();
        get_head(u);
        get_n(u, sizeof(body) + (chunked[i] ? 13 : 0));
        put(u, OK_ANSWER);
        get_head(c);
        expect(c, "ok");
        until_dropped(SONDE_FRONT_DROP_TOO_LARGE, i + 1);
        assert_int_equal(ended(i).arm, SONDE_FRONT_NO_ARM);
    }
    /* Two that have not come as a whole: there is room for one. */
    const int d = dial();
    put(d, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n");
    get_head(u);
    put(c, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n");
    const int v = up_accept();
    get_head(v);
    until_dropped(SONDE_FRONT_DROP_NO_ROOM, 1);
    close(d); /* what was kept of it goes */
    assert_int_equal(ended(2).outcome, SONDE_FRONT_CANCELLED);
    put(v, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    get_head(c);
    close(c);
    until_clients(0);
    const int e = dial();
    int w = -1;
    exchange(e, &w);
    until_copies(1, 1);
    assert_true(b_pending());
    close(e);
    close(u);
    close(v);
    close(w);
}

/* A client that has gone: its copy goes too, so that both servers are spared. */
static void test_mirror_left(void **state)
{
    (void)state;
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){ 0 });
    const int c = dial();
    put(c, CHAT("x"));
    const int u = up_accept(), b = b_accept();
    get_head(u);
    get_head(b);
    expect(b, BODY);
    close(c);
    expect_end(b);
    const struct sonde_front_request r = ended_copy(1);
    assert_int_equal(r.outcome, SONDE_FRONT_CANCELLED);
    assert_int_equal(ended_copy(0).outcome, SONDE_FRONT_CANCELLED);
    /* The end of the front, with a copy under way. */
    const int d = dial();
    int v = -1;
    exchange(d, &v);
    const int w = b_accept();
    get_head(w);
    stop_front();
    expect(w, BODY);
    expect_end(w);
    start_front("");
    close(d);
    close(u);
    close(v);
    close(b);
    close(w);
}

/* Each allocation fails in turn. Whether there is memory for a copy makes no difference to what
 * the client gets once its own exchange has what it needs. */
static void test_mirror_no_memory(void **state)
{
    (void)state;
    int answered = 0;
    start_ab(SONDE_FRONT_MIRROR, (struct sonde_front_options){ 0 });
    for (uint64_t nth = 1; nth <= 20; nth++) {
        sonde__alloc_fail_nth(nth);
        const int c = dial();
        put(c, CHAT("x"));
        struct pollfd p[2] = { { c, POLLIN, 0 }, { up_listener, POLLIN, 0 } };
        assert_true(poll(p, 2, WAIT_MS) > 0);
        if (p[1].revents) {
            const int u = up_accept();
            put(u, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
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
    assert_true(answered > 10 && answered < 20);
    close(b_listener); /* resets what it has not accepted: the end of all copies */
    b_listener = -1;
    pthread_mutex_lock(&seen.lock);
    while (seen.state.copies || !seen.state.copies_total || seen.state.clients) {
        seen_wait("the end of all copies");
    }
    const uint64_t dropped = seen.state.dropped_total[SONDE_FRONT_DROP_NO_ROOM];
    pthread_mutex_unlock(&seen.lock);
    assert_true(dropped >= 1);
}

int main(void)
{
    b_listener = -1;
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_front, teardown_ab)
    const struct CMUnitTest tests[] = {
        TEST(test_split),         TEST(test_split_other),  TEST(test_split_refused),
        TEST(test_split_timeout), TEST(test_split_reset),  TEST(test_mirror),
        TEST(test_mirror_other),  TEST(test_mirror_dead),  TEST(test_mirror_stalled),
        TEST(test_mirror_reset),  TEST(test_mirror_room),  TEST(test_mirror_left),
        TEST(test_mirror_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
