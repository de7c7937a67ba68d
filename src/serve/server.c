/* server.c - HTTP around the table of routes, by libmicrohttpd.
 *
 * A few threads share the listening socket, so that /livez answers while a large scrape renders.
 * Everything a client can send is bounded: connections, the time one may be idle, the memory of
 * one, which holds its request line and headers, and the body, by route.
 *
 * A route that takes seconds (a profile is taken) would hold up all connections of its thread, so
 * its connection is suspended and it runs in a thread of its own; the library calls again when the
 * answer is there.
 *
 * Reading is free for every program on this machine, but not for web pages: a page of another
 * origin cannot read answers without a CORS header, which we do not send, and a page that
 * rebinds its own name to 127.0.0.1 is told by its Host header. What is more than reading (POST) is
 * refused when a page of another origin asks for it. */
#include "serve/server.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "collect/scrape.h"
#include "serve/accept.h"
#include "serve/gzip.h"
#include "serve/listen.h"
#include "serve/param.h"
#include "serve/quiet.h"
#include "serve/route.h"
#include "serve/sessions.h"
#include "serve/tls.h"

enum {
    THREADS = 4,
    CONNECTIONS = 1024,      /* then the quietest has to go */
    CONNECTIONS_OVER = 256,  /* that are on their way out */
    IDLE_S = 30,
    HEADERS_MAX = 32 << 10,  /* bytes of a connection's request line and headers */
    BODY_MIB_MAX = 1024,     /* of an answer */
    GZIP_MIN = 1024,         /* shorter answers are sent as they are */
    WORKERS_MAX = 16,        /* slow requests at a time */
};

struct sonde_server {
    struct MHD_Daemon *daemon;
    struct sonde_collector *collector;
    struct sonde_profiler *profiler;
    struct sonde_sessions *sessions;   /* NULL = no profiles are taken */
    const struct sonde_store_ops *store_ops;
    struct sonde_store *store;
    struct sonde_continuous *continuous;
    struct sonde_otlp *otlp;
    pthread_mutex_t lock;    /* of the two below */
    pthread_cond_t idle;     /* workers became 0 */
    int workers, stopping;
    struct sonde_guard *guard;
    struct sonde_quiet *quiet;
    struct sonde_tls tls;
    double started_s;
    char url[80];
};

/* ---- Answers ------------------------------------------------------------------------------ */

static void compress(struct sonde_response *a, int *compressed)
{
    struct sonde_buf small;
    sonde_buf_init(&small, a->body.len);
    *compressed = sonde_gzip(&a->body, &small) == 0;
    if (*compressed) {
        sonde_buf_release(&a->body);
        a->body = small;
    } else {
        sonde_buf_release(&small);
    }
}

