/* listen.h - the address the service listens on. */
#ifndef SONDE_SERVE_HTTP_LISTEN_H
#define SONDE_SERVE_HTTP_LISTEN_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"

struct sonde_listen {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t length;
};

/* "127.0.0.1:6060", "[::1]:6060", "localhost:6060", ":6060", "6060". SONDE_EINVAL with a
 * sentence for anything else. */
int sonde_listen_parse(const char *text, struct sonde_listen *out, struct sonde_err *err);

int sonde_listen_is_loopback(const struct sonde_listen *l);

/* A listening socket in *fd, and *l the address it really has. The port in use: tries the next
 * `tries` ports, then SONDE_EBUSY and, where it can be found, who holds it. */
int sonde_listen_open(struct sonde_listen *l, int tries, int *fd, struct sonde_err *err);

/* "http://127.0.0.1:6060", or with https. */
void sonde_listen_url(const struct sonde_listen *l, int tls, char *out, size_t size);

/* A host as clients write it in a Host header, and browsers behind the "//" of an Origin. */
#define SONDE_HOST_NAME_MAX 253
struct sonde_host {
    char name[SONDE_HOST_NAME_MAX + 1]; /* an IPv6 address without brackets, in its shortest form */
    int is_v6;
    int port;                           /* 0 = none is said */
};

/* host[:port] and nothing else: letters, digits and . _ -, or an IPv6 address in brackets; a port
 * from 1 to 65535. SONDE_EINVAL for all other forms: browsers send none of them, and what one
 * parser reads as a known host is another's user name or path. */
int sonde_host_parse(const char *text, struct sonde_host *out);

/* 1 if a Host header of this value can only mean this machine: a browser that was led here by
 * somebody else's name (DNS rebinding) sends that name. */
int sonde_listen_host_ok(const char *host);

#endif
