/* perf_python.h - functions of Python in a process that is looked at from outside.
 *
 * Frames are memory of the process (see preload/walk/python_walk.h), so what is read is the frames
 * of when it is read. Of a thread that is blocked they stand still: what was read of it is what it
 * is blocked in, unless it has gone on before the reading was over, which the record of that tells.
 * Threads that wait for less than it takes to look have native frames only. Of a thread that runs
 * they come with the sample (perf_python_bpf.h), and only names are read from here.
 *
 * Nothing that is read is believed, and nothing of it can be more than wrong names: lists are
 * followed for so many steps, and objects must be of their types. */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

struct sonde_perf_python;      /* the interpreter of one process */
struct sonde_python_bpf;
struct sonde_python_bpf_frame;

/* What was found, whether it can be read or not. */
struct sonde_perf_python_met {
    uint32_t state;            /* enum sonde__python_state (segment/python.h) */
    uint32_t version;          /* 0 = not known */
};

/* SONDE_ENOENT: there is none, or none that can be read. SONDE_ENOMEM. */
int sonde_perf_python_create(uint32_t pid, struct sonde_perf_python_met *met,
                             struct sonde_perf_python **out);
/* That of a process which this one's has forked. NULL: no memory. */
struct sonde_perf_python *sonde_perf_python_fork(const struct sonde_perf_python *of, uint32_t pid);
void sonde_perf_python_destroy(struct sonde_perf_python *y); /* NULL is fine */

/* Is a file that is mapped called as an interpreter is? */
int sonde_perf_python_is_name(const char *path);

struct sonde_perf_python_frame {
    uint64_t anchor;           /* on the C stack, in the native frame that it stands for */
    uint32_t location;         /* in the profile */
};

/* Those of a thread, innermost first: how many. 0 = it has none, or they could not be read. */
size_t sonde_perf_python_read(struct sonde_perf_python *y, struct sonde_profile *p, uint32_t tid,
                              struct sonde_perf_python_frame *out, size_t max);

/* Those that came with a sample, count of in; cut: of a deeper stack. out has room for count + 1.
 * *unnamed: how many have no name, since their function was gone when it was looked for. */
size_t sonde_perf_python_sampled(struct sonde_perf_python *y, struct sonde_profile *p,
                                 const struct sonde_python_bpf_frame *in, size_t count, int cut,
                                 struct sonde_perf_python_frame *out, uint32_t *unnamed);

/* Ids of the profile's rows are void. */
void sonde_perf_python_forget(struct sonde_perf_python *y);

/* Samples of its threads have frames from now on. */
void sonde_perf_python_add_to(const struct sonde_perf_python *y, struct sonde_python_bpf *b);

#endif
