/* backend.h - who reads figures of GPUs: one back-end = one .c file with its ops and one row in
 * backend_list.h. All but `present` runs in a child process that has nothing else to do (child.h),
 * so it may block, allocate, and crash; it takes no lock of the agent and does not log. */
#ifndef SONDE_COLLECT_GPU_BACKEND_H
#define SONDE_COLLECT_GPU_BACKEND_H

#include "collect/gpu/gpu.h"

struct sonde_gpu_env {
    const char *root;        /* "" = / */
    int activity;
};

/* What a back-end reads into, and what it said last time: it leaves what it does not read again. */
struct sonde_gpu_snapshot {
    struct sonde_gpu_device *device;   /* SONDE_GPU_DEVICES_MAX of them */
    uint32_t device_count;
    struct sonde_gpu_process *process; /* SONDE_GPU_PROCESSES_MAX of them */
    uint32_t process_count;
};

struct sonde_gpu_backend {
    const char *name;        /* "nvml" */
    const char *summary;     /* one line, shown by doctor */
    const char *looked_for;  /* files that `present` wants one of, for people */
    const char *instead_of;  /* not started while one of these reads, "a b"; NULL = none */
    /* In the agent, every ten seconds: a few access(). */
    int (*present)(const struct sonde_gpu_env *env);
    /* note: the library and its version; or what is wrong, and what to do about it. */
    int (*open)(const struct sonde_gpu_env *env, void **state, struct sonde_err *note);
    /* slow: also what hardly changes, or takes long to read. 0; or SONDE_ESTALE, it is to be opened
     * anew: devices came or went. */
    int (*read)(void *state, struct sonde_gpu_snapshot *s, int slow);
    void (*close)(void *state);        /* NULL is fine */
};

/* ---- What they share (figure.c) -------------------------------------------------------------- */

/* Find or add a device by its key; NULL = there are too many. */
struct sonde_gpu_device *sonde_gpu_device_of(struct sonde_gpu_snapshot *s, const char *key);
struct sonde_gpu_process *sonde_gpu_process_of(struct sonde_gpu_snapshot *s, const char *key,
                                               uint32_t instance, uint32_t pid);

/* Its name, by root/proc. */
void sonde_gpu_process_name(struct sonde_gpu_process *p, const char *root);

void sonde_gpu_set(struct sonde_gpu_device *d, enum sonde_gpu_figure f, double v);
void sonde_gpu_count(struct sonde_gpu_device *d, enum sonde_gpu_figure f, uint64_t n);
void sonde_gpu_absent(struct sonde_gpu_device *d, enum sonde_gpu_figure f,
                      enum sonde_gpu_state state, int code);

/* Copy foreign text as valid UTF-8 without control characters, cut to fit. */
void sonde_gpu_text(char *out, size_t out_size, const char *text);

/* 1 if root/path is there. */
int sonde_gpu_has(const struct sonde_gpu_env *env, const char *path);

#endif
