/* machine.h - private to result.c: the machine when a benchmark begins, and what changed at its
 * end. */
#ifndef SONDE_BENCH_MACHINE_H
#define SONDE_BENCH_MACHINE_H

#include "bench/result.h"

void bench_machine_begin(struct sonde_bench_machine *m);
void bench_machine_end(struct sonde_bench_machine *m);

#endif
