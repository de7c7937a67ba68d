/* limits.h - what the kernel and the system let perf events do, and how to say it. */
#ifndef SONDE_COLLECT_PERF_LIMITS_H
#define SONDE_COLLECT_PERF_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SONDE_PERF_CPUS_MAX 8192u

/* A number under /proc/sys/kernel, or other if it cannot be read. */
long sonde_perf_sysctl(const char *name, long other);

/* CPUs that are online, as in "0-3,8": how many, at most max. At least 1. */
uint32_t sonde_perf_cpus(int *cpus, uint32_t max);

/* The same from text, which may be anything; 0 = not understood. */
uint32_t sonde_perf_cpu_list(const char *text, size_t len, int *cpus, uint32_t max);

/* Let this process have as many files as it may; 1 if that is more than before. */
int sonde_perf_more_files(void);

/* Why perf_event_open on pid failed with this errno and what to do: returns SONDE_E…. */
int sonde_perf_explain(int error, uint32_t pid, struct sonde_err *err);

#endif
