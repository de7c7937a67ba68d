/* ml_ops.c - the scopes of ml.h: models, inference, datasets, preprocessing, tasks, communication.
 * Each is a span and a histogram whose labels are known when it ends; known label sets are found
 * without a lock. Training loops, which keep their handles, are ml_loop.c; analyze/ml.c makes
 * reports of both. */
#include "sonde/ml.h"

#include <string.h>

#include "record/ready.h"
#include "record/state.h"

#define SECONDS(name, help, ...)                                                               \
    READY(SONDE_HISTOGRAM, name, help, "seconds", SONDE_KIND_TIME, 1e-9, LABELS(__VA_ARGS__))

static struct ready model_load =
    SECONDS("sonde_ml_model_load_seconds", "Time to load a model, and to initialize it.", "model",
            "stage");
static struct ready model_bytes =
    READY(SONDE_GAUGE, "sonde_ml_model_bytes", "Memory that a model takes.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("model"));
static struct ready inference =
    SECONDS("sonde_ml_inference_seconds", "Time of a batch of inference, by its size.", "model",
            "batch_size");
static struct ready inference_items =
    READY(SONDE_COUNTER, "sonde_ml_inference_items_total", "Items inferred.", NULL,
          SONDE_KIND_THROUGHPUT, 1, LABELS("model"));
static struct ready dataset_load =
    SECONDS("sonde_ml_dataset_load_seconds", "Time to load a dataset, or a part of it.",
            "dataset", "format");
static struct ready dataset_bytes =
    READY(SONDE_COUNTER, "sonde_ml_dataset_bytes_total", "Bytes of datasets loaded.", "bytes",
          SONDE_KIND_THROUGHPUT, 1, LABELS("dataset"));
static struct ready dataset_items =
    READY(SONDE_COUNTER, "sonde_ml_dataset_items_total", "Items of datasets loaded.", NULL,
          SONDE_KIND_THROUGHPUT, 1, LABELS("dataset"));
static struct ready preprocess =
    SECONDS("sonde_ml_preprocess_seconds", "Time of preprocessing, by operation.", "operation");
static struct ready task =
    SECONDS("sonde_ml_task_seconds", "Time of tasks, by worker and outcome.", "task", "worker",
            "outcome");
static struct ready communication =
    SECONDS("sonde_ml_communication_seconds", "Time of communication between workers.",
            "operation", "worker");
static struct ready communication_bytes =
    READY(SONDE_COUNTER, "sonde_ml_communication_bytes_total", "Bytes between workers.", "bytes",
          SONDE_KIND_THROUGHPUT, 1, LABELS("operation", "worker"));
static struct ready worker_utilization =
    READY(SONDE_GAUGE, "sonde_ml_worker_utilization_ratio", "How busy a worker is.", "ratio",
          SONDE_KIND_RATIO, 1, LABELS("worker"));
static struct ready worker_memory =
    READY(SONDE_GAUGE, "sonde_ml_worker_memory_bytes", "Memory that a worker takes.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("worker"));
static struct ready worker_tasks =
    READY(SONDE_GAUGE, "sonde_ml_worker_active_tasks", "Tasks that a worker has at hand.", NULL,
          SONDE_KIND_COUNTER, 1, LABELS("worker"));

static const char *ml_name_or(const char *name, const char *other)
{
    return name && *name ? name : other;
}

/* ---- A scope ------------------------------------------------------------------------------- */

static void ml_scope_begin(struct sonde_ml_scope *s, const char *span, const char *subject,
                           const char *detail)
{
    *s = (struct sonde_ml_scope){ .subject = subject, .detail = detail };
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    sonde_span_begin(&s->span, sonde_name(span));
    s->start = s->span.flags ? s->span.start : 0;
}

/* Records its time under these labels, says it in attributes of its span (a key that is NULL is
 * left out), and ends it. 1 if it was recorded. */
static int ml_scope_end(struct sonde_ml_scope *s, struct ready *seconds, const char *const *labels,
                        enum sonde_outcome outcome)
{
    if (!s->start) return 0;
    const uint64_t ns = sonde_ticks_ns(sonde_ticks() - s->start);
    s->start = 0;
    const int open = sonde__ensure_open() == 0;
    for (size_t i = 0; open && seconds->metric.labels[i]; i++) {
        sonde_span_attr_str(&s->span, sonde_name(seconds->metric.labels[i]), labels[i]);
    }
    if (open) sonde_hist_record_traced(sonde_hist_bind(ready_family(seconds), labels), ns);
    sonde_span_end(&s->span, outcome);
    return open;
}

static void ml_count(struct ready *r, const char *const *labels, uint64_t n)
{
    if (n) sonde_counter_add(sonde_counter_bind(ready_family(r), labels), n);
}

static void ml_attr_number(struct sonde_ml_scope *s, const char *key, uint64_t value)
{
    if (s->start && value) {
        sonde_span_attr_int(&s->span, sonde_name(key), (int64_t)value);
    }
}

/* ---- Models -------------------------------------------------------------------------------- */

void sonde_ml_model_load_begin(struct sonde_ml_scope *s, const char *model)
{
    ml_scope_begin(s, "ml.model_load", ml_name_or(model, "default"), NULL);
}

void sonde_ml_model_load_end(struct sonde_ml_scope *s, uint64_t bytes, enum sonde_outcome outcome)
{
    const char *const labels[] = { s->subject, "load" };
    ml_attr_number(s, "bytes", bytes);
    if (!ml_scope_end(s, &model_load, labels, outcome) || !bytes) return;
    sonde_gauge_set(sonde_gauge_bind(ready_family(&model_bytes), labels), (double)bytes);
}

void sonde_ml_model_init_begin(struct sonde_ml_scope *s, const char *model)
{
    ml_scope_begin(s, "ml.model_init", ml_name_or(model, "default"), NULL);
}

void sonde_ml_model_init_end(struct sonde_ml_scope *s, enum sonde_outcome outcome)
{
    ml_scope_end(s, &model_load, (const char *const[]){ s->subject, "init" }, outcome);
}

/* ---- Inference ----------------------------------------------------------------------------- */

/* n in decimal, without stdio; the first character of it in text. */
static const char *ml_decimal(uint64_t n, char text[24])
{
    char *at = text + 23;
    *at = '\0';
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    return at;
}

void sonde_ml_inference_begin(struct sonde_ml_scope *s, const char *model, uint64_t batch_size)
{
    ml_scope_begin(s, "ml.inference", ml_name_or(model, "default"), NULL);
    s->size = batch_size;
}

void sonde_ml_inference_end(struct sonde_ml_scope *s, enum sonde_outcome outcome)
{
    char text[24];
    const char *const labels[] = { s->subject, ml_decimal(s->size, text) };
    if (ml_scope_end(s, &inference, labels, outcome) && outcome == SONDE_OK) {
        ml_count(&inference_items, labels, s->size);
    }
}

/* ---- Data ---------------------------------------------------------------------------------- */

void sonde_ml_dataset_load_begin(struct sonde_ml_scope *s, const char *dataset, const char *format)
{
    ml_scope_begin(s, "ml.dataset_load", ml_name_or(dataset, "default"), format ? format : "");
}

void sonde_ml_dataset_load_end(struct sonde_ml_scope *s, uint64_t items, uint64_t bytes,
                               enum sonde_outcome outcome)
{
    const char *const labels[] = { s->subject, s->detail };
    ml_attr_number(s, "num_samples", items);
    ml_attr_number(s, "bytes", bytes);
    if (!ml_scope_end(s, &dataset_load, labels, outcome)) return;
    ml_count(&dataset_items, labels, items);
    ml_count(&dataset_bytes, labels, bytes);
}

void sonde_ml_preprocess_begin(struct sonde_ml_scope *s, const char *operation)
{
    ml_scope_begin(s, "ml.preprocess", ml_name_or(operation, "default"), NULL);
}

void sonde_ml_preprocess_end(struct sonde_ml_scope *s, enum sonde_outcome outcome)
{
    ml_scope_end(s, &preprocess, &s->subject, outcome);
}

/* ---- Workers ------------------------------------------------------------------------------- */

void sonde_ml_task_begin(struct sonde_ml_scope *s, const char *name, const char *worker)
{
    ml_scope_begin(s, "ml.task", ml_name_or(name, "default"), ml_name_or(worker, "default"));
}

void sonde_ml_task_end(struct sonde_ml_scope *s, enum sonde_outcome outcome)
{
    static const char *const names[] = { "ok", "error", "cancelled", "timeout" };
    const unsigned o = (unsigned)outcome <= SONDE_TIMEOUT ? (unsigned)outcome : SONDE_ERROR;
    ml_scope_end(s, &task, (const char *const[]){ s->subject, s->detail, names[o] },
                 (enum sonde_outcome)o);
}

void sonde_ml_communication_begin(struct sonde_ml_scope *s, const char *operation,
                                  const char *worker)
{
    ml_scope_begin(s, "ml.communication", ml_name_or(operation, "default"),
                   ml_name_or(worker, "default"));
}

void sonde_ml_communication_end(struct sonde_ml_scope *s, uint64_t bytes,
                                enum sonde_outcome outcome)
{
    const char *const labels[] = { s->subject, s->detail };
    ml_attr_number(s, "bytes", bytes);
    if (ml_scope_end(s, &communication, labels, outcome)) {
        ml_count(&communication_bytes, labels, bytes);
    }
}

static void ml_worker_set(struct ready *r, const char *worker, double value)
{
    if (value >= 0) sonde_gauge_set(sonde_gauge_bind(ready_family(r), &worker), value);
}

void sonde_ml_worker(const char *worker, double utilization, double memory_bytes,
                     double active_tasks)
{
    const char *name = ml_name_or(worker, "default");
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    ml_worker_set(&worker_utilization, name, utilization);
    ml_worker_set(&worker_memory, name, memory_bytes);
    ml_worker_set(&worker_tasks, name, active_tasks);
}