static void add_headers(struct MHD_Response *response, const struct sonde_response *a,
                        int compressed)
{
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            a->content_type ? a->content_type : "application/json");
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY,
                            a->vary_accept ? "Accept, Accept-Encoding" : "Accept-Encoding");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (compressed) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    if (a->status == 401) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    if (a->status == 405) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, a->allow);
    if (a->filename && (!a->status || a->status == 200)) {
        char value[128];
        snprintf(value, sizeof(value), "attachment; filename=\"%s\"", a->filename);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, value);
    }
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct sonde_response *a)
{
    int compressed = 0;
    if (a->body.error) {
        const int full = a->body.error == SONDE_EFULL;
        sonde_buf_release(&a->body);
        if (full) {
            sonde_response_error(a, 500, "the answer is larger than %d MiB: ask for less, by name",
                                 BODY_MIB_MAX);
        } else {
            sonde_response_error(a, 500, "the agent is out of memory");
        }
    }
    const char *encoding =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (a->body.len > GZIP_MIN && !a->packed && sonde_accept_gzip(encoding)) {
        compress(a, &compressed);
    }

    const size_t len = a->body.len;
    char *data = sonde_buf_take(&a->body);
    if (!data) return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(len, data, sonde__free);
    if (!response) {
        sonde__free(data);
        return MHD_NO;
    }
    add_headers(response, a, compressed);
    const enum MHD_Result queued =
        MHD_queue_response(connection, a->status ? a->status : 200, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- Requests ----------------------------------------------------------------------------- */

struct parsing { struct sonde_request *request; const char *problem; };

static enum MHD_Result add_param(void *arg, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len)
{
    (void)kind;
    struct parsing *p = arg;
    if (p->request->param_count == SONDE_PARAMS_MAX) {
        p->problem = "too many parameters";
        return MHD_NO;
    }
    if (strlen(name) != name_len || (value && strlen(value) != value_len)) {
        p->problem = "a parameter holds a NUL";
        return MHD_NO;
    }
    p->request->params[p->request->param_count++] =
        (struct sonde_param){ name, value ? value : "" };
    return MHD_YES;
}

/* 1 if the caller has the token, where there is one. */
static int authorized(const struct sonde_server *s, struct MHD_Connection *connection,
                      const char *path, struct sonde_response *a)
{
    const char *sent =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    switch (sonde_guard_ask(s->guard, path, sent)) {
    case SONDE_GUARD_YES: return 1;
    case SONDE_GUARD_LATER:
        sonde_response_error(a, 429, "too many wrong tokens: try again in some seconds");
        return 0;
    default:
        sonde_response_error(a, 401, sent ? "the token is wrong"
                                          : "a token is needed: Authorization: Bearer TOKEN");
        return 0;
    }
}

/* 1 if the request may be answered at all. */
static int admissible(const struct sonde_server *s, struct MHD_Connection *connection,
                      const char *path, const char *version, struct sonde_response *a)
{
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (!host && strcmp(version, MHD_HTTP_VERSION_1_0) != 0) { /* else it is no browser */
        sonde_response_error(a, 400, "the request has no Host header");
        return 0;
    }
    if (host && !sonde_guard_host_ok(s->guard, host)) {
        sonde_response_error(a, 403,
                             "Host \"%.100s\" is not this machine: use localhost, 127.0.0.1 or "
                             "[::1], or name it in server.hosts", host);
        return 0;
    }
    return authorized(s, connection, path, a);
}

/* 1 unless a web page from elsewhere asks. */
static int origin_ok(const struct sonde_server *s, struct MHD_Connection *connection)
{
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    const char *host = origin ? strstr(origin, "://") : NULL;
    return !origin || (host && sonde_guard_host_ok(s->guard, host + 3));
}

/* The route for a request that may be answered, or NULL with the reason in a. */
static const struct sonde_route *resolve(const struct sonde_server *s,
                                         struct MHD_Connection *connection, const char *path,
                                         const char *method, const char *version,
                                         struct sonde_response *a, const char **name)
{
    if (!admissible(s, connection, path, version, a)) return NULL;
    const struct sonde_route *route =
        sonde_route_find(path, method, name, a->allow, sizeof(a->allow));
    if (!route && a->allow[0]) {
        sonde_response_error(a, 405, "%.200s does not take %.20s, only %s", path, method, a->allow);
    } else if (!route) {
        sonde_response_error(a, 404, "no such path: \"%.200s\"; / lists all there are", path);
    } else if (strcmp(route->method, "GET") != 0 && !origin_ok(s, connection)) {
        sonde_response_error(a, 403, "%s is not for pages of another origin", path);
        return NULL;
    }
    return route;
}

/* 1 if r is complete, else the reason is in a. r borrows from the connection. */
static int parse(const struct sonde_server *s, struct MHD_Connection *connection,
                 const struct sonde_route *route, const char *name, struct sonde_request *r,
                 struct sonde_response *a)
{
    *r = (struct sonde_request){ .path = route->path, .name = name, .body = "",
                                 .collector = s->collector, .profiler = s->profiler,
                                 .sessions = s->sessions,
                                 .store_ops = s->store_ops, .store = s->store,
                                 .continuous = s->continuous,
                                 .otlp = s->otlp, .guard = s->guard,
                                 .started_s = s->started_s, .url = s->url };
    struct parsing parsing = { r, NULL };
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, add_param, &parsing);
    if (parsing.problem) {
        sonde_response_error(a, 400, "%s", parsing.problem);
        return 0;
    }
    if (!sonde_params_ok(route, r, a)) return 0;
    r->accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    r->content_type =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    r->content_encoding =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_ENCODING);
    r->scraped = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, SONDE_SCRAPE_HEADER) != NULL;
    return 1;
}

/* ---- Slow ones, and those with a body ------------------------------------------------------ */

struct pending {
    struct sonde_server *server;
    struct MHD_Connection *connection;
    const struct sonde_route *route;
    struct sonde_request request;
    struct sonde_response answer;
    struct sonde_buf body;   /* of the request */
    int answered;            /* a worker has it, or had it: the library calls again to send */
};

static struct pending *make_pending(struct sonde_server *s, struct MHD_Connection *connection,
                                    const struct sonde_route *route)
{
    struct pending *p = sonde__calloc(1, sizeof(*p));
    if (!p) return NULL;
    p->server = s;
    p->connection = connection;
    p->route = route;
    sonde_buf_init(&p->body, route->body_max);
    return p;
}

