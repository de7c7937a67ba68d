/* upstream_url.c - "http://host:port/prefix" to addresses; see front.h. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "front/front.h"
#include "sonde/sonde.h"

static const char form[] = "use http://HOST:PORT or http://HOST:PORT/PREFIX, such as "
                           "http://127.0.0.1:8000";

static int upstream_url_refuse(struct sonde_err *err, const char *what, const char *url,
                               const char *why)
{
    return sonde_err_set(err, SONDE_EINVAL, "cannot use the %s \"%.200s\": %s; %s", what, url, why,
                         form);
}

/* Digits, 1 to 65535; the whole of text up to len. */
static int port_ok(const char *text, size_t len)
{
    unsigned port = 0;
    if (len == 0 || len > 5) return 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

/* Split "host:port", "[v6]:port" or a host alone, which leaves port as it was. host comes without
 * brackets. */
static const char *upstream_url_split(const char *text, size_t len, char *host, char *port)
{
    const char *end = text + len, *colon = NULL, *from = text;
    size_t host_len;
    if (text[0] == '[') {
        const char *bracket = memchr(text, ']', len);
        if (!bracket) return "the address has no ]";
        from++;
        host_len = (size_t)(bracket - from);
        if (bracket + 1 < end) {
            if (bracket[1] != ':') return "a port must follow the ]";
            colon = bracket + 1;
        }
    } else {
        colon = memchr(text, ':', len);
        host_len = colon ? (size_t)(colon - text) : len;
    }
    if (host_len == 0) return "it names no host";
    if (host_len > SONDE_FRONT_HOST_MAX) return "the host's name is too long";
    for (size_t i = 0; i < host_len; i++) {
        if (from[i] <= ' ' || from[i] >= 0x7f || strchr("@?#\\\"", from[i])) {
            return "the host's name holds characters that it cannot have";
        }
    }
    memcpy(host, from, host_len);
    host[host_len] = 0;
    if (!colon) return NULL;
    const size_t port_len = (size_t)(end - colon - 1);
    if (!port_ok(colon + 1, port_len)) return "the port must be 1 to 65535";
    memcpy(port, colon + 1, port_len);
    port[port_len] = 0;
    return NULL;
}

static const char *set_prefix(struct sonde_front_upstream *u, const char *path)
{
    size_t len = strlen(path);
    while (len && path[len - 1] == '/') len--;
    if (len >= sizeof(u->prefix)) return "the prefix is longer than 255 bytes";
    for (size_t i = 0; i < len; i++) {
        if (path[i] <= ' ' || path[i] >= 0x7f) {
            return "the prefix holds blanks or control characters";
        }
        if (path[i] == '?' || path[i] == '#') return "a prefix has no query";
    }
    memcpy(u->prefix, path, len);
    u->prefix[len] = 0;
    return NULL;
}

static int upstream_url_resolve(struct sonde_front_upstream *u, const char *what, const char *port,
                                struct sonde_err *err)
{
    const char *host = u->host;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *all = NULL;
    const int rc = getaddrinfo(host, port, &hints, &all);
    if (rc != 0) {
        return sonde_err_set(err, SONDE_ENOENT, "cannot find the %s's host \"%s\": %s", what, host,
                             gai_strerror(rc));
    }
    const size_t max = SONDE_COUNT(u->address);
    u->address_count = 0;
    for (const struct addrinfo *a = all; a && u->address_count < max; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
        memset(&u->address[u->address_count], 0, sizeof(u->address[0]));
        memcpy(&u->address[u->address_count++], a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(all);
    if (u->address_count) return 0;
    return sonde_err_set(err, SONDE_ENOENT, "the %s's host \"%s\" has no IP address", what, host);
}

int sonde_front_upstream_parse(const char *url, struct sonde_front_upstream *out,
                               struct sonde_err *err)
{
    if (strncasecmp(url, "https://", 8) == 0) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "cannot use the upstream \"%.200s\": sonde speaks plain HTTP to it, "
                             "not HTTPS; put a TLS tunnel between (stunnel, socat, nginx) and name "
                             "its local address", url);
    }
    return sonde_front_url_parse(url, "upstream", out, err);
}

int sonde_front_url_parse(const char *url, const char *what, struct sonde_front_upstream *out,
                          struct sonde_err *err)
{
    char port[6] = "80";
    struct sonde_front_upstream u = { .https = strncasecmp(url, "https://", 8) == 0 };
    if (!u.https && strncasecmp(url, "http://", 7) != 0) {
        return upstream_url_refuse(err, what, url, "it is no http:// URL");
    }
    if (u.https) strcpy(port, "443");
    const char *at = url + (u.https ? 8 : 7);
    const size_t len = strcspn(at, "/?#");
    const char *problem = len ? upstream_url_split(at, len, u.host, port) : "it names no host";
    if (!problem) problem = set_prefix(&u, at + len);
    if (problem) return upstream_url_refuse(err, what, url, problem);
    snprintf(u.authority, sizeof(u.authority), "%.*s", (int)len, at);
    const int rc = upstream_url_resolve(&u, what, port, err);
    if (rc == 0) *out = u;
    return rc;
}
