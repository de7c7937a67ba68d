/* session_range.c - profiles of a stretch of time: see sessions.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "agent/sessions.h"
#include "sonde/sonde.h"
#include "store/history.h"

enum { ROWS_MAX = 10000 };
#define PROFILE_BYTES_MAX ((size_t)512 << 20)
#define TIME_MAX 1e10 /* unix seconds */

struct session_range_row { uint64_t id; double start_s, end_s; };

struct session_range_rows {
    double from_s, to_s;
    struct session_range_row *list;
    size_t count;
};

/* "1700000000.5": the end of it, or NULL. */
static const char *session_range_read_time(const char *text, size_t len, double *out)
{
    char copy[40], *end;
    if (!len || len >= sizeof(copy) || strspn(text, "0123456789.") < len) return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *out = strtod(copy, &end);
    return *end || !(*out >= 0 && *out <= TIME_MAX) ? NULL : text + len;
}

static int session_range_parse(const char *text, double *from_s, double *to_s)
{
    const char *dots = strstr(text, "..");
    return dots && session_range_read_time(text, (size_t)(dots - text), from_s) &&
           session_range_read_time(dots + 2, strlen(dots + 2), to_s);
}

int sonde_sessions_is_range(const char *text)
{
    double from_s, to_s;
    return session_range_parse(text, &from_s, &to_s);
}

static void session_range_look(const struct sonde_store_profile *p, void *arg)
{
    struct session_range_rows *r = arg;
    if (!strncmp(p->kind, "continuous", 10)) return; /* of the history */
    if (r->count == ROWS_MAX || p->end_s <= r->from_s || p->start_s >= r->to_s) return;
    r->list[r->count++] = (struct session_range_row){ p->id, p->start_s, p->end_s };
}

static int oldest_first(const void *x, const void *y)
{
    const struct session_range_row *a = x, *b = y;
    if (a->start_s != b->start_s) return SONDE_CMP(a->start_s, b->start_s);
    return SONDE_CMP(b->end_s, a->end_s);
}

/* Those that follow each other may overlap a little: the next is begun before one ends. */
static int session_range_follows(const struct session_range_row *r, double end_s)
{
    return r->start_s >= end_s - fmin(1, 0.1 * (r->end_s - r->start_s));
}

static int session_range_add(struct sonde_sessions *s, const struct session_range_row *r,
                             struct sonde_profile *into, struct sonde_err *err)
{
    struct sonde_session_found one;
    char id[24];
    snprintf(id, sizeof(id), "%llu", (unsigned long long)r->id);
    int rc = sonde_sessions_find(s, id, &one, err);
    if (rc) return rc == SONDE_ENOENT ? 0 : rc; /* it was deleted meanwhile */
    rc = sonde_profile_merge(into, one.profile);
    sonde_profile_destroy(one.profile);
    return rc ? sonde_err_set(err, rc, "no memory for all profiles of that time") : 0;
}

static int session_range_merge(struct sonde_sessions *s, struct session_range_rows *r,
                               struct sonde_profile *into, size_t *used, struct sonde_err *err)
{
    double end_s = 0;
    int rc = 0;
    qsort(r->list, r->count, sizeof(*r->list), oldest_first);
    for (size_t i = 0; !rc && i < r->count; i++) {
        if (*used && !session_range_follows(&r->list[i], end_s)) continue;
        rc = session_range_add(s, &r->list[i], into, err);
        end_s = r->list[i].end_s;
        ++*used;
    }
    return rc;
}

/* Of those that were taken for themselves. */
static int merge_sessions(struct sonde_sessions *s, struct session_range_rows *r, const char *text,
                          struct sonde_profile **out, struct sonde_err *err)
{
    const struct sonde_store_ops *ops;
    int memory;
    struct sonde_store *store = sonde_sessions_store(s, &ops, &memory);
    struct sonde_profile *all = NULL;
    size_t used = 0;
    r->list = sonde__calloc(ROWS_MAX, sizeof(*r->list));
    int rc = r->list ? sonde_profile_create(PROFILE_BYTES_MAX, &all) : SONDE_ENOMEM;
    if (rc) sonde_err_set(err, rc, "no memory for profiles");
    if (!rc) rc = ops->profiles(store, NULL, session_range_look, r, err);
    if (!rc) rc = session_range_merge(s, r, all, &used, err);
    if (!rc && !used) {
        rc = sonde_err_set(err, SONDE_ENOENT, "there is no profile of the time %.100s", text);
    }
    sonde__free(r->list);
    if (rc) sonde_profile_destroy(all);
    else *out = all;
    return rc;
}

int sonde_sessions_range(struct sonde_sessions *s, const char *text,
                         struct sonde_session_range *out, struct sonde_err *err)
{
    const struct sonde_store_ops *ops;
    int memory;
    struct sonde_store *store = sonde_sessions_store(s, &ops, &memory);
    struct session_range_rows r = { 0 };
    struct sonde_profile *all = NULL;
    *out = (struct sonde_session_range){ .from_ns = 0 };
    if (!session_range_parse(text, &r.from_s, &r.to_s) || !(r.from_s < r.to_s)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%.100s\" is no stretch of time: FROM..TO in "
                             "Unix seconds, FROM before TO", text);
    }
    const struct sonde_history_query q = { .from_s = r.from_s, .to_s = r.to_s };
    int rc = sonde_history_merge(ops, store, &q, &all, err);
    if (rc == SONDE_ENOENT) rc = merge_sessions(s, &r, text, &all, err);
    if (rc) return rc;
    out->found.profile = all;
    out->from_ns = sonde_clock_ns_of(r.from_s) + (r.from_s <= 0); /* 0 would be open */
    out->to_ns = sonde_clock_ns_of(r.to_s);
    snprintf(out->found.label, sizeof(out->found.label), "%.80s", text);
    return 0;
}
