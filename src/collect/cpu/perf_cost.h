/* perf_cost.h - what one sample of the perf engine costs the thread that is sampled, here and
 * now. */
#ifndef SONDE_COLLECT_CPU_PERF_COST_H
#define SONDE_COLLECT_CPU_PERF_COST_H

#include "base/err.h"

/* Measure it on the calling thread, which is kept busy for some hundredths of a second: it reads
 * the clock as fast as it can while it is sampled, and the gap around a sample's time is what that
 * sample took. The median of them, in nanoseconds. SONDE_EACCES and such as collect/perf/limits.h
 * explains; SONDE_EBUSY: too few were seen, the machine has other things to do. */
int sonde_perf_cost(double *out_ns, struct sonde_err *err);

#endif
