/* rss_watch.h - the memory of a process that was not started for it, as far as it can be seen from
 * outside: how much is resident, whether that grows, and in which mappings. */
#ifndef SONDE_AGENT_RSS_WATCH_H
#define SONDE_AGENT_RSS_WATCH_H

#include "base/buf.h"
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

/* Look once more, and what there is to say, in lines. */
void sonde_rss_watch_tell(struct sonde_rss_watch *o, double now_s, int ascii, struct sonde_buf *out);
void sonde_rss_watch_release(struct sonde_rss_watch *o); /* all zero is fine */

#endif
