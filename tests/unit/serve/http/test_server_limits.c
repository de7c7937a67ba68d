/* What one client may use of a server, where a test can set it: the time to read an answer, and
 * streams over a socket that ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serve/http/server.h"
#include "unit/serve/serve_collector.h"
#include "unit/serve/serve_model.h"

static struct sonde_server *server;

static void start(const struct sonde_server_limits *limits)
{
    struct sonde_err err = { "" };
    const struct sonde_server_options o = { .listen = "127.0.0.1:0", .agent = &agent,
                                            .limits = *limits };
    assert_int_equal(sonde_server_start(&o, &server, &err), 0);
}

static int setup(void **state)
{
    (void)state;
    return collector_make(NULL);
}

static int teardown(void **state)
{
    (void)state;
    return collector_end();
}

static void tick(void)
{
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_wrlock(&m->lock);
    sonde_model_tick(m, (double)time(NULL));
    sonde_rwunlock(&m->lock);
}

static int ask(const char *path)
{
    char text[300];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 4096;
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)atoi(strrchr(sonde_server_url(server), ':') + 1))
    };
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    const int len =
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
    return fd;
}

/* Bytes up to the end of the connection; the first ones in head. */
static size_t drain(int fd, char *head, size_t head_size)
{
    static char data[1 << 16];
    size_t total = 0;
    for (;;) {
        struct pollfd p = { fd, POLLIN, 0 };
        assert_int_equal(poll(&p, 1, 60000), 1);
        const ssize_t n = recv(fd, data, sizeof(data), 0);
        if (n <= 0) return total;
        for (ssize_t i = 0; i < n && total + (size_t)i + 1 < head_size; i++) {
            head[total + (size_t)i] = data[i];
            head[total + (size_t)i + 1] = '\0';
        }
        total += (size_t)n;
    }
}

static void many_series(void)
{
    struct sonde_model *m = sonde_collector_model(collector);
    char value[32];
    sonde_wrlock(&m->lock);
    struct sonde_model_family *f = family(m, SONDE_COUNTER, "a_total", "A.", "", 1);
    for (int i = 0; i < 60000; i++) {
        snprintf(value, sizeof(value), "value-%d", i);
        series1(m, f, "key", value)->counter = (uint64_t)i;
    }
    sonde_rwunlock(&m->lock);
    tick();
}

/* So much that it is not in the kernel's buffers: a client that reads none of it for a second has
 * lost the rest. */
static void an_answer_that_nobody_reads(void **state)
{
    (void)state;
    char head[1000] = "";
    many_series();
    start(&(struct sonde_server_limits){ .answer_s = 1 });
    const int fd = ask("/api/query?limit=1000000");
    struct pollfd p = { fd, POLLIN, 0 };
    assert_int_equal(poll(&p, 1, 60000), 1); /* it has begun to answer */
    nanosleep(&(struct timespec){ 3, 0 }, NULL);
    const size_t got = drain(fd, head, sizeof(head));
    const char *length = strstr(head, "Content-Length: ");
    assert_non_null(length);
    assert_true(strtoull(length + 16, NULL, 10) > 8u << 20);
    assert_true(got < strtoull(length + 16, NULL, 10));
    close(fd);
    sonde_server_stop(server);
}

/* The status of an answer of which nothing more is read. */
static int status_of(int fd)
{
    char line[16] = "";
    struct pollfd p = { fd, POLLIN, 0 };
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(recv(fd, line, 12, MSG_WAITALL), 12);
    return atoi(line + 9);
}

static int status_at_once(const char *path)
{
    const int fd = ask(path), status = status_of(fd);
    close(fd);
    return status;
}

/* Each of them may be large, and slow: all together are bounded. */
static void answers_that_nobody_reads(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    static const char large[] = "/api/query?limit=1000000";
    int fd[COUNT], count = 0, status = 200;
    many_series();
    start(&(struct sonde_server_limits){ .held_bytes = 40 << 20, .idle_s = 3600,
                                         .answer_s = 3600 });
    while (count < COUNT && status == 200) {
        fd[count] = ask(large);
        status = status_of(fd[count++]);
    }
    assert_true(count > 1);
    assert_int_equal(status, 503);
    assert_int_equal(status_at_once("/livez"), 200);
    for (int i = 0; i < count; i++) close(fd[i]);
    for (int round = 0; round < 600 && status != 200; round++) {
        status = status_at_once(large);
        if (status != 200) nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    }
    assert_int_equal(status, 200);
    sonde_server_stop(server);
}

struct heard { int fd; char text[1 << 18]; size_t len; };

static int hear(struct heard *h, int flags)
{
    const ssize_t n = recv(h->fd, h->text + h->len, sizeof(h->text) - 1 - h->len, flags);
    if (n > 0) h->len += (size_t)n;
    h->text[h->len] = '\0';
    return n > 0;
}

static int ids(const struct heard *h)
{
    int n = 0;
    for (const char *p = h->text; (p = strstr(p, "\nid: ")) != NULL; p++) n++;
    return n;
}

/* A stream is not an answer that takes too long; and it ends in order when the server does,
 * whatever state it is in. */
static void streams_last_and_end(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    static struct heard h[COUNT];
    start(&(struct sonde_server_limits){ .answer_s = 0.2, .idle_s = 5, .request_s = 0.2 });
    for (int i = 0; i < COUNT; i++) h[i].fd = ask(i % 2 ? "/api/stream?name=x" : "/api/stream");
    for (int round = 0, ready = 0; ready < COUNT; round++) {
        assert_true(round < 600);
        tick();
        nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
        ready = 0;
        for (int i = 0; i < COUNT; i++) {
            while (hear(&h[i], MSG_DONTWAIT)) continue;
            ready += ids(&h[i]) >= 8;
        }
    }
    sonde_server_stop(server);
    for (int i = 0; i < COUNT; i++) {
        while (hear(&h[i], 0)) continue;
        assert_non_null(strstr(h[i].text, "HTTP/1.1 200 OK\r\n"));
        assert_non_null(strstr(h[i].text, "event: series\n"));
        assert_string_equal(h[i].text + h[i].len - 7, "\r\n0\r\n\r\n");
        close(h[i].fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_that_nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_that_nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_last_and_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
