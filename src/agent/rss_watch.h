/* rss_watch.h - the memory of a process that was not started for it, as far as it can be seen from
 * outside: how much is resident, whether that grows, and in which mappings. */
#ifndef SONDE_AGENT_RSS_WATCH_H
#define SONDE_AGENT_RSS_WATCH_H

#include "analyze/growth.h"
#include "collect/proc/smaps.h"
#include "profile/curve.h"

#define SONDE_OUTSIDE_TICK_S 0.25

struct sonde_rss_watch {
    uint32_t pid;
    double start_s, next_s;      /* CLOCK_MONOTONIC */
    struct sonde_curve rss;     /* a value a tick */
    uint64_t rss_first, rss_last, rss_peak, pss_last;
    struct sonde_smaps first, last; /* empty = could not be read */
};

/* From now on. Whatever cannot be read is left out in the end. */
void sonde_rss_watch_start(struct sonde_rss_watch *o, uint32_t pid, double now_s);

/* Look, if it is time to: to be called a few times a tick. */
void sonde_rss_watch_look(struct sonde_rss_watch *o, double now_s);

enum { SONDE_RSS_GROWN_MAX = 4 };
struct sonde_rss_grown { const char *name; uint64_t bytes; };
struct sonde_rss_verdict {
    double seconds;              /* that it was watched */
    struct sonde_growth growth;  /* of what is resident */
    struct sonde_rss_grown grown[SONDE_RSS_GROWN_MAX]; /* mappings, most first; names borrowed */
    size_t grown_count;
};

/* Look once more, and what came of it. rss_last is 0 where nothing could be read. */
void sonde_rss_watch_end(struct sonde_rss_watch *o, double now_s, struct sonde_rss_verdict *out);
void sonde_rss_watch_release(struct sonde_rss_watch *o); /* all zero is fine */

#endif
