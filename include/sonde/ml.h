/* ml.h - machine learning as a program tells about it: training loops by epoch, step and phase,
 * inference by batch size, models and datasets loaded, tasks of workers. Reports and plots have a
 * section for each, made of the series and spans that are named here; a program in another
 * language may record the same by sonde.h, as the Python package does.
 *
 *     static struct sonde_ml_loop loop;
 *     sonde_ml_loop_define(&loop, "resnet");
 *     for (int64_t epoch = 0; epoch < 10; epoch++) {
 *         sonde_ml_epoch_begin(&loop, epoch);
 *         while (next_batch(&batch)) {                      // until step_begin: data wait
 *             sonde_ml_step_begin(&loop, SONDE_ML_FORWARD);
 *             loss = forward(&batch);
 *             sonde_ml_phase(&loop, SONDE_ML_BACKWARD);
 *             backward(&batch);
 *             sonde_ml_phase(&loop, SONDE_ML_OPTIMIZER);
 *             optimize();
 *             sonde_ml_step_end(&loop, batch.count, SONDE_OK);
 *         }
 *         sonde_ml_value(&loop, "train_loss", loss);
 *         sonde_ml_epoch_end(&loop, SONDE_OK);
 *     }
 *
 * Nothing here waits for a device: where work is queued (CUDA, OpenCL) times are those of the
 * thread that queues, and what it waits for shows up in the phase in which it waits.
 *
 * Contract as in sonde.h: calls that record are for any thread, do not allocate and never fail. A
 * loop or scope is the caller's memory and of one thread at a time, in the order begin, end;
 * series of one name are shared by all. Texts of a scope are borrowed until its end, all others are
 * copied. A name that is NULL or empty is "default". */
#ifndef SONDE_ML_H
#define SONDE_ML_H

#include "sonde/sonde.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Training ----------------------------------------------------------------------------- */

/* sonde_ml_epoch_seconds{model}, sonde_ml_step_seconds{model}   histograms
 * sonde_ml_first_step_seconds{model}     the first step of each epoch, which is in the one above
 *                                        too: what it waits for would be hidden in a mean
 * sonde_ml_phase_seconds{model,phase}    a histogram
 * sonde_ml_samples_total{model}, sonde_ml_steps_total{model}
 * sonde_ml_epoch{model}                  a gauge: the number of the epoch
 * sonde_ml_value{model,name}             a gauge: the newest value
 * Spans: ml.epoch with attributes model, epoch, num_samples, steps, step_seconds,
 * first_step_seconds and its values; in it ml.step, and a span for each phase: ml.forward … Steps
 * that begin within a millisecond of one that has spans have none, so that fast loops do not push
 * out the spans of their epochs; series count all of them. */
#define SONDE_ML_PHASES(X)                                                                     \
    X(DATA_WAIT, "data_wait")                                                                  \
    X(TRANSFER, "transfer")                                                                    \
    X(FORWARD, "forward")                                                                      \
    X(BACKWARD, "backward")                                                                    \
    X(OPTIMIZER, "optimizer")                                                                  \
    X(CHECKPOINT, "checkpoint")                                                                \
    X(VALIDATION, "validation")                                                                \
    X(OTHER, "other")

enum sonde_ml_phase_id {
#define SONDE__X(id, name) SONDE_ML_##id,
    SONDE_ML_PHASES(SONDE__X)
#undef SONDE__X
    SONDE_ML_PHASE_COUNT
};

#define SONDE_ML_VALUES_MAX 10 /* names of values that an epoch keeps; gauges have no such limit */

struct sonde_ml_loop {  /* opaque */
    char model[SONDE_LABEL_VALUE_MAX];
    struct sonde_hist epoch_seconds, step_seconds, first_step_seconds;
    struct sonde_hist phase_seconds[SONDE_ML_PHASE_COUNT];
    struct sonde_counter samples, steps;
    struct sonde_gauge epoch_number;
    struct sonde_span epoch_span, step_span, phase_span;
    uint64_t epoch_start, step_start, phase_start; /* ticks; 0 = not in one */
    uint64_t step_spanned, gap_spanned;            /* ticks at which one with spans began */
    uint32_t phase;                                /* enum sonde_ml_phase_id */
    uint32_t spanned;                              /* what is going on has spans */
    int64_t epoch;
    uint64_t epoch_samples, epoch_steps, epoch_step_ns, epoch_first_step_ns;
    struct { uint32_t name; double value; } values[SONDE_ML_VALUES_MAX];
    uint32_t value_count;
};

/* Resolve the series of a model, once. */
SONDE_API void sonde_ml_loop_define(struct sonde_ml_loop *l, const char *model);

