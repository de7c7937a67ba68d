/* probe.h - a source of figures that the agent reads by itself, once a tick: /proc, and GPUs
 * (collect/gpu/). One probe = one .c file + one row in probe_list.h. */
#ifndef SONDE_COLLECT_PROC_PROBE_H
#define SONDE_COLLECT_PROC_PROBE_H

#include "base/err.h"
#include "model/model.h"

struct sonde_gpu;

struct sonde_probe_env {
    struct sonde_model *model;      /* of read: it asserts the write lock */
    const char *proc_root;          /* "/proc"; tests point it elsewhere */
    const char *sys_root;           /* "/sys" */
    double now_s;                   /* unix time */
    struct sonde_gpu *gpu;          /* the monitor of GPUs; NULL = they are not read */
};

struct sonde_probe_ops {
    const char *name;               /* "host", "process" */
    const char *summary;            /* one line, shown by help and doctor */
    int (*open)(const struct sonde_probe_env *env, void **state, struct sonde_err *err);
    /* Put current figures into the model. For per-process probes: of every running
     * model->processes[i]. */
    void (*read)(void *state, const struct sonde_probe_env *env);
    /* 0 and a line on what works in note, or SONDE_E… and what to do about it. */
    int (*check)(const struct sonde_probe_env *env, struct sonde_err *note);
    void (*close)(void *state);     /* NULL is fine */
};

#endif
