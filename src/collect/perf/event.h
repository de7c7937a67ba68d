/* event.h - the events that are opened on a process: for every thread and CPU
 *
 *   track   a dummy event that carries what must never be lost: mappings, names, threads that
 *           begin and end, switches. Into a ring of its own, so that no flood of stacks can push
 *           it out.
 *   clock   the sampling event: CPU cycles where there is a counter, else cpu-clock.
 *   switch  with off-CPU: the stack at a switch, by a software event that counts switches. Not
 *           where the kernel may not be seen.
 *
 * and two rings for every CPU, which the agent's own process holds, so that they outlive any
 * thread. The kernel maps no ring for an event that is inherited over all CPUs, hence per CPU.
 * Threads to come inherit the events of the thread that makes them; those that are there already
 * get their own. A thread that begins while others are opened may have both: samples carry the id
 * of the event that was opened, and the reader takes those of one owner for each thread only.
 *
 * A thread's first sample comes when it has used a whole period on one CPU: an inherited event
 * begins with a whole one, which cannot be made random. So the last part of a period that a thread
 * uses is never sampled, and of one that ends before its first nothing is. Where many end, and the
 * kernel permits it (root, CAP_PERFMON), clock events of whole CPUs take over ("wide"): they go on
 * from one thread to the next. Samples of others come with them, and are thrown away by the reader.
 * A counter on each thread then tells the CPU time. Rejected: wide from the beginning, which on a
 * large machine copies the stacks of everything that runs there for one program that may have a
 * single thread.
 *
 * How much of the stack is copied cannot be changed in an open event: to have more or less of it,
 * clock and switch events of a new generation are opened beside the old ones, which are then
 * closed; the reader follows the newest, so that nothing is missed nor counted twice. The same when
 * they are to run a BPF program: threads that are there already would not inherit it. */
#ifndef SONDE_COLLECT_PERF_EVENT_H
#define SONDE_COLLECT_PERF_EVENT_H

#include "base/err.h"
#include "base/map.h"
#include "collect/perf/ring.h"

#define SONDE_PERF_STACK_MAX 65528u /* the kernel's limit: 16 bits, whole words */
#define SONDE_PERF_STACK_USUAL 16384u /* enough for nearly all programs */
#define SONDE_PERF_STACK_STEP 4096u /* sizes to choose from are multiples of it */
#define SONDE_PERF_STACK_STEPS (SONDE_PERF_STACK_MAX / SONDE_PERF_STACK_STEP + 1)

enum sonde_perf_kind {
    SONDE_PERF_TRACK, SONDE_PERF_CLOCK, SONDE_PERF_SWITCH, SONDE_PERF_COUNT,
    SONDE_PERF_OUTPUT          /* of a BPF program on clock events; of CPUs */
};
#define SONDE_PERF_WIDE UINT32_MAX /* the owner of events of whole CPUs */

struct sonde_perf_options {
    uint32_t pid;
    double rate_hz;
    uint32_t stack_bytes;      /* copied; 0 = as much as there is room for */
    uint32_t switch_bytes;     /* the same at switches, which may come in floods; set by init */
    int callchain;             /* kernel frames */
    int switches;              /* off-CPU */
    int no_clock;              /* CPU time is counted, not sampled */
    int children;
    int on_exec;               /* everything begins with the process's next exec */
};

/* What the kernel takes, found by trying. */
struct sonde_perf_plan {
    int hardware;              /* cycles, at a frequency the kernel keeps; else cpu-clock */
    int exclude_kernel;        /* time in the kernel may not be seen */
    int threads_only;          /* the kernel can tell threads from processes (5.13) */
};

struct sonde_perf_event {
    uint64_t id;
    uint32_t owner;            /* the thread it was opened for */
    uint32_t generation;
    int fd;                    /* -1 = closed */
    uint16_t cpu;              /* index */
    uint16_t kind;             /* enum sonde_perf_kind */
};

struct sonde_perf_set {
    struct sonde_perf_options options;
    struct sonde_perf_plan plan;
    int *cpus;
    uint32_t cpu_count;
    struct sonde_perf_ring *rings; /* cpu_count of track, then as many of samples */
    struct sonde_perf_event *events;
    uint32_t event_count, event_cap;
    struct sonde_map by_id;     /* event ids to index in events + 1 */
    uint32_t generation;
    int wide;                      /* clock events are of CPUs */
    uint64_t closed_count, closed_ns; /* of clock events that are closed */
    int program;                   /* BPF, on clock events; borrowed; 0 = none */
};

/* The system call: a descriptor, or -1 and errno. pid -1 = whatever runs on cpu. */
int sonde_perf_open(const struct perf_event_attr *attr, int pid, int cpu);

/* A ring of this process on one CPU, for others' events to be put out to; whoever polls it is woken
 * when a quarter is full. Errors as sonde_perf_ring_map. */
int sonde_perf_ring_open(struct sonde_perf_ring *r, int cpu, size_t bytes);

/* Which of the plans works for pid: 0, or SONDE_E… and why none does. */
int sonde_perf_plan(const struct sonde_perf_options *options, struct sonde_perf_plan *out,
                    struct sonde_err *err);

/* Plan and rings; no events yet. options are copied, stack_bytes is resolved in the set. */
int sonde_perf_set_init(struct sonde_perf_set *s, const struct sonde_perf_options *options,
                        struct sonde_err *err);
void sonde_perf_set_release(struct sonde_perf_set *s); /* one that is all zero is fine */

/* Events on all threads that pid has now. SONDE_ENOENT: it is gone. */
int sonde_perf_set_open(struct sonde_perf_set *s, uint32_t pid, struct sonde_err *err);

/* Clock and switch events on a process that may have some already, as after a resize. */
int sonde_perf_set_add(struct sonde_perf_set *s, uint32_t pid, struct sonde_err *err);

/* Clock events that are opened from now on, and those of CPUs, run this BPF program (borrowed), and
 * events of SONDE_PERF_OUTPUT are there, one for each CPU, by which it puts records into the rings
 * of samples (record.h). SONDE_EACCES: it may not, and no event has it. */
int sonde_perf_set_program(struct sonde_perf_set *s, int program, struct sonde_err *err);

/* How much of the stack the rings have room for at this rate. */
uint32_t sonde_perf_set_stack_max(const struct sonde_perf_set *s);

/* Copy as much of the stack from now on, at switches too; pids: every process that is sampled.
 * After a failure everything is as before. */
int sonde_perf_set_resize(struct sonde_perf_set *s, uint32_t stack_bytes, const uint32_t *pids,
                          uint32_t count, struct sonde_err *err);

/* Clock events of CPUs instead of threads from now on; pids as above. SONDE_EACCES: not permitted,
 * and everything is as before. */
int sonde_perf_set_widen(struct sonde_perf_set *s, uint32_t stack_bytes, const uint32_t *pids,
                         uint32_t count, struct sonde_err *err);

/* The event a record is from; NULL = none of ours. */
const struct sonde_perf_event *sonde_perf_set_find(const struct sonde_perf_set *s, uint64_t id);

void sonde_perf_set_disable(struct sonde_perf_set *s);

/* Only clock events, which samples come of: off, or on again. Threads that begin meanwhile inherit
 * them as they are. */
void sonde_perf_set_pause(struct sonde_perf_set *s, int paused);

/* What the clock events have counted (cycles or ns) and the CPU time they were on, in all. Wide:
 * only the CPU time goes on. */
void sonde_perf_set_read(struct sonde_perf_set *s, uint64_t *count, uint64_t *ns);

#endif
