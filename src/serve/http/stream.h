/* stream.h - live data to many readers at once, as server-sent events: text that goes on and on.
 *
 * Readers that ask for the same share a channel: it is rendered once a tick and kept for a while,
 * in a ring of limited size, so that a reader whose connection broke goes on where it was, and one
 * that reads slowly holds nothing but the piece that it is reading. What it misses it is told, as
 * an event "gap". All that slow readers hold together is limited, too: the slowest are ended. It
 * knows nothing of HTTP: whoever serves a reader says how to pause and resume it. */
#ifndef SONDE_SERVE_HTTP_STREAM_H
#define SONDE_SERVE_HTTP_STREAM_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "collect/collector.h"

struct sonde_http_request;
struct sonde_streams;
struct sonde_stream; /* one reader */

/* At most max readers. 0, SONDE_ENOMEM. */
int sonde_streams_create(struct sonde_collector *collector, unsigned max,
                         struct sonde_streams **out);
/* All readers end, no more are taken. */
void sonde_streams_stop(struct sonde_streams *s);
/* Waits until all readers are closed, or for so long: one that does not read sees no end. */
void sonde_streams_drain(struct sonde_streams *s, double seconds);
/* After all readers are closed. NULL is fine. */
void sonde_streams_destroy(struct sonde_streams *s);

/* The events of one tick, each by sonde_stream_event; none = nothing is sent. Called by a thread of
 * the streams, without locks held. */
typedef void sonde_stream_render(const struct sonde_http_request *r, struct sonde_buf *out);
void sonde_stream_event(struct sonde_buf *out, const char *name, const char *data, size_t len);

/* A reader of what render makes of r, whose parameters are copied. last_id: the id of the last
 * event that it knows, NULL = it begins. SONDE_EFULL: too many, SONDE_ENOMEM. */
int sonde_streams_open(struct sonde_streams *s, const struct sonde_http_request *r,
                       sonde_stream_render *render, const char *last_id,
                       struct sonde_stream **out, struct sonde_err *err);
/* How its server stops asking for more, and asks again. Called with a lock held: resume must not
 * read at once. */
void sonde_stream_bind(struct sonde_stream *r, void *connection, void (*pause)(void *connection),
                       void (*resume)(void *connection));
/* Up to max bytes; 0 = there is nothing now, pause was called, and resume will be; -1 = the end. */
ssize_t sonde_stream_read(struct sonde_stream *r, char *out, size_t max);
/* Not while it is paused, unless it was stopped. NULL is fine. */
void sonde_stream_close(struct sonde_stream *r);

#endif
