/* perf_python_sample.h - frames of Python on their way from a BPF program to the sample that they
 * belong to: the next one in the same ring, of the same thread and time. */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_SAMPLE_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "collect/cpu/perf_python_bpf.h"
#include "collect/perf/record.h"

struct sonde_perf_python_sample {
    uint32_t pid, tid;         /* whose; tid 0 = there is none */
    uint32_t count, flags;     /* as in struct sonde_python_bpf_record */
    uint64_t time_ns;
    struct sonde_python_bpf_frame *frames; /* owned by whoever has the sample */
};

/* One that waits for each CPU, by index. All zeros: none. */
struct sonde_perf_python_samples {
    struct sonde_perf_python_sample *waiting; /* owned, as their frames are; NULL = none came yet */
    uint32_t count;
};

void sonde_perf_python_samples_release(struct sonde_perf_python_samples *s);

/* A record of a program on a CPU (rec is parsed as an output). cpus: how many there are. What waits
 * there is of a sample that was lost. What makes no sense, or has no room, is left out. */
void sonde_perf_python_samples_put(struct sonde_perf_python_samples *s, uint32_t cpu, uint32_t cpus,
                                   const struct sonde_perf_record *rec);

/* That of this sample on the CPU, good until the next is put; NULL = it came without. */
const struct sonde_perf_python_sample *
sonde_perf_python_samples_take(struct sonde_perf_python_samples *s, uint32_t cpu,
                               const struct sonde_perf_record *rec);

#endif
