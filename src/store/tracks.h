/* tracks.h - series of a store as tracks of a profile (profile/track.h): for analyses that are
 * handed a recording, of a time that nobody recorded. */
#ifndef SONDE_STORE_TRACKS_H
#define SONDE_STORE_TRACKS_H

#include "base/err.h"
#include "profile/profile.h"
#include "store/store.h"

/* A step of whole seconds (1, 2, 5, 10, 15, 30 or minutes) that cuts the time into at most so many
 * points. */
double sonde_store_step_s(double seconds, uint32_t points_max);

/* The series whose names match (globs, `a*|b`; NULL = all) from from_s to to_s, at a step that
 * leaves at most SONDE_TRACK_TICKS_MAX ticks, into p, which has no tracks. Series over
 * SONDE_TRACKS_MAX are left out. 0, SONDE_EINVAL (the range is empty), or what the store says. */
int sonde_store_tracks(const struct sonde_store_ops *ops, struct sonde_store *s, const char *names,
                       double from_s, double to_s, struct sonde_profile *p, struct sonde_err *err);

#endif
