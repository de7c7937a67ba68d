/* Runs of the load generator against a server in a thread of this process: what is sent and when it
 * counts, and what is refused. Times are only compared with each other. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/http/load.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- A server: each connection is served to its end by a thread --------------------------------- */

struct peer {
    int listener;
    unsigned port;
    pthread_t thread;
    char last[4096];            /* the request that came last; one connection only */
    int per_connection;         /* requests, then it closes without a word; 0 = any */
    uint64_t requests, connections;
};

static void *peer_serve(void *arg)
{
    struct peer *p = arg;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 23\r\n\r\n{\"content\":\"an answer\"}";
    for (int fd; (fd = accept(p->listener, NULL, NULL)) >= 0; close(fd)) {
        char in[4096];
        size_t len = 0;
        ssize_t n;
        p->connections++;
        for (int served = 0; (n = recv(fd, in + len, sizeof(in) - 1 - len, 0)) > 0;) {
            len += (size_t)n;
            in[len] = 0;
            const char *head = strstr(in, "\r\n\r\n"), *length = strstr(in, "Content-Length: ");
            const size_t body = length ? strtoul(length + 16, NULL, 10) : 0;
            if (!head || len < (size_t)(head + 4 - in) + body) continue;
            memcpy(p->last, in, len + 1);
            len = 0;
            p->requests++;
            if (send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL) < 0) break;
            if (p->per_connection && ++served == p->per_connection) break;
        }
    }
    return NULL;
}

static void peer_start(struct peer *p, int per_connection)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    *p = (struct peer){ .per_connection = per_connection };
    p->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(p->listener >= 0 && !bind(p->listener, (struct sockaddr *)&at, len) &&
                !listen(p->listener, 64) && !getsockname(p->listener, (struct sockaddr *)&at, &len));
    p->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_serve, p), 0);
}

static void peer_stop(struct peer *p)
{
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
}

/* ---- A source ----------------------------------------------------------------------------------- */

struct list_source {
    struct sonde_load_source source;
    uint32_t count, given, done, unsent;
    uint64_t spacing_ns;
    int turns;                  /* the next comes when the last has ended */
    int keep_text;
    char text[64];
    uint64_t intended_ns;
};

static int list_next(struct sonde_load_source *s, struct sonde_load_request *out)
{
    struct list_source *l = (struct list_source *)s;
    if (l->given == l->count) return SONDE_ENOENT;
    if (l->turns && l->given > l->done) return SONDE_EBUSY;
    out->at_ns = l->given * l->spacing_ns;
    out->request = l->given++;
    out->body = "{}";
    out->body_len = 2;
    out->path = out->request % 2 ? "/odd" : NULL;
    out->keep_text = l->keep_text;
    return 0;
}

static void list_done(struct sonde_load_source *s, const struct sonde_load_request *r,
                      const struct sonde_load_record *record, const char *text, size_t text_len)
{
    struct list_source *l = (struct list_source *)s;
    assert_int_equal(r->request, record->request);
    l->done++;
    l->unsent += !record->sent_ns;
    if (text) snprintf(l->text, sizeof(l->text), "%.*s", (int)text_len, text);
}

static int load_list(struct list_source *l, struct sonde_load_options *o, unsigned port,
                     struct sonde_load_result *r)
{
    static char url[64];
    struct sonde_err err = { "" };
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/even?x=1", port);
    l->source = (struct sonde_load_source){ list_next, list_done };
    o->source = &l->source;
    o->url = url;
    return sonde_load_run(o, r, &err);
}

/* ---- Tests -------------------------------------------------------------------------------------- */

static void check_order(const struct sonde_load_result *r)
{
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *x = &r->records[i];
        assert_int_equal(x->outcome, SONDE_LOAD_OK);
        assert_int_equal(x->status, 200);
        assert_true(x->trace[0] && x->trace[1]);
        assert_true(x->intended_ns <= x->sent_ns && x->sent_ns <= x->head_ns &&
                    x->head_ns <= x->end_ns && x->end_ns <= r->end_ns);
        if (i) assert_true(x->intended_ns >= x[-1].intended_ns && x->trace[1] != x[-1].trace[1]);
    }
}

