/* server_private.h - what the parts of the server share; nobody else includes it.
 *   server.c         its life: listening, the library's threads, the end
 *   server_call.c    the library's calls: a request as it comes, slow ones, connections
 *   server_admit.c   who may ask for what: host, token, rate, route, parameters
 *   server_answer.c  the answer on its way: headers, compression, streams */
#ifndef SONDE_SERVE_HTTP_SERVER_PRIVATE_H
#define SONDE_SERVE_HTTP_SERVER_PRIVATE_H

#include <microhttpd.h>
#include <netinet/in.h>

#include "base/lock.h"
#include "base/recent.h"
#include "serve/http/connections.h"
#include "serve/http/rate.h"
#include "serve/http/route.h"
#include "serve/http/server.h"
#include "serve/http/stream.h"
#include "serve/http/tls.h"
#include "store/history_summary.h"

enum { SONDE_ANSWER_MIB_MAX = 1024 };

struct sonde_server {
    struct MHD_Daemon *daemon;
    const struct sonde_agent *agent; /* borrowed */
    struct sonde_server_pictures pictures;
    const struct sonde_server_file *files;
    size_t file_count;
    struct sonde_recent *recent; /* what routes worked out a moment ago */
    struct sonde_history_summaries *summaries; /* of the history of profiles */
    int adopts;              /* all connections are adopted ones */
    struct sonde_lock lock;    /* of the two below */
    struct sonde_cond idle;     /* workers became 0 */
    int workers, stopping;
    struct sonde_auth *auth;
    struct sonde_rate *rate; /* NULL = clients may send any number of requests */
    struct sonde_conns *conns;
    struct sonde_streams *streams;
    struct sonde_server_limits limits;
    size_t held;             /* bytes of large bodies and answers on their way; atomic */
    struct sonde_tls tls;
    char url[80];
};

/* The address that the library is told of an adopted connection; it keeps a copy. */
struct sonde_server_adopted {
    struct sockaddr_in address;
    int64_t caller;
};

/* What is known of a connection; the library's socket context. */
struct sonde_server_connection {
    struct sonde_conn *conn;
    int64_t caller;          /* who is at the other end … */
    int caller_known;        /* … once that was asked */
};

/* A request as the library tells it. */
struct sonde_server_call {
    struct sonde_server *server;
    struct MHD_Connection *connection;
    const char *path, *method, *version;
};

/* ---- server_call.c ---- */
enum MHD_Result sonde_server_on_request(void *server, struct MHD_Connection *connection,
                                        const char *path, const char *method, const char *version,
                                        const char *data, size_t *data_len, void **state);
void sonde_server_on_connection(void *server, struct MHD_Connection *connection, void **state,
                                enum MHD_ConnectionNotificationCode code);
void sonde_server_on_completed(void *server, struct MHD_Connection *connection, void **state,
                               enum MHD_RequestTerminationCode code);

/* Who is at the other end; looked up once for a connection. */
int64_t sonde_server_caller(struct MHD_Connection *connection);

/* ---- server_admit.c ---- */
/* The route of a request that may be answered, or NULL with the reason in a. *name: what its "*"
 * stands for. count: it is one more request of its client. */
const struct sonde_route *sonde_server_resolve(const struct sonde_server_call *c, int count,
                                               struct sonde_response *a, const char **name);
/* 1 if r is complete, else the reason is in a. r borrows from the connection. */
int sonde_server_parse(const struct sonde_server_call *c, const struct sonde_route *route,
                       const char *name, struct sonde_http_request *r, struct sonde_response *a);

/* ---- server_answer.c ---- */
/* What the web page that makes a browser send this request may do. */
enum sonde_auth_page sonde_server_page(const struct sonde_server *s,
                                       struct MHD_Connection *connection);
/* 1: so many bytes more may be held until they are dropped. */
int sonde_server_hold(struct sonde_server *s, size_t bytes);
void sonde_server_drop(struct sonde_server *s, size_t bytes);
/* Takes what is in a. */
enum MHD_Result sonde_server_send(struct sonde_server *s, struct MHD_Connection *connection,
                                  struct sonde_response *a);

#endif
