/* push_server.h - a collector on 127.0.0.1 for tests: answers one request after the other with the
 * bytes it was given, and keeps what it was sent. */
#ifndef SONDE_TESTS_PUSH_SERVER_H
#define SONDE_TESTS_PUSH_SERVER_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PUSH_SERVER_MAX = 16 };

struct push_server {
    int fd;
    int port;
    pthread_t thread;
    const char *const *answers; /* raw; "" = close without a word; NULL = the end */
    struct { char *data; size_t len, body; } got[PUSH_SERVER_MAX]; /* body: where it begins */
    size_t count;
};

/* Up to the end of the body that its Content-Length promises. */
static inline void push_server_read(struct push_server *s, int fd)
{
    size_t cap = 1 << 16, len = 0, head = 0, want = SIZE_MAX;
    char *data = malloc(cap + 1);
    while (len < want) {
        if (len == cap) data = realloc(data, (cap *= 2) + 1);
        const ssize_t n = read(fd, data + len, cap - len);
        if (n <= 0) break;
        len += (size_t)n;
        data[len] = '\0';
        const char *end = head ? NULL : strstr(data, "\r\n\r\n");
        if (!end) continue;
        head = (size_t)(end - data) + 4;
        const char *length = strcasestr(data, "\r\nContent-Length:");
        want = head + (length ? strtoul(length + 17, NULL, 10) : 0);
    }
    data[len] = '\0';
    s->got[s->count].data = data;
    s->got[s->count].len = len;
    s->got[s->count].body = head;
    s->count++;
}

static inline void *push_server_run(void *arg)
{
    struct push_server *s = arg;
    for (size_t i = 0; s->answers[i]; i++) {
        const int fd = accept(s->fd, NULL, NULL);
        if (fd < 0) break;
        push_server_read(s, fd);
        for (size_t at = 0, len = strlen(s->answers[i]); at < len;) {
            const ssize_t n = send(fd, s->answers[i] + at, len - at, MSG_NOSIGNAL);
            if (n <= 0) break;
            at += (size_t)n;
        }
        close(fd);
    }
    return NULL;
}

static inline void push_server_start(struct push_server *s, const char *const *answers)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(a);
    memset(s, 0, sizeof(*s));
    s->answers = answers;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, push_server_run, s), 0);
}

/* All requests have come, or will not: what was got is there until push_server_free. */
static inline void push_server_join(struct push_server *s)
{
    shutdown(s->fd, SHUT_RDWR); /* wakes accept */
    pthread_join(s->thread, NULL);
    close(s->fd);
}

static inline void push_server_free(struct push_server *s)
{
    for (size_t i = 0; i < s->count; i++) free(s->got[i].data);
    s->count = 0;
}

#define HTTP_OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

#endif