static void test_closed(void **state)
{
    (void)state;
    struct peer p;
    struct sonde_load_result r;
    struct list_source l = { .count = 50, .keep_text = 1 };
    const char *const headers[] = { "Authorization: Bearer x", NULL };
    struct sonde_load_options o = { .connections_max = 1, .headers = headers };
    peer_start(&p, 0);
    assert_int_equal(load_list(&l, &o, p.port, &r), 0);
    peer_stop(&p);
    assert_int_equal(r.record_count, 50);
    check_order(&r);
    assert_int_equal(r.records[0].intended_ns, r.begin_ns);
    /* Each begins when the one before has ended. */
    for (size_t i = 1; i < 50; i++) {
        assert_int_equal(r.records[i].intended_ns, r.records[i - 1].end_ns);
        assert_int_equal(r.records[i].connect_ns, 0);
    }
    assert_true(r.records[0].connect_ns > 0);
    assert_int_equal(p.requests, 50);
    assert_int_equal(p.connections, 1);
    assert_int_equal(l.done, 50);
    assert_string_equal(l.text, "an answer");
    char trace[64];
    snprintf(trace, sizeof(trace), "traceparent: 00-%016llx%016llx-",
             (unsigned long long)r.records[49].trace[0], (unsigned long long)r.records[49].trace[1]);
    assert_non_null(strstr(p.last, trace));
    assert_non_null(strstr(p.last, "\r\nAuthorization: Bearer x\r\n"));
    assert_non_null(strstr(p.last, "\r\n\r\n{}"));
    assert_memory_equal(p.last, "POST /odd HTTP/1.1\r\nHost: 127.0.0.1:", 36);
    sonde_load_result_release(&r);
}

/* What is due is sent when it is due and not before, over connections that are there. */
static void test_open(void **state)
{
    (void)state;
    struct peer p;
    struct sonde_load_result r;
    struct list_source l = { .count = 100, .spacing_ns = 1000000 };
    struct sonde_load_options o = { .open = 1, .connections_max = 1, .spin = 1 };
    peer_start(&p, 0);
    assert_int_equal(load_list(&l, &o, p.port, &r), 0);
    peer_stop(&p);
    assert_int_equal(r.record_count, 100);
    check_order(&r);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(r.records[i].intended_ns, r.begin_ns + i * 1000000);
        assert_int_equal(r.records[i].request, i);
    }
    assert_int_equal(r.unsent, 0);
    assert_true(r.client.cpu_ns && r.client.wall_ns);
    sonde_load_result_release(&r);
}

/* A chat: the source has nothing before an answer has come. */
static void test_turns(void **state)
{
    (void)state;
    struct peer p;
    for (uint32_t open = 0; open < 2; open++) {
        struct sonde_load_result r;
        struct list_source l = { .count = 20, .turns = 1 };
        struct sonde_load_options o = { .open = (int)open, .connections_max = 1, .threads = 1 };
        peer_start(&p, 0);
        assert_int_equal(load_list(&l, &o, p.port, &r), 0);
        peer_stop(&p);
        assert_int_equal(r.record_count, 20);
        assert_int_equal(l.done, 20);
        sonde_load_result_release(&r);
    }
}

/* A server that closes a connection it was to keep: the request is sent again, and counted. */
static void test_resent(void **state)
{
    (void)state;
    struct peer p;
    struct sonde_load_result r;
    struct list_source l = { .count = 30 };
    struct sonde_load_options o = { .connections_max = 1 };
    peer_start(&p, 3);
    assert_int_equal(load_list(&l, &o, p.port, &r), 0);
    peer_stop(&p);
    assert_int_equal(r.record_count, 30);
    check_order(&r);
    assert_int_equal(p.requests, 30);
    assert_true(r.client.resent <= 9); /* or its end was seen before the next was sent */
    sonde_load_result_release(&r);
}

static int stop_at_once(void *arg, uint64_t elapsed, uint64_t sent, uint64_t done, uint64_t failed)
{
    (void)elapsed, (void)done, (void)failed;
    ++*(int *)arg;
    return sent > 0;
}

