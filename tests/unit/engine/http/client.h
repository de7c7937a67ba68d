/* client.h - a raw HTTP client for tests: one connection, one request, what comes back. */
#ifndef TESTS_UNIT_ENGINE_HTTP_CLIENT_H
#define TESTS_UNIT_ENGINE_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "http/server.h"

enum { CLIENT_BYTES_MAX = 1 << 20, CLIENT_PATIENCE_S = 60 };

static inline int client_connect(const char *url)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)) };
    const struct timeval patience = { .tv_sec = CLIENT_PATIENCE_S };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at))) {
        perror("client_connect");
        exit(1);
    }
    return fd;
}

static inline void client_send(int fd, const char *method, const char *path, const char *headers,
                               const char *body)
{
    static const char form[] =
        "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s";
    const size_t bytes = body ? strlen(body) : 0,
                 room = bytes + strlen(path) + strlen(headers) + 256;
    char *text = malloc(room);
    const size_t n =
        (size_t)snprintf(text, room, form, method, path, headers, bytes, body ? body : "");
    for (size_t at = 0; at < n;) {
        const ssize_t sent = send(fd, text + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0) break; /* refused before all was sent */
        at += (size_t)sent;
    }
    free(text);
}

/* All that comes until the other end closes, or at least `enough` bytes; malloc'd, terminated. */
static inline char *client_read(int fd, size_t enough)
{
    char *all = malloc(CLIENT_BYTES_MAX);
    size_t n = 0;
    while (n < enough && n < CLIENT_BYTES_MAX - 1) {
        const ssize_t got = recv(fd, all + n, CLIENT_BYTES_MAX - 1 - n, 0);
        if (got <= 0) break;
        n += (size_t)got;
    }
    all[n] = 0;
    return all;
}

/* The whole answer. */
static inline char *client_ask(const char *url, const char *method, const char *path,
                               const char *headers, const char *body)
{
    const int fd = client_connect(url);
    client_send(fd, method, path, headers, body);
    char *answer = client_read(fd, CLIENT_BYTES_MAX);
    close(fd);
    return answer;
}

static inline int client_status(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) ? 0 : atoi(answer + 9);
}

/* The texts of all chunks of a stream, one after the other; malloc'd. Content of the model here is
 * not escaped beyond what both sides of a comparison have. */
static inline char *client_stream_text(const char *answer)
{
    static const char key[] = "\"content\":\"";
    char *out = calloc(1, strlen(answer) + 1), *at = out;
    for (const char *p = answer; (p = strstr(p, key));) {
        p += sizeof(key) - 1;
        while (*p && *p != '"') {
            if (*p == '\\' && p[1]) *at++ = *p++;
            *at++ = *p++;
        }
    }
    return out;
}

#endif
