/* cost.h - what each function of a program costs over time, from profiles that are taken all the
 * time, and which of them has changed.
 *
 * CPU samples are added up by function and quarter of an hour, by themselves ("self") and with what
 * they call ("total"), for the last two days. What is compared is the share of all CPU time: load
 * cancels out.
 *
 * A function has changed when one stretch of time has another share than the rest, by more than
 * shares differ from quarter to quarter anyway (the ratio estimator of stats.h, with neighbours'
 * likeness in it, not less than sampling alone would give), at a level that is corrected for all
 * stretches and functions that were looked at. What a daily curve explains as well as a step is
 * not a change.
 *
 *   regression   its share rose, and nothing else explains it
 *   improvement  its share fell
 *   shift        its share rose by what others lost at the same time: its caller or callees
 *                (inlining), functions with the same callers (a refactoring), a function that
 *                disappeared (renamed), or all the rest below one of its callers. The work was
 *                moved, not added
 *   went away    the stretch ended: an excursion, or a rollback */
#ifndef SONDE_ANALYZE_COST_H
#define SONDE_ANALYZE_COST_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

struct sonde_cost_options {
    double bin_s;                /* 0 = 900 */
    uint32_t bins;               /* 0 = 192: two days */
    uint32_t functions_max;      /* 0 = 4000: those that come later are counted as others */
    double share_min;            /* of all CPU time; smaller ones are not judged; 0 = 0.001 */
    double min_relative;         /* smaller changes are not reported; 0 = 0.05 */
    double level;                /* chance of one false report in a look at all; 0 = 0.005 */
};

struct sonde_cost;

int sonde_cost_create(const struct sonde_cost_options *o, struct sonde_cost **out);
void sonde_cost_destroy(struct sonde_cost *c); /* NULL is fine */

/* CPU samples of p, by their times; those older than the bins reach are left out. p's functions
 * have names. Not more than SONDE_COST_MEMORY bytes in all. 0 or SONDE_ENOMEM. */
#define SONDE_COST_MEMORY ((size_t)64 << 20)
int sonde_cost_add(struct sonde_cost *c, const struct sonde_profile *p);

#define SONDE_COST_KINDS(X)                                                                    \
    X(REGRESSION, "regression")                                                                \
    X(IMPROVEMENT, "improvement")                                                              \
    X(SHIFT, "shift")
enum sonde_cost_kind {
#define SONDE__X(id, name) SONDE_COST_##id,
    SONDE_COST_KINDS(SONDE__X)
#undef SONDE__X
};
const char *sonde_cost_kind_name(enum sonde_cost_kind kind);

struct sonde_cost_change {
    const char *function, *module;        /* of the table: until the next add or destroy */
    const char *with;                     /* shift: the function that it came from; else NULL */
    const char *caller;                   /* the one that calls it most; NULL = none */
    enum sonde_cost_kind kind;
    double time_s, time_low_s, time_high_s; /* unix */
    double until_s;                       /* it went away then; 0 = it has not */
    double before, after;                 /* shares of CPU time */
    double absolute, absolute_low, absolute_high; /* 95 % */
    double relative, relative_low, relative_high; /* NaN: it is new */
    double p;                             /* corrected */
    uint64_t samples;                     /* of the function */
};

/* Those that changed, the largest first. *out: to be freed with sonde__free. 0 or SONDE_ENOMEM;
 * none while there are less than SONDE_COST_BINS_MIN bins. */
#define SONDE_COST_BINS_MIN 24
int sonde_cost_judge(struct sonde_cost *c, struct sonde_cost_change **out, size_t *count);

#endif
