/* perf_python_stack.h - stacks with frames of Python in them: native frames are those of a record,
 * Python's came with it (perf_python_bpf.h), or, of a thread that is blocked, are read when all
 * records have been (perf_python.h). */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_STACK_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_STACK_H

#include "collect/cpu/perf_python_sample.h"
#include "collect/cpu/perf_task.h"
#include "collect/cpu/stack.h"

struct sonde_perf_python_mix;  /* room to put them together */

/* NULL: no memory. */
struct sonde_perf_python_mix *sonde_perf_python_mix_create(void);
void sonde_perf_python_mix_destroy(struct sonde_perf_python_mix *m); /* NULL is fine */

/* A stack was unwound of t, which may be about to block: kept if its process is Python. kernel:
 * frames of the kernel on top of it. */
void sonde_perf_python_keep(struct sonde_perf_thread *t, uint64_t sp, const uint64_t *ips,
                            const uint64_t *cfas, size_t count, const uint64_t *kernel,
                            size_t kernel_count);

/* Read Python's frames of t, which is blocked, and put them in the stack that was kept:
 * t->python_stack and t->python_ns. */
void sonde_perf_python_look(struct sonde_perf_python_mix *m, struct sonde_perf_thread *t,
                            struct sonde_cpu_stacks *stacks, struct sonde_profile *p);

/* The stack of these native frames, innermost first, with the sample's frames in it: as
 * sonde_cpu_stacks_add. *missing: frames of Python that are not in it, or have no name. */
uint32_t sonde_perf_python_stack(struct sonde_perf_python_mix *m,
                                 const struct sonde_perf_process *process,
                                 const struct sonde_perf_python_sample *s, uint64_t sp,
                                 const uint64_t *ips, const uint64_t *cfas, size_t count,
                                 struct sonde_cpu_stacks *stacks, struct sonde_profile *p,
                                 uint32_t *missing);

#endif
