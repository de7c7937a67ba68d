/* window.h - statistics of one series over the last seconds, from the model's history. Pure:
 * looks at the series, writes the result, keeps nothing. */
#ifndef SONDE_ANALYZE_WINDOW_H
#define SONDE_ANALYZE_WINDOW_H

#include "collect/model.h"

enum sonde_trend { SONDE_TREND_UNKNOWN, SONDE_TREND_FLAT, SONDE_TREND_UP, SONDE_TREND_DOWN };

/* NaN = cannot be known (too little data, or it makes no sense for the type).
 * Counters: figures of the increase per second, tick by tick; count = ticks; total = increase.
 * Gauges: figures of the values seen at ticks. Histograms: figures of the recorded values,
 * <= 1 % off. */
struct sonde_window {
    double seconds;               /* really covered */
    double count, total, avg, min, max, stddev, last;
    double p50, p90, p95, p99;    /* median is p50 */
    double rate;                  /* per second: increase, or records for histograms */
    double trend_per_s;           /* slope of a least-squares line through the ticks */
    enum sonde_trend trend;       /* FLAT unless the slope is beyond 2 standard errors */
};

void sonde_window_stats(const struct sonde_model *m, const struct sonde_model_series *s,
                        double window_s, struct sonde_window *out);

/* Quantile q in [0,1] of exponential buckets: n(p, arg) counts bucket p. Interpolates inside
 * the bucket the way Prometheus does for native histograms (exponentially). NaN if empty. */
double sonde_quantile(double q, uint64_t zero, const uint64_t *const octave[SONDE__HIST_OCTAVES]);

const char *sonde_trend_name(enum sonde_trend t); /* NULL for UNKNOWN */

#endif
