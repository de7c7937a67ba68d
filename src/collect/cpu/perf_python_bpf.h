/* perf_python_bpf.h - frames of Python at the moment of a CPU sample that is taken from outside: a
 * BPF program on the sampling events copies them.
 *
 * The kernel runs the program where it takes the sample, in the thread that was interrupted. It
 * looks up the process (a map that the agent fills when it finds an interpreter), finds the
 * thread's state in the interpreter's list, goes from frame to frame as preload/walk/python_walk.h
 * does, and puts code objects and instructions into the ring that the sample goes to, just before
 * it. So the two need no clock to be brought together: they are neighbours. Names are read by the
 * agent from the process, as long as a code object is the one that the program met: it tells by a
 * number made of the object's parts.
 *
 * The program can read memory and write to the ring, no more. It cannot wait: what is not in memory
 * (swapped out) is not there. Its work is bounded: a search by SEARCH_MAX threads, and a stack by
 * SONDE_PYTHON_BPF_FRAMES_MAX frames, of what is deeper the inner ones count.
 *
 * Threads are told apart by the number that they have for themselves (native_thread_id), which in a
 * pid namespace is another than for the kernel; the kernel is asked for it by namespace. */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_BPF_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_BPF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/perf/event.h"
#include "segment/python_layout.h"

enum { SONDE_PYTHON_BPF_FRAMES_MAX = 2048 };

/* What comes with a sample: frames from the innermost out, and behind those of a run one with code
 * 0 whose key is its anchor, on the C stack in the native frame that they stand for. */
struct sonde_python_bpf_frame {
    uint64_t code;             /* address of the code object */
    uint64_t key;              /* sonde_python_bpf_key */
    uint64_t at;               /* instruction, in units of two bytes */
};

enum {
    SONDE_PYTHON_BPF_BROKEN = 1, /* what follows could not be read, or made no sense */
    SONDE_PYTHON_BPF_CUT = 2     /* the stack is deeper */
};

struct sonde_python_bpf_record {
    uint32_t count, flags;
    struct sonde_python_bpf_frame frames[];
};

/* Which code object is at addr; code: SONDE__PYTHON_CODE_BYTES of it. Never 0. */
uint64_t sonde_python_bpf_key(const struct sonde__python_layout *l, uint64_t addr,
                              const char *code);

/* A record as it came, which is checked; NULL: it makes no sense. data: aligned to 4. The frames
 * are copied to out, SONDE_PYTHON_BPF_FRAMES_MAX at most; returns how many, *flags. 0: none, or it
 * makes no sense. */
size_t sonde_python_bpf_parse(const void *data, size_t size, struct sonde_python_bpf_frame *out,
                              uint32_t *flags);

struct sonde_python_bpf;

/* The program, loaded. SONDE_EACCES, SONDE_EOFF: this cannot be done here, and why. */
int sonde_python_bpf_create(struct sonde_python_bpf **out, struct sonde_err *err);
void sonde_python_bpf_destroy(struct sonde_python_bpf *b); /* NULL is fine */

/* Clock events that are opened from now on run it. b must outlive the set's opening of events. */
int sonde_python_bpf_attach(struct sonde_python_bpf *b, struct sonde_perf_set *set,
                            struct sonde_err *err);

/* Processes whose threads are looked at. Again: as it is now. SONDE_EFULL: there are too many. */
struct sonde_python_bpf_process {
    uint32_t pid;              /* as the agent sees it */
    uint64_t runtime, type_code;
    const struct sonde__python_layout *layout;
};
int sonde_python_bpf_add(struct sonde_python_bpf *b, const struct sonde_python_bpf_process *p);
void sonde_python_bpf_remove(struct sonde_python_bpf *b, uint32_t pid);

/* Records for which there was no room in a ring, since the beginning. */
uint64_t sonde_python_bpf_lost(const struct sonde_python_bpf *b);

/* For doctor: 0, or what forbids it. */
int sonde_python_bpf_check(struct sonde_err *err);

#endif
