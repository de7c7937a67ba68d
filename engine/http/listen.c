/* listen.c - HOST:PORT to a socket that listens. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server_private.h"

/* What the kernel keeps for a client that does not read: by itself it goes to megabytes, and
 * nobody would notice for thousands of tokens. */
enum { BACKLOG = 256, SEND_BYTES = 64 << 10 };

/* "[::1]:8080", "localhost:0": the parts; -1 if it is neither. */
static int address_split(const char *text, char *host, size_t host_size, char *port,
                         size_t port_size)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text) return -1;
    size_t bytes = (size_t)(colon - text);
    if (text[0] == '[' && colon[-1] == ']') {
        text++;
        bytes -= 2;
    } else if (memchr(text, ':', bytes)) {
        return -1;
    }
    const size_t digits = strspn(colon + 1, "0123456789");
    if (!bytes || bytes >= host_size || !digits || colon[1 + digits] || digits >= port_size)
        return -1;
    memcpy(host, text, bytes);
    host[bytes] = 0;
    strcpy(port, colon + 1);
    return atol(port) <= 65535 ? 0 : -1;
}

static int socket_listen(const struct addrinfo *a, struct fail *why, const char *text)
{
    const int one = 1, send_bytes = SEND_BYTES;
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes,
                   sizeof(send_bytes)); /* connections have it too */
    }
    if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
    fail_set(why, "cannot listen on %s: %s%s", text, strerror(errno),
             errno == EADDRINUSE
                 ? ": choose another port with --listen, 0 is any that is free" : "");
    if (fd >= 0) close(fd);
    return -1;
}

int http_listen(const char *text, char *url, size_t url_size, struct fail *why)
{
    char host[64], port[8];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
    struct sockaddr_storage at;
    socklen_t at_size = sizeof(at);
    if (address_split(text, host, sizeof(host), port, sizeof(port))) {
        return fail_set(why, "\"%s\" is not HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080", text);
    }
    const int wrong = getaddrinfo(host, port, &hints, &found);
    if (wrong) return fail_set(why, "cannot listen on %s: %s", text, gai_strerror(wrong));
    const int fd = socket_listen(found, why, text);
    freeaddrinfo(found);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &at_size) ||
        getnameinfo((struct sockaddr *)&at, at_size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV)) {
        if (fd >= 0) close(fd);
        return -1;
    }
    snprintf(url, url_size, at.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host,
             port);
    return fd;
}
