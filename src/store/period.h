/* period.h - all that a store knows of a stretch of time, as one profile: what `sonde record` would
 * have written of it, for whoever asks about a time that nobody recorded. Samples and heaps come
 * from continuous profiling (history.h), the rest from what is stored of every tick.
 *
 * Histograms come with their buckets, so percentiles are those of that time. Of what adds up
 * (counts, sums, samples, spans, requests) periods that follow each other add up to the whole. What
 * cannot be had of a period, or only in part, is said in the profile's notes with the reason. */
#ifndef SONDE_STORE_PERIOD_H
#define SONDE_STORE_PERIOD_H

#include "base/err.h"
#include "profile/profile.h"
#include "store/history.h"
#include "store/store.h"

/* Both may be the same; a store that is NULL has nothing. */
struct sonde_period_source {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;           /* series, spans, requests */
    const struct sonde_store_ops *profile_ops;
    struct sonde_store *profiles;        /* of continuous profiling */
};

/* Of q (its heap is not looked at; from_s 0 = from the first that there is, to_s 0 = to now), of
 * now_s at the latest. start_ns and end_ns of *out are what was asked for, as far as it was
 * recorded. SONDE_ENOENT: nothing is there of that time, and why; SONDE_EINVAL: it ends before it
 * begins; SONDE_ENOMEM; or what the store says. */
int sonde_period_profile(const struct sonde_period_source *from,
                         const struct sonde_history_query *q, double now_s,
                         struct sonde_profile **out, struct sonde_err *err);

#endif
