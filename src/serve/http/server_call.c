/* server_call.c - the library's calls: a request as it comes, piece by piece, and the connections.
 *
 * A route that takes seconds (a profile is taken) would hold up all connections of its thread, so
 * its connection is suspended and it runs in a thread of its own; the library calls again when the
 * answer is there. */
#include "serve/http/server_private.h"

#include <assert.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

enum { WORKERS_MAX = 16 }; /* slow requests at a time */

/* ---- Connections --------------------------------------------------------------------------- */

static struct sonde_server_connection *connection_open(const struct sonde_server *s,
                                                       struct MHD_Connection *connection)
{
    struct sonde_server_connection *one = sonde__calloc(1, sizeof(*one));
    if (!one) return NULL;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info) one->conn = sonde_conns_add(s->conns, info->connect_fd);
    info = s->adopts ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                     : NULL;
    if (info) {
        struct sonde_server_adopted from;
        memcpy(&from, info->client_addr, sizeof(from));
        one->caller = from.caller;
        one->caller_known = 1;
    }
    return one;
}

void sonde_server_on_connection(void *arg, struct MHD_Connection *connection, void **state,
                                enum MHD_ConnectionNotificationCode code)
{
    const struct sonde_server *s = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *state = connection_open(s, connection);
    } else if (*state) {
        struct sonde_server_connection *one = *state;
        sonde_conns_remove(s->conns, one->conn);
        sonde__free(one);
        *state = NULL;
    }
}

/* NULL = there was no memory for it. */
static struct sonde_server_connection *connection_state(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static struct sonde_conn *conn_of(struct MHD_Connection *connection)
{
    const struct sonde_server_connection *one = connection_state(connection);
    return one ? one->conn : NULL;
}

int64_t sonde_server_caller(struct MHD_Connection *connection)
{
    struct sonde_server_connection *one = connection_state(connection);
    if (!one) return SONDE_CALLER_UNKNOWN;
    if (!one->caller_known) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        one->caller = info ? sonde_caller_of(info->connect_fd) : SONDE_CALLER_UNKNOWN;
        one->caller_known = 1;
    }
    return one->caller;
}

/* A stream goes on for as long as its client wants; anything else has to be read some time. */
static enum MHD_Result send_answer(struct sonde_server *s, struct MHD_Connection *connection,
                                   struct sonde_response *a)
{
    if (!a->stream) sonde_conns_sending(s->conns, conn_of(connection));
    return sonde_server_send(s, connection, a);
}

/* ---- Slow ones, and those with a body ------------------------------------------------------ */

struct pending {
    struct sonde_server *server;
    struct MHD_Connection *connection;
    const struct sonde_route *route;
    struct sonde_http_request request;
    struct sonde_response answer;
    struct sonde_buf body;   /* of the request */
    size_t held;             /* bytes of it that are counted */
    int refused;             /* there is no room for it now */
    int answered;            /* a worker has it, or had it: the library calls again to send */
};

static size_t body_max(const struct sonde_server *s, const struct sonde_route *route)
{
    return route->body_max < s->limits.body_bytes ? route->body_max : s->limits.body_bytes;
}

static struct pending *make_pending(struct sonde_server *s, struct MHD_Connection *connection,
                                    const struct sonde_route *route)
{
    struct pending *p = sonde__calloc(1, sizeof(*p));
    if (!p) return NULL;
    p->server = s;
    p->connection = connection;
    p->route = route;
    sonde_buf_init(&p->body, body_max(s, route));
    return p;
}

/* The library does not look at a connection that is suspended. Whoever has sent FIN is gone: one
 * that only closes its sending side looks no different. */
