/* flame_private.h - what the files of flame.h share.
 *   flame_read.c    what is asked for
 *   flame_source.c  profiles
 *   flame_choice.c  what of them is of a phase, of requests, of others
 *   flame.c         trees */
#ifndef SONDE_SERVE_API_FLAME_PRIVATE_H
#define SONDE_SERVE_API_FLAME_PRIVATE_H

#include "serve/api/flame.h"

/* What a maker of recent.h is given. */
struct flame_making {
    const struct sonde_http_request *r;
    const struct sonde_api_flame_query *q;
    const struct sonde_api_flame_side *side;
};

/* The thing that is of this sort and of what makes it differ from others, of its sort: side, and
 * base unless that is NULL. */
int flame_take(const struct flame_making *m, const char *sort,
               const struct sonde_api_flame_side *base,
               int (*make)(void *making, void **thing, size_t *bytes, struct sonde_err *err),
               void (*destroy)(void *thing), struct sonde_recent_thing **out,
               struct sonde_err *err);

/* How heaps stand is kept apart from what adds up over time. */
int flame_is_standing(int kind);

/* Whether requests, or anything that spans tell, are asked for. */
int flame_asks_requests(const struct sonde_api_flame_side *side);
int flame_asks_choice(const struct sonde_api_flame_side *side);

__attribute__((format(printf, 2, 3)))
void flame_note(struct sonde_api_flame_source *s, const char *format, ...);

/* ---- flame_source.c ----------------------------------------------------------------------- */

/* The profile of a side before anything is chosen of it. spans: those that end after it too. */
int flame_whole(const struct sonde_http_request *r, const struct sonde_api_flame_query *q,
                const struct sonde_api_flame_side *side, struct sonde_recent_thing **out,
                struct sonde_err *err);
void flame_source_destroy(void *source);

/* ---- flame_choice.c ----------------------------------------------------------------------- */

/* Makes a source of recent.h: what side chooses of the whole. */
int flame_choose(void *making, void **thing, size_t *bytes, struct sonde_err *err);

#endif
