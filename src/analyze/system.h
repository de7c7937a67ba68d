/* system.h - what the machine and its processes did over a recording, or a part of it, from the
 * series over time that are kept with it (profile/track.h): CPU, memory, disk, network; the least,
 * the mean by time and the most of each. Pure.
 *
 * A network's bytes by process are not known: Linux does not count them. */
#ifndef SONDE_ANALYZE_SYSTEM_H
#define SONDE_ANALYZE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

#include "profile/track.h"

struct sonde_system_figure {
    double min, mean, max;       /* NaN = not known */
    uint32_t points;             /* ticks in which it was */
};

/* id, key in JSON and CSV, title, unit as units.h names them. Rates are per second. */
#define SONDE_SYSTEM_HOST(X)                                                                   \
    X(CPU, "utilization_ratio", "CPU", "ratio")                                                \
    X(LOAD, "load1", "load, 1 min", "")                                                        \
    X(MEMORY, "used_ratio", "memory", "ratio")                                                 \
    X(MEMORY_USED, "used_bytes", "memory in use", "bytes")                                     \
    X(SWAP, "swap_used_bytes", "swap in use", "bytes")                                         \
    X(DISK_READ, "read_bytes_per_s", "disk read/s", "bytes")                                   \
    X(DISK_WRITTEN, "written_bytes_per_s", "disk written/s", "bytes")                          \
    X(DISK_BUSY, "busy_ratio", "busiest disk", "ratio")                                        \
    X(RECEIVED, "received_bytes_per_s", "received/s", "bytes")                                 \
    X(SENT, "sent_bytes_per_s", "sent/s", "bytes")

#define SONDE_SYSTEM_PROCESS(X)                                                                \
    X(CPU, "cpu_ratio", "CPU", "ratio")              /* 1 = one CPU all the time */            \
    X(MEMORY, "resident_bytes", "memory", "bytes")                                             \
    X(DISK_READ, "read_bytes_per_s", "disk read/s", "bytes")                                   \
    X(DISK_WRITTEN, "written_bytes_per_s", "disk written/s", "bytes")                          \
    X(SWITCHES, "context_switches_per_s", "switches/s", "")                                    \
    X(FAULTS, "major_faults_per_s", "major faults/s", "")                                      \
    X(THREADS, "threads", "threads", "")                                                       \
    X(FILES, "open_files", "open files", "")

enum sonde_system_host {
#define SONDE__X(id, key, title, unit) SONDE_HOST_##id,
    SONDE_SYSTEM_HOST(SONDE__X)
#undef SONDE__X
    SONDE_HOST_FIGURES
};
enum sonde_system_process {
#define SONDE__X(id, key, title, unit) SONDE_PROCESS_##id,
    SONDE_SYSTEM_PROCESS(SONDE__X)
#undef SONDE__X
    SONDE_PROCESS_FIGURES
};

struct sonde_system_name { const char *key, *title, *unit; };
extern const struct sonde_system_name sonde_system_host_names[SONDE_HOST_FIGURES],
    sonde_system_process_names[SONDE_PROCESS_FIGURES];

struct sonde_system_one {        /* process */
    const char *program;
    uint32_t pid;
    struct sonde_system_figure figures[SONDE_PROCESS_FIGURES];
};

struct sonde_system {
    struct sonde_system_figure host[SONDE_HOST_FIGURES];
    double cpus, memory_bytes;   /* of the machine; NaN = not known */
    double seconds;              /* of the ticks that were looked at */
    struct sonde_system_one *processes; /* most CPU time first */
    uint32_t process_count, process_cap;
};

/* Of the ticks that end after from_s and begin before to_s (unix time; 0 = open); texts are
 * borrowed from t, which may be NULL. *out is NULL if there is nothing to say. 0 or
 * SONDE_ENOMEM. */
int sonde_system_build(const struct sonde_tracks *t, double from_s, double to_s,
                       struct sonde_system **out);
void sonde_system_destroy(struct sonde_system *s); /* NULL is fine */

#endif