/* A run that is stopped: what was not sent goes back to the source and is in no record. */
static void test_stop(void **state)
{
    (void)state;
    struct peer p;
    struct sonde_load_result r;
    int asked = 0;
    struct list_source l = { .count = 1000000, .spacing_ns = 1000000 };
    struct sonde_load_options o = { .open = 1, .connections_max = 1, .drain_ns = 60000000000u,
                                    .progress = stop_at_once, .progress_arg = &asked };
    peer_start(&p, 0);
    assert_int_equal(load_list(&l, &o, p.port, &r), 0);
    peer_stop(&p);
    assert_true(asked > 0 && r.record_count > 0 && r.record_count < 1000000);
    assert_int_equal(l.done, l.given);
    assert_int_equal(r.record_count + l.unsent, l.given);
    check_order(&r);
    sonde_load_result_release(&r);
}

/* Nobody listens: records that say so, by several threads. */
static void test_refused(void **state)
{
    (void)state;
    struct peer p;
    peer_start(&p, 0);
    peer_stop(&p); /* a port that was free a moment ago */
    for (uint32_t open = 0; open < 2; open++) {
        struct sonde_load_result r;
        struct list_source l = { .count = 8 };
        struct sonde_load_options o = { .open = (int)open, .connections_max = 4, .threads = 2 };
        assert_int_equal(load_list(&l, &o, p.port, &r), 0);
        assert_int_equal(r.record_count, 8);
        for (size_t i = 0; i < 8; i++) {
            assert_int_equal(r.records[i].outcome, SONDE_LOAD_CONNECT);
            assert_int_equal(r.records[i].sent_ns, 0);
        }
        sonde_load_result_release(&r);
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct { const char *url, *header, *says; int rc; } cases[] = {
        { "ftp://x/", NULL, "not an http:// or https:// URL", SONDE_EINVAL },
        { "https://:443/", NULL, "names no host", SONDE_EINVAL },
        { "http://:80/", NULL, "names no host", SONDE_EINVAL },
        { "http://127.0.0.1:99999/", NULL, "the port must be", SONDE_EINVAL },
        { "http://127.0.0.1/a b", NULL, "blanks", SONDE_EINVAL },
        { "http://no-such-host.invalid/", NULL, "no-such-host.invalid", SONDE_EIO },
        { "http://127.0.0.1:1/", "no colon", "Name: value", SONDE_EINVAL },
        { "http://127.0.0.1:1/", "A: b\r\nC: d", "Name: value", SONDE_EINVAL },
        { "http://127.0.0.1:1/", "content-length: 1", "sets content-length itself", SONDE_EINVAL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct list_source l = { .source = { list_next, list_done } };
        struct sonde_load_result r;
        struct sonde_err err = { "" };
        const char *const headers[] = { cases[i].header, NULL };
        const struct sonde_load_options o = { .url = cases[i].url, .headers = headers,
                                              .source = &l.source };
        if (sonde_load_run(&o, &r, &err) != cases[i].rc || !strstr(err.text, cases[i].says)) {
            fail_msg("%s: %s", cases[i].url, err.text);
        }
    }
    struct list_source l = { .source = { list_next, list_done } };
    struct sonde_load_result r;
    struct sonde_err err = { "" };
    const struct sonde_load_options many = { .url = "http://127.0.0.1:1/", .source = &l.source,
                                             .connections_max = 2000000000 };
    const int rc = sonde_load_run(&many, &r, &err);
    assert_int_equal(rc, SONDE_EINVAL);
    assert_non_null(strstr(err.text, "RLIMIT_NOFILE"));
}

static void test_no_memory(void **state)
{
    (void)state;
    struct peer p;
    int rc = SONDE_ENOMEM;
    peer_start(&p, 0);
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        struct sonde_load_result r;
        struct list_source l = { .count = 2, .keep_text = 1 };
        struct sonde_load_options o = { .connections_max = 1, .headers = NULL };
        const int64_t before = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = load_list(&l, &o, p.port, &r);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (!rc) {
            /* What is kept of an answer may be missing, and a request fail for it. */
            assert_int_equal(r.record_count, 2);
            rc = r.records[0].outcome || r.records[1].outcome;
            sonde_load_result_release(&r);
        }
        assert_int_equal(sonde__alloc_live(), before);
    }
    assert_int_equal(rc, 0);
    peer_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed),  cmocka_unit_test(test_open),
        cmocka_unit_test(test_turns),   cmocka_unit_test(test_resent),
        cmocka_unit_test(test_stop),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_options), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
