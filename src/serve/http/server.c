/* server.c - HTTP around the table of routes, by libmicrohttpd: the server's life.
 *
 * A few threads share the listening socket, so that /livez answers while a large scrape renders.
 * Everything a client can send is bounded: connections, the time one may be idle, the memory of
 * one, which holds its request line and headers, the body, by route, how long all of a request may
 * take to come and its answer to be read, and how many one client may send. Bodies that come slowly
 * and answers that are read slowly are bounded together: each of them may be large.
 *
 * Whoever has the token may ask; without one, programs of this user and root (caller.h), everybody
 * for metrics, health and what holds nothing measured. Web pages of another origin may not, unless
 * their host is in server.hosts: they cannot read answers without a CORS header, a page that
 * rebinds its own name to 127.0.0.1 is told by its Host header, a script by its Origin, and what
 * starts something or samples is refused to whatever else such a page makes a browser fetch
 * (Sec-Fetch-Site). */
#include "serve/http/server_private.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "serve/http/listen.h"

enum {
    THREADS = 4,
    CONNECTIONS_OVER = 256,  /* that are on their way out */
    STREAMS_END_S = 2,       /* in which streams are told that they end */
    FILES_MIN = 64,          /* with fewer that may be open, those are what is missing */
};

#define RECENT_BYTES_MAX ((size_t)256 << 20)
#define RECENT_S 60.0        /* after somebody looked at it last */

/* What is not set; as the defaults of the settings. */
static struct sonde_server_limits limits_of(const struct sonde_server_options *o)
{
    struct sonde_server_limits l = o->limits;
    if (!l.connections) l.connections = 1024;
    if (!l.streams) l.streams = 256;
    if (!l.header_bytes) l.header_bytes = 32 << 10;
    if (!l.body_bytes) l.body_bytes = 64 << 20;
    if (!l.held_bytes) l.held_bytes = 512 << 20;
    if (!(l.idle_s > 0)) l.idle_s = 30;
    if (!(l.request_s > 0)) l.request_s = 30;
    if (!(l.answer_s > 0)) l.answer_s = 300;
    return l;
}

static void server_on_log(void *arg, const char *format, va_list args)
{
    (void)arg;
    char text[512];
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = 0;
    sonde_log(SONDE_LOG_DEBUG, "http: %s", text);
}

/* ---- Start and stop ----------------------------------------------------------------------- */

/* The library's threads on fd, or with -1 on what is adopted alone. */
static int start_daemon(struct sonde_server *s, int fd, int v6)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
    if (v6) flags |= MHD_USE_IPv6;
    if (fd < 0) flags |= MHD_USE_NO_LISTEN_SOCKET;
    const struct MHD_OptionItem socket_option[] = {
        { fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, fd, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    if (s->tls.key) flags |= MHD_USE_TLS;
    const struct MHD_OptionItem tls_options[] = {
        { s->tls.key ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, s->tls.key },
        { MHD_OPTION_HTTPS_MEM_CERT, 0, s->tls.certificate },
        { MHD_OPTION_END, 0, NULL },
    };
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, sonde_server_on_request, s, MHD_OPTION_EXTERNAL_LOGGER, server_on_log,
        NULL, MHD_OPTION_NOTIFY_COMPLETED, sonde_server_on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, sonde_server_on_connection, s, MHD_OPTION_ARRAY,
        socket_option, MHD_OPTION_ARRAY, tls_options, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT,
        s->limits.connections + (unsigned)CONNECTIONS_OVER, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)ceil(s->limits.idle_s), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        s->limits.header_bytes, MHD_OPTION_END);
    return s->daemon ? 0 : -1;
}

static void server_release(struct sonde_server *s)
{
    sonde_recent_destroy(s->recent);
    sonde_history_summaries_destroy(s->summaries);
    sonde_auth_destroy(s->auth);
    sonde_rate_destroy(s->rate);
    sonde_conns_destroy(s->conns);
    sonde_streams_destroy(s->streams);
    sonde_tls_release(&s->tls);
    sonde_cond_destroy(&s->idle);
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
}

/* Connections to have at most: half of the descriptors are for everything else. */
static unsigned connections_max(const struct sonde_server_limits *l)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 2 > l->connections) {
        return l->connections;
    }
    return (unsigned)(limit.rlim_cur / 2);
}

