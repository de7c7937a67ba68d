/* correlate.h - which series move together: a target (tokens per second, requests per second)
 * against many others (CPU, memory, queue, batch size …), with the lag between them, and how sure
 * that is. Pure: it is handed values at equal steps.
 *
 * Neighbouring values of a series are alike, so 600 points are not 600 observations, and two series
 * that drift correlate though neither knows of the other (Yule 1926; Granger and Newbold 1974).
 * Three views of a pair keep that apart:
 *
 *   innovation  What is new in each value: each series is reduced to what an autoregressive model
 *               of itself (Burg, order by AIC; of its differences if it drifts) cannot predict.
 *               Such residuals are white, so the correlation of two series that are independent has
 *               variance 1/n at every lag (Haugh 1976). This is the test, and alone decides. Values
 *               beyond three robust standard deviations are drawn in to there, so that one spike in
 *               both is not a correlation. The p-value of the best lag is that of the best of all
 *               lags looked at (Šidák), and the pairs share one false discovery rate (stats.h).
 *   level       The series as they are, at that lag: what people mean by correlation. Its interval
 *               counts n / (1 + 2 Σ ρx(k) ρy(k)) observations (Bartlett 1935; Quenouille 1947).
 *   change      Their first differences, alike. A common trend shows in levels, but not here.
 *
 * A lag is positive where the other series moves first and the target follows. */
#ifndef SONDE_ANALYZE_CORRELATE_H
#define SONDE_ANALYZE_CORRELATE_H

#include <stddef.h>
#include <stdint.h>

struct sonde_correlate_series {
    const char *name, *labels, *program; /* of the series; borrowed, "" = none */
    const char *figure;        /* what of it: "rate", "value", "mean" */
    uint32_t pid;
    const double *values;      /* one per step; NaN = not known */
};

enum {
    SONDE_CORRELATE_POINTS_MIN = 30,   /* pairs of values; nothing is said of fewer */
    SONDE_CORRELATE_POINTS_MAX = 4096,
    SONDE_CORRELATE_LAG_DEFAULT = 10,  /* steps */
};

struct sonde_correlate_options {
    uint32_t lag_max;          /* steps either way; 0 = the default; at most an eighth of the
                                  points */
    double level;              /* false discovery rate; 0 = 0.05 */
    size_t rows_max;           /* pairs to tell of, the strongest; 0 = 50 */
};

/* Names are for programs: append only. */
#define SONDE_CORRELATE_VERDICTS(X)                                                            \
    X(CORRELATED, "correlated")  /* what is new in one comes with what is new in the other */  \
    X(LEVELS, "levels_only")     /* levels go together, as those of all that drifts or has a   \
                                    few large values may do */                                 \
    X(NONE, "not_shown")                                                                       \
    X(UNKNOWN, "not_known")      /* too little data, or it does not vary */

enum sonde_correlate_verdict {
#define SONDE__X(id, name) SONDE_CORRELATE_##id,
    SONDE_CORRELATE_VERDICTS(SONDE__X)
#undef SONDE__X
};
const char *sonde_correlate_verdict_name(enum sonde_correlate_verdict v);

/* NaN = not known. Intervals are of 95 %, p-values two-sided; neither allows for the choice of the
 * lag. */
struct sonde_correlate_view {
    double n_effective;        /* observations that the points are worth */
    double pearson, pearson_low, pearson_high, pearson_p;
    double spearman, spearman_low, spearman_high, spearman_p;
};

struct sonde_correlation {
    uint32_t target, other;    /* indexes of what was handed in */
    enum sonde_correlate_verdict verdict;
    const char *reason;        /* UNKNOWN: why; else "" */
    int lag;                   /* steps */
    uint32_t points;           /* pairs of values at that lag */
    struct sonde_correlate_view level, change;
    double innovation;         /* correlation of what is new, at the lag */
    double p;                  /* of that, over all lags looked at */
    double p_adjusted;         /* over all pairs, too */
};

enum { SONDE_CORRELATE_REASONS_MAX = 8 };

struct sonde_correlations {
    struct sonde_correlation *rows; /* owned; by verdict, the strongest first */
    size_t count;
    size_t pairs;              /* that were looked at, and adjusted for */
    uint32_t points;           /* steps handed in */
    uint32_t lag_max;          /* steps, as it was used */
    double level;
    size_t verdicts[4];        /* how many pairs of each */
    struct sonde_correlate_reason { const char *text; size_t count; }
        reasons[SONDE_CORRELATE_REASONS_MAX]; /* why pairs are UNKNOWN; text NULL ends it */
};

/* Each target against each other series, `points` values each. A pair of the same values array is
 * left out. 0, SONDE_EINVAL (points over the maximum) or SONDE_ENOMEM. */
int sonde_correlate(const struct sonde_correlate_series *targets, size_t target_count,
                    const struct sonde_correlate_series *others, size_t other_count,
                    size_t points, const struct sonde_correlate_options *o,
                    struct sonde_correlations *out);
void sonde_correlations_release(struct sonde_correlations *c);

#endif
