/* race_private.h - shared by race.c (what is next) and race_answer.c (what it came to). */
#ifndef SONDE_ANALYZE_TUNE_RACE_PRIVATE_H
#define SONDE_ANALYZE_TUNE_RACE_PRIVATE_H

#include "analyze/tune/race.h"

/* Weights that a dozen trials say are likely make the surface more certain than it is: variances
 * are taken for so many times as large. By simulation (tests/unit/analyze/tune/test_race.c). */
#define RACE_DOUBT 2.0

/* How often levels, and pairs of levels, were in trials that came to nothing and in others. */
struct tune_counts {
    uint16_t bad, good;
};

struct sonde_tune_race {
    struct sonde_tune_race_options o;
    uint32_t points, given;
    uint64_t random;                /* state of the generator; set anew for each step */
    struct sonde_tune_trial *trials; /* owned */
    size_t trial_count, trial_cap;
    struct sonde_tune_surrogate surrogate;
    size_t learnt;                  /* trials that the surrogate has learnt from */
    struct sonde_tune_guess *guesses; /* owned: of all points, by what was learnt */
    uint8_t *point_ok, *point_bad;  /* owned: trials of each point, up to 255 */
    struct tune_counts (*pairs)[SONDE_TUNE_LEVELS_MAX * SONDE_TUNE_LEVELS_MAX]; /* owned: of knobs
                                       k <= l at [k * KNOBS_MAX + l]; k = l: of a level alone */
};

/* The pairs of the final that are complete. */
struct tune_final {
    uint32_t winner;
    size_t given_count, winner_count; /* trials of each so far */
    size_t pairs;
    double mean, low, high;     /* of log(winner) - log(given), better is above 0 */
    double p_better;
    int decided;
};

double race_uniform(struct sonde_tune_race *r);
double race_normal(struct sonde_tune_race *r);

/* The surrogate and the guesses know all trials. 0, SONDE_ENOMEM; SONDE_ENOENT: nothing worked. */
int race_learn(struct sonde_tune_race *r);
/* May it be tried, or recommended? */
int race_allowed(const struct sonde_tune_race *r, uint32_t point);
/* The best by what was learnt of those that worked; 0 = there is none. */
int race_leader(const struct sonde_tune_race *r, uint32_t *out);
/* The same with knobs as given wherever nothing is known to be lost by it. */
uint32_t race_simplest(const struct sonde_tune_race *r, uint32_t leader);
/* 1 if a final has begun. */
int race_final(const struct sonde_tune_race *r, struct tune_final *out);
/* Of point against the best there may be, by drawing surfaces from what was learnt. 0,
 * SONDE_ENOMEM. near: share of them in which it is within SONDE_TUNE_NEAR. */
int race_loss(struct sonde_tune_race *r, uint32_t point, double *expected, double *near);

#endif
