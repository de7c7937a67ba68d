/* gpu.h - what a profile says of GPUs beyond its samples: every kernel by name with how often and
 * how long it ran, queues with the time they stood still, the commands themselves as far as there
 * is room (for traces), and what is missing. The samples (kinds gpu, gpu-wait) say from where
 * commands were queued.
 *
 * Belongs to a struct sonde_profile (its field gpu), is written to run files and read back. Texts
 * and threads are ids of that profile. */
#ifndef SONDE_PROFILE_GPU_H
#define SONDE_PROFILE_GPU_H

#include <stddef.h>
#include <stdint.h>

/* What a command does, as people divide the time of a model: a kernel by patterns on its name
 * (gpu.c), others by what they are. Names are in series and files: append only. */
#define SONDE_GPU_CLASSES(X)                                                                   \
    X(MATMUL, "matmul", "matrix products")                                                     \
    X(ATTENTION, "attention", "attention")                                                     \
    X(NORM, "norm", "norms, softmax, activations")                                             \
    X(QUANTISE, "quantise", "quantising and back")                                             \
    X(COPY, "copy", "copies and transfers")                                                    \
    X(COLLECTIVE, "collective", "between devices")                                             \
    X(OTHER, "other", "anything else")

enum sonde_gpu_class {
#define SONDE__X(id, name, title) SONDE_GPU_##id,
    SONDE_GPU_CLASSES(SONDE__X)
#undef SONDE__X
    SONDE_GPU_CLASS_COUNT
};

const char *sonde_gpu_class_name(enum sonde_gpu_class c);
const char *sonde_gpu_class_title(enum sonde_gpu_class c);
int sonde_gpu_class_find(const char *name);     /* or -1 */
/* Of a kernel by its name. Case does not matter. */
enum sonde_gpu_class sonde_gpu_class_of(const char *kernel);

#define SONDE_GPU_KERNELS_MAX 4096u
#define SONDE_GPU_QUEUES_MAX 1024u
#define SONDE_GPU_COMMANDS_MAX 262144u          /* kept one by one: the first */

struct sonde_gpu_kernel {
    uint32_t name;              /* string: of a kernel; "read" … of other commands */
    uint32_t device;            /* string */
    uint32_t class;             /* enum sonde_gpu_class */
    uint32_t is_kernel;         /* 0: another command */
    uint64_t count, untimed;    /* untimed: of count, failed or without times */
    uint64_t ns, min_ns, max_ns;
    uint64_t wait_ns;           /* from queued to started, in all */
    uint64_t bytes;
};

struct sonde_gpu_queue {
    uint32_t device;            /* string */
    uint32_t pid, number, context;
    uint32_t out_of_order;
    uint32_t api;               /* 1 OpenCL */
    uint64_t commands, busy_ns; /* busy: some command of it was running */
    uint64_t first_ns, last_ns; /* unix time: first start, last end */
    uint64_t gaps, gap_ns;      /* between commands, while it was idle … */
    uint64_t starved_ns;        /* … of that until the next one was even queued */
};

struct sonde_gpu_command {
    uint64_t call_ns, start_ns, end_ns; /* unix time */
    uint64_t bytes;
    uint32_t kernel, queue;     /* index in kernels and queues */
    uint32_t thread;            /* that queued it */
    uint32_t pad;
};

struct sonde_gpu_work {
    struct sonde_gpu_kernel *kernels;   /* owned, as the next two */
    struct sonde_gpu_queue *queues;
    struct sonde_gpu_command *commands;
    uint32_t kernel_count, kernel_cap, queue_count, queue_cap, command_count, command_cap;
    uint64_t enqueued;          /* while it was recorded */
    uint64_t recorded;          /* of them; the others: */
    uint64_t crowded;           /* … since too many had not ended */
    uint64_t full;              /* … since there was no room in the segment */
    uint64_t unprofiled;        /* … since their queue tells no times */
    uint64_t lost;              /* … since records were written over before they were read */
    uint64_t failed;            /* calls that queued nothing, with an error */
    uint64_t unread;            /* had not ended, or nobody looked, when the program did */
    uint64_t off_calls;         /* while recording was off */
    uint64_t own_ns;            /* that recording took of the program's threads */
    uint64_t waits, wait_ns;    /* of the program for commands */
    uint64_t doubt_ns;          /* of times against the host's clock, as of the last command */
};

struct sonde_profile;

/* p's, made if need be; NULL = no memory. */
struct sonde_gpu_work *sonde_gpu_of(struct sonde_profile *p);
void sonde_gpu_work_destroy(struct sonde_gpu_work *g);    /* NULL is fine */

/* The index of a row; UINT32_MAX = no memory, or too many: those of one name are "(others)". */
uint32_t sonde_gpu_kernel(struct sonde_profile *p, const char *name, int is_kernel,
                          enum sonde_gpu_class class, uint32_t device);
uint32_t sonde_gpu_queue(struct sonde_profile *p, const struct sonde_gpu_queue *q);
/* A command that has ended, into all of it. queued_ns: unix time. start_ns 0: without times. */
void sonde_gpu_add(struct sonde_profile *p, const struct sonde_gpu_command *c, uint64_t queued_ns);

uint64_t sonde_gpu_ns(const struct sonde_gpu_work *g);                 /* of all commands */
uint64_t sonde_gpu_class_ns(const struct sonde_gpu_work *g, enum sonde_gpu_class c);

/* Adds from's to p's. 0 or SONDE_ENOMEM. */
int sonde_gpu_merge(struct sonde_profile *p, const struct sonde_profile *from);

#endif
