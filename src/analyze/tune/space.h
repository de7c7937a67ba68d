/* space.h - the settings that a search may choose from: knobs with levels, and the grid of all
 * their combinations.
 *
 * A point is one combination, as one number: the levels of the knobs are its digits, the first
 * knob's the lowest.
 *
 *   point = l[0] + n[0] * (l[1] + n[1] * (l[2] + …))
 *
 * An ordered knob has places: how far apart levels are. Numbers stand at their logarithms (4
 * threads are as far from 2 as 2 from 1), so that what was seen at one level says something of its
 * neighbours. Levels of other knobs are names, and all equally far apart. */
#ifndef SONDE_ANALYZE_TUNE_SPACE_H
#define SONDE_ANALYZE_TUNE_SPACE_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_TUNE_KNOBS_MAX 16u
#define SONDE_TUNE_LEVELS_MAX 16u
#define SONDE_TUNE_NAME_MAX 31
#define SONDE_TUNE_POINTS_MAX 65536u  /* a search looks at all of them at each step */

struct sonde_tune_knob {
    char name[SONDE_TUNE_NAME_MAX + 1];
    char levels[SONDE_TUNE_LEVELS_MAX][SONDE_TUNE_NAME_MAX + 1];
    double places[SONDE_TUNE_LEVELS_MAX]; /* 0 … 1; only of ordered knobs */
    double expected[SONDE_TUNE_LEVELS_MAX]; /* logarithm of what a model makes of each level, before
                           any trial; more is better; all 0 = nothing is expected */
    uint8_t level_count;
    uint8_t start;      /* level that the search begins at */
    uint8_t ordered;
};

struct sonde_tune_space {
    struct sonde_tune_knob knobs[SONDE_TUNE_KNOBS_MAX];
    size_t knob_count;
};

/* Adds a knob without levels; NULL = there are too many, or one of that name is there. */
struct sonde_tune_knob *sonde_tune_knob_add(struct sonde_tune_space *s, const char *name);

/* The level of that name, added if it is not there; -1 = too many, or its name is too long or
 * "". */
int sonde_tune_level_add(struct sonde_tune_knob *k, const char *level);
/* -1 = there is none. */
int sonde_tune_level_find(const struct sonde_tune_knob *k, const char *level);

/* All levels are there: numbers are put in order and given places. */
void sonde_tune_knob_ready(struct sonde_tune_knob *k);

/* How many points there are; 0 = more than SONDE_TUNE_POINTS_MAX, or no knob. */
uint32_t sonde_tune_points(const struct sonde_tune_space *s);

void sonde_tune_levels(const struct sonde_tune_space *s, uint32_t point,
                       uint8_t out[SONDE_TUNE_KNOBS_MAX]);
uint32_t sonde_tune_point(const struct sonde_tune_space *s,
                          const uint8_t levels[SONDE_TUNE_KNOBS_MAX]);
uint32_t sonde_tune_start(const struct sonde_tune_space *s);

/* What is expected of a point: the sum over its knobs. */
double sonde_tune_expected(const struct sonde_tune_space *s, uint32_t point);

/* The number that a level is ("512", "0.5", "2k"), above 0; 0 = it is none. */
double sonde_tune_level_number(const char *level);

/* The point with one knob at another level. */
uint32_t sonde_tune_moved(const struct sonde_tune_space *s, uint32_t point, size_t knob,
                          uint8_t level);

#endif
