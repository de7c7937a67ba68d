/* cpu.h - CPU and off-CPU samples of a process into a profile, by whichever engine works here.
 *
 * perf: perf_event_open from outside, nothing in the process. Per CPU a ring of samples with user
 * registers and the top of the user stack; a thread of the agent unwinds and interns each as it
 * comes, so memory follows the number of different stacks, not of samples.
 * timer: where the kernel forbids that, libsonde_preload samples inside the process (CPU-time
 * timer per thread) and writes the unwound stacks to its segment; the same thread reads them.
 * mixed: CPU samples by timer and blocked time by perf. For Python, whose own frames are memory
 * that has changed by the time a record is read from outside: perf has them in CPU samples where
 * the kernel permits BPF (perf_python_bpf.h).
 *
 * The profile belongs to the engine from start to stop; in between sonde_cpu_snapshot copies. */
#ifndef SONDE_COLLECT_CPU_CPU_H
#define SONDE_COLLECT_CPU_CPU_H

#include "base/err.h"
#include "profile/profile.h"

#define SONDE_CPU_ENGINES(X)                                                                   \
    X(AUTO, "auto", "perf where the kernel allows it, else timer; for Python timer or mixed")  \
    X(PERF, "perf", "perf_event_open, from outside")                                           \
    X(TIMER, "timer", "a timer in the process, through libsonde_preload")                      \
    X(MIXED, "mixed", "CPU time by timer, blocked time by perf")

enum sonde_cpu_engine_kind {
#define SONDE__X(id, name, help) SONDE_CPU_##id,
    SONDE_CPU_ENGINES(SONDE__X)
#undef SONDE__X
};

struct sonde_preload_readers;
struct sonde_uprobe_returns;

struct sonde_cpu_options {
    uint32_t pid;             /* the process; required */
    double rate_hz;           /* 1 … 10,000 per thread on CPU; 0 = 1000 */
    int off_cpu;              /* also blocked time, with the stack at switch-out */
    int children;             /* also processes it starts */
    int python;               /* it runs Python, whose functions are seen from within without
                                 privileges: AUTO prefers engines that do; perf has its BPF
                                 program from the beginning */
    int blocked_only;         /* perf: no CPU samples; of mixed.c */
    int kernel;               /* also kernel frames, if permitted */
    uint32_t depth_max;       /* frames kept of a stack; 0 = 128 */
    uint32_t stack_bytes;     /* copied per sample; 0 = as the engine finds best */
    enum sonde_cpu_engine_kind engine;
    size_t profile_bytes_max; /* 0 = 256 MiB */
    const char *dir;          /* of segments, for the timer engine; NULL = the default directory */
    /* Both must outlive the engine. */
    struct sonde_preload_readers *readers; /* sonde_collector_readers; NULL = no collector */
    struct sonde_uprobe_returns *returns;  /* collect/uprobe/returns.h; NULL = no probes */
};

struct sonde_cpu;

/* Start sampling pid (existing and future threads). SONDE_EACCES, SONDE_EINVAL, SONDE_ENOENT with
 * a sentence that says what to do. To miss nothing of a new program start it stopped, or with
 * sonde_cpu_start_on_exec. */
int sonde_cpu_start(const struct sonde_cpu_options *options, struct sonde_cpu **out,
                    struct sonde_err *err);

/* The same for a child that was forked but has not yet called exec: sampling begins at exec. */
int sonde_cpu_start_on_exec(const struct sonde_cpu_options *options, struct sonde_cpu **out,
                            struct sonde_err *err);

/* After start_on_exec: what must be set in the environment of the child before it calls exec, as
 * "NAME=value" strings, each with its NUL, *size bytes in all; 0 = nothing. Lives as c. */
const char *sonde_cpu_environment(struct sonde_cpu *c, size_t *size);

#define SONDE_CPU_NOTE_MAX 256

enum { SONDE_CPU_KNOWN_MAX = 16 };

struct sonde_cpu_status {
    const char *engine;       /* "perf", "timer" */
    uint64_t samples, lost, truncated;
    double rate_hz;           /* as asked for */
    double achieved_hz;       /* per busy thread, over its CPU time */
    double cpu_s;             /* CPU time the agent spent on it */
    uint64_t unwound_frames;
    char note[SONDE_CPU_NOTE_MAX]; /* what the engine could not do, and why; "" = nothing */
    uint32_t known[SONDE_CPU_KNOWN_MAX]; /* processes that are sampled, as far as there is room;
                                            some may have ended just now */
    uint32_t known_count;
    double paused_s;          /* in which no samples were taken, in all: sonde_cpu_pause */
};
void sonde_cpu_status(struct sonde_cpu *c, struct sonde_cpu_status *out);

/* A copy of what there is since start, or since from_ns (unix time). Not symbolized. */
int sonde_cpu_snapshot(struct sonde_cpu *c, uint64_t from_ns, struct sonde_profile **out);

/* How far somebody has read; all zero = nothing yet. */
struct sonde_cpu_cursor {
    uint64_t samples, lost, dropped; /* of all there ever were */
    uint64_t time_ns;                /* unix time of the last look */
};

/* A copy of what came since the cursor, which is moved on. Blocked time is there once it has ended.
 * forget: c does not keep it, nor anything before it, so that c can go on for days. Not symbolized.
 * out NULL: only the cursor is moved. SONDE_ENOMEM: the cursor stays, and nothing is forgotten. */
int sonde_cpu_since(struct sonde_cpu *c, struct sonde_cpu_cursor *cursor, int forget,
                    struct sonde_profile **out);

/* Take no samples from now on (paused 1), or take them again (0); has returned when it is so. CPU
 * time that is used meanwhile is made up for by the weights of samples that come after, so totals
 * stay right. SONDE_EOFF: this engine cannot, and why; SONDE_EBUSY: it has just begun. */
int sonde_cpu_pause(struct sonde_cpu *c, int paused, struct sonde_err *err);

/* Stop, drain, and hand over the profile (not symbolized). The engine is gone after this. */
int sonde_cpu_stop(struct sonde_cpu *c, struct sonde_profile **out);

/* The same, and the figures of the end. */
int sonde_cpu_stop_status(struct sonde_cpu *c, struct sonde_profile **out,
                          struct sonde_cpu_status *status);

/* For doctor: 0 and which engine would be used and why, or what forbids all of them. */
int sonde_cpu_check(struct sonde_err *note);

#endif
