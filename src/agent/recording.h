/* recording.h - what `record`, `run` and `attach` keep of a process: its CPU samples, by an engine
 * of collect/cpu/cpu.h, its heap, by collect/heap/heap.h, commands of its GPUs, by
 * collect/kernels/kernels.h, and all its spans, as the collector
 * drains them; one profile in the end. */
#ifndef SONDE_AGENT_RECORDING_H
#define SONDE_AGENT_RECORDING_H

#include "agent/uprobes.h"
#include "base/err.h"
#include "collect/cpu/cpu.h"
#include "collect/heap/heap.h"
#include "collect/kernels/kernels.h"
#include "collect/uprobe/returns.h"
#include "model/model.h"
#include "profile/infer.h"
#include "profile/profile.h"

struct sonde_recording {
    struct sonde_cpu *cpu;         /* NULL = not sampling */
    struct sonde_heap_reader *heap_reader;         /* NULL = the heap is not profiled */
    struct sonde_kernel_reader *gpu_reader;        /* NULL = commands of GPUs are not recorded */
    struct sonde_profile *samples; /* what cpu saw, once stopped */
    struct sonde_profile *heap;    /* what heap_reader saw, once stopped; NULL = it never found the
                                    * heap */
    struct sonde_profile *gpu;     /* what gpu_reader saw, alike; NULL = no command */
    struct sonde_profile *spans;   /* NULL = spans are not kept */
    uint64_t spans_dropped;        /* for lack of memory */
    char note[SONDE_CPU_NOTE_MAX]; /* what the engine could not do; once stopped */
    uint32_t known[SONDE_CPU_KNOWN_MAX], known_count; /* processes that were sampled in the end */
    char heap_note[SONDE_HEAP_NOTE_MAX]; /* alike, of the heap */
    int leaks;                     /* judge growth */
    char *const *argv;             /* borrowed: of what was started; NULL = it ran already */
    char program[4096];            /* that will be executed and has llama.cpp built in; "" = none */
    struct sonde_uprobe_returns *returns; /* from probes to what unwinds; NULL = none are needed */
    struct sonde_uprobes *probes;  /* in llama.cpp; NULL = no hook is missing, or not permitted */
    struct sonde_uprobe_status probed; /* what they saw, once stopped */
};

/* Keep spans from now on. 0 or SONDE_ENOMEM. */
int sonde_recording_keep_spans(struct sonde_recording *r);

/* For sonde_collector_options.on_span; arg is the recording. */
void sonde_recording_on_span(const struct sonde_model_span *span, void *arg);

/* For sonde_collector_options.on_tick, alike: series over the time of the recording. */
void sonde_recording_on_tick(const struct sonde_model *m, struct sonde_recording *r);

/* For sonde_infer_options.on_done, alike. */
void sonde_recording_on_request(const struct sonde_infer_request *r, void *arg);

/* Are probes needed: for a process that runs (command NULL), and for a program that has llama.cpp
 * built in, where hooks see nothing? If so returns is there, for the engine that samples the
 * CPU. */
void sonde_recording_prepare_probes(struct sonde_recording *r, const char *command);
/* Only with returns. Errors as sonde_uprobes_start. */
int sonde_recording_start_probes(struct sonde_recording *r, struct sonde_collector *c, uint32_t pid,
                                 struct sonde_err *err);
/* What they saw is in the collector's model then, and in probed. Also twice. */
void sonde_recording_stop_probes(struct sonde_recording *r);

/* Stop sampling. Spans that are drained after this still join. */
int sonde_recording_stop(struct sonde_recording *r);

/* Hand over samples, heap and spans, symbolized and judged, with facts about the host. r is empty
 * after this. */
int sonde_recording_finish(struct sonde_recording *r, struct sonde_profile **out,
                           struct sonde_err *err);

/* Without a result. */
void sonde_recording_cancel(struct sonde_recording *r);

/* What probes and engines shared, when both are gone. */
void sonde_recording_release(struct sonde_recording *r);

/* How the engine of --engine is called: "auto", …; -1 = unknown. */
int sonde_engine_find(const char *name);
#define SONDE_ENGINE_CHOICES "auto|perf|timer"

#endif
