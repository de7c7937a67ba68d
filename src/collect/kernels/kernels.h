/* kernels.h - what a process has its GPUs do, into a profile: reads what libsonde_preload writes to
 * the segment (segment/kernels.h), as it comes.
 *
 * A command becomes a sample of kind GPU: its time on the device is the weight, the stack is that
 * of the thread that queued it with the kernel on top, and the time of the sample is when it was
 * queued. So spans, phases and requests are joined as they are for CPU samples (profile/select/): a
 * kernel belongs to whoever launched it, whenever it ran. A time that the program waited for its
 * commands becomes a sample of kind GPU_WAIT. What is known besides goes into the facts of the
 * profile (profile/gpu.h). */
#ifndef SONDE_COLLECT_KERNELS_KERNELS_H
#define SONDE_COLLECT_KERNELS_KERNELS_H

#include "base/err.h"
#include "profile/profile.h"

struct sonde_preload_readers;

struct sonde_kernel_reader_options {
    uint32_t pid;              /* the process; required */
    int off;                   /* it begins switched off (collect/kernels/switch.h) */
    uint32_t depth_max;        /* frames kept of a stack; 0 = 64 */
    int children;              /* also processes it starts */
    size_t bytes_max;          /* of the profile; 0 = 192 MiB */
    const char *dir;           /* of segments; NULL = the default directory */
    struct sonde_preload_readers *readers; /* as in struct sonde_heap_reader_options */
};

struct sonde_kernel_reader;

/* For a child that was forked but has not yet called exec. SONDE_EOFF with a sentence:
 * libsonde_preload is not there, … */
int sonde_kernel_reader_start_on_exec(const struct sonde_kernel_reader_options *options,
                                      struct sonde_kernel_reader **out, struct sonde_err *err);

/* For a process that runs. Whether it was started so that its GPUs are seen is not known before it
 * uses one: nothing is found of one that was not. */
int sonde_kernel_reader_start(const struct sonde_kernel_reader_options *options,
                              struct sonde_kernel_reader **out, struct sonde_err *err);

/* What must be set in the environment of the child, as with sonde_heap_reader_environment. */
const char *sonde_kernel_reader_environment(const struct sonde_kernel_reader *r, size_t *size);

/* All that was seen, not symbolized; NULL = no command was. r is gone after this, also on failure:
 * SONDE_ENOMEM. */
int sonde_kernel_reader_stop(struct sonde_kernel_reader *r, struct sonde_profile **out);

#endif