static int is_gone(void *arg)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(arg, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd p = { .fd = info ? info->connect_fd : -1, .events = POLLRDHUP };
    return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void *server_call_work(void *arg)
{
    struct pending *p = arg;
    struct sonde_server *s = p->server;
    p->route->handle(&p->request, &p->answer);
    MHD_resume_connection(p->connection); /* p may be gone from here on */
    sonde_lock(&s->lock);
    assert(s->workers > 0);
    if (--s->workers == 0) sonde_cond_broadcast(&s->idle);
    sonde_unlock(&s->lock);
    return NULL;
}

static int server_call_start_worker(struct pending *p)
{
    struct sonde_server *s = p->server;
    sonde_lock(&s->lock);
    const int room = !s->stopping && s->workers < WORKERS_MAX;
    s->workers += room;
    sonde_unlock(&s->lock);
    if (!room) return -1;
    if (sonde_thread_start_detached("sonde-route", server_call_work, p, NULL) == 0) return 0;
    sonde_lock(&s->lock);
    if (--s->workers == 0) sonde_cond_broadcast(&s->idle);
    sonde_unlock(&s->lock);
    return -1;
}

/* The answer is sent when the library calls again. */
static enum MHD_Result run_slow(struct pending *p)
{
    p->answered = 1;
    MHD_suspend_connection(p->connection);
    if (server_call_start_worker(p) != 0) {
        p->answer.retry_after_s = 1;
        sonde_response_error(&p->answer, 503, "too many requests of this kind: try later");
        MHD_resume_connection(p->connection);
    }
    return MHD_YES;
}

static int headers_seen; /* its address marks requests whose headers have been looked at */

void sonde_server_on_completed(void *arg, struct MHD_Connection *connection, void **state,
                               enum MHD_RequestTerminationCode code)
{
    const struct sonde_server *s = arg;
    (void)code;
    sonde_conns_idle(s->conns, conn_of(connection));
    if (!*state || *state == &headers_seen) return;
    struct pending *p = *state;
    sonde_server_drop(p->server, p->held);
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

static enum MHD_Result server_call_out_of_memory(const struct sonde_server_call *c,
                                                 struct sonde_response *a)
{
    sonde_response_error(a, 500, "the agent is out of memory");
    return send_answer(c->server, c->connection, a);
}

static struct sonde_response new_answer(void)
{
    struct sonde_response a = { 0 };
    sonde_buf_init(&a.body, (size_t)SONDE_ANSWER_MIB_MAX << 20);
    return a;
}

/* A body is to come: it is refused before it is sent, or *state takes it. */
static enum MHD_Result expect_body(const struct sonde_server_call *c, void **state)
{
    const char *name;
    struct sonde_response a = new_answer();
    const struct sonde_route *route = sonde_server_resolve(c, 1, &a, &name);
    if (route && !route->body_max) sonde_response_error(&a, 413, "%s takes no body", c->path);
    if (!route || !route->body_max) return send_answer(c->server, c->connection, &a);
    *state = make_pending(c->server, c->connection, route);
    if (*state) return MHD_YES;
    *state = &headers_seen;
    return server_call_out_of_memory(c, &a);
}

/* Too much is remembered in the buffer. */
static void take_piece(struct pending *p, const char *data, size_t len)
{
    if (p->refused) return;
    sonde_buf_add(&p->body, data, len);
    const size_t more = p->body.cap - p->held;
    if (!more) return;
    p->refused = !sonde_server_hold(p->server, more);
    if (!p->refused) {
        p->held += more;
        return;
    }
    sonde_buf_release(&p->body);
    sonde_server_drop(p->server, p->held);
    p->held = 0;
}

/* All of the request is there. p: what has come of its body; NULL = it has none. */
static enum MHD_Result server_call_answer(const struct sonde_server_call *c, struct pending *p,
                                          void **state)
{
    const char *name;
    struct sonde_http_request r;
    struct sonde_response a = new_answer();
    const struct sonde_route *route = sonde_server_resolve(c, !p, &a, &name);
    if (!route || !sonde_server_parse(c, route, name, &r, &a)) {
        return send_answer(c->server, c->connection, &a);
    }
    if (p && p->body.error && p->body.error != SONDE_EFULL) return server_call_out_of_memory(c, &a);
    if (p && p->body.error) {
        sonde_response_error(&a, 413, "%s takes a body of up to %zu bytes", c->path,
                             body_max(c->server, route));
        return send_answer(c->server, c->connection, &a);
    }
    if (p && p->refused) {
        a.retry_after_s = 1;
        sonde_response_error(&a, 503, "requests of others take too much memory: try again");
        return send_answer(c->server, c->connection, &a);
    }
    if (p && p->body.len) {
        r.body = p->body.data;
        r.body_len = p->body.len;
    }
    if (!route->slow) {
        route->handle(&r, &a);
        return send_answer(c->server, c->connection, &a);
    }
    if (!p) p = make_pending(c->server, c->connection, route);
    if (!p) return server_call_out_of_memory(c, &a);
    *state = p;
    p->request = r;
    p->request.gone = is_gone;
    p->request.client = c->connection;
    p->answer = a;
    return run_slow(p);
}

/* libmicrohttpd calls once when the headers are there, again for each piece of a body, and when
 * all is there. */
enum MHD_Result sonde_server_on_request(void *arg, struct MHD_Connection *connection,
                                        const char *path, const char *method, const char *version,
                                        const char *data, size_t *data_len, void **state)
{
    struct sonde_server *s = arg;
    const struct sonde_server_call c = { s, connection, path, method, version };
    if (!*state) {
        *state = &headers_seen;
        return announces_body(connection) ? expect_body(&c, state) : MHD_YES;
    }
    struct pending *p = *state == &headers_seen ? NULL : *state;
    if (!*data_len) sonde_conns_busy(s->conns, conn_of(connection));
    if (p && p->answered) return send_answer(s, connection, &p->answer);
    if (*data_len) {
        if (p) take_piece(p, data, *data_len);
        *data_len = 0;
        return MHD_YES;
    }
    return server_call_answer(&c, p, state);
}