static void *work(void *arg)
{
    struct pending *p = arg;
    struct sonde_server *s = p->server;
    p->route->handle(&p->request, &p->answer);
    MHD_resume_connection(p->connection); /* p may be gone from here on */
    pthread_mutex_lock(&s->lock);
    if (--s->workers == 0) pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int start_worker(struct pending *p)
{
    struct sonde_server *s = p->server;
    pthread_mutex_lock(&s->lock);
    const int room = !s->stopping && s->workers < WORKERS_MAX;
    s->workers += room;
    pthread_mutex_unlock(&s->lock);
    if (!room) return -1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, p) == 0) return pthread_detach(thread);
    pthread_mutex_lock(&s->lock);
    if (--s->workers == 0) pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
    return -1;
}

/* The answer is sent when the library calls again. */
static enum MHD_Result run_slow(struct pending *p)
{
    p->answered = 1;
    MHD_suspend_connection(p->connection);
    if (start_worker(p) != 0) {
        sonde_response_error(&p->answer, 503, "too many requests of this kind: try later");
        MHD_resume_connection(p->connection);
    }
    return MHD_YES;
}

/* ---- Connections --------------------------------------------------------------------------- */

static void on_connection(void *arg, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct sonde_server *s = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *state = info ? sonde_quiet_add(s->quiet, info->connect_fd) : NULL;
    } else {
        sonde_quiet_remove(s->quiet, *state);
        *state = NULL;
    }
}

static struct sonde_quiet_one *quiet_one(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static int headers_seen; /* its address marks requests whose headers have been looked at */

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    const struct sonde_server *s = arg;
    (void)code;
    sonde_quiet_idle(s->quiet, quiet_one(connection));
    if (!*state || *state == &headers_seen) return;
    struct pending *p = *state;
    sonde_buf_release(&p->answer.body);
    sonde_buf_release(&p->body);
    sonde__free(p);
    *state = NULL;
}

/* ---- The library's calls ------------------------------------------------------------------ */

static int announces_body(struct MHD_Connection *connection)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && strcmp(length, "0") != 0) ||
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                       MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static enum MHD_Result out_of_memory(struct MHD_Connection *connection, struct sonde_response *a)
{
    sonde_response_error(a, 500, "the agent is out of memory");
    return send_answer(connection, a);
}

/* A body is to come: it is refused before it is sent, or *state takes it. */
static enum MHD_Result expect_body(struct sonde_server *s, struct MHD_Connection *connection,
                                   const char *path, const char *method, const char *version,
                                   void **state)
{
    const char *name;
    struct sonde_response a = { 0 };
    sonde_buf_init(&a.body, (size_t)BODY_MIB_MAX << 20);
    const struct sonde_route *route = resolve(s, connection, path, method, version, &a, &name);
    if (route && !route->body_max) sonde_response_error(&a, 413, "%s takes no body", path);
    if (!route || !route->body_max) return send_answer(connection, &a);
    *state = make_pending(s, connection, route);
    if (*state) return MHD_YES;
    *state = &headers_seen;
    return out_of_memory(connection, &a);
}

/* All of the request is there. p: what has come of its body; NULL = it has none. */
static enum MHD_Result answer(struct sonde_server *s, struct MHD_Connection *connection,
                              const char *path, const char *method, const char *version,
                              struct pending *p, void **state)
{
    const char *name;
    struct sonde_request r;
    struct sonde_response a = { 0 };
    sonde_buf_init(&a.body, (size_t)BODY_MIB_MAX << 20);
    const struct sonde_route *route = resolve(s, connection, path, method, version, &a, &name);
    if (!route || !parse(s, connection, route, name, &r, &a)) return send_answer(connection, &a);
    if (p && p->body.error) {
        sonde_response_error(&a, 413, "%s takes a body of up to %zu bytes", path, route->body_max);
        return send_answer(connection, &a);
    }
    if (p && p->body.len) {
        r.body = p->body.data;
        r.body_len = p->body.len;
    }
    if (!route->slow) {
        route->handle(&r, &a);
        return send_answer(connection, &a);
    }
    if (!p) p = make_pending(s, connection, route);
    if (!p) return out_of_memory(connection, &a);
    *state = p;
    p->request = r;
    p->answer = a;
    return run_slow(p);
}

/* libmicrohttpd calls once when the headers are there, again for each piece of a body, and when
 * all is there. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **state)
{
    if (!*state) {
        *state = &headers_seen;
        return announces_body(connection)
                   ? expect_body(arg, connection, path, method, version, state)
                   : MHD_YES;
    }
    struct pending *p = *state == &headers_seen ? NULL : *state;
    const struct sonde_server *s = arg;
    if (!*data_len) sonde_quiet_busy(s->quiet, quiet_one(connection));
    if (p && p->answered) return send_answer(connection, &p->answer);
    if (*data_len) {
        if (p) sonde_buf_add(&p->body, data, *data_len); /* too much is remembered there */
        *data_len = 0;
        return MHD_YES;
    }
    return answer(arg, connection, path, method, version, p, state);
}

