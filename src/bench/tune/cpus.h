/* cpus.h - CPUs to pin to: lists as the kernel writes them, but with '+' for its comma ("0-3+8"),
 * since commas separate levels. */
#ifndef SONDE_BENCH_TUNE_CPUS_H
#define SONDE_BENCH_TUNE_CPUS_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

/* CPUs that we may run on. */
uint32_t sonde_tune_cpus(void);

/* SONDE_EINVAL: it is not a list, or one of CPUs that cannot be. */
int sonde_tune_cpus_parse(const char *text, cpu_set_t *out);

/* One CPU of each core, where cores have several; those of the first NUMA node, where there are
 * several. 0 = there is no such choice, or it does not fit. */
int sonde_tune_cpus_cores(char *out, size_t size);
int sonde_tune_cpus_node(char *out, size_t size);

#endif
