/* collector.h - the agent's loop: find segments, read them, run the probes, tick the model.
 *
 * The same code serves `sonde run`, `sonde serve`, `sonde top`, `sonde ls` and `sonde export`:
 * with a thread of its own (start/stop), or stepped by hand (step). */
#ifndef SONDE_COLLECT_COLLECTOR_H
#define SONDE_COLLECT_COLLECTOR_H

#include "base/err.h"
#include "collect/gpu/gpu.h"
#include "model/model.h"

struct sonde_collector;
struct sonde_infer_options;
struct sonde_infer_tracker;
struct sonde_preload_readers;

struct sonde_collector_options {
    const char *dir;          /* segments; NULL = the default directory */
    double interval_s;        /* between ticks; 0 = 1 */
    double retain_s;          /* how long an ended process stays; 0 = 300 */
    uint32_t pid;             /* look at this process (and its children) only; 0 = all */
    int host;                 /* 1 = host metrics */
    int processes;            /* 1 = per-process and per-thread metrics */
    int agent;                /* 1 = this is the resident agent: take dir/agent.lock so that
                                 processes leave their segments behind, and unlink segments
                                 whose process has been gone for retain_s; with pid, those of
                                 ended processes also on destroy */
    struct sonde_model_limits limits;
    /* Every span as it is drained, not only those the model keeps; called on the thread that
     * steps, under the model's write lock: span is borrowed. NULL = nobody wants them. */
    void (*on_span)(const struct sonde_model_span *span, void *arg);
    void *on_span_arg;
    /* After every tick, alike: under the write lock, so be quick. NULL = nobody wants it. */
    void (*on_tick)(struct sonde_model *m, void *arg);
    void *on_tick_arg;
    struct sonde_gpu_options gpu; /* tick_ms is set here; root need not stay */
    const struct sonde_infer_options *infer; /* of its tracker of inference; NULL = there is none,
                                                and events are passed over */
};

int sonde_collector_create(const struct sonde_collector_options *options,
                           struct sonde_collector **out, struct sonde_err *err);
/* Stops the thread if started. NULL is fine. */
void sonde_collector_destroy(struct sonde_collector *c);

struct sonde_model *sonde_collector_model(struct sonde_collector *c);
/* Under the model's lock as infer/tracker.h says; NULL = there is none. */
struct sonde_infer_tracker *sonde_collector_tracker(struct sonde_collector *c);

/* What is known of GPUs, under the model's lock; NULL = they are not read. And: read them more
 * often while on, which nests and takes the model's lock. */
const struct sonde_gpu *sonde_collector_gpu(const struct sonde_collector *c);
void sonde_collector_gpu_burst(struct sonde_collector *c, int on);

/* Where segments are. */
const char *sonde_collector_dir(const struct sonde_collector *c);

/* For engines and heap readers of this process (their options): files of segments stay until they
 * have them open. They end before the collector does. NULL, if c is. */
struct sonde_preload_readers *sonde_collector_readers(struct sonde_collector *c);

/* One tick now, on this thread. */
void sonde_collector_step(struct sonde_collector *c);

/* A thread that steps every interval_s (spans are drained ten times as often). */
int sonde_collector_start(struct sonde_collector *c, struct sonde_err *err);
void sonde_collector_stop(struct sonde_collector *c);

/* Watch pid even if it has no segment (the CMD of `sonde run`): P5 metrics for it. */
void sonde_collector_watch(struct sonde_collector *c, uint32_t pid);

/* Files that were refused and why, newest first; returns how many were written to out. */
struct sonde_collector_refusal { char path[256]; char reason[256]; };
size_t sonde_collector_refusals(struct sonde_collector *c, struct sonde_collector_refusal *out,
                                size_t max);

/* Processes that have recorded nothing because there was no room for their segments: all together
 * have a quarter of the directory's file system (record/room.c). The agent counts those since it
 * began, others all since an agent did. */
uint64_t sonde_collector_missed(struct sonde_collector *c);

#endif
