/* load_url.c - "http://host:port/path?query" to addresses and a path; see load_private.h. The host
 * and its port are for the front's parser, which knows what they may be. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "bench/http/load_private.h"
#include "front/front.h"
#include "sonde/sonde.h"

static const char *target_set_path(struct load_target *t, const char *path)
{
    const size_t len = strcspn(path, "#");
    const int slash = path[0] != '/'; /* nothing, or a query alone */
    if (len + 2 > sizeof(t->path)) return "its path is longer than 2 KiB";
    for (size_t i = 0; i < len; i++) {
        if (path[i] <= ' ' || path[i] >= 0x7f) {
            return "its path holds blanks or control characters; write them as %XX";
        }
    }
    if (slash) t->path[0] = '/';
    memcpy(t->path + slash, path, len);
    t->path[slash + (int)len] = 0;
    return NULL;
}

int load_target_parse(const char *url, struct load_target *out, struct sonde_err *err)
{
    struct load_target t = { .path = "" };
    struct sonde_front_upstream server;
    char base[sizeof("http://") + sizeof(t.authority)];
    if (!strncasecmp(url, "https://", 8)) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "cannot use \"%.200s\": load is sent as plain HTTP, not HTTPS; put a "
                             "TLS proxy before the server (stunnel, socat, nginx) and name its "
                             "local address",
                             url);
    }
    if (strncasecmp(url, "http://", 7)) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "\"%.200s\" is not an http:// URL; use http://HOST:PORT/PATH, such as "
                             "http://127.0.0.1:8080/v1/chat/completions",
                             url);
    }
    const size_t host_len = strcspn(url + 7, "/?#");
    const char *problem = host_len >= sizeof(t.authority) ? "its host is too long"
                                                          : target_set_path(&t, url + 7 + host_len);
    if (problem) {
        return sonde_err_set(err, SONDE_EINVAL, "cannot use \"%.200s\": %s", url, problem);
    }
    snprintf(base, sizeof(base), "http://%.*s", (int)host_len, url + 7);
    const int rc = sonde_front_url_parse(base, "server", &server, err);
    if (rc) return rc == SONDE_ENOENT ? SONDE_EIO : rc;
    _Static_assert(sizeof(t.address) == sizeof(server.address), "as many addresses");
    memcpy(t.address, server.address, sizeof(t.address));
    t.address_count = server.address_count;
    snprintf(t.authority, sizeof(t.authority), "%s", server.authority);
    *out = t;
    return 0;
}
