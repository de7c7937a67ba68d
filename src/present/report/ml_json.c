/* ml_json.c - machine learning for programs. */
#include <math.h>

#include "base/json.h"
#include "present/report/ml.h"
#include "present/report/profile_private.h"
#include "sonde/sonde.h"

static void ml_json_times(struct sonde_buf *out, const struct sonde_ml_time *t)
{
    sonde_json_u64(out, "count", t->count);
    sonde_json_num(out, "seconds", t->sum_s);
    sonde_json_num(out, "mean_s", t->mean_s);
    sonde_json_num(out, "min_s", t->min_s);
    sonde_json_num(out, "p50_s", t->p50_s);
    sonde_json_num(out, "p90_s", t->p90_s);
    sonde_json_num(out, "p95_s", t->p95_s);
    sonde_json_num(out, "p99_s", t->p99_s);
    sonde_json_num(out, "max_s", t->max_s);
}

static void ml_json_time(struct sonde_buf *out, const char *key, const struct sonde_ml_time *t)
{
    sonde_json_key_open(out, key, '{');
    ml_json_times(out, t);
    sonde_json_close(out, '}');
}

static void ml_json_model(struct sonde_buf *out, const struct sonde_ml_model *m)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", m->program);
    sonde_json_str(out, "model", m->model);
    sonde_json_num(out, "bytes", m->bytes);
    ml_json_time(out, "load", &m->load);
    ml_json_time(out, "init", &m->init);
    sonde_json_close(out, '}');
}

static void ml_json_inference(struct sonde_buf *out, const struct sonde_ml_inference *m)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", m->program);
    sonde_json_str(out, "model", m->model);
    ml_json_times(out, &m->time);
    sonde_json_u64(out, "items", m->items);
    sonde_json_num(out, "items_per_s", m->items_per_s);
    sonde_json_num(out, "rate_per_s", m->rate);
    sonde_json_key_open(out, "batches", '[');
    for (uint32_t i = 0; i < m->batch_count; i++) {
        const struct sonde_ml_batch *b = &m->batches[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "batch_size", b->label);
        ml_json_times(out, &b->time);
        sonde_json_num(out, "items_per_s", b->items_per_s);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void ml_json_epoch(struct sonde_buf *out, const struct sonde_ml_epoch *e)
{
    sonde_json_open(out, '{');
    sonde_json_num(out, "epoch", e->epoch == INT64_MIN ? NAN : (double)e->epoch);
    sonde_json_time(out, "start", e->start_s);
    sonde_json_num(out, "duration_s", e->duration_s);
    sonde_json_u64(out, "samples", e->samples);
    sonde_json_num(out, "samples_per_s", e->samples_per_s);
    sonde_json_bool(out, "ok", e->outcome == SONDE_OK);
    sonde_json_u64(out, "steps", e->steps);
    sonde_json_num(out, "first_step_s", e->first_step_s);
    sonde_json_num(out, "later_step_mean_s", e->later_step_mean_s);
    sonde_json_key_open(out, "values", '{');
    for (uint32_t i = 0; i < e->value_count; i++) {
        sonde_json_num(out, e->values[i].name, e->values[i].value);
    }
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void ml_json_training(struct sonde_buf *out, const struct sonde_ml_training *t)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", t->program);
    sonde_json_str(out, "model", t->model);
    sonde_json_num(out, "epoch_now", t->epoch_now);
    sonde_json_u64(out, "samples", t->samples);
    sonde_json_u64(out, "steps", t->steps);
    sonde_json_num(out, "samples_per_s", t->samples_per_s);
    ml_json_time(out, "epoch", &t->epoch);
    ml_json_time(out, "step", &t->step);
    ml_json_time(out, "first_step", &t->first_step);
    sonde_json_key_open(out, "phases", '[');
    for (uint32_t i = 0; i < t->phase_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "phase", t->phases[i].phase);
        ml_json_times(out, &t->phases[i].time);
        sonde_json_num(out, "share", round(t->phases[i].share * 1e6) / 1e6);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "latest", '{');
    for (uint32_t i = 0; i < t->latest_count; i++) {
        sonde_json_num(out, t->latest[i].name, t->latest[i].value);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "epochs", '[');
    for (uint32_t i = 0; i < t->epoch_count; i++) ml_json_epoch(out, &t->epochs[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void ml_json_dataset(struct sonde_buf *out, const struct sonde_ml_dataset *d)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", d->program);
    sonde_json_str(out, "dataset", d->dataset);
    sonde_json_str(out, "format", *d->format ? d->format : NULL);
    ml_json_times(out, &d->load);
    sonde_json_num(out, "bytes", d->bytes);
    sonde_json_u64(out, "items", d->items);
    sonde_json_num(out, "bytes_per_s", d->bytes_per_s);
    sonde_json_num(out, "items_per_s", d->items_per_s);
    ml_json_time(out, "wait", &d->wait);
    ml_json_time(out, "first_wait", &d->first_wait);
    ml_json_time(out, "use", &d->use);
    sonde_json_num(out, "wait_share", d->wait_share);
    sonde_json_close(out, '}');
}

static void ml_json_preprocess(struct sonde_buf *out, const struct sonde_ml_preprocess *x)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", x->program);
    sonde_json_str(out, "operation", x->operation);
    ml_json_times(out, &x->time);
    sonde_json_close(out, '}');
}

static void ml_json_task(struct sonde_buf *out, const struct sonde_ml_task *x)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", x->program);
    sonde_json_str(out, "task", x->task);
    sonde_json_str(out, "worker", x->worker);
    ml_json_times(out, &x->time);
    sonde_json_u64(out, "failed", x->failed);
    sonde_json_close(out, '}');
}

