/* server.c - the daemon, its routes, bodies, and how it stops. See server.h. */
#include "http/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "http/server_private.h"

enum {
    THREADS = 2,
    CONNECTIONS = 512,
    CLIENT_TIMEOUT_S = 30,
    BODY_BYTES = 4 << 20,
    HEAD_BYTES = 32 << 10,
    BODY_DROPPED_TIMES =
        4,      /* of a body that is too large so much is read, so that the client reads why */
    SEND_S = 5, /* for answers that are on their way when all is computed */
};

static const struct http_route routes[] = {
    { "/v1/chat/completions", "POST", http_chat },
    { "/v1/completions", "POST", http_completion },
    { "/v1/models", "GET, HEAD", http_models },
    { "/health", "GET, HEAD", http_health },
    { "/tokenize", "POST", http_tokenize },
    { "/detokenize", "POST", http_detokenize },
};
/* For errors before there is one. */
static const struct http_route no_route = { "", "", NULL };

static const struct http_route *route_find(const char *path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!strcmp(path, routes[i].path)) return &routes[i];
    }
    return &no_route;
}

static int method_allowed(const struct http_route *r, const char *method)
{
    const char *at = strstr(r->methods, method);
    const size_t bytes = strlen(method);
    return at && (at == r->methods || at[-1] == ' ') && (!at[bytes] || at[bytes] == ',');
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* What can be said when the head is there; MHD_YES and *answered, or go on. */
static enum MHD_Result head_check(struct http_call *c, const char *path, const char *method,
                                  int *answered)
{
    const struct http_server *s = c->server;
    const char *length = http_header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
    *answered = 1;
    if (!c->route->answer) {
        return http_reply_error(c, MHD_HTTP_NOT_FOUND, NULL, NULL, "there is no %s", path);
    }
    if (!method_allowed(c->route, method)) {
        return http_reply_error(c, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, NULL, "%s takes %s", path,
                                c->route->methods);
    }
    if (length && strtoull(length, NULL, 10) > s->o.body_bytes_max) {
        return http_reply_error(c, MHD_HTTP_CONTENT_TOO_LARGE, NULL, NULL,
                                "the body has %s bytes, and at most %u are allowed", length,
                                s->o.body_bytes_max);
    }
    *answered = 0;
    return MHD_YES;
}

static enum MHD_Result body_add(struct http_call *c, const char *data, size_t *bytes)
{
    const size_t max = c->server->o.body_bytes_max;
    if (c->body_dropped || c->body.bytes + *bytes > max) {
        c->body_dropped += *bytes;
        if (c->body_dropped > BODY_DROPPED_TIMES * max) return MHD_NO;
    } else if (http_text_add(&c->body, data, *bytes)) {
        return MHD_NO;
    }
    *bytes = 0;
    return MHD_YES;
}

static enum MHD_Result http_server_on_request(void *arg, struct MHD_Connection *connection,
                                              const char *path, const char *method,
                                              const char *version, const char *data, size_t *bytes,
                                              void **state)
{
    struct http_server *s = arg;
    struct http_call *c = *state;
    (void)version;
    if (!c) {
        int answered = 0;
        *state = c = http_call_create(s, connection);
        if (!c) return MHD_NO;
        c->route = route_find(path);
        return head_check(c, path, method, &answered);
    }
    if (*bytes) return body_add(c, data, bytes);
    if (c->engine_id) return http_completion_done(c);
    if (c->body_dropped) {
        return http_reply_error(c, MHD_HTTP_CONTENT_TOO_LARGE, NULL, NULL,
                                "the body has more than the %u bytes that are allowed",
                                s->o.body_bytes_max);
    }
    return c->route->answer(c);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)arg;
    (void)connection;
    (void)why;
    if (*state) http_call_completed(*state);
    *state = NULL;
}

/* libmicrohttpd's remarks are about clients that go away in the midst of things. */
static void http_server_on_log(void *arg, const char *format, va_list args)
{
    (void)arg;
    (void)format;
    (void)args;
}

/* ---- Starting ------------------------------------------------------------------------------- */

static int server_open(struct http_server *s, struct fail *why)
{
    if (http_watch_create(s->engine, &s->watch, why)) return -1;
    s->fd = http_listen(s->o.listen ? s->o.listen : "127.0.0.1:8080", s->url, sizeof(s->url), why);
    if (s->fd < 0) return -1;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ITC;
    if (strchr(s->url, '[')) flags |= MHD_USE_IPv6;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_server_on_request, s, MHD_OPTION_EXTERNAL_LOGGER,
        http_server_on_log, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_LISTEN_SOCKET, s->fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_CONNECTION_LIMIT, s->o.connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        s->o.client_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
        MHD_OPTION_END);
    return s->daemon ? 0 : fail_set(why, "cannot start the HTTP server: %s", strerror(errno));
}

int http_server_create(struct engine *e, const struct http_options *o, struct http_server **out,
                       struct fail *why)
{
    pthread_condattr_t clock;
    struct http_server *s = calloc(1, sizeof(*s));
    if (!s) return fail_set(why, "out of memory");
    s->o = *o;
    if (!s->o.connections_max) s->o.connections_max = CONNECTIONS;
    if (!s->o.client_timeout_s) s->o.client_timeout_s = CLIENT_TIMEOUT_S;
    if (!s->o.body_bytes_max) s->o.body_bytes_max = BODY_BYTES;
    s->engine = e;
    s->fd = -1;
    s->started = (uint64_t)time(NULL);
    if (getrandom(&s->id_base, sizeof(s->id_base), 0) != (ssize_t)sizeof(s->id_base)) {
        s->id_base = sonde_ticks();
    }
    s->name_temperature = sonde_name("temperature");
    s->name_top_p = sonde_name("top_p");
    s->name_top_k = sonde_name("top_k");
    s->name_min_p = sonde_name("min_p");
    s->name_stream = sonde_name("stream");
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->quiet, &clock);
    pthread_condattr_destroy(&clock);
    if (server_open(s, why)) {
        http_server_destroy(s);
        return -1;
    }
    *out = s;
    return 0;
}

const char *http_server_url(const struct http_server *s) { return s->url; }

/* ---- Stopping ------------------------------------------------------------------------------- */

void http_server_stop(struct http_server *s, double seconds_max)
{
    struct timespec until;
    if (s->stopped || !s->daemon) return;
    s->stopped = 1;
    __atomic_store_n(&s->stopping, 1, __ATOMIC_RELAXED);
    MHD_quiesce_daemon(s->daemon);
    close(s->fd);
    s->fd = -1;
    engine_drain(s->engine, seconds_max);
    /* All is computed and nothing suspended any more; what is left is to be sent. */
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += SEND_S;
    pthread_mutex_lock(&s->lock);
    while (s->calls) {
        if (pthread_cond_timedwait(&s->quiet, &s->lock, &until) == ETIMEDOUT) break;
    }
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}

void http_server_destroy(struct http_server *s)
{
    if (!s) return;
    http_server_stop(s, 0);
    http_watch_destroy(s->watch);
    if (s->fd >= 0) close(s->fd);
    pthread_cond_destroy(&s->quiet);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
