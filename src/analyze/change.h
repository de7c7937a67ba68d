/* change.h - change points of one series, found while it is recorded.
 *
 * Points become bins of five minutes. At the end of each bin the mean of the last 50 minutes (the
 * two lowest and two highest bins left out) is compared with a forecast made from what came before
 * them: the level of the 50 minutes before, how the level moved in the hours before that, and how
 * it moved at the same time of the days before. The weights of these are fitted to the series' own
 * last week, and so is the scale of the forecast's error. Autocorrelation, daily rhythm and
 * restarts are therefore part of the scale rather than of the alarm: a series that wanders needs a
 * larger change than one that does not. No normal theory is involved; the error of forecasts is
 * measured.
 *
 * A change is reported when
 *   - the error is more than `threshold` scales, and larger than every error of the week before;
 *     somewhat fewer scales will do where forecasts were never far off, and two or three times as
 *     many are needed in the first days;
 *   - it is more than the days before differ in what they did at this time;
 *   - it holds in each third of the 50 minutes, in its own direction (a spike does not), and is not
 *     the end of an excursion;
 *   - it is at least min_relative of the level;
 *   - of a series with zeros, it leads to where the series has not been in the days before.
 * Nothing is reported before a day of bins is there: nobody knows the rhythm of a series before.
 *
 * A reported change is taken into the level, so that a return to the old level is a change of the
 * same size with the other sign, and is reported as "went away". A series that keeps on changing
 * needs more each time.
 *
 * Bins are compared as logarithms until the series has a value of 0 or below.
 *
 * Rejected: CUSUM and GLR of whitened residuals (no better than means where the noise is
 * short-range, and far off their nominal level where it is not), E-divisive in windows (it tests
 * whether neighbours differ, and with autocorrelation they always do; perf/changes.c has both). */
#ifndef SONDE_ANALYZE_CHANGE_H
#define SONDE_ANALYZE_CHANGE_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_CHANGE_BIN_S 300.0
#define SONDE_CHANGE_DAYS 8          /* of bins that are kept: 18 KiB in all */

struct sonde_change_options {
    double threshold;                /* scales of the forecast's error; 0 = 6.5 */
    double min_relative;             /* of the level; 0 = 0.01 */
    double warmup_s;                 /* left out after a restart; 0 = 600 */
};

enum sonde_change_state { SONDE_CHANGE_OPEN, SONDE_CHANGE_WENT_AWAY };

const char *sonde_change_state_name(enum sonde_change_state state); /* "open", "went_away" */

struct sonde_change {
    double time_s, time_low_s, time_high_s;   /* unix: when, and where it may have been */
    double found_s;                           /* the end of the bin that showed it */
    double before, after;                     /* the level to be expected, and the one that is */
    double absolute, absolute_low, absolute_high;  /* after - before, 95 % */
    double relative, relative_low, relative_high;  /* of before; NaN: before is 0 */
    double scales;                            /* |error| by the scale of errors */
    double n_eff;                             /* independent values that the 50 minutes amount to */
    double confidence;                        /* 0 to 1 */
    enum sonde_change_state state;
    double until_s;                           /* when it went away; 0 = it has not */
};

struct sonde_change_series;

/* options: copied; NULL = defaults. SONDE_ENOMEM. */
int sonde_change_create(const struct sonde_change_options *options,
                        struct sonde_change_series **out);
void sonde_change_destroy(struct sonde_change_series *s); /* NULL is fine */

enum sonde_change_event {
    SONDE_CHANGE_NONE,
    SONDE_CHANGE_FOUND,
    SONDE_CHANGE_RETURNED            /* one that was found before went away: see its time_s */
};

/* A value that the series had for `seconds` from time_s on. Times ascend; one that does not is
 * left out, as is NaN. Values after a hole of more than SONDE_CHANGE_DAYS begin anew. *out is
 * written unless NONE. */
enum sonde_change_event sonde_change_add(struct sonde_change_series *s, double time_s,
                                         double seconds, double value, struct sonde_change *out);

/* The process was restarted: values of the next warmup_s are left out. */
void sonde_change_restart(struct sonde_change_series *s, double time_s);

/* How many bins there are, and the smallest relative change that would be found now; NaN = not
 * known yet. */
size_t sonde_change_bins(const struct sonde_change_series *s);
double sonde_change_smallest(const struct sonde_change_series *s);

#endif
