/* front_peer.h - for tests of the front: it runs in its thread, and the test itself is the client,
 * the upstream and sonde's own server, one step at a time. Every wait ends after a minute. */
#ifndef TESTS_FRONT_PEER_H
#define TESTS_FRONT_PEER_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "front/front.h"
#include "sonde/sonde.h"

enum { WAIT_MS = 60000, ENDED_MAX = 64 };

/* ---- What the observer saw ---------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sonde_front_request ended[ENDED_MAX];
    size_t ended_count;
    char events[4096];         /* a letter each: A S H B T E */
    size_t event_count;
    uint64_t token_ns[256];
    size_t token_count;
    struct sonde_front_state state;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void seen_event(void *arg, enum sonde_front_event event, struct sonde_front_request *r)
{
    (void)arg;
    pthread_mutex_lock(&seen.lock);
    if (seen.event_count < sizeof(seen.events) - 1) {
        seen.events[seen.event_count++] = "ASHBTE"[event];
    }
    if (event == SONDE_FRONT_ARRIVED && r->profile) strcpy(r->profile_id, "prof-1");
    if (event == SONDE_FRONT_TOKEN && seen.token_count < 256) {
        seen.token_ns[seen.token_count++] = r->last_token_ns;
    }
    if (event == SONDE_FRONT_ENDED && seen.ended_count < ENDED_MAX) {
        seen.ended[seen.ended_count++] = *r;
    }
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void seen_tick(void *arg, const struct sonde_front_state *state)
{
    (void)arg;
    pthread_mutex_lock(&seen.lock);
    seen.state = *state;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

/* Requests with X-Profile are held back while this is set; how often it was looked at. */
static _Atomic int hold, looked;

static int seen_ready(void *arg, const struct sonde_front_request *r)
{
    (void)arg;
    assert_true(r->profile);
    looked++;
    return !hold;
}

static void seen_wait(const char *what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    if (pthread_cond_timedwait(&seen.changed, &seen.lock, &until) == ETIMEDOUT) {
        pthread_mutex_unlock(&seen.lock);
        fail_msg("for a minute waited for: %s", what);
    }
}

/* The nth request (from 0) that has ended; waits for it. */
__attribute__((unused)) static struct sonde_front_request ended(size_t n)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.ended_count <= n) seen_wait("the end of a request");
    const struct sonde_front_request r = seen.ended[n];
    pthread_mutex_unlock(&seen.lock);
    return r;
}

__attribute__((unused)) static void until_upstreams(uint64_t n)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.state.upstreams != n) seen_wait("connections to the upstream");
    pthread_mutex_unlock(&seen.lock);
}

__attribute__((unused)) static void until_clients(uint64_t n)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.state.clients != n) seen_wait("connections of clients");
    pthread_mutex_unlock(&seen.lock);
}

/* ---- Sockets ------------------------------------------------------------------------------- */

static struct sonde_front *front;
static int front_port, up_listener, up_port;
static int adopted[16];
static size_t adopted_count;

