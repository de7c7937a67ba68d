/* marks.h - what people and deployments note on the time axis: "deploy 42", a moment or a stretch
 * of time with a text. With a store they are rows of it, of kind "mark" beside the findings;
 * without one the newest are kept in memory until the agent ends. */
#ifndef SONDE_AGENT_MARKS_H
#define SONDE_AGENT_MARKS_H

#include "base/err.h"
#include "store/store.h"

#define SONDE_MARK_KIND "mark"
#define SONDE_MARK_TEXT_MAX 500  /* bytes */
#define SONDE_MARKS_MAX 1000     /* in memory */

struct sonde_mark {
    uint64_t id;
    double time_s, end_s;        /* unix; end 0 = a moment */
    const char *text;            /* borrowed */
};

struct sonde_marks;

/* store NULL = there is none. All borrowed; SONDE_ENOMEM. */
int sonde_marks_create(const struct sonde_store_ops *ops, struct sonde_store *store,
                       struct sonde_marks **out);
void sonde_marks_destroy(struct sonde_marks *m); /* NULL is fine */

/* Copies it; *id names it from now on. Any thread. SONDE_EINVAL and what is wrong with it. */
int sonde_marks_add(struct sonde_marks *m, const struct sonde_mark *mark, uint64_t *id,
                    struct sonde_err *err);
/* SONDE_ENOENT: there is none of that id. */
int sonde_marks_delete(struct sonde_marks *m, uint64_t id, struct sonde_err *err);
/* Those that the range has any part of, the last to begin first, until row returns 1; the mark is
 * borrowed. */
int sonde_marks_each(struct sonde_marks *m, const struct sonde_store_range *q,
                     int (*row)(const struct sonde_mark *mark, void *arg), void *arg,
                     struct sonde_err *err);

/* A JSON object: text, and time and end in Unix seconds, which may be null or left out: then it is
 * now_s. The text is copied to text. SONDE_EINVAL and which member is wrong. */
int sonde_mark_parse(const char *body, size_t len, double now_s, struct sonde_mark *out,
                     char text[SONDE_MARK_TEXT_MAX + 1], struct sonde_err *err);

#endif
