/* text_stream.c - see text_stream.h. */
#include "run/text_stream.h"

#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

void text_stream_init(struct text_stream *s, const char *const *stops, size_t stops_count)
{
    *s = (struct text_stream){ .stops = stops, .stops_count = stops_count };
}

void text_stream_release(struct text_stream *s)
{
    free(s->held);
    s->held = NULL;
}

/* How many bytes a character that begins like this has; 0 = none begins so. */
static size_t character_bytes(const unsigned char *at, size_t have)
{
    const unsigned char c = at[0];
    const size_t n = c < 0x80 ? 1 : c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3
                     : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    /* Overlong forms, surrogates and what is above U+10FFFF show in the second byte. */
    if (n > 2 && have > 1) {
        const unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        const unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        if (at[1] < low || at[1] > high) return 0;
    }
    for (size_t i = 1; i < n && i < have; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

static void held_add(struct text_stream *s, const void *text, size_t bytes)
{
    memcpy(s->held + s->held_bytes, text, bytes);
    s->held_bytes += bytes;
}

/* One byte more; NUL is no text either. */
static void byte_add(struct text_stream *s, unsigned char c)
{
    s->part[s->part_bytes++] = c;
    for (;;) {
        if (!s->part_bytes) return;
        const size_t n = s->part[0] ? character_bytes(s->part, s->part_bytes) : 0;
        if (n > s->part_bytes) return;
        if (n) {
            held_add(s, s->part, n);
            s->part_bytes = 0;
            return;
        }
        /* All but the last byte made a good beginning: one mark for it, and the last begins
         * anew. */
        const unsigned char last = s->part[s->part_bytes - 1];
        const int again = s->part_bytes > 1;
        held_add(s, replacement, 3);
        s->part_bytes = 0;
        if (again) s->part[s->part_bytes++] = last;
    }
}

/* Where the first stop string is in what is held; -1 = in none of it. */
static long stop_find(const struct text_stream *s)
{
    long first = -1;
    for (size_t i = 0; i < s->stops_count; i++) {
        const char *at = memmem(s->held, s->held_bytes, s->stops[i], strlen(s->stops[i]));
        if (at && (first < 0 || at - s->held < first)) first = at - s->held;
    }
    return first;
}

/* How much of the end of it may be the beginning of a stop string. */
static size_t stop_begun(const struct text_stream *s)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->stops_count; i++) {
        const size_t all = strlen(s->stops[i]);
        size_t n = all - 1 < s->held_bytes ? all - 1 : s->held_bytes;
        while (n > longest && memcmp(s->held + s->held_bytes - n, s->stops[i], n) != 0) n--;
        if (n > longest) longest = n;
    }
    return longest;
}

/* Out goes all but the last `kept` bytes, which are moved to the front at the next call: they stay
 * behind what is handed out, since that is borrowed. */
static long held_take(struct text_stream *s, size_t out_bytes, size_t kept, const char **out)
{
    memmove(s->held + s->held_room / 2, s->held, out_bytes);
    memmove(s->held, s->held + out_bytes, kept);
    s->held_bytes = kept;
    *out = s->held + s->held_room / 2;
    return (long)out_bytes;
}

long text_stream_add(struct text_stream *s, const char *piece, size_t bytes, const char **out)
{
    *out = "";
    if (s->stopped) return 0;
    /* A byte becomes three at most (U+FFFD). Of the room one half is held, the other handed out. */
    const size_t need = 2 * (s->held_bytes + 3 * (bytes + sizeof(s->part)));
    if (need > s->held_room) {
        char *grown = realloc(s->held, need);
        if (!grown) return -1;
        s->held = grown;
        s->held_room = need;
    }
    for (size_t i = 0; i < bytes; i++) byte_add(s, (unsigned char)piece[i]);
    const long at = stop_find(s);
    if (at >= 0) {
        s->stopped = 1;
        return held_take(s, (size_t)at, 0, out);
    }
    const size_t kept = stop_begun(s);
    return held_take(s, s->held_bytes - kept, kept, out);
}

long text_stream_end(struct text_stream *s, const char **out)
{
    *out = "";
    if (s->stopped) return 0;
    if (text_stream_add(s, "", 0, out) < 0) return -1; /* makes room */
    if (s->part_bytes) held_add(s, replacement, 3);
    s->part_bytes = 0;
    s->stopped = 1;
    return held_take(s, s->held_bytes, 0, out);
}