static void ml_json_communication(struct sonde_buf *out, const struct sonde_ml_communication *x)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", x->program);
    sonde_json_str(out, "operation", x->operation);
    sonde_json_str(out, "worker", x->worker);
    ml_json_times(out, &x->time);
    sonde_json_num(out, "bytes", x->bytes);
    sonde_json_num(out, "bytes_per_s", x->bytes_per_s);
    sonde_json_close(out, '}');
}

static void ml_json_worker(struct sonde_buf *out, const struct sonde_ml_worker *w)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", w->program);
    sonde_json_str(out, "worker", w->worker);
    sonde_json_u64(out, "tasks", w->tasks);
    sonde_json_u64(out, "failed", w->failed);
    sonde_json_num(out, "task_seconds", w->task_seconds);
    sonde_json_num(out, "communication_seconds", w->communication_seconds);
    sonde_json_num(out, "communication_bytes", w->communication_bytes);
    sonde_json_num(out, "utilization_ratio", w->utilization);
    sonde_json_num(out, "memory_bytes", w->memory_bytes);
    sonde_json_num(out, "memory_peak_bytes", w->memory_peak_bytes);
    sonde_json_num(out, "active_tasks", w->active_tasks);
    sonde_json_close(out, '}');
}

void sonde_ml_json(const struct sonde_ml *ml, struct sonde_buf *out)
{
    if (!ml) return;
    sonde_json_key_open(out, "ml", '{');
#define PUT_ROWS(key, rows, row_count, put)                                                    \
    sonde_json_key_open(out, key, '[');                                                        \
    for (uint32_t i = 0; i < ml->row_count; i++) put(out, &ml->rows[i]);                       \
    sonde_json_close(out, ']');
    PUT_ROWS("models", models, model_count, ml_json_model)
    PUT_ROWS("inference", inferences, inference_count, ml_json_inference)
    PUT_ROWS("training", trainings, training_count, ml_json_training)
    PUT_ROWS("datasets", datasets, dataset_count, ml_json_dataset)
    PUT_ROWS("preprocessing", preprocesses, preprocess_count, ml_json_preprocess)
    PUT_ROWS("tasks", tasks, task_count, ml_json_task)
    PUT_ROWS("communication", communications, communication_count, ml_json_communication)
    PUT_ROWS("workers", workers, worker_count, ml_json_worker)
#undef PUT_ROWS
    sonde_json_close(out, '}');
}
