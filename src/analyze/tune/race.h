/* race.h - which setting to try next, when to stop, and what to recommend. It starts nothing:
 * whoever owns it asks for the next step, measures, and reports what came of it.
 *
 *   while (!sonde_tune_race_next(r, &step) && step.phase != SONDE_TUNE_DONE)
 *       sonde_tune_race_tell(r, step, outcome, value);
 *   sonde_tune_race_answer(r, &answer);
 *
 * The next step follows from the trials so far and the seed alone. So a race that was interrupted
 * is resumed by telling a new one the trials that were saved.
 *
 *   begin   the setting that was given, then some in which each level of each knob comes equally
 *           often
 *   search  the best so far and the one that most probably beats it by most (expected improvement)
 *           are rivals; the trial that tells more about which of them is better is next. It ends
 *           when
 *           nothing better is expected, or when only the trials for the last phase are left
 *   final   the winner against what was given, in turns; only these trials are counted, since a
 *           winner of many was lucky in those it won. The test may stop after each pair: its limits
 *           allow for that
 *
 * Knobs go back to what was given where the winner is not known to lose by it. A setting that fails
 * or breaks a constraint is never recommended, nor are levels, and pairs of levels, tried while
 * they did nothing else at least twice. */
#ifndef SONDE_ANALYZE_TUNE_RACE_H
#define SONDE_ANALYZE_TUNE_RACE_H

#include "analyze/tune/surrogate.h"

enum sonde_tune_phase { SONDE_TUNE_BEGIN, SONDE_TUNE_SEARCH, SONDE_TUNE_FINAL, SONDE_TUNE_DONE };
enum sonde_tune_outcome {
    SONDE_TUNE_OK,
    SONDE_TUNE_BROKEN,   /* measured, but a constraint does not hold */
    SONDE_TUNE_FAILED,   /* no figure */
};
const char *sonde_tune_phase_name(enum sonde_tune_phase p);
const char *sonde_tune_outcome_name(enum sonde_tune_outcome o);

struct sonde_tune_step {
    uint32_t point;
    enum sonde_tune_phase phase;
};

struct sonde_tune_trial {
    struct sonde_tune_step step;
    enum sonde_tune_outcome outcome;
    double value;        /* of the objective; above 0; NaN where it failed */
};

struct sonde_tune_race_options {
    const struct sonde_tune_space *space; /* borrowed */
    uint32_t trials_max; /* with those of the final; 0 = sonde_tune_trials_for() */
    uint64_t seed;
    int less;            /* less of the objective is better */
    double min_gain;     /* what a change must bring to be worth it: 0.01 = 1 % */
    uint32_t all;        /* no search: every point so many times, each time in another order */
};

/* A number of trials that suits so many points. */
uint32_t sonde_tune_trials_for(uint32_t points);

struct sonde_tune_race;
int sonde_tune_race_create(const struct sonde_tune_race_options *o, struct sonde_tune_race **out);
void sonde_tune_race_destroy(struct sonde_tune_race *r);

/* 0, SONDE_ENOMEM. */
int sonde_tune_race_next(struct sonde_tune_race *r, struct sonde_tune_step *out);
/* 0, SONDE_ENOMEM; SONDE_EFULL: more than SONDE_TUNE_TRIALS_MAX; SONDE_EINVAL: no such point. */
int sonde_tune_race_tell(struct sonde_tune_race *r, struct sonde_tune_step step,
                         enum sonde_tune_outcome outcome, double value);
const struct sonde_tune_trial *sonde_tune_race_trials(const struct sonde_tune_race *r,
                                                      size_t *count);

enum sonde_tune_verdict {
    SONDE_TUNE_KEEP,     /* nothing better than what was given was shown */
    SONDE_TUNE_CHANGE,   /* the winner is better */
    SONDE_TUNE_ONLY,     /* what was given fails or breaks a constraint; the winner does not */
    SONDE_TUNE_NOTHING,  /* no setting works */
};

/* Of one knob, by all trials: its level in the winner against the given. */
struct sonde_tune_effect {
    uint8_t given, winner;
    uint8_t rival;          /* of levels the winner does not have, the best; the same as winner if
                               there is none */
    double gain, low, high; /* winner's against given's, or if these are the same, rival's against
                               it; relative, with a 95 % interval; above 0 is better */
};

struct sonde_tune_answer {
    enum sonde_tune_verdict verdict;
    uint32_t given, winner; /* points; the winner also where it is not recommended */
    uint32_t recommended;
    size_t pairs;           /* that the final was decided by */
    double gain, low, high; /* of winner against given: 0.1 = 10 % better; NaN = not known */
    double p_better;        /* probability that it is better at all */
    double value_given, value_winner; /* means of their trials; NaN = none */
    double loss_expected;   /* of the recommended one against the best that there may be */
    double p_near;          /* probability that it is within 3 % of that */
    double noise;           /* from trial to trial: 0.02 = 2 % */
    size_t effect_count;
    struct sonde_tune_effect effects[SONDE_TUNE_KNOBS_MAX];
};
#define SONDE_TUNE_NEAR 0.03

int sonde_tune_race_answer(struct sonde_tune_race *r, struct sonde_tune_answer *out);

#endif
