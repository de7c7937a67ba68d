/* state.h - values as bytes and back, by one description: the same calls save a thing and load it,
 * so that the two cannot disagree.
 *
 * Integers are varints, texts have their length before them. What is loaded comes from a file and
 * is checked: a value that is cut off, too large for its variable or no valid text sets `bad`, and
 * from then on everything reads as 0 or "". So whoever loads looks at `bad` before using a group of
 * values, and checks counts against his limits. */
#ifndef SONDE_BASE_STATE_H
#define SONDE_BASE_STATE_H

#include "base/buf.h"

struct sonde_state {
    struct sonde_buf *to;         /* saving: borrowed; NULL = loading */
    const unsigned char *from;    /* loading: borrowed */
    size_t len, at;
    int bad;
};

static inline int sonde_state_loading(const struct sonde_state *s) { return !s->to; }

void sonde_state_u64(struct sonde_state *s, uint64_t *v);
void sonde_state_u32(struct sonde_state *s, uint32_t *v);
void sonde_state_double(struct sonde_state *s, double *v);
/* A count of at most max things. */
void sonde_state_count(struct sonde_state *s, uint64_t *v, uint64_t max);
/* n bytes as they are. */
void sonde_state_bytes(struct sonde_state *s, void *bytes, size_t n);
/* A text in a buffer of size bytes, with the NUL; one that is too long, or not UTF-8, is bad. */
void sonde_state_text(struct sonde_state *s, char *text, size_t size);
/* Saves a text that is not in a buffer of its own. */
void sonde_state_put_text(struct sonde_state *s, const char *text);

/* A part that may be skipped by who does not know it: what is between begin and end has its length
 * before it. Loading, begin gives the part's end, which end() goes to, whatever was read of it. */
size_t sonde_state_begin(struct sonde_state *s);
void sonde_state_end(struct sonde_state *s, size_t begun);

/* Of bytes, to tell whether they are what was written. */
uint64_t sonde_state_check(const void *bytes, size_t n);

#endif
