/* server_private.h - what the files of http/ share.
 *
 * A call is one request of a client. It is used by a thread of libmicrohttpd's and by the engine's,
 * and lives until both have let go of it. */
#ifndef ENGINE_HTTP_SERVER_PRIVATE_H
#define ENGINE_HTTP_SERVER_PRIVATE_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>

#include "http/ask.h"
#include "http/server.h"
#include "run/event_log.h"
#include "run/text_stream.h"

struct http_server {
    struct http_options o;
    struct engine *engine;
    struct MHD_Daemon *daemon;
    struct http_watch *watch;
    int fd;                      /* that listens; -1 = not any more */
    char url[96];
    uint64_t started;            /* seconds since 1970 */
    uint64_t id_base, ids;       /* of answers; ids: atomic */
    uint32_t name_temperature, name_top_p, name_top_k, name_min_p, name_stream;
    pthread_mutex_t lock;
    pthread_cond_t quiet;
    uint32_t calls;              /* the lock */
    int stopping;                /* atomic */
    int stopped;
};

struct http_call;

struct http_route {
    const char *path, *methods;  /* "GET, HEAD" */
    enum MHD_Result (*answer)(struct http_call *c); /* the body is there */
};

struct http_text { char *at; size_t bytes, room; };

struct http_call {
    struct http_server *server;
    struct MHD_Connection *connection;
    const struct http_route *route;
    uint64_t arrived;            /* ticks */
    struct http_text body;
    size_t body_dropped;         /* bytes of a body that is too large */
    int refs;                    /* atomic: libmicrohttpd's threads, the engine's */

    /* Of completions. Set before the engine knows of it, and not changed then. */
    struct ask ask;
    char id[EVENT_ID_MAX];
    struct sonde_request sonde;
    int profiled;                /* X-Profile: true */
    double encode_ms;
    int watched_fd;              /* -1 = none */
    uint64_t engine_id;          /* 0 = the engine does not have it */

    struct text_stream text;     /* of the engine's thread */

    pthread_mutex_t lock;        /* of all that follows */
    int suspended, gone;         /* gone: the connection may not be touched any more */
    struct http_text out;        /* pieces: their length (uint32_t), then their bytes */
    int failed;                  /* out of memory for its text */
    int done;
    enum engine_finish finish;
    char why[160];
    struct engine_timings timings;
    json_t *profile;             /* NULL = none */

    /* Of the thread that sends the stream. */
    struct http_text sse;
    size_t sse_at;
    int begun, ended;            /* the first and the last chunk are made */
    char *chunk_head;            /* what all chunks begin with */
};

/* text: grows by doubling, and is bounded by what is put in. -1: out of memory. */
int http_text_add(struct http_text *t, const void *bytes, size_t count);
int http_text_print(struct http_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* reply.c */
const char *http_header(struct http_call *c, const char *name); /* of the request; NULL = none */
enum MHD_Result http_reply_json(struct http_call *c, unsigned status, json_t *take);
/* OpenAI's shape of an error. param and code may be NULL. */
enum MHD_Result http_reply_error(struct http_call *c, unsigned status, const char *param,
                                 const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
enum MHD_Result http_reply_stream(struct http_call *c);
void http_reply_headers(struct http_call *c, struct MHD_Response *response);
json_t *http_error_json(unsigned status, const char *param, const char *code, const char *message);

/* completion.c */
enum MHD_Result http_chat(struct http_call *c);
enum MHD_Result http_completion(struct http_call *c);
enum MHD_Result http_completion_done(struct http_call *c); /* after the pause: the whole answer */
/* answer.c: what the engine made, as JSON. The lock is held, or the call is done. */
json_t *http_answer_json(struct http_call *c);
json_t *http_answer_profile(const struct http_call *c, const struct engine_timings *t);
/* Pieces that are there, and the end, to c->sse. -1: out of memory. */
int http_answer_chunks(struct http_call *c);

/* pages.c */
enum MHD_Result http_models(struct http_call *c);
enum MHD_Result http_health(struct http_call *c);
enum MHD_Result http_tokenize(struct http_call *c);
enum MHD_Result http_detokenize(struct http_call *c);

/* call.c */
struct http_call *http_call_create(struct http_server *s, struct MHD_Connection *connection);
void http_call_release(struct http_call *c);
void http_call_completed(struct http_call *c);
void http_call_wake(struct http_call *c); /* with the lock held */

/* watch.c: cancels requests whose clients are gone. */
struct http_watch;
int http_watch_create(struct engine *e, struct http_watch **out, struct fail *why);
void http_watch_destroy(struct http_watch *w);
void http_watch_add(struct http_watch *w, int fd, uint64_t engine_id);
void http_watch_remove(struct http_watch *w, int fd);

/* listen.c: a socket that listens, and its URL; -1. */
int http_listen(const char *text, char *url, size_t url_size, struct fail *why);

#endif
