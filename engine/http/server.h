/* server.h - the engine behind HTTP, with the interface of OpenAI's server.
 *
 *   POST /v1/chat/completions, /v1/completions    answers whole or as server-sent events
 *   POST /tokenize, /detokenize     GET /v1/models, /health
 *
 * libmicrohttpd's threads read, parse and write; the engine's thread computes. A connection that
 * waits for tokens is suspended, so many streams need few threads. Callbacks of the engine only
 * put text into the call's buffer: a client that does not read holds up nobody, what is kept for
 * it is bounded by the tokens it may ask for, and after client_timeout_s its request is
 * cancelled. A suspended connection is looked at by nobody but watch.c, which cancels when the
 * client is gone. */
#ifndef ENGINE_HTTP_SERVER_H
#define ENGINE_HTTP_SERVER_H

#include "run/engine.h"

struct http_server;

struct http_options {
    const char *listen;          /* HOST:PORT; port 0 = any; NULL = 127.0.0.1:8080 */
    uint32_t connections_max;    /* 0 = 512 */
    uint32_t client_timeout_s;   /* without a byte read or written; 0 = 30 */
    uint32_t body_bytes_max;     /* 0 = 4 MB */
};

/* The engine is borrowed. */
int http_server_create(struct engine *e, const struct http_options *o, struct http_server **out,
                       struct fail *why);
/* "http://127.0.0.1:8080" */
const char *http_server_url(const struct http_server *s);
/* Accepts no more, drains the engine for at most this long, waits until answers are sent. */
void http_server_stop(struct http_server *s, double seconds_max);
void http_server_destroy(struct http_server *s); /* NULL is fine; stops if that was not done */

#endif
