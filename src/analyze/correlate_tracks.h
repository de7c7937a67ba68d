/* correlate_tracks.h - correlation (correlate.h) of the series of a recording, or of a time out of
 * a store (profile/track.h): which of them are targets, which are held against them, and on which
 * axis of time. */
#ifndef SONDE_ANALYZE_CORRELATE_TRACKS_H
#define SONDE_ANALYZE_CORRELATE_TRACKS_H

#include "analyze/correlate.h"
#include "base/buf.h"
#include "base/err.h"
#include "profile/track.h"

enum { SONDE_CORRELATE_TARGETS_MAX = 8 };

struct sonde_correlate_query {
    const char *target;    /* globs on names, `a*|b`: counters of a name and program are added up,
                              gauges are a target each; with a `{`, on name{labels}: each series is
                              a target. NULL = tokens, requests or items per second, whichever
                              there is */
    const char *with;      /* globs on names, or on name{labels}; NULL = CPU, memory, disk, network,
                              queues, batches, caches */
    double from_s, to_s;   /* unix time; 0 = open */
    double lag_s;          /* either way; 0 = 10 steps */
    size_t limit;          /* rows; 0 = 50 */
};

struct sonde_correlate_answer {
    struct sonde_correlate_series *targets, *others; /* owned, with their values; texts are borrowed
                                                        from the tracks */
    size_t target_count, other_count;
    size_t targets_left_out; /* over SONDE_CORRELATE_TARGETS_MAX: those that vary least */
    double from_s, to_s;   /* unix time that was looked at */
    double step_s;
    struct sonde_correlations found;
};

/* SONDE_ENOENT: there is no such series, or none of that time, and why; SONDE_ENOMEM. tracks may be
 * NULL. */
int sonde_correlate_tracks(const struct sonde_tracks *tracks, const struct sonde_correlate_query *q,
                           struct sonde_correlate_answer *out, struct sonde_err *err);
void sonde_correlate_answer_release(struct sonde_correlate_answer *a);

/* Names of the families that q is about, `a*|b*`, for who reads them from a store. A histogram is
 * called by its own name there. */
void sonde_correlate_names(const struct sonde_correlate_query *q, struct sonde_buf *out);

#endif
