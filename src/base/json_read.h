/* json_read.h - JSON read without making a tree of it: values are asked for one after the other, as
 * their place in the text comes. For files of a hundred megabytes a tree of values takes ten times
 * their size; and a reader that knows what it wants passes over the rest.
 *
 *   sonde_json_reader_init(&r, text, len);
 *   if (sonde_json_enter(&r, '{')) while (sonde_json_member(&r, &key)) {
 *       if (sonde_json_text_is(key, "name")) sonde_json_string(&r, &buf, &text);
 *       else sonde_json_skip(&r);
 *   }
 *   if (r.error) … at line sonde_json_line(&r)
 *
 * After an error every call returns 0 and does nothing, so callers look at r.error at the end of a
 * loop. The value of every member and element must be read or skipped. Strict JSON, but that an
 * array or object may have a comma after its last element (Chrome's traces do). */
#ifndef SONDE_BASE_JSON_READ_H
#define SONDE_BASE_JSON_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { SONDE_JSON_DEPTH_MAX = 512 };

struct sonde_json_text {
    const char *s; /* keys: as they stand in the text, escapes and all */
    size_t len;
};

struct sonde_json_reader {
    const char *begin, *at, *end;
    const char *error;  /* what is wrong; NULL = nothing yet */
    int depth;
};

void sonde_json_reader_init(struct sonde_json_reader *r, const char *text, size_t len);

/* What comes: '{', '[', '"', '0' for a number, 't', 'f', 'n'; 0 = nothing that JSON knows. */
char sonde_json_peek(struct sonde_json_reader *r);

/* Go into the object or array that comes; 0 = something else comes, which is an error. */
int sonde_json_enter(struct sonde_json_reader *r, char bracket);
/* The next member or element: 1, and its value comes; 0 = that was the last, or an error. */
int sonde_json_member(struct sonde_json_reader *r, struct sonde_json_text *key);
int sonde_json_element(struct sonde_json_reader *r);

/* A value. A number that is an integer between 0 and 2^64 is exact as u64; fractions are rounded to
 * the next, what is negative or too large is an error. A string is unescaped into buf, which it
 * replaces, as UTF-8; NUL ends it. 1 if it was there. */
int sonde_json_number(struct sonde_json_reader *r, double *out);
int sonde_json_number_u64(struct sonde_json_reader *r, uint64_t *out);
int sonde_json_string(struct sonde_json_reader *r, struct sonde_buf *buf,
                      struct sonde_json_text *out);
void sonde_json_skip(struct sonde_json_reader *r);

/* Only blanks are left. */
int sonde_json_at_end(struct sonde_json_reader *r);

int sonde_json_text_is(struct sonde_json_text t, const char *s);
/* Keep the first error; 0. */
int sonde_json_fail(struct sonde_json_reader *r, const char *error);
size_t sonde_json_line(const struct sonde_json_reader *r); /* from 1: where it stands */

#endif
