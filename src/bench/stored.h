/* stored.h - results as series of a store, so that history and `sonde regressions` see them: one
 * point for each figure, at the time of the benchmark, in the gauges
 *
 *   sonde_bench_seconds, _bytes, _per_second, _bytes_per_second, _ratio, _value
 *
 * by the figure's unit, labelled bench="NAME" and figure="ttft_s.p50". */
#ifndef SONDE_BENCH_STORED_H
#define SONDE_BENCH_STORED_H

#include "base/err.h"
#include "bench/result.h"

/* path: a store, which is made if it is not there. SONDE_EBUSY: an agent writes it. SONDE_EINVAL:
 * there is another kind of file, or the result has no figures. */
int sonde_bench_series_append(const char *path, const struct sonde_bench_result *r,
                              struct sonde_err *err);

#endif
