/* history.h - profiles that are taken all the time, kept in a store: by the minute, merged to hours
 * and days as they get older, in bounded space.
 *
 * Every part is a profile of the store (store.h) of kind "continuous", one for each program:
 *
 *     tier    name               covers     times of its samples   threads          spans
 *     minute  continuous-minute  a minute   as they were           pid, tid, name   those with
 *             samples
 *     hour    continuous-hour    an hour    five minutes           pid, name        none
 *     day     continuous-day     a day      an hour                name             none
 *
 * Minutes, hours and days are those of UTC. A part belongs to the hour that it begins in. Merging
 * is exact: weights and counts of the whole are the sums of those of the parts, and parts go in the
 * same transaction that the whole comes in.
 *
 * How heaps stood is of kind "continuous-heap". What memory was in use at two times cannot be added
 * up, so of those the last of each hour stays, then of each day.
 *
 * Time is handed in: nothing here looks at a clock. */
#ifndef SONDE_STORE_HISTORY_H
#define SONDE_STORE_HISTORY_H

#include "base/err.h"
#include "profile/profile.h"
#include "store/store.h"

enum sonde_history_tier {
    SONDE_HISTORY_MINUTE,
    SONDE_HISTORY_HOUR,
    SONDE_HISTORY_DAY,
    SONDE_HISTORY_HEAP,      /* how a heap stood, whatever is left of them */
    SONDE_HISTORY_TIERS
};

extern const char *const sonde_history_tier_names[SONDE_HISTORY_TIERS]; /* "minute" */

/* Seconds that the times of samples are rounded down to; 0 = exact. */
double sonde_history_step_s(enum sonde_history_tier tier);

struct sonde_history {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;       /* borrowed */
    double minutes_s;                /* older ones are merged to hours; 0 = 7200 */
    double hours_s;                  /* older ones to days; 0 = 48 hours */
    uint64_t bytes_max;              /* of all parts: the oldest go; 0 = 256 MiB */
    /* Private: a group that could not be merged is not tried again before its time. */
    double failed_start_s, failed_until_s;
    uint64_t merges, deleted;        /* how many so far */
};

/* Put p, symbolized, as a part. *id is the part that it replaces, 0 = none, and becomes its own. */
int sonde_history_put(struct sonde_history *h, enum sonde_history_tier tier,
                      const struct sonde_profile *p, uint64_t *id, struct sonde_err *err);

/* One thing that is due: an hour or a day is merged, or the oldest part deleted. 1 = there may be
 * more to do, 0 = there is not, or SONDE_E…: it is tried again in an hour. */
int sonde_history_step(struct sonde_history *h, double now_s, struct sonde_err *err);

struct sonde_history_part {
    uint64_t id;
    enum sonde_history_tier tier;
    const char *program;             /* borrowed */
    double start_s, end_s;
    uint64_t samples;                /* events, not rows */
    size_t bytes;                    /* as stored */
};

struct sonde_history_query {
    double from_s, to_s;             /* unix; what has any time in [from, to); to 0 = no end */
    const char *program;             /* a glob; NULL = all */
    uint32_t pid;                    /* merging: only this process; 0 = all */
    int heap;                        /* those of heaps instead of the others */
};

/* Parts, oldest first; those of a store that has none are none. */
int sonde_history_each(const struct sonde_store_ops *ops, struct sonde_store *s,
                       const struct sonde_history_query *q,
                       void (*row)(const struct sonde_history_part *part, void *arg), void *arg,
                       struct sonde_err *err);

/* 1 if there is none of any time: who asked may want to know how to turn it on. */
int sonde_history_is_empty(const struct sonde_store_ops *ops, struct sonde_store *s, int heap);

/* What a part is: a profile, to be destroyed. */
int sonde_history_get(const struct sonde_store_ops *ops, struct sonde_store *s, uint64_t id,
                      struct sonde_profile **out, struct sonde_err *err);

/* All of a time as one profile: samples whose time is in it (to the steps above). Of heaps the
 * newest of each program in that time. SONDE_ENOENT: nothing is there of that time, and of which
 * there is. */
int sonde_history_merge(const struct sonde_store_ops *ops, struct sonde_store *s,
                        const struct sonde_history_query *q, struct sonde_profile **out,
                        struct sonde_err *err);

#endif
