/* load_url.c - "http[s]://host:port/path?query" to addresses and a path; see load_private.h. The
 * host and its port are for the front's parser, which knows what they may be. */
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
    char base[sizeof("https://") + sizeof(t.authority)];
    const int https = !strncasecmp(url, "https://", 8);
    if (!https && strncasecmp(url, "http://", 7)) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "\"%.200s\" is not an http:// or https:// URL; use "
                             "http://HOST:PORT/PATH, such as "
                             "http://127.0.0.1:8080/v1/chat/completions",
                             url);
    }
    const size_t scheme_len = https ? 8 : 7, host_len = strcspn(url + scheme_len, "/?#");
    const char *path = url + scheme_len + host_len;
    const char *problem = host_len >= sizeof(t.authority) ? "its host is too long"
                                                          : target_set_path(&t, path);
    if (problem) {
        return sonde_err_set(err, SONDE_EINVAL, "cannot use \"%.200s\": %s", url, problem);
    }
    snprintf(base, sizeof(base), "%.*s", (int)(path - url), url);
    const int rc = sonde_front_url_parse(base, "server", &server, err);
    if (rc) return rc == SONDE_ENOENT ? SONDE_EIO : rc;
    _Static_assert(sizeof(t.address) == sizeof(server.address), "as many addresses");
    _Static_assert(sizeof(t.host) == sizeof(server.host), "as long a host");
    memcpy(t.address, server.address, sizeof(t.address));
    memcpy(t.host, server.host, sizeof(t.host));
    t.address_count = server.address_count;
    t.https = server.https;
    snprintf(t.authority, sizeof(t.authority), "%s", server.authority);
    *out = t;
    return 0;
}
