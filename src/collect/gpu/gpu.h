/* gpu.h - what the agent knows of GPUs: figures of devices, and what processes use of them.
 *
 * Vendors' libraries crash and hang, and there is no way to take a thread back that hangs in one.
 * So whoever reads (backend.h) does it in a child process of its own, and sends what it read
 * through a socket; the agent takes what has come, once a tick, and waits for nobody:
 *
 *      tick --> sonde_gpu_tick --> socket <-- child "nvml"   libnvidia-ml.so.1
 *                    |             socket <-- child "drm"    /sys/class/drm, /proc/PID/fdinfo
 *                    v
 *               sonde_gpu_devices: one row a device, of the first back-end that has a figure
 *
 * A child that does not answer is killed and started again later, one that cannot be killed (it
 * hangs in the kernel) is left alone; what it read is gone meanwhile, the others' stays. Without a
 * GPU nothing is started: a tick then looks for a few files every ten seconds.
 *
 * Not thread-safe: the collector ticks under the model's write lock, readers have its read lock. */
#ifndef SONDE_COLLECT_GPU_GPU_H
#define SONDE_COLLECT_GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sonde/sonde.h"
#include "segment/segment.h"

enum sonde_gpu_figure {
#define SONDE_GPU_FIGURE(id, family, unit, type, kind, scale, how, label, value, help) \
    SONDE_GPU_##id,
#include "collect/gpu/figure_list.h"
#undef SONDE_GPU_FIGURE
    SONDE_GPU_FIGURES
};

struct sonde_gpu_figure_row {
    const char *family, *unit, *help;  /* "sonde_gpu_utilization_ratio" */
    enum sonde_type type;
    enum sonde_kind kind;
    double scale;
    int mean;                          /* 1 = of all readings since the tick before */
    const char *label, *value;         /* which of the family; NULL = the only one */
};
extern const struct sonde_gpu_figure_row sonde_gpu_figures[SONDE_GPU_FIGURES];

/* Why a figure is or is not there. NONE: nobody reads it of such a device. */
#define SONDE_GPU_STATES(X)                                                                    \
    X(NONE, "nothing reads it of such a device")                                               \
    X(OK, "")                                                                                  \
    X(NOT_SUPPORTED, "the card or its driver does not have it")                                \
    X(NO_PERMISSION, "not permitted")                                                          \
    X(NO_FUNCTION, "the library is too old for it")                                            \
    X(NO_FILE, "the driver has no file for it")                                                \
    X(NOT_YET, "two readings are needed")                                                      \
    X(MALFORMED, "what was read is not a value")                                               \
    X(ASLEEP, "the card is suspended, and reading would wake it")                              \
    X(LOST, "the card does not answer any more")                                               \
    X(OFF, "it is switched off in sonde's settings")                                           \
    X(FAILED, "reading failed")

enum sonde_gpu_state {
#define SONDE__X(id, text) SONDE_GPU_##id,
    SONDE_GPU_STATES(SONDE__X)
#undef SONDE__X
    SONDE_GPU_STATE_COUNT
};

struct sonde_gpu_value {
    uint32_t state;          /* enum sonde_gpu_state */
    int32_t code;            /* of the library, where state is FAILED; 0 = none */
    union {
        double v;            /* gauges */
        uint64_t n;          /* counters */
    };
};

/* As a sentence: "not permitted", "reading failed (error 999)". out_size: 96 are enough. */
const char *sonde_gpu_why(const struct sonde_gpu_value *v, char *out, size_t out_size);

enum { SONDE_GPU_XIDS = 8 };

/* One card, or one instance of a card that is partitioned (MIG). Texts end with a NUL; "" = not
 * known. Fixed in size: it is a message as it stands. */
struct sonde_gpu_device {
    char key[32];            /* what back-ends know it by: its PCI address, else its DRM card */
    char name[96], uuid[96];
    char driver[32];         /* "nvidia" */
    char version[80];        /* of the driver */
    char parent[32];         /* key of the card, of an instance */
    uint32_t instance;       /* its number there */
    uint32_t lost;           /* 1 = it does not answer any more */
    uint32_t partitioned;    /* 1 = it has instances */
    uint32_t xid_count;
    struct { uint32_t xid, pad; uint64_t count; } xid[SONDE_GPU_XIDS]; /* errors by number */
    struct sonde_gpu_value figure[SONDE_GPU_FIGURES];
};

/* What one process uses of one device. */
struct sonde_gpu_process {
    uint32_t pid;
    uint32_t instance;       /* of a partitioned card; UINT32_MAX = none */
    char key[32];            /* of the device */
    char name[64];           /* of the process; "" = not known */
    double memory_bytes, utilization; /* NaN = not known */
};

enum { SONDE_GPU_DEVICES_MAX = 128, SONDE_GPU_PROCESSES_MAX = 1024 };

/* ---- The monitor ----------------------------------------------------------------------------- */

struct sonde_gpu_options {
    int enabled;
    uint32_t interval_ms;    /* between readings; 0 = 1000 */
    uint32_t burst_ms;       /* while something is profiled; 0 = 100 */
    uint32_t tick_ms;        /* how often it is asked; 0 = 1000 */
    int activity;            /* read activity counters (GPM) */
    const char *root;        /* has dev, proc and sys; NULL or "" = / */
    double hang_s;           /* a child that is silent for longer is killed; 0 = 5 */
};

struct sonde_gpu;

/* One row for each device that anybody reads. */
struct sonde_gpu_row {
    uint32_t index;          /* of the card: stays while the agent lives, also over its absence */
    int there;               /* 0 = it was, and is gone */
    const char *by;          /* names of back-ends: "nvml", "amdsmi drm" */
    struct sonde_gpu_device device;
};

/* Nothing is started yet. 0 or SONDE_ENOMEM. */
int sonde_gpu_create(const struct sonde_gpu_options *options, struct sonde_gpu **out);
void sonde_gpu_destroy(struct sonde_gpu *g); /* NULL is fine */

/* Take what has come; start, restart and end children. */
void sonde_gpu_tick(struct sonde_gpu *g);
/* Read more often while on; nests. */
void sonde_gpu_burst(struct sonde_gpu *g, int on);
/* Tick until every back-end has said something, or so long: for commands that end. */
void sonde_gpu_settle(struct sonde_gpu *g, double seconds);

/* Good until the next tick. */
size_t sonde_gpu_rows(const struct sonde_gpu *g, const struct sonde_gpu_row **out);
size_t sonde_gpu_processes(const struct sonde_gpu *g, const struct sonde_gpu_process **out);

/* What became of a back-end, in the order of backend_list.h; 0 = there are no more. */
struct sonde_gpu_source {
    const char *name, *summary, *looked_for;
    enum sonde_gpu_source_state {
        SONDE_GPU_ABSENT,    /* there is nothing for it here */
        SONDE_GPU_STARTING, SONDE_GPU_READING,
        SONDE_GPU_BROKEN,    /* it could not be opened, crashed or hung: note says how */
        SONDE_GPU_NOT_NEEDED,/* another one reads the same */
    } state;
    const char *note;        /* of the library and its version, or what is wrong */
    uint32_t restarts, hangs, crashes;
    double read_s;           /* how long the last reading took */
};
int sonde_gpu_source(const struct sonde_gpu *g, size_t i, struct sonde_gpu_source *out);

/* The process of a back-end, for tests; 0 = there is none. */
uint32_t sonde_gpu_child_pid(const struct sonde_gpu *g, size_t i);

#endif
