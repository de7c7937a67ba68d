/* perf_python_stack.h - the stack that a thread of a Python program is blocked in, with frames of
 * Python in it: native frames are those of the record at the switch, Python's are read when all
 * records have been (perf_python.h). */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_STACK_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_STACK_H

#include "collect/cpu/perf_task.h"
#include "collect/cpu/stack.h"

/* A stack was unwound of t, which may be about to block: kept if its process is Python. kernel:
 * frames of the kernel on top of it. */
void sonde_perf_python_keep(struct sonde_perf_thread *t, uint64_t sp, const uint64_t *ips,
                            const uint64_t *cfas, size_t count, const uint64_t *kernel,
                            size_t kernel_count);

/* Read Python's frames of t, which is blocked, and put them in the stack that was kept:
 * t->python_stack and t->python_ns. */
void sonde_perf_python_look(struct sonde_perf_thread *t, struct sonde_cpu_stacks *stacks,
                            struct sonde_profile *p);

#endif
