/* perf_task.h - the processes and threads that are sampled, by number, with what must be known of
 * each: code that is mapped, name, and since when it is blocked. */
#ifndef SONDE_COLLECT_CPU_PERF_TASK_H
#define SONDE_COLLECT_CPU_PERF_TASK_H

#include "base/map.h"
#include "collect/aspace/aspace.h"
#include "collect/cpu/stack.h"
#include "collect/cpu/perf_outer.h"
#include "collect/cpu/perf_python.h"

#define SONDE_PERF_TASKS_MAX 131072u /* of each at one time; the kernel's own limit is near */

struct sonde_perf_process {
    uint32_t pid;
    uint32_t threads;          /* known ones */
    struct sonde_aspace *as;   /* owned */
    uint32_t layout;           /* number of its mappings, see stack.h */
    struct sonde_perf_python *python; /* its interpreter; owned; NULL = none is known … */
    uint32_t python_layout;    /* … as mappings were then; 0 = it was not looked for */
    struct sonde_perf_python_met python_met; /* by the last look */
    int python_due;            /* it may have an interpreter since: 0 or 1 */
    int python_added;          /* its samples have frames of Python */
    uint32_t in_exec;          /* its program was replaced, and the new one not seen to run yet */
};

/* Intervals off the CPU that are too short for a sample each. */
struct sonde_perf_off { uint64_t ns; uint32_t count; };

#define SONDE_PERF_NATIVE_MAX 192u

/* A stack as it was unwound, for Python's frames to be put into. */
struct sonde_perf_native {
    uint32_t count, kernel_count;
    uint64_t sp;
    uint64_t ips[SONDE_PERF_NATIVE_MAX], cfas[SONDE_PERF_NATIVE_MAX];
    uint64_t kernel[SONDE_PERF_NATIVE_MAX];
};

struct sonde_perf_thread {
    struct sonde_perf_thread *next; /* of those that end now */
    struct sonde_perf_process *process;
    uint32_t tid;
    uint32_t row;              /* in the profile's threads; 0 = no sample yet */
    uint32_t owner, generation; /* whose events' samples count; owner 0 = the first to come */
    char name[16];
    struct sonde_perf_words *words; /* of its stack, beyond what is copied; owned; NULL = none */
    uint64_t hole;             /* where a copy ended in its stack, filled; 0 = nowhere */

    /* Off-CPU. Short intervals are added up until they make a sample. */
    uint64_t out_ns;           /* off since, or when it was the last time */
    int blocked;               /* it is now: 0 or 1 */
    int preempted;             /* it could run, but another thread does: 0 or 1, never both */
    uint32_t switch_stack;     /* at the switch that comes next */
    uint32_t out_stack;        /* where it is blocked; 0 = not known */
    uint16_t switch_flags, out_flags;
    uint32_t looked;           /* where it is blocked was looked up from outside: 0 or 1 */
    uint64_t looked_ns;        /* when */
    struct sonde_perf_native *native; /* of out_stack, if it is Python's; owned; NULL = none */
    uint32_t python_stack;     /* out_stack with Python's frames; 0 = not known … */
    uint32_t python_looked;    /* … though it was looked for: 0 or 1 */
    uint64_t python_ns;        /* when that was over */
    struct sonde_perf_off off, runnable; /* blocked, preempted */
    uint64_t exact_ns;         /* samples of short intervals are used up to here */
};

struct sonde_perf_tasks {
    struct sonde_modules *modules;      /* owned */
    struct sonde_cpu_stacks *stacks;    /* borrowed */
    struct sonde_pointer_map processes; /* owned, as what is in it; by pid */
    struct sonde_pointer_map threads;   /* by tid */
    int python;                         /* some process is Python, and its waits are recorded */
    int python_due;                     /* sonde_perf_tasks_python has something to do */
    struct sonde_python_bpf *bpf;       /* borrowed; NULL = CPU samples come without Python */
    struct sonde_perf_python_met unread; /* the last interpreter that cannot be read … */
    uint32_t unread_pid;                /* … and whose it is, or was; 0 = there is none */
};

int sonde_perf_tasks_init(struct sonde_perf_tasks *t, struct sonde_cpu_stacks *stacks);
void sonde_perf_tasks_release(struct sonde_perf_tasks *t);

/* NULL = not known. */
struct sonde_perf_process *sonde_perf_tasks_process(const struct sonde_perf_tasks *t, uint32_t pid);
struct sonde_perf_thread *sonde_perf_tasks_thread(const struct sonde_perf_tasks *t, uint32_t tid);

/* Known from now on: an empty process (NULL: no memory), and a thread of one, or the one that is
 * known already; a tid that was another process's is that no more. name NULL = as /proc has it. */
struct sonde_perf_process *sonde_perf_tasks_add_process(struct sonde_perf_tasks *t, uint32_t pid);
struct sonde_perf_thread *sonde_perf_tasks_add_thread(struct sonde_perf_tasks *t,
                                                      struct sonde_perf_process *p, uint32_t tid,
                                                      const char *name);

/* One that runs already: its mappings and, of each thread, the name are read from /proc. */
struct sonde_perf_process *sonde_perf_tasks_find_process(struct sonde_perf_tasks *t, uint32_t pid);

/* A process that parent started. */
struct sonde_perf_process *sonde_perf_tasks_fork(struct sonde_perf_tasks *t,
                                                 const struct sonde_perf_process *parent,
                                                 uint32_t pid);

/* The process has replaced its program: of its threads only this one is left. */
void sonde_perf_tasks_exec(struct sonde_perf_tasks *t, struct sonde_perf_thread *thread);
void sonde_perf_tasks_map(struct sonde_perf_tasks *t, struct sonde_perf_process *p,
                          const struct sonde_mapping *map);

/* The process's interpreter, which is looked for again when code was mapped since. NULL = none that
 * can be read. */
struct sonde_perf_python *sonde_perf_python_of(struct sonde_perf_process *p);

/* Interpreters that may be there by now; samples of their processes have frames of Python from now
 * on, if there is a program for it. Returns 1 if some process has one. */
int sonde_perf_tasks_python(struct sonde_perf_tasks *t);

/* There is a program from now on, or none any more (NULL). */
void sonde_perf_tasks_bpf(struct sonde_perf_tasks *t, struct sonde_python_bpf *bpf);

/* Mappings may have been missed: read those of every process again. */
void sonde_perf_tasks_rescan(struct sonde_perf_tasks *t);

/* The thread has ended, and with the last one its process. */
void sonde_perf_tasks_end(struct sonde_perf_tasks *t, struct sonde_perf_thread *thread);

#endif
