/* track_ticks.h - the series of a model as tracks of a profile (profile/track.h): tick by tick
 * while it is recorded, or what the model still remembers. */
#ifndef SONDE_MODEL_TRACK_TICKS_H
#define SONDE_MODEL_TRACK_TICKS_H

#include "model/model.h"
#include "profile/profile.h"

/* The last tick of m into p. What finds no room in p is counted there. Read lock (asserted). */
void sonde_model_track_tick(const struct sonde_model *m, struct sonde_profile *p);
/* All ticks that m remembers and that ended after since_s (unix time), oldest first; nothing if p
 * has tracks already. Read lock (asserted). */
void sonde_model_track_since(const struct sonde_model *m, double since_s,
                             struct sonde_profile *p);

/* Bytes of the label text of a process's series, len of them, without those of the process, which
 * come last. */
size_t sonde_track_labels_len(const char *labels, size_t len);

#endif
