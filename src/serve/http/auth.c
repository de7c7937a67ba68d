/* auth.c - see auth.h. */
#include "serve/http/auth.h"

#include <assert.h>
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "sonde/sonde.h"

enum { HOSTS_MAX = 1024, WRONG_BURST = 20, WRONG_PER_S = 2 };

struct sonde_auth {
    char token[SONDE_TOKEN_MAX + 1];
    size_t token_len;
    char hosts[HOSTS_MAX];
    char own[INET6_ADDRSTRLEN];  /* the address that is listened on, where it is one */
    int open_metrics, open_health, all_users;
    struct sonde_lock lock;        /* of the two below */
    double wrong;                /* wrong tokens lately: leaks away by WRONG_PER_S */
    double wrong_s;              /* when that was so */
};

/* ---- The token ------------------------------------------------------------------------------ */

static int check_token(const char *token, const char *where, struct sonde_err *err)
{
    const size_t len = strlen(token);
    if (len < SONDE_TOKEN_MIN || len > SONDE_TOKEN_MAX) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "the token of %s has %zu characters, it must have %d to %d: make one "
                             "with `openssl rand -hex 24`", where, len, SONDE_TOKEN_MIN,
                             SONDE_TOKEN_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        if (!isgraph((unsigned char)token[i])) {
            return sonde_err_set(err, SONDE_EINVAL,
                                 "the token of %s contains a blank or a control character", where);
        }
    }
    return 0;
}

static int auth_read_file(const char *path, char *out, size_t size, struct sonde_err *err)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return sonde_err_set(err, SONDE_EINVAL, "cannot read the token's file '%s': %s", path,
                             strerror(errno));
    }
    int rc = 0;
    ssize_t n = 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "the token's file '%s' is not a file", path);
    } else if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        rc = sonde_err_set(err, SONDE_EINVAL,
                           "the token's file '%s' can be read by others: chmod 600 it", path);
    } else {
        n = sonde_file_read_full(fd, out, size - 1);
        if (n < 0) {
            rc = sonde_err_set(err, SONDE_EIO, "cannot read '%s': %s", path, strerror(errno));
        }
    }
    close(fd);
    if (rc) return rc;
    out[n] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return 0;
}

int sonde_token_read(const char *path, char out[SONDE_TOKEN_MAX + 1], struct sonde_err *err)
{
    char text[SONDE_TOKEN_MAX + 2]; /* room to see that one is too long */
    const char *given = getenv("SONDE_TOKEN");
    out[0] = '\0';
    if (given && *given) {
        const int rc = check_token(given, "SONDE_TOKEN", err);
        if (!rc) memcpy(out, given, strlen(given) + 1);
        return rc;
    }
    if (!*path) return 0;
    int rc = auth_read_file(path, text, sizeof(text), err);
    if (!rc) rc = check_token(text, path, err);
    if (!rc) memcpy(out, text, strlen(text) + 1);
    return rc;
}

/* In a time that depends on the length of what was sent alone. */
static int auth_same(const char *sent, const char *token, size_t token_len)
{
    const size_t len = strlen(sent);
    unsigned char differs = len != token_len;
    for (size_t i = 0; i < len; i++) {
        differs |= (unsigned char)(sent[i] ^ token[i % (token_len + 1)]);
    }
    return !differs;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int auth_in_list(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        if (strcspn(p, ",") == len && strncasecmp(p, name, len) == 0) return 1;
    }
    return 0;
}

/* With its port or, for all ports, without. */
static int host_listed(const struct sonde_auth *auth, const char *host)
{
    struct sonde_host h;
    return sonde_host_parse(host, &h) == 0 &&
           (auth_in_list(auth->hosts, h.name) || auth_in_list(auth->hosts, host));
}

int sonde_auth_host_ok(const struct sonde_auth *auth, const char *host)
{
    struct sonde_host h;
    if (sonde_listen_host_ok(host) || host_listed(auth, host)) return 1;
    return sonde_host_parse(host, &h) == 0 && strcmp(auth->own, h.name) == 0;
}

int sonde_auth_shares(const struct sonde_auth *auth) { return auth->hosts[0] != '\0'; }

enum sonde_auth_page sonde_auth_page(const struct sonde_auth *auth, const char *origin,
                                     const char *host)
{
    if (!origin) return SONDE_PAGE_OURS;
    const char *from = strncmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                             : NULL;
    if (!from || !sonde_auth_host_ok(auth, from)) return SONDE_PAGE_FOREIGN;
    if (host && strcasecmp(from, host) == 0) return SONDE_PAGE_OURS;
    return host_listed(auth, from) ? SONDE_PAGE_SHARED : SONDE_PAGE_OURS;
}

