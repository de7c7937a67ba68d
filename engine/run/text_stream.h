/* text_stream.h - pieces of tokens to text that may be shown: whole characters only, and nothing
 * that may turn out to be (part of) a stop string.
 *
 *   pieces ─▶ [ bytes of a character that is not complete ] ─▶ [ may become a stop string ] ─▶ out
 *
 * Bytes that can be no character become U+FFFD, so that what comes out is UTF-8 always. */
#ifndef ENGINE_RUN_TEXT_STREAM_H
#define ENGINE_RUN_TEXT_STREAM_H

#include <stddef.h>

enum { TEXT_STOPS_MAX = 16, TEXT_STOP_BYTES_MAX = 256 };

struct text_stream {
    const char *const *stops;    /* borrowed; none is empty or longer than TEXT_STOP_BYTES_MAX */
    size_t stops_count;
    unsigned char part[4];       /* of a character */
    size_t part_bytes;
    char *held;                  /* text that is not out yet */
    size_t held_bytes, held_room;
    int stopped;                 /* a stop string came: nothing comes out any more */
};

void text_stream_init(struct text_stream *s, const char *const *stops, size_t stops_count);
void text_stream_release(struct text_stream *s);

/* Adds a piece. What may be shown now is in *out (borrowed until the next call), its length is
 * returned. After a stop string: what was before it, and s->stopped. Out of memory: -1. */
long text_stream_add(struct text_stream *s, const char *piece, size_t bytes, const char **out);
/* No more comes: what was held back. */
long text_stream_end(struct text_stream *s, const char **out);

#endif
