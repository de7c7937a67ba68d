/* gpus.h - what GPUs did over a recording, or a part of it, from the series of devices that are
 * kept with it (collect/gpu/, profile/track.h): the least, the mean by time and the most of each
 * figure, energy in all, and what processes used of them. Pure. */
#ifndef SONDE_ANALYZE_GPUS_H
#define SONDE_ANALYZE_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/system.h"

/* id, key in JSON and CSV, title, unit as units.h names them, family and a label of it or NULL. */
#define SONDE_GPUS_FIGURES(X)                                                                  \
    X(BUSY, "utilization_ratio", "BUSY", "ratio", "sonde_gpu_utilization_ratio", NULL)         \
    X(SM, "sm_activity_ratio", "SM", "ratio", "sonde_gpu_sm_activity_ratio", NULL)             \
    X(MEMORY, "memory_used_bytes", "MEMORY", "bytes", "sonde_gpu_memory_used_bytes", NULL)     \
    X(POWER, "power_watts", "WATTS", "", "sonde_gpu_power_watts", NULL)                        \
    X(TEMPERATURE, "temperature_celsius", "°C", "", "sonde_gpu_temperature_celsius",           \
      "sensor=\"core\"")                                                                       \
    X(CLOCK, "clock_hertz", "CLOCK", "", "sonde_gpu_clock_hertz", "domain=\"graphics\"")       \
    X(BY_POWER, "throttled_power_ratio", "BY POWER", "ratio", "sonde_gpu_throttled_ratio",     \
      "reason=\"power\"")                                                                      \
    X(BY_HEAT, "throttled_thermal_ratio", "BY HEAT", "ratio", "sonde_gpu_throttled_ratio",     \
      "reason=\"thermal\"")

enum sonde_gpus_figure {
#define SONDE__X(id, key, title, unit, family, label) SONDE_GPUS_##id,
    SONDE_GPUS_FIGURES(SONDE__X)
#undef SONDE__X
    SONDE_GPUS_FIGURE_COUNT
};
extern const struct sonde_system_name sonde_gpus_names[SONDE_GPUS_FIGURE_COUNT];

struct sonde_gpus_one {
    uint32_t gpu;
    char name[96], uuid[96];     /* "" = not known */
    struct sonde_system_figure figures[SONDE_GPUS_FIGURE_COUNT];
    double memory_bytes;         /* it has; NaN = not known, as below */
    double joules;               /* used in the time */
};

struct sonde_gpus_process {
    uint32_t gpu, pid;
    const char *program;         /* of the tracks */
    double memory_max_bytes, utilization; /* NaN = not known */
};

enum { SONDE_GPUS_MAX = 64, SONDE_GPUS_PROCESSES_MAX = 256 };
struct sonde_gpus {
    uint32_t count, process_count;
    struct sonde_gpus_one gpus[SONDE_GPUS_MAX];        /* by their numbers */
    struct sonde_gpus_process processes[SONDE_GPUS_PROCESSES_MAX];
};

/* From from_s to to_s in unix time, 0 = open. *out is NULL if no GPU was read. 0 or
 * SONDE_ENOMEM. */
int sonde_gpus_build(const struct sonde_tracks *t, double from_s, double to_s,
                     struct sonde_gpus **out);
void sonde_gpus_destroy(struct sonde_gpus *g); /* NULL is fine */

#endif