static int is_any(const struct sonde_listen *l)
{
    return l->address.any.sa_family == AF_INET6
               ? IN6_IS_ADDR_UNSPECIFIED(&l->address.v6.sin6_addr)
               : l->address.v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

/* ---- Life ------------------------------------------------------------------------------------ */

int sonde_auth_create(const struct sonde_auth_options *o, const struct sonde_listen *where,
                      struct sonde_auth **out, struct sonde_err *err)
{
    const char *token = o->token ? o->token : "", *hosts = o->hosts ? o->hosts : "";
    if (where && !*token && !sonde_listen_is_loopback(where)) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "without a token only loopback addresses are allowed: set "
                             "server.token_file or SONDE_TOKEN, or use 127.0.0.1 and an SSH "
                             "tunnel");
    }
    if (strlen(hosts) >= HOSTS_MAX || strlen(token) > SONDE_TOKEN_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "server.hosts is too long");
    }
    struct sonde_auth *auth = sonde__calloc(1, sizeof(*auth));
    if (!auth) return sonde_err_memory(err);
    memcpy(auth->token, token, strlen(token) + 1);
    memcpy(auth->hosts, hosts, strlen(hosts) + 1);
    auth->token_len = strlen(token);
    auth->open_metrics = o->open_metrics;
    auth->open_health = o->open_health;
    auth->all_users = o->all_users;
    sonde_lock_init(&auth->lock, SONDE_RANK_TOKEN);
    if (where && !is_any(where)) {
        const int v6 = where->address.any.sa_family == AF_INET6;
        inet_ntop(v6 ? AF_INET6 : AF_INET,
                  v6 ? (const void *)&where->address.v6.sin6_addr
                     : (const void *)&where->address.v4.sin_addr, auth->own, sizeof(auth->own));
    }
    *out = auth;
    return 0;
}

void sonde_auth_destroy(struct sonde_auth *auth)
{
    if (!auth) return;
    sonde_lock_destroy(&auth->lock);
    explicit_bzero(auth->token, sizeof(auth->token));
    sonde__free(auth);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

int sonde_auth_has_token(const struct sonde_auth *auth) { return auth->token_len > 0; }

int sonde_auth_is_health(const char *path)
{
    static const char *const health[] = { "/livez", "/readyz", "/healthz", "/health" };
    for (size_t i = 0; i < SONDE_COUNT(health); i++) {
        if (strcmp(path, health[i]) == 0) return 1;
    }
    return 0;
}

int sonde_auth_is_open(const struct sonde_auth *auth, const char *path)
{
    if (strcmp(path, "/metrics") == 0) return auth->open_metrics;
    /* It shows latency, errors and memory, as the plain checks do not. */
    if (strcmp(path, "/health") == 0) return auth->open_health;
    return sonde_auth_is_health(path);
}

int sonde_auth_wants_same_user(const struct sonde_auth *auth, const char *path)
{
    /* Who scrapes is often another user, and programs of others may send what they measure. */
    static const char *const open[] = { "/metrics", "/v1/metrics", "/v1/traces" };
    if (auth->token_len || auth->all_users || sonde_auth_is_health(path)) return 0;
    for (size_t i = 0; i < SONDE_COUNT(open); i++) {
        if (strcmp(path, open[i]) == 0) return 0;
    }
    return 1;
}

/* One more wrong token, or none: 1 if there were too many lately. A right one is always taken, so
 * that nobody can be locked out by others' guesses. */
static int too_many(struct sonde_auth *auth)
{
    const double now = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_lock(&auth->lock);
    auth->wrong -= (now - auth->wrong_s) * WRONG_PER_S;
    if (auth->wrong < 0) auth->wrong = 0;
    auth->wrong_s = now;
    const int too = auth->wrong >= WRONG_BURST;
    if (!too) auth->wrong += 1;
    sonde_unlock(&auth->lock);
    return too;
}

enum sonde_auth_answer sonde_auth_ask(struct sonde_auth *auth, const char *path,
                                      const char *authorization)
{
    static const char scheme[] = "Bearer ";
    assert(path && auth->token_len <= SONDE_TOKEN_MAX);
    if (!auth->token_len || sonde_auth_is_open(auth, path)) return SONDE_AUTH_YES;
    if (authorization && strncasecmp(authorization, scheme, sizeof(scheme) - 1) == 0) {
        const char *sent = authorization + sizeof(scheme) - 1;
        sent += strspn(sent, " ");
        if (auth_same(sent, auth->token, auth->token_len)) return SONDE_AUTH_YES;
        if (too_many(auth)) return SONDE_AUTH_LATER;
    }
    return SONDE_AUTH_NO;
}
