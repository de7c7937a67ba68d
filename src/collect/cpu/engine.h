/* engine.h - what an engine of cpu.h is: one .c file and one row in engine_list.h.
 *
 * cpu.c owns the profile and the reading thread; an engine only turns what it gets from the kernel
 * or the process into samples of that profile. All calls but check, start, environment and destroy
 * come from the reading thread, so an engine needs no lock. */
#ifndef SONDE_COLLECT_CPU_ENGINE_H
#define SONDE_COLLECT_CPU_ENGINE_H

#include "collect/cpu/cpu.h"

struct sonde_cpu_engine;   /* an engine's own state */

/* Figures an engine keeps; the status of cpu.h is made of them. */
struct sonde_cpu_counts {
    uint64_t samples;          /* CPU samples, with what each stands for */
    uint64_t lost;             /* records the kernel or a ring had no room for */
    uint64_t truncated;
    uint64_t mended;           /* whole, but outer frames were read later than the rest */
    uint64_t unwound_frames;
    uint64_t cpu_ns;           /* CPU time of the sampled threads while they were sampled */
    const char *note;          /* as in the status; NULL = nothing */
    uint32_t known[SONDE_CPU_KNOWN_MAX]; /* alike */
    uint32_t known_count;
};

struct sonde_cpu_engine_ops {
    enum sonde_cpu_engine_kind kind; /* its name is in SONDE_CPU_ENGINES */

    /* 0 and a sentence on what it can do here, or SONDE_E… and what forbids it. */
    int (*check)(struct sonde_err *note);

    /* options are complete: no zeros that mean a default but stack_bytes. on_exec: sampling begins
     * when the process calls exec. p is borrowed until stop. SONDE_EACCES and SONDE_EOFF let AUTO
     * go on to the next engine. */
    int (*start)(const struct sonde_cpu_options *options, int on_exec, struct sonde_profile *p,
                 struct sonde_cpu_engine **out, struct sonde_err *err);

    /* As sonde_cpu_environment; NULL: it needs nothing of the kind. */
    const char *(*environment)(const struct sonde_cpu_engine *e, size_t *size);

    /* Returns when there is something to drain, when wake_fd is readable, or after a while. */
    void (*wait)(struct sonde_cpu_engine *e, int wake_fd);

    /* What has come so far, into the profile. last: sampling ends now, nothing may be left. */
    void (*drain)(struct sonde_cpu_engine *e, int last);

    /* Samples of what has not ended yet, up to now, are appended to the profile; the caller copies
     * it and takes them off again. */
    void (*blocked_flush)(struct sonde_cpu_engine *e);

    /* The profile has forgotten all rows: ids that were kept of it are void. */
    void (*forget)(struct sonde_cpu_engine *e);

    /* All samples of the profile have been taken away. NULL: it does not matter. */
    void (*emptied)(struct sonde_cpu_engine *e);

    /* No sample is taken any more, until it is called with 0. Mappings, names and threads are still
     * followed, and what a process uses meanwhile is made up for by the weights of later samples.
     * SONDE_EOFF: it cannot be, and why; SONDE_EBUSY: not yet. NULL: it cannot be. */
    int (*pause)(struct sonde_cpu_engine *e, int paused, struct sonde_err *err);

    /* Also before each copy: what is in the profile now is final. */
    void (*counts)(struct sonde_cpu_engine *e, struct sonde_cpu_counts *out);
    void (*destroy)(struct sonde_cpu_engine *e);
};

#define SONDE_CPU_ENGINE(id) extern const struct sonde_cpu_engine_ops sonde_cpu_engine_##id;
#include "collect/cpu/engine_list.h"
#undef SONDE_CPU_ENGINE

#endif
