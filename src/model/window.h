/* window.h - statistics of one series over the last seconds, from the model's history. Pure:
 * looks at the series, writes the result, keeps nothing. */
#ifndef SONDE_MODEL_WINDOW_H
#define SONDE_MODEL_WINDOW_H

#include "model/model.h"

enum sonde_trend { SONDE_TREND_UNKNOWN, SONDE_TREND_FLAT, SONDE_TREND_UP, SONDE_TREND_DOWN };

/* NaN = cannot be known (too little data, or it makes no sense for the type).
 * Counters: figures of the increase per second, tick by tick; count = ticks; total = increase.
 * Gauges: figures of the values seen at ticks; total is their sum, rate makes no sense.
 * Histograms: figures of the recorded values, <= 1 % off; count, total and avg are exact. The
 * trend is that of the ticks' averages. stddev is that of a sample (n - 1). */
struct sonde_window {
    double seconds;               /* really covered */
    double count, total, avg, min, max, stddev, last;
    double p50, p90, p95, p99;    /* median is p50 */
    double rate;                  /* per second: increase, or records for histograms */
    double trend_per_s;           /* slope of a least-squares line through the ticks */
    enum sonde_trend trend;       /* FLAT unless the slope is beyond 2 standard errors; UNKNOWN
                                     with fewer than SONDE_TREND_TICKS ticks */
};
#define SONDE_TREND_TICKS 8       /* with fewer, 2 standard errors say little */

void sonde_window_stats(const struct sonde_model *m, const struct sonde_model_series *s,
                        double window_s, struct sonde_window *out);
/* Without the ticks before number `tick` of the model; a histogram has 0 values before the
 * first. */
void sonde_window_stats_since(const struct sonde_model *m, const struct sonde_model_series *s,
                              double window_s, uint64_t tick, struct sonde_window *out);

/* Of the ticks that ended from from_s until before to_s (unix time), as far as history goes
 * back. */
void sonde_window_between(const struct sonde_model *m, const struct sonde_model_series *s,
                          double from_s, double to_s, struct sonde_window *out);

/* Quantile q in [0,1] of exponential buckets: sonde__hist_middle of the bucket in which the value
 * of that rank lies, so it is within 0.54 % of a recorded value whatever the data. 0 when it lies
 * among the zeros; NaN if there is nothing. */
double sonde_quantile(double q, uint64_t zero, const uint64_t *const octave[SONDE__HIST_OCTAVES],
                      double scale);

const char *sonde_trend_name(enum sonde_trend t); /* NULL for UNKNOWN */

#endif
