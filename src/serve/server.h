/* server.h - the agent's HTTP service: libmicrohttpd in front of a table of routes. A route
 * reads the model under its read lock; none touches a recorded process. */
#ifndef SONDE_SERVE_SERVER_H
#define SONDE_SERVE_SERVER_H

#include "base/err.h"
#include "collect/collector.h"
#include "serve/profiler.h"

struct sonde_server;

struct sonde_server_options {
    const char *listen;                /* "127.0.0.1:6060", "[::1]:6060"; port 0 = any free */
    int port_tries;                    /* port in use: try this many next ones; 0 = fail */
    struct sonde_collector *collector; /* borrowed; must outlive the server */
    struct sonde_profiler *profiler;   /* alike; NULL = profiles are not taken */
};

int sonde_server_start(const struct sonde_server_options *options, struct sonde_server **out,
                       struct sonde_err *err);
/* "http://127.0.0.1:6060"; lives as long as the server. */
const char *sonde_server_url(const struct sonde_server *s);
/* Requests under way are answered first; a profile that is being taken is cancelled. NULL is
 * fine. */
void sonde_server_stop(struct sonde_server *s);

#endif
