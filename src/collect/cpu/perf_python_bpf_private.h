/* perf_python_bpf_private.h - what the BPF program and the agent share: its maps. */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_BPF_PRIVATE_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_BPF_PRIVATE_H

#include "collect/bpf/bpf.h"
#include "collect/cpu/perf_python_bpf.h"

enum {
    PYTHON_BPF_PROCESSES = 4096,
    PYTHON_BPF_SLOTS = 4096,     /* of threads, by number; a power of two */
    PYTHON_BPF_LAYOUTS = 8       /* different ones, each a program of its own */
};

/* By the process's number. */
struct python_bpf_process {
    uint64_t runtime;            /* _PyRuntime */
    uint64_t type_code;          /* PyCode_Type */
    uint64_t space_dev, space;   /* its pid namespace */
    uint64_t layout;             /* index of a program */
};

/* Where a thread's state was found. Written by the program, by several CPUs without a lock: what is
 * in it is believed if the state says that it is this thread's. */
struct python_bpf_slot {
    uint64_t tid;
    uint64_t state;              /* 0 = it has none … */
    uint64_t until_ns;           /* … and is not looked for again before */
};

/* One for each CPU: the program has 512 bytes of stack and no other memory. */
struct python_bpf_scratch {
    uint64_t runtime, type_code;
    uint64_t tid, native;        /* as in slots, and as the thread has it */
    uint64_t phase;              /* what is to be done next: enum python_bpf_phase */
    uint64_t cursor;             /* the state or frame that is next */
    uint64_t anchor;             /* of this run; 0 = its last frame is */
    uint64_t outer;              /* anchor of the next run; 0 = there is none */
    uint32_t count, flags;       /* from here on a record */
    struct sonde_python_bpf_frame frames[SONDE_PYTHON_BPF_FRAMES_MAX];
};
_Static_assert(offsetof(struct python_bpf_scratch, frames) ==
                   offsetof(struct python_bpf_scratch, count) +
                       sizeof(struct sonde_python_bpf_record), "a record is sent as it is");

struct python_bpf_maps {
    int processes, slots, scratch, programs, outputs;
    int lost;                    /* records there was no room for, by CPU: 64 bits each */
};

/* The program on the events: whose thread it is, and on to that of its layout. own_dev, own: the
 * agent's pid namespace; own 0 = the first one, whose numbers the kernel has. */
void sonde__python_bpf_entry(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                             uint64_t own_dev, uint64_t own);
/* That of a layout, number index of m->programs. */
void sonde__python_bpf_walk(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                            const struct sonde__python_layout *l, uint32_t index);

#endif
