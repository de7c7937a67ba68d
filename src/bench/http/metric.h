/* metric.h - one kind of time that was measured many times: percentiles with intervals.
 *
 * What counts as independent is not a request but a sub-window of the run (analyze/stats.h says
 * why): the interval of a percentile comes from how its share of values differs between
 * sub-windows. A percentile is not given where its upper 95 % limit could not be among the values
 * even if all were independent: 1 - q^n < 0.975, so below 6 values for p50, 36, 72, 368 and 3,688
 * for p90, p95, p99, p99.9. */
#ifndef SONDE_BENCH_HTTP_METRIC_H
#define SONDE_BENCH_HTTP_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/stats.h"
#include "bench/http/load.h"

#define SONDE_LOAD_QUANTILES(X) \
    X(P50, "p50", 0.5) X(P90, "p90", 0.9) X(P95, "p95", 0.95) X(P99, "p99", 0.99) \
    X(P99_9, "p99.9", 0.999)
enum sonde_load_quantile_id {
#define SONDE__X(id, name, q) SONDE_LOAD_##id,
    SONDE_LOAD_QUANTILES(SONDE__X)
#undef SONDE__X
    SONDE_LOAD_QUANTILE_COUNT
};
const char *sonde_load_quantile_name(enum sonde_load_quantile_id id);
double sonde_load_quantile_q(enum sonde_load_quantile_id id);
/* Values below which it is not given. */
uint64_t sonde_load_quantile_least(enum sonde_load_quantile_id id);

#define SONDE_LOAD_PARTS_MAX 30u

struct sonde_load_quantile {
    double value;            /* NaN = there are too few values */
    double low, high;        /* 95 % interval; NaN = not known */
    double parts[SONDE_LOAD_PARTS_MAX]; /* of each sub-window; NaN = too few values in it */
};

struct sonde_load_metric {
    uint64_t count;
    double mean, mean_low, mean_high, min, max; /* NaN = no values */
    double mean_parts[SONDE_LOAD_PARTS_MAX];
    size_t part_count;
    struct sonde_load_quantile q[SONDE_LOAD_QUANTILE_COUNT];
};

/* Of values, which are sorted here, of part_count sub-windows.
 * 0 or SONDE_ENOMEM. */
int sonde_load_metric_of(struct sonde_observed *v, size_t count, size_t part_count,
                         struct sonde_load_metric *out);

/* Of gaps counted in buckets, of windows first … end of them, in parts of neighbouring windows. */
int sonde_load_metric_of_gaps(const struct sonde_load_gaps *g, size_t first, size_t end,
                              struct sonde_load_metric *out);

#endif
