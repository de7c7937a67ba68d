/* call.c - a call's life: made when its head is there, let go of by libmicrohttpd when the
 * answer is sent or the client is gone, and by the engine at the request's end. */
#include <stdlib.h>

#include "http/server_private.h"

struct http_call *http_call_create(struct http_server *s, struct MHD_Connection *connection)
{
    struct http_call *c = calloc(1, sizeof(*c));
    if (!c) return NULL;
    c->server = s;
    c->connection = connection;
    c->arrived = sonde_ticks();
    c->refs = 1;
    c->watched_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_lock(&s->lock);
    s->calls++;
    pthread_mutex_unlock(&s->lock);
    return c;
}

void http_call_release(struct http_call *c)
{
    if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL)) return;
    struct http_server *s = c->server;
    text_stream_release(&c->text);
    ask_release(&c->ask);
    json_decref(c->profile);
    free(c->body.at);
    free(c->out.at);
    free(c->sse.at);
    free(c->chunk_head);
    pthread_mutex_destroy(&c->lock);
    free(c);
    pthread_mutex_lock(&s->lock);
    if (!--s->calls) pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->lock);
}

void http_call_completed(struct http_call *c)
{
    if (c->watched_fd >= 0) http_watch_remove(c->server->watch, c->watched_fd);
    pthread_mutex_lock(&c->lock);
    c->gone = 1;
    const int running = c->engine_id && !c->done;
    pthread_mutex_unlock(&c->lock);
    if (running) engine_cancel(c->server->engine, c->engine_id);
    http_call_release(c);
}

void http_call_wake(struct http_call *c)
{
    if (!c->suspended || c->gone) return;
    c->suspended = 0;
    MHD_resume_connection(c->connection);
}