/* What is needed before a port is opened; where: NULL = none will be. */
static int server_prepare(struct sonde_server *s, const struct sonde_server_options *o,
                          const struct sonde_listen *where, struct sonde_err *err)
{
    int rc = sonde_auth_create(&o->auth, where, &s->auth, err);
    if (!rc) rc = sonde_tls_read(&s->tls, o->tls_certificate, o->tls_key, err);
    if (rc) return rc;
    const struct sonde_server_limits *l = &s->limits;
    s->conns = sonde_conns_create(connections_max(l), l->idle_s + l->request_s, l->answer_s);
    if (l->rate_per_s > 0) s->rate = sonde_rate_create(l->rate_per_s, l->rate_burst);
    if (!s->conns || (l->rate_per_s > 0 && !s->rate) ||
        sonde_recent_create(RECENT_BYTES_MAX, RECENT_S, &s->recent) != 0 ||
        sonde_history_summaries_create(&s->summaries) != 0 ||
        sonde_streams_create(o->agent->collector, l->streams, &s->streams) != 0) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "cannot start the server: out of memory");
    }
    return rc;
}

int sonde_server_start(const struct sonde_server_options *options, struct sonde_server **out,
                       struct sonde_err *err)
{
    assert(options->agent && options->agent->collector);
    struct sonde_listen where = { 0 };
    int fd = -1, rc = 0;
    if (!options->url) {
        rc = sonde_listen_parse(options->listen ? options->listen : "127.0.0.1:6060", &where, err);
        if (rc) return rc;
    }
    struct sonde_server *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_set(err, SONDE_ENOMEM, "cannot start the server: out of memory");
    sonde_lock_init(&s->lock, SONDE_RANK_SERVER);
    sonde_cond_init(&s->idle);
    s->limits = limits_of(options);
    rc = server_prepare(s, options, options->url ? NULL : &where, err);
    if (!rc && !options->url) rc = sonde_listen_open(&where, options->port_tries, &fd, err);
    if (rc) {
        server_release(s);
        return rc;
    }
    s->agent = options->agent;
    s->pictures = options->pictures;
    s->files = options->files;
    s->file_count = options->file_count;
    s->adopts = options->url != NULL;
    if (options->url) snprintf(s->url, sizeof(s->url), "%s", options->url);
    else sonde_listen_url(&where, s->tls.key != NULL, s->url, sizeof(s->url));
    if (start_daemon(s, fd, where.address.any.sa_family == AF_INET6) != 0) {
        /* fd is not closed: some failures in there have done it already. */
        const int tls = s->tls.key != NULL;
        struct rlimit files;
        const int no_files = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MIN;
        server_release(s);
        return sonde_err_set(err, SONDE_EIO, "cannot start the server's threads: %s",
                             no_files ? "too few files may be open (ulimit -n)"
                             : tls ? "the certificate and its key do not match, or out of "
                                     "memory or threads"
                                 : "out of memory or threads");
    }
    *out = s;
    return 0;
}

int sonde_server_adopt(struct sonde_server *s, int fd, int64_t caller)
{
    const struct sonde_server_adopted from = {
        .address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
        .caller = caller,
    };
    return MHD_add_connection(s->daemon, fd, (const struct sockaddr *)&from.address,
                              sizeof(from)) == MHD_YES
               ? 0
               : SONDE_EFULL;
}

int sonde_server_owns(const char *path, int health)
{
    static const char *const parts[] = { "/admin/", "/profiling/", "/debug/pprof/" };
    static const char *const healths[] = { "/livez", "/readyz", "/healthz", "/health" };
    for (size_t i = 0; i < SONDE_COUNT(parts); i++) {
        if (strncmp(path, parts[i], strlen(parts[i])) == 0) return 1;
    }
    for (size_t i = 0; i < SONDE_COUNT(healths); i++) {
        if (strcmp(path, healths[i]) == 0) return health;
    }
    const char *name;
    char allow[SONDE_ALLOW_MAX];
    return strcmp(path, "/") != 0 &&
           (sonde_route_find(path, "GET", &name, allow, sizeof(allow)) || allow[0]);
}

int sonde_server_host_ok(const struct sonde_server *s, const char *host)
{
    return sonde_auth_host_ok(s->auth, host);
}

const char *sonde_server_url(const struct sonde_server *s) { return s->url; }

void sonde_server_stop(struct sonde_server *s)
{
    if (!s) return;
    if (s->agent->profiler) sonde_profiler_cancel(s->agent->profiler);
    sonde_lock(&s->lock);
    s->stopping = 1;
    while (s->workers) sonde_cond_wait(&s->idle, &s->lock);
    sonde_unlock(&s->lock);
    sonde_streams_stop(s->streams);
    sonde_streams_drain(s->streams, STREAMS_END_S);
    MHD_stop_daemon(s->daemon);
    server_release(s);
}
