/* track.h - series over the time of a recording, kept with a profile: what the host and its
 * processes did meanwhile (CPU, memory, I/O, queues …), for whoever looks for causes. All tracks
 * share one axis of time, the ticks of the agent that recorded them.
 *
 * Bounded: SONDE_TRACKS_MAX series, SONDE_TRACK_TICKS_MAX ticks. When the ticks are used up,
 * neighbours are joined, so a recording of days has a coarse axis rather than a cut one. */
#ifndef SONDE_PROFILE_TRACK_H
#define SONDE_PROFILE_TRACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct sonde_profile;

enum { SONDE_TRACKS_MAX = 4000, SONDE_TRACK_TICKS_MAX = 512 };

struct sonde_track {
    const char *family;     /* "sonde_process_cpu_seconds_total"; a histogram is two, with _count
                               and _sum */
    const char *labels;     /* `a="b",c="d"`, without process and pid; "" = none */
    const char *program;    /* of the process; "" = the host's or the agent's */
    uint32_t pid;           /* 0 alike */
    uint32_t gauge;         /* 1: values are as they were; 0: increases per second */
    float *values;          /* owned; one for each tick, NaN = it was not there */
};

struct sonde_track_tick {
    double end_s, length_s; /* unix time it was taken at; seconds that it covers */
};

/* Hung on a profile (profile.h); texts are strings of that. */
struct sonde_tracks {
    struct sonde_track *rows;
    uint32_t count, cap;
    uint32_t tick_count;
    struct sonde_track_tick ticks[SONDE_TRACK_TICKS_MAX];
    uint64_t dropped;       /* values of series for which there was no room */
    struct sonde_map index; /* private to track.c */
};

/* One more tick, in which nothing has a value yet. 0 or SONDE_ENOMEM. */
int sonde_tracks_tick(struct sonde_profile *p, double end_s, double length_s);
/* The value of a series (known by all but values) in the last tick, which there is. Values that
 * are not finite are passed over. 0, or SONDE_ENOMEM: it is counted as dropped. */
int sonde_tracks_put(struct sonde_profile *p, const struct sonde_track *series, double value);
/* A series with all its values, of which there are as many as ticks; copied. */
int sonde_tracks_add(struct sonde_profile *p, const struct sonde_track *track);
/* Copies from's if p has none: two axes of time cannot be joined. */
int sonde_tracks_merge(struct sonde_profile *p, const struct sonde_profile *from);
void sonde_tracks_destroy(struct sonde_tracks *t); /* NULL is fine */

#endif
