/* ml_csv.c - machine learning as rows of csv.h. */
#include <stdio.h>

#include "present/report/csv.h"
#include "present/report/ml.h"

static void ml_csv_time(const struct report_csv *c, const char *prefix,
                        const struct sonde_ml_time *t)
{
    const struct { const char *name; double value; } figures[] = {
        { "seconds", t->sum_s }, { "mean", t->mean_s }, { "p50", t->p50_s }, { "p95", t->p95_s },
        { "p99", t->p99_s }, { "max", t->max_s },
    };
    char figure[64];
    if (!t->count) return;
    snprintf(figure, sizeof(figure), "%scount", prefix);
    report_csv_u64(c, figure, t->count, "");
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        snprintf(figure, sizeof(figure), "%s%s", prefix, figures[i].name);
        report_csv_num(c, figure, figures[i].value, "seconds");
    }
}

static void ml_csv_inference(const struct sonde_ml_inference *m, struct sonde_buf *out)
{
    struct report_csv c = { .out = out, .section = "ml_inference", .program = m->program,
                            .name = m->model };
    ml_csv_time(&c, "", &m->time);
    report_csv_u64(&c, "items", m->items, "");
    report_csv_num(&c, "items_rate", m->items_per_s, "per second");
    for (uint32_t i = 0; i < m->batch_count; i++) {
        c.detail = m->batches[i].label;
        ml_csv_time(&c, "", &m->batches[i].time);
        report_csv_num(&c, "items_rate", m->batches[i].items_per_s, "per second");
    }
}

static void ml_csv_training(const struct sonde_ml_training *t, struct sonde_buf *out)
{
    struct report_csv c = { .out = out, .section = "ml_training", .program = t->program,
                            .name = t->model };
    ml_csv_time(&c, "epoch_", &t->epoch);
    ml_csv_time(&c, "step_", &t->step);
    ml_csv_time(&c, "first_step_", &t->first_step);
    report_csv_u64(&c, "samples", t->samples, "");
    report_csv_u64(&c, "steps", t->steps, "");
    report_csv_num(&c, "samples_rate", t->samples_per_s, "per second");
    for (uint32_t i = 0; i < t->latest_count; i++) {
        c.detail = t->latest[i].name;
        report_csv_num(&c, "value", t->latest[i].value, "");
    }
    c.section = "ml_phases";
    for (uint32_t i = 0; i < t->phase_count; i++) {
        c.detail = t->phases[i].phase;
        ml_csv_time(&c, "", &t->phases[i].time);
        report_csv_num(&c, "share", t->phases[i].share, "ratio");
    }
    c.section = "ml_epochs";
    for (uint32_t i = 0; i < t->epoch_count; i++) {
        const struct sonde_ml_epoch *e = &t->epochs[i];
        char number[32];
        snprintf(number, sizeof(number), "%lld", (long long)e->epoch);
        c.detail = e->epoch == INT64_MIN ? NULL : number;
        report_csv_num(&c, "start", e->start_s, "unix seconds");
        report_csv_num(&c, "duration", e->duration_s, "seconds");
        report_csv_u64(&c, "samples", e->samples, "");
        report_csv_num(&c, "samples_rate", e->samples_per_s, "per second");
        for (uint32_t k = 0; k < e->value_count; k++) {
            report_csv_num(&c, e->values[k].name, e->values[k].value, "");
        }
    }
}

static void ml_csv_data(const struct sonde_ml *ml, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < ml->dataset_count; i++) {
        const struct sonde_ml_dataset *d = &ml->datasets[i];
        const struct report_csv c = { .out = out, .section = "ml_datasets", .program = d->program,
                                      .name = d->dataset, .detail = d->format };
        ml_csv_time(&c, "", &d->load);
        report_csv_num(&c, "size", d->bytes, "bytes");
        report_csv_u64(&c, "items", d->items, "");
        report_csv_num(&c, "bytes_rate", d->bytes_per_s, "bytes per second");
        report_csv_num(&c, "items_rate", d->items_per_s, "per second");
        if (d->wait.count) {
            ml_csv_time(&c, "wait_", &d->wait);
            ml_csv_time(&c, "first_wait_", &d->first_wait);
            ml_csv_time(&c, "use_", &d->use);
            report_csv_num(&c, "wait_share", d->wait_share, "ratio");
        }
    }
    for (uint32_t i = 0; i < ml->preprocess_count; i++) {
        const struct sonde_ml_preprocess *x = &ml->preprocesses[i];
        const struct report_csv c = { .out = out, .section = "ml_preprocessing",
                                      .program = x->program, .name = x->operation };
        ml_csv_time(&c, "", &x->time);
    }
}

static void ml_csv_workers(const struct sonde_ml *ml, struct sonde_buf *out)
{
    for (uint32_t i = 0; i < ml->task_count; i++) {
        const struct sonde_ml_task *x = &ml->tasks[i];
        const struct report_csv c = { .out = out, .section = "ml_tasks", .program = x->program,
                                      .name = x->task, .detail = x->worker };
        ml_csv_time(&c, "", &x->time);
        report_csv_u64(&c, "failed", x->failed, "");
    }
    for (uint32_t i = 0; i < ml->communication_count; i++) {
        const struct sonde_ml_communication *x = &ml->communications[i];
        const struct report_csv c = { .out = out, .section = "ml_communication",
                                      .program = x->program, .name = x->operation,
                                      .detail = x->worker };
        ml_csv_time(&c, "", &x->time);
        report_csv_num(&c, "moved", x->bytes, "bytes");
        report_csv_num(&c, "bytes_rate", x->bytes_per_s, "bytes per second");
    }
    for (uint32_t i = 0; i < ml->worker_count; i++) {
        const struct sonde_ml_worker *w = &ml->workers[i];
        const struct report_csv c = { .out = out, .section = "ml_workers", .program = w->program,
                                      .name = w->worker };
        report_csv_u64(&c, "tasks", w->tasks, "");
        report_csv_u64(&c, "failed", w->failed, "");
        report_csv_num(&c, "task_seconds", w->task_seconds, "seconds");
        report_csv_num(&c, "utilization", w->utilization, "ratio");
        report_csv_num(&c, "memory", w->memory_bytes, "bytes");
        report_csv_num(&c, "active_tasks", w->active_tasks, "");
    }
}

void sonde_ml_csv(const struct sonde_ml *ml, struct sonde_buf *out)
{
    if (!ml) return;
    for (uint32_t i = 0; i < ml->model_count; i++) {
        const struct sonde_ml_model *m = &ml->models[i];
        const struct report_csv c = { .out = out, .section = "ml_models", .program = m->program,
                                      .name = m->model };
        ml_csv_time(&c, "load_", &m->load);
        ml_csv_time(&c, "init_", &m->init);
        report_csv_num(&c, "size", m->bytes, "bytes");
    }
    for (uint32_t i = 0; i < ml->inference_count; i++) ml_csv_inference(&ml->inferences[i], out);
    for (uint32_t i = 0; i < ml->training_count; i++) ml_csv_training(&ml->trainings[i], out);
    ml_csv_data(ml, out);
    ml_csv_workers(ml, out);
}
