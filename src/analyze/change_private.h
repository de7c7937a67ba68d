/* change_private.h - what the files of change points share. */
#ifndef SONDE_ANALYZE_CHANGE_PRIVATE_H
#define SONDE_ANALYZE_CHANGE_PRIVATE_H

#include "analyze/change.h"

enum {
    CHANGE_DAY = 288,                                /* bins */
    CHANGE_RING = CHANGE_DAY * SONDE_CHANGE_DAYS,
    CHANGE_WINDOW = 10,                              /* bins that are judged at once */
    CHANGE_MINUTES = 5,                              /* of a bin */
    CHANGE_FEATURES = 5,
    CHANGE_OPEN_MAX = 8,                             /* changes that may still go away */
};

struct change_fit {
    double weight[CHANGE_FEATURES];
    double scale;             /* of the forecast's error; 0 = no fit yet */
    double level;             /* the mean of what it was fitted to */
    double largest;           /* |error| of what it was fitted to, without excursions */
    int64_t at;               /* the bin that it was made at */
    int seasons, sizes;       /* whether days before, and their size, are used */
};

struct change_open {
    double time_s;
    double effect;            /* as bins are: a logarithm or not */
    struct sonde_change told;
};

struct sonde_change_series {
    struct sonde_change_options o;
    float bin[CHANGE_RING];   /* by bin number modulo ring; NaN = missing */
    float mean[CHANGE_RING];  /* of the window that ends there; NaN = too few bins */
    int64_t first, last;      /* bin numbers that are there; last < first = none */
    int linear;               /* values, not logarithms */
    /* The bin that is being filled, by the minute. */
    int64_t now;
    double sum[CHANGE_MINUTES], seconds[CHANGE_MINUTES];
    double minute_scale;      /* how far minutes of a bin usually are from their middle */
    double bin_scale;         /* alike, of bins that follow each other, as an sd */
    double last_time_s, warm_until_s;
    double hole_time_s;       /* the last time that a silence ended */
    struct change_fit fit;
    struct change_open open[CHANGE_OPEN_MAX];
    size_t open_count;
    int64_t found_at[CHANGE_OPEN_MAX]; /* bins at which changes were found, a ring */
    size_t found;
    int64_t quiet_until;      /* nothing is looked for before this bin: the last is in windows */
};

static inline size_t change_slot(int64_t at)
{
    const int64_t r = at % CHANGE_RING;
    return (size_t)(r < 0 ? r + CHANGE_RING : r);
}

static inline double change_mean_at(const struct sonde_change_series *s, int64_t at)
{
    if (at < s->first || at > s->last || at <= s->last - CHANGE_RING) return __builtin_nan("");
    return (double)s->mean[change_slot(at)];
}

/* ---- change_model.c ---- */

/* The middle of v, which becomes sorted; 0 = there are none. */
double change_middle(double *v, size_t n);
/* The mean, without those (far_max at most) that are further than `bound` from the middle. v is
 * changed. */
double change_near_mean(double *v, size_t n, double middle, double bound, size_t far_max);

/* The mean of the window that ends at `at`, without its extremes; NaN = too few bins. */
double change_window_mean(const struct sonde_change_series *s, int64_t at);

/* What the window's mean is more than the forecast; NaN = not known. */
double change_error(const struct sonde_change_series *s, int64_t at);

/* How much the days before differ in how they moved at this time: the middle distance from their
 * middle. */
double change_spread(const struct sonde_change_series *s, int64_t at);

/* 1 if an error is undone by that of the window before it or after it. */
int change_is_excursion(double error, double beside);

/* Weights and scale from what is there. */
void change_fit_make(struct sonde_change_series *s);

#endif
