/* final_tracks.h - series as they stood at the end (profile/final.h), of a part of a recording or
 * of a time out of a store, where there are only series over time (profile/track.h): what counters
 * and histograms have gained in that time, what gauges were last and at most. Buckets of histograms
 * are not in tracks, so percentiles of a part are not known. */
#ifndef SONDE_ANALYZE_FINAL_TRACKS_H
#define SONDE_ANALYZE_FINAL_TRACKS_H

#include "base/buf.h"
#include "profile/final.h"
#include "profile/track.h"

struct sonde_final_part {
    struct sonde_final final;
    char **texts;               /* owned: labels, unescaped */
    size_t text_count, text_cap;
};

/* From from_s to to_s (unix time; 0 = open): a tick that is in it in part counts in part. t may be
 * NULL, and is borrowed from. 0 or SONDE_ENOMEM; *out is to be released in any case. */
int sonde_final_of_tracks(const struct sonde_tracks *t, double from_s, double to_s,
                          struct sonde_final_part *out);
void sonde_final_part_release(struct sonde_final_part *p);

/* The value of a label in `a="b",c="d"`, unescaped; "" if it has none. 0 or what is in
 * out->error. */
int sonde_track_label(const char *labels, const char *name, struct sonde_buf *out);

#endif