static int listen_on(int *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 512), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static int dial_port(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

__attribute__((unused)) static int dial(void) { return dial_port(front_port); }

static void wait_for(int fd, short events)
{
    struct pollfd p = { fd, events, 0 };
    int n;
    do n = poll(&p, 1, WAIT_MS);
    while (n < 0 && errno == EINTR);
    if (n != 1) fail_msg("nothing happened for a minute");
}

/* A connection of the front's to the upstream. */
__attribute__((unused)) static int up_accept(void)
{
    wait_for(up_listener, POLLIN);
    const int fd = accept4(up_listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* 1 if the front has connected to the upstream once more. */
__attribute__((unused)) static int up_pending(void)
{
    struct pollfd p = { up_listener, POLLIN, 0 };
    return poll(&p, 1, 0) == 1;
}

__attribute__((unused)) static void put_bytes(int fd, const char *data, size_t len)
{
    while (len) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0) fail_msg("send: %s", strerror(errno));
        data += n;
        len -= (size_t)n;
    }
}

__attribute__((unused)) static void put(int fd, const char *text)
{
    put_bytes(fd, text, strlen(text));
}

static char got[1 << 16];
static size_t got_len;

/* Some more bytes; 0 at the end of the connection. */
static size_t get_some(int fd, size_t max)
{
    wait_for(fd, POLLIN);
    const ssize_t n = recv(fd, got + got_len, max, 0);
    if (n <= 0) return 0;
    got_len += (size_t)n;
    got[got_len] = 0;
    return (size_t)n;
}

/* Exactly n bytes. */
__attribute__((unused)) static const char *get_n(int fd, size_t n)
{
    got_len = 0;
    got[0] = 0;
    while (got_len < n) {
        if (!get_some(fd, n - got_len)) fail_msg("ended after: %s", got);
    }
    return got;
}

/* A head, without what follows it. */
__attribute__((unused)) static const char *get_head(int fd)
{
    got_len = 0;
    got[0] = 0;
    while (!strstr(got, "\r\n\r\n")) {
        if (!get_some(fd, 1)) fail_msg("ended after: %s", got);
    }
    return got;
}

__attribute__((unused)) static const char *get_all(int fd)
{
    got_len = 0;
    got[0] = 0;
    while (get_some(fd, sizeof(got) - 1 - got_len)) {
    }
    return got;
}

__attribute__((unused)) static void expect(int fd, const char *text)
{
    assert_string_equal(get_n(fd, strlen(text)), text);
}

__attribute__((unused)) static void expect_end(int fd)
{
    char byte;
    wait_for(fd, POLLIN);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
}

__attribute__((unused)) static void has(const char *text, const char *part)
{
    if (!strcasestr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

__attribute__((unused)) static void lacks(const char *text, const char *part)
{
    if (strcasestr(text, part)) fail_msg("'%s' is in:\n%s", part, text);
}

/* ---- The front ----------------------------------------------------------------------------- */

static int own_path(const char *path, void *arg)
{
    (void)arg;
    return strncmp(path, "/own", 4) == 0;
}

static int64_t who_calls, adopted_who[16];

static int64_t own_who(int client_fd, void *arg)
{
    (void)client_fd;
    (void)arg;
    return __atomic_load_n(&who_calls, __ATOMIC_SEQ_CST);
}

static int own_adopt(int fd, int64_t who, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&seen.lock);
    const int full = adopted_count == sizeof(adopted) / sizeof(adopted[0]);
    if (!full) adopted_who[adopted_count] = who;
    if (!full) adopted[adopted_count++] = fd;
    else close(fd);
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
    return full ? -1 : 0;
}

static int own_host(const char *host, void *arg)
{
    (void)arg;
    return strncmp(host, "127.0.0.1", 9) == 0 || strcmp(host, "h") == 0;
}

/* Options that are changed for a test; zero = as usual. */
static struct sonde_front_options options;

static void start_front(const char *prefix)
{
    struct sonde_err err = { "" };
    char url[300];
    seen.ended_count = seen.event_count = seen.token_count = 0;
    memset(seen.events, 0, sizeof(seen.events));
    memset(&seen.state, 0, sizeof(seen.state));
    adopted_count = 0;
    hold = looked = 0;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", up_port, prefix);
    if (!options.upstream.address_count &&
        sonde_front_upstream_parse(url, &options.upstream, &err) != 0) {
        fail_msg("%s", err.text);
    }
    options.listen_fd = listen_on(&front_port);
    options.own = own_path;
    options.adopt = own_adopt;
    options.who = own_who;
    options.host_ok = own_host;
    options.observer = (struct sonde_front_observer){ seen_event, seen_tick, NULL, seen_ready };
    if (sonde_front_start(&options, &front, &err) != 0) fail_msg("%s", err.text);
}

static void stop_front(void)
{
    sonde_front_stop(front);
    front = NULL;
    for (size_t i = 0; i < adopted_count; i++) close(adopted[i]);
    adopted_count = 0;
}

__attribute__((unused)) static int setup_front(void **state)
{
    (void)state;
    memset(&options, 0, sizeof(options));
    up_listener = listen_on(&up_port);
    start_front("");
    return 0;
}

__attribute__((unused)) static int teardown_front(void **state)
{
    (void)state;
    stop_front();
    close(up_listener);
    return 0;
}

/* Once more, with options. */
__attribute__((unused)) static void restart_front(const struct sonde_front_options *o,
                                                  const char *prefix)
{
    stop_front();
    options = *o;
    start_front(prefix);
}

#endif