static void on_log(void *arg, const char *format, va_list args)
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
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_ARRAY, socket_option, MHD_OPTION_ARRAY, tls_options,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(CONNECTIONS + CONNECTIONS_OVER), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_MAX, MHD_OPTION_END);
    return s->daemon ? 0 : -1;
}

static void release(struct sonde_server *s)
{
    sonde_sessions_destroy(s->sessions);
    sonde_guard_destroy(s->guard);
    sonde_quiet_destroy(s->quiet);
    sonde_tls_release(&s->tls);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    sonde__free(s);
}

/* Connections to have at most: half of the descriptors are for everything else. */
static unsigned connections_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 2 > CONNECTIONS) {
        return CONNECTIONS;
    }
    return (unsigned)(limit.rlim_cur / 2);
}

/* What is needed before a port is opened; where: NULL = none will be. */
static int prepare(struct sonde_server *s, const struct sonde_server_options *o,
                   const struct sonde_listen *where, struct sonde_err *err)
{
    int rc = sonde_guard_create(&o->guard, where, &s->guard, err);
    if (!rc) rc = sonde_tls_read(&s->tls, o->tls_certificate, o->tls_key, err);
    if (!rc && !(s->quiet = sonde_quiet_create(connections_max()))) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "cannot start the server: out of memory");
    }
    return rc;
}

int sonde_server_start(const struct sonde_server_options *options, struct sonde_server **out,
                       struct sonde_err *err)
{
    struct sonde_listen where = { 0 };
    int fd = -1, rc = 0;
    if (!options->url) {
        rc = sonde_listen_parse(options->listen ? options->listen : "127.0.0.1:6060", &where, err);
        if (rc) return rc;
    }
    struct sonde_server *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_set(err, SONDE_ENOMEM, "cannot start the server: out of memory");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    rc = prepare(s, options, options->url ? NULL : &where, err);
    if (!rc && !options->url) rc = sonde_listen_open(&where, options->port_tries, &fd, err);
    if (rc) {
        release(s);
        return rc;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s->started_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    s->collector = options->collector;
    s->profiler = options->profiler;
    s->store_ops = options->store_ops;
    s->store = options->store;
    s->continuous = options->continuous;
    s->otlp = options->otlp;
    if (s->profiler && sonde_sessions_create(s->profiler, s->store_ops, s->store, &s->sessions)) {
        if (fd >= 0) close(fd);
        release(s);
        return sonde_err_set(err, SONDE_ENOMEM, "cannot start the server: out of memory");
    }
    if (options->url) snprintf(s->url, sizeof(s->url), "%s", options->url);
    else sonde_listen_url(&where, s->tls.key != NULL, s->url, sizeof(s->url));
    if (start_daemon(s, fd, where.address.any.sa_family == AF_INET6) != 0) {
        /* fd is not closed: some failures in there have done it already. */
        const int tls = s->tls.key != NULL;
        release(s);
        return sonde_err_set(err, SONDE_EIO, "cannot start the server's threads: %s",
                             tls ? "the certificate and its key do not go together, or out of "
                                   "memory or threads"
                                 : "out of memory or threads");
    }
    *out = s;
    return 0;
}

int sonde_server_adopt(struct sonde_server *s, int fd)
{
    const struct sockaddr_in local = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return MHD_add_connection(s->daemon, fd, (const struct sockaddr *)&local, sizeof(local)) ==
                   MHD_YES
               ? 0
               : SONDE_EFULL;
}

int sonde_server_owns(const char *path, int health)
{
    static const char *const parts[] = { "/admin/", "/profiling/", "/debug/pprof/" };
    static const char *const healths[] = { "/livez", "/readyz", "/healthz" };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strncmp(path, parts[i], strlen(parts[i])) == 0) return 1;
    }
    for (size_t i = 0; i < sizeof(healths) / sizeof(healths[0]); i++) {
        if (strcmp(path, healths[i]) == 0) return health;
    }
    const char *name;
    char allow[SONDE_ALLOW_MAX];
    return strcmp(path, "/") != 0 &&
           (sonde_route_find(path, "GET", &name, allow, sizeof(allow)) || allow[0]);
}

const char *sonde_server_url(const struct sonde_server *s) { return s->url; }

void sonde_server_stop(struct sonde_server *s)
{
    if (!s) return;
    if (s->profiler) sonde_profiler_cancel(s->profiler);
    pthread_mutex_lock(&s->lock);
    s->stopping = 1;
    while (s->workers) pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    release(s);
}