/* An epoch of that number; samples are those that its steps were told of. Phases share it without a
 * gap: what is before a step is data_wait, what is behind the last one other, unless
 * sonde_ml_phase says otherwise. An epoch that is still open is ended first, as cancelled. */
SONDE_API void sonde_ml_epoch_begin(struct sonde_ml_loop *l, int64_t epoch);
SONDE_API void sonde_ml_epoch_end(struct sonde_ml_loop *l, enum sonde_outcome outcome);

/* A step begins in a phase; sonde_ml_phase ends that and begins another, so that the phases of a
 * step add up to it. Between steps of an epoch it names what is done there: validation, a
 * checkpoint. A step need not be in an epoch; the time between two such is data_wait as well. */
SONDE_API void sonde_ml_step_begin(struct sonde_ml_loop *l, enum sonde_ml_phase_id phase);
SONDE_API void sonde_ml_phase(struct sonde_ml_loop *l, enum sonde_ml_phase_id phase);
SONDE_API void sonde_ml_step_end(struct sonde_ml_loop *l, uint64_t samples,
                                 enum sonde_outcome outcome);

/* A value as it is now: "train_loss", "val_loss", "train_acc", "val_acc", "learning_rate", …; the
 * last of each name in an epoch is the epoch's. */
SONDE_API void sonde_ml_value(struct sonde_ml_loop *l, const char *name, double value);

/* ---- Models, inference, data, workers ----------------------------------------------------- */

struct sonde_ml_scope {  /* opaque */
    struct sonde_span span;
    const char *subject, *detail;
    uint64_t start, size;
};

/* sonde_ml_model_load_seconds{model,stage="load"|"init"}, sonde_ml_model_bytes{model}; spans
 * ml.model_load and ml.model_init. bytes: what it takes in memory; 0 = not known. */
SONDE_API void sonde_ml_model_load_begin(struct sonde_ml_scope *s, const char *model);
SONDE_API void sonde_ml_model_load_end(struct sonde_ml_scope *s, uint64_t bytes,
                                       enum sonde_outcome outcome);
SONDE_API void sonde_ml_model_init_begin(struct sonde_ml_scope *s, const char *model);
SONDE_API void sonde_ml_model_init_end(struct sonde_ml_scope *s, enum sonde_outcome outcome);

/* sonde_ml_inference_seconds{model,batch_size}, sonde_ml_inference_items_total{model}: items of
 * those that ended well; span ml.inference. */
SONDE_API void sonde_ml_inference_begin(struct sonde_ml_scope *s, const char *model,
                                        uint64_t batch_size);
SONDE_API void sonde_ml_inference_end(struct sonde_ml_scope *s, enum sonde_outcome outcome);

/* sonde_ml_dataset_load_seconds{dataset,format}, sonde_ml_dataset_bytes_total{dataset},
 * sonde_ml_dataset_items_total{dataset}; span ml.dataset_load. format: "csv", …; NULL = "". */
SONDE_API void sonde_ml_dataset_load_begin(struct sonde_ml_scope *s, const char *dataset,
                                           const char *format);
SONDE_API void sonde_ml_dataset_load_end(struct sonde_ml_scope *s, uint64_t items, uint64_t bytes,
                                         enum sonde_outcome outcome);

/* sonde_ml_preprocess_seconds{operation}; span ml.preprocess. */
SONDE_API void sonde_ml_preprocess_begin(struct sonde_ml_scope *s, const char *operation);
SONDE_API void sonde_ml_preprocess_end(struct sonde_ml_scope *s, enum sonde_outcome outcome);

/* sonde_ml_task_seconds{task,worker,outcome}; span ml.task. */
SONDE_API void sonde_ml_task_begin(struct sonde_ml_scope *s, const char *task, const char *worker);
SONDE_API void sonde_ml_task_end(struct sonde_ml_scope *s, enum sonde_outcome outcome);

/* sonde_ml_communication_seconds{operation,worker}, sonde_ml_communication_bytes_total{…}; span
 * ml.communication. operation: "allreduce", "broadcast", …; worker: the other side. */
SONDE_API void sonde_ml_communication_begin(struct sonde_ml_scope *s, const char *operation,
                                            const char *worker);
SONDE_API void sonde_ml_communication_end(struct sonde_ml_scope *s, uint64_t bytes,
                                          enum sonde_outcome outcome);

/* sonde_ml_worker_utilization_ratio{worker} (0 … 1), sonde_ml_worker_memory_bytes{worker},
 * sonde_ml_worker_active_tasks{worker}: as they are now. Negative or NaN = not told. */
SONDE_API void sonde_ml_worker(const char *worker, double utilization, double memory_bytes,
                               double active_tasks);

#ifdef __cplusplus
}
#endif

#endif
