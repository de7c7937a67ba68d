/* perf_python.h - frames of Python of a thread that is blocked, read from outside.
 *
 * The frames are memory of the process (see preload/walk/python_walk.h), so what is read is the
 * frames of when it is read. While a thread is blocked they stand still: what was read of it is
 * what it is blocked in, unless it has gone on before the reading was over, which the record of
 * that tells. Threads that wait for less than it takes to look have native frames only.
 *
 * Nothing that is read is believed, and nothing of it can be more than wrong names: lists are
 * followed for so many steps, and objects must be of their types. */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

struct sonde_perf_python;      /* the interpreter of one process */

/* SONDE_ENOENT: there is none, or none that can be read. SONDE_ENOMEM. */
int sonde_perf_python_create(uint32_t pid, struct sonde_perf_python **out);
void sonde_perf_python_destroy(struct sonde_perf_python *y); /* NULL is fine */

struct sonde_perf_python_frame {
    uint64_t anchor;           /* on the C stack, in the native frame that it stands for */
    uint32_t location;         /* in the profile */
};

/* Those of a thread, innermost first: how many. 0 = it has none, or they could not be read. */
size_t sonde_perf_python_read(struct sonde_perf_python *y, struct sonde_profile *p, uint32_t tid,
                              struct sonde_perf_python_frame *out, size_t max);

#endif
