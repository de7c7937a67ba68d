/* server.h - the agent's HTTP service: libmicrohttpd in front of a table of routes. A route
 * reads the model under its read lock; none touches a recorded process. */
#ifndef SONDE_SERVE_HTTP_SERVER_H
#define SONDE_SERVE_HTTP_SERVER_H

#include "agent/agent.h"
#include "base/err.h"
#include "present/flamegraph/flamegraph.h"
#include "serve/http/caller.h"
#include "serve/http/auth.h"

struct sonde_server;

/* What a client may use. 0 = the default of the setting of that name; of rate_per_s: no limit. */
struct sonde_server_limits {
    unsigned connections;   /* at a time; then those that have been idle for longest are closed */
    unsigned streams;       /* at a time */
    size_t header_bytes;    /* of a request line and headers */
    size_t body_bytes;      /* of a request; routes may take less */
    size_t held_bytes;      /* of all bodies and answers that are on their way, together */
    double idle_s;          /* that nothing may come, or be taken, on a connection */
    double request_s;       /* for all of a request to come, when it has begun */
    double answer_s;        /* for all of an answer to be taken; streams go on */
    double rate_per_s;      /* requests of one client … */
    double rate_burst;      /* … and how many at once */
};

/* How flame graphs look: as the options of flamegraph.h. */
struct sonde_server_pictures {
    enum sonde_flamegraph_colors colors;
    double min_width, min_width_html;
};

/* A profile that is shown from where it is, rather than out of a store: it may be as large as
 * memory allows. */
struct sonde_server_file {
    const char *name;                  /* as those of kept profiles: letters, digits and . _ - */
    struct sonde_profile *profile;     /* borrowed; not changed */
};

struct sonde_server_options {
    const char *listen;                /* "127.0.0.1:6060", "[::1]:6060"; port 0 = any free */
    int port_tries;                    /* port in use: try this many next ones; 0 = fail */
    const struct sonde_agent *agent;   /* borrowed; must outlive the server, with all its parts */
    const struct sonde_server_file *files; /* alike; profiles of files */
    size_t file_count;
    struct sonde_auth_options auth;
    struct sonde_server_limits limits;
    struct sonde_server_pictures pictures;
    const char *tls_certificate;       /* files in PEM: its chain and its key; NULL or "" = plain */
    const char *tls_key;
    const char *url;                   /* set = it listens nowhere and serves only what it adopts;
                                          this is how clients reach it */
};

int sonde_server_start(const struct sonde_server_options *options, struct sonde_server **out,
                       struct sonde_err *err);
/* "http://127.0.0.1:6060"; lives as long as the server. */
const char *sonde_server_url(const struct sonde_server *s);
/* Serve HTTP on a connected stream socket that does not block; it is closed by the server, also on
 * failure. Only for a server with a url. caller: who asks, as sonde_caller_of says of the
 * connection that this one stands for. 0 or SONDE_EFULL. Any thread. */
int sonde_server_adopt(struct sonde_server *s, int fd, int64_t caller);
/* 1 if a path is one of the server's where it shares a port with another: all that it has but the
 * index, and everything under /admin/, /profiling/ and /debug/pprof/; health: /livez and such
 * too. */
int sonde_server_owns(const char *path, int health);
/* 1 if a Host header can only mean this machine, by its addresses or the names it was told. */
int sonde_server_host_ok(const struct sonde_server *s, const char *host);
/* Requests under way are answered first; a profile that is being taken is cancelled. NULL is
 * fine. */
void sonde_server_stop(struct sonde_server *s);

#endif
