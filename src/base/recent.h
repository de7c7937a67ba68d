/* recent.h - what was worked out a moment ago, for whoever asks for it again: a page that zooms
 * into a flame graph asks ten times for the same profile in another form.
 *
 * Things are known by a text, are made once though several ask at a time, live as long as somebody
 * has them, and for a while longer. Of all that nobody has, the least recently used go when all
 * take too much memory, but never the one that was used last; a thread lets go of what was not used
 * for long. A thing may have others that it was made of: whoever destroys it gives those back. */
#ifndef SONDE_BASE_RECENT_H
#define SONDE_BASE_RECENT_H

#include <stddef.h>

#include "base/err.h"

struct sonde_recent;
struct sonde_recent_thing;

/* keep_s: after it was used last. */
int sonde_recent_create(size_t bytes_max, double keep_s, struct sonde_recent **out);
/* Nobody has anything any more. NULL is fine. */
void sonde_recent_destroy(struct sonde_recent *r);

struct sonde_recent_maker {
    /* 0 and the thing with the memory it takes, or SONDE_E… and why. May take other things. */
    int (*make)(void *arg, void **thing, size_t *bytes, struct sonde_err *err);
    void *arg;
    void (*destroy)(void *thing);
};

/* The thing of that name if it is not older than fresh_s, else a new one. Failures are not kept.
 * Give *out back. */
int sonde_recent_take(struct sonde_recent *r, const char *name, double fresh_s,
                      const struct sonde_recent_maker *maker, struct sonde_recent_thing **out,
                      struct sonde_err *err);
void *sonde_recent_get(const struct sonde_recent_thing *t);
void sonde_recent_give(struct sonde_recent_thing *t); /* NULL is fine */

/* How many there are, and what they take. */
size_t sonde_recent_count(struct sonde_recent *r, size_t *bytes);

#endif
