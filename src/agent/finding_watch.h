/* finding_watch.h - what is wrong now: every half a minute the last minute is looked at by all
 * rules (analyze/finding/finding.h), and what is found is followed from when it began until it is
 * over. What begins is kept in the store, for /api/findings of later times, and told to whoever
 * wants to know (alerts). */
#ifndef SONDE_AGENT_FINDING_WATCH_H
#define SONDE_AGENT_FINDING_WATCH_H

#include "analyze/finding/finding.h"
#include "base/err.h"

struct sonde_agent;
struct sonde_finding_watch;

struct sonde_finding_watch_options {
    const struct sonde_agent *agent; /* borrowed */
    double interval_s;              /* between looks; 0 = 30 */
    double window_s;                /* that is looked at; 0 = 60 */
    struct sonde_finding_options rules; /* muted is borrowed */
    /* On its thread, borrowed: a finding began (over 0) or is over (over 1). NULL = nobody. */
    void (*on_change)(const struct sonde_finding *f, int over, void *arg);
    void *on_change_arg;
};

/* SONDE_ENOMEM. Nothing is looked at before start. */
int sonde_finding_watch_create(const struct sonde_finding_watch_options *o,
                               struct sonde_finding_watch **out);
int sonde_finding_watch_start(struct sonde_finding_watch *w, struct sonde_err *err);
/* Has returned when nothing is looked at any more; twice is fine, NULL too. */
void sonde_finding_watch_stop(struct sonde_finding_watch *w);
void sonde_finding_watch_destroy(struct sonde_finding_watch *w); /* NULL is fine */

/* What was found at the last look, with since when each goes on. use gets it while it is locked, or
 * NULL if there was no look yet; borrowed. time_s: when that was, unix time. */
void sonde_finding_watch_last(struct sonde_finding_watch *w,
                              void (*use)(const struct sonde_findings *f, double time_s, void *arg),
                              void *arg);

#endif
