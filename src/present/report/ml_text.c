/* ml_text.c - machine learning as text or Markdown. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/report/ml.h"
#include "present/report/profile_private.h"
#include "present/units.h"

enum { CURVES_MAX = 6 }; /* columns of losses and such; JSON has all */

struct ml_text {
    const struct sonde_ml *ml;
    const struct sonde_report_options *o;
    size_t limit;
    struct sonde_buf *out;
};

/* An empty cell is what is not known. */
static void ml_cell(const struct ml_text *x, struct sonde_table *t, size_t column, double v,
                    enum sonde_unit unit)
{
    char text[SONDE_VALUE_BYTES];
    if (!isnan(v)) {
        sonde_table_cell(t, column, "%s", sonde_value_format(text, v, unit, x->o->ascii));
    }
}

static void ml_name_cell(const struct ml_text *x, struct sonde_table *t, const char *name,
                         const char *program)
{
    if (x->ml->several) sonde_table_cell(t, 0, "%s of %s", name, program);
    else sonde_table_cell(t, 0, "%s", name);
}

static void ml_table_put(const struct ml_text *x, const char *title, size_t count,
                         struct sonde_table *t)
{
    char text[1200];
    snprintf(text, sizeof(text), "%s", title);
    if (count > x->limit) {
        snprintf(text, sizeof(text), "%.1000s, the first %zu of %zu", title, x->limit, count);
    }
    report_put_table(x->o, text, t, x->out);
}

/* COUNT, TIME, AVG, P50, P95, MAX from a column on. */
static void ml_time_cells(const struct ml_text *x, struct sonde_table *t, size_t column,
                          const struct sonde_ml_time *time)
{
    const double values[] = { time->sum_s, time->mean_s, time->p50_s, time->p95_s, time->max_s };
    sonde_table_cell(t, column, "%" PRIu64, time->count);
    for (size_t i = 0; i < SONDE_COUNT(values); i++) {
        ml_cell(x, t, column + 1 + i, values[i], SONDE_UNIT_SECONDS);
    }
}
#define ML_TIME_COLUMNS                                                                        \
    { .title = "COUNT", .align = SONDE_RIGHT }, { .title = "TIME", .align = SONDE_RIGHT },     \
    { .title = "AVG", .align = SONDE_RIGHT }, { .title = "P50", .align = SONDE_RIGHT, .drop = 2 }, \
    { .title = "P95", .align = SONDE_RIGHT }, { .title = "MAX", .align = SONDE_RIGHT, .drop = 1 }

/* ---- Models and inference ------------------------------------------------------------------ */

static void ml_models(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "MODEL", .min = 8 }, { .title = "SIZE", .align = SONDE_RIGHT },
        { .title = "LOADS", .align = SONDE_RIGHT }, { .title = "AVG", .align = SONDE_RIGHT },
        { .title = "MAX", .align = SONDE_RIGHT }, { .title = "INITS", .align = SONDE_RIGHT },
        { .title = "AVG", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->model_count && i < x->limit; i++) {
        const struct sonde_ml_model *m = &x->ml->models[i];
        sonde_table_row(&t);
        ml_name_cell(x, &t, m->model, m->program);
        ml_cell(x, &t, 1, m->bytes, SONDE_UNIT_BYTES);
        sonde_table_cell(&t, 2, "%" PRIu64, m->load.count);
        ml_cell(x, &t, 3, m->load.mean_s, SONDE_UNIT_SECONDS);
        ml_cell(x, &t, 4, m->load.max_s, SONDE_UNIT_SECONDS);
        sonde_table_cell(&t, 5, "%" PRIu64, m->init.count);
        ml_cell(x, &t, 6, m->init.mean_s, SONDE_UNIT_SECONDS);
    }
    ml_table_put(x, "ML models", x->ml->model_count, &t);
}

static void ml_inference_row(const struct ml_text *x, struct sonde_table *t, const char *batch,
                             const struct sonde_ml_time *time, double rate)
{
    sonde_table_cell(t, 1, "%s", batch);
    ml_time_cells(x, t, 2, time);
    ml_cell(x, t, 8, rate, SONDE_UNIT_COUNT);
}

static void ml_inferences(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "MODEL", .min = 8 }, { .title = "BATCH", .align = SONDE_RIGHT },
        ML_TIME_COLUMNS, { .title = "ITEMS/S", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    size_t rows = 0;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->inference_count; i++) {
        const struct sonde_ml_inference *m = &x->ml->inferences[i];
        for (uint32_t k = 0; k < m->batch_count && rows < x->limit; k++, rows++) {
            sonde_table_row(&t);
            ml_name_cell(x, &t, m->model, m->program);
            ml_inference_row(x, &t, m->batches[k].label, &m->batches[k].time,
                             m->batches[k].items_per_s);
        }
        if (m->batch_count < 2 || rows++ >= x->limit) continue;
        sonde_table_row(&t);
        ml_name_cell(x, &t, m->model, m->program);
        ml_inference_row(x, &t, "all", &m->time, m->items_per_s);
    }
    report_put_table(x->o, "ML inference by batch size", &t, x->out);
}

/* ---- Training -------------------------------------------------------------------------------- */

static void ml_epochs(const struct ml_text *x, const struct sonde_ml_training *m)
{
    struct sonde_column columns[5 + CURVES_MAX] = {
        { .title = "EPOCH", .align = SONDE_RIGHT }, { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "SAMPLES", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "PER SECOND", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "FIRST STEP", .align = SONDE_RIGHT, .drop = 3 },
    };
    const uint32_t curves = m->curve_count < CURVES_MAX ? m->curve_count : CURVES_MAX;
    const uint32_t first = m->epoch_count > x->limit ? m->epoch_count - (uint32_t)x->limit : 0;
    struct sonde_table t;
    if (!m->epoch_count) return;
    for (uint32_t k = 0; k < curves; k++) {
        columns[5 + k] = (struct sonde_column){ .title = m->curve_names[k], .align = SONDE_RIGHT };
    }
    sonde_table_init(&t, columns, 5 + curves);
    for (uint32_t i = first; i < m->epoch_count; i++) { /* the newest are those that matter */
        const struct sonde_ml_epoch *e = &m->epochs[i];
        sonde_table_row(&t);
        if (e->epoch != INT64_MIN) sonde_table_cell(&t, 0, "%lld", (long long)e->epoch);
        ml_cell(x, &t, 1, e->duration_s, SONDE_UNIT_SECONDS);
        if (e->samples) sonde_table_cell(&t, 2, "%" PRIu64, e->samples);
        ml_cell(x, &t, 3, e->samples_per_s, SONDE_UNIT_COUNT);
        ml_cell(x, &t, 4, e->first_step_s, SONDE_UNIT_SECONDS);
        for (uint32_t k = 0; k < curves; k++) {
            const double v = sonde_ml_epoch_value(e, m->curve_names[k]);
            if (!isnan(v)) sonde_table_cell(&t, 5 + k, "%.4g", v);
        }
    }
    char title[96] = "Epochs";
    if (first) snprintf(title, sizeof(title), "Epochs, the last %zu of %u", x->limit,
                        m->epoch_count);
    report_put_heading(x->o, 3, title, x->out);
    report_put_rows(x->o, &t, x->out);
}

static void ml_phases(const struct ml_text *x, const struct sonde_ml_training *m)
{
    static const struct sonde_column columns[] = {
        { .title = "PHASE", .min = 8 }, { .title = "%", .align = SONDE_RIGHT }, ML_TIME_COLUMNS,
    };
    struct sonde_table t;
    if (!m->phase_count) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < m->phase_count && i < x->limit; i++) {
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", m->phases[i].phase);
        report_percent_cell(&t, 1, m->phases[i].share);
        ml_time_cells(x, &t, 2, &m->phases[i].time);
    }
    report_put_heading(x->o, 3, "Phases", x->out);
    report_put_rows(x->o, &t, x->out);
}

static void ml_training_steps(const struct ml_text *x, const struct sonde_ml_training *m)
{
    char mean[SONDE_VALUE_BYTES], p95[SONDE_VALUE_BYTES], first[SONDE_VALUE_BYTES], more[96] = "";
    if (!m->step.count) return;
    if (m->first_step.count) {
        snprintf(more, sizeof(more), "; the first of an epoch %s",
                 sonde_value_format(first, m->first_step.mean_s, SONDE_UNIT_SECONDS, x->o->ascii));
    }
    report_put_fact(x->o, x->out, "steps", "%" PRIu64 ": mean %s, p95 %s%s", m->step.count,
                    sonde_value_format(mean, m->step.mean_s, SONDE_UNIT_SECONDS, x->o->ascii),
                    sonde_value_format(p95, m->step.p95_s, SONDE_UNIT_SECONDS, x->o->ascii), more);
}

static void ml_training(const struct ml_text *x, const struct sonde_ml_training *m)
{
    char mean[SONDE_VALUE_BYTES], rate[SONDE_VALUE_BYTES];
    report_put_heading(x->o, 2, "Training", x->out);
    report_put_fact(x->o, x->out, "model", "%.1000s%s%.500s", m->model,
                    x->ml->several ? " of " : "", x->ml->several ? m->program : "");
    if (m->epoch.count) {
        report_put_fact(x->o, x->out, "epochs", "%" PRIu64 ", mean %s", m->epoch.count,
                        sonde_value_format(mean, m->epoch.mean_s, SONDE_UNIT_SECONDS,
                                           x->o->ascii));
    }
    ml_training_steps(x, m);
    if (m->samples) {
        report_put_fact(x->o, x->out, "samples", "%" PRIu64 ", %s per second", m->samples,
                        sonde_value_format(rate, m->samples_per_s, SONDE_UNIT_COUNT, x->o->ascii));
    }
    for (uint32_t i = 0; !m->epoch_count && i < m->latest_count && i < x->limit; i++) {
        report_put_fact(x->o, x->out, "value", "%.1000s %.6g", m->latest[i].name,
                        m->latest[i].value);
    }
    ml_epochs(x, m);
    ml_phases(x, m);
}

/* ---- Data and workers ------------------------------------------------------------------------ */

static void ml_datasets(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "DATASET", .min = 8 }, { .title = "FORMAT" }, ML_TIME_COLUMNS,
        { .title = "SIZE", .align = SONDE_RIGHT }, { .title = "PER SECOND", .align = SONDE_RIGHT },
        { .title = "ITEMS/S", .align = SONDE_RIGHT, .drop = 3 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->dataset_count && i < x->limit; i++) {
        const struct sonde_ml_dataset *d = &x->ml->datasets[i];
        sonde_table_row(&t);
        ml_name_cell(x, &t, d->dataset, d->program);
        sonde_table_cell(&t, 1, "%s", d->format);
        ml_time_cells(x, &t, 2, &d->load);
        ml_cell(x, &t, 8, d->bytes, SONDE_UNIT_BYTES);
        ml_cell(x, &t, 9, d->bytes_per_s, SONDE_UNIT_BYTES);
        ml_cell(x, &t, 10, d->items_per_s, SONDE_UNIT_COUNT);
    }
    ml_table_put(x, "Datasets", x->ml->dataset_count, &t);
}

/* Loops over datasets: what they waited, and what they did with what they got. */
static void ml_waits(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "DATASET", .min = 8 }, ML_TIME_COLUMNS,
        { .title = "FIRST", .align = SONDE_RIGHT }, { .title = "WORK", .align = SONDE_RIGHT },
        { .title = "WAITED", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    uint32_t count = 0;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->dataset_count; i++) {
        const struct sonde_ml_dataset *d = &x->ml->datasets[i];
        if (!d->wait.count || count++ >= x->limit) continue;
        sonde_table_row(&t);
        ml_name_cell(x, &t, d->dataset, d->program);
        ml_time_cells(x, &t, 1, &d->wait);
        ml_cell(x, &t, 7, d->first_wait.mean_s, SONDE_UNIT_SECONDS);
        ml_cell(x, &t, 8, d->use.sum_s, SONDE_UNIT_SECONDS);
        ml_cell(x, &t, 9, d->wait_share, SONDE_UNIT_RATIO);
    }
    if (count) ml_table_put(x, "Waiting for data", count, &t);
    else sonde_table_release(&t);
}

static void ml_preprocesses(const struct ml_text *x)
{
    static const struct sonde_column columns[] = { { .title = "OPERATION", .min = 8 },
                                                   ML_TIME_COLUMNS };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->preprocess_count && i < x->limit; i++) {
        sonde_table_row(&t);
        ml_name_cell(x, &t, x->ml->preprocesses[i].operation, x->ml->preprocesses[i].program);
        ml_time_cells(x, &t, 1, &x->ml->preprocesses[i].time);
    }
    ml_table_put(x, "Preprocessing", x->ml->preprocess_count, &t);
}

static void ml_workers(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "WORKER", .min = 8 }, { .title = "TASKS", .align = SONDE_RIGHT },
        { .title = "FAILED", .align = SONDE_RIGHT }, { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "UTILIZATION", .align = SONDE_RIGHT },
        { .title = "MEMORY", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "ACTIVE", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "COMMUNICATION", .align = SONDE_RIGHT },
        { .title = "MOVED", .align = SONDE_RIGHT, .drop = 1 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->worker_count && i < x->limit; i++) {
        const struct sonde_ml_worker *w = &x->ml->workers[i];
        sonde_table_row(&t);
        ml_name_cell(x, &t, w->worker, w->program);
        sonde_table_cell(&t, 1, "%" PRIu64, w->tasks);
        sonde_table_cell(&t, 2, "%" PRIu64, w->failed);
        ml_cell(x, &t, 3, w->task_seconds, SONDE_UNIT_SECONDS);
        ml_cell(x, &t, 4, w->utilization, SONDE_UNIT_RATIO);
        ml_cell(x, &t, 5, w->memory_bytes, SONDE_UNIT_BYTES);
        ml_cell(x, &t, 6, w->active_tasks, SONDE_UNIT_COUNT);
        ml_cell(x, &t, 7, w->communication_seconds, SONDE_UNIT_SECONDS);
        ml_cell(x, &t, 8, w->communication_bytes, SONDE_UNIT_BYTES);
    }
    ml_table_put(x, "Workers", x->ml->worker_count, &t);
}

static void ml_tasks(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "TASK", .min = 8 }, { .title = "WORKER", .min = 6 }, ML_TIME_COLUMNS,
        { .title = "FAILED", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->task_count && i < x->limit; i++) {
        const struct sonde_ml_task *task = &x->ml->tasks[i];
        sonde_table_row(&t);
        ml_name_cell(x, &t, task->task, task->program);
        sonde_table_cell(&t, 1, "%s", task->worker);
        ml_time_cells(x, &t, 2, &task->time);
        sonde_table_cell(&t, 8, "%" PRIu64, task->failed);
    }
    ml_table_put(x, "Tasks", x->ml->task_count, &t);
}

static void ml_communications(const struct ml_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "COMMUNICATION", .min = 8 }, { .title = "WORKER", .min = 6 }, ML_TIME_COLUMNS,
        { .title = "MOVED", .align = SONDE_RIGHT }, { .title = "PER SECOND", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->ml->communication_count && i < x->limit; i++) {
        const struct sonde_ml_communication *c = &x->ml->communications[i];
        sonde_table_row(&t);
        ml_name_cell(x, &t, c->operation, c->program);
        sonde_table_cell(&t, 1, "%s", c->worker);
        ml_time_cells(x, &t, 2, &c->time);
        ml_cell(x, &t, 8, c->bytes, SONDE_UNIT_BYTES);
        ml_cell(x, &t, 9, c->bytes_per_s, SONDE_UNIT_BYTES);
    }
    ml_table_put(x, "Communication", x->ml->communication_count, &t);
}

void sonde_ml_report(const struct sonde_ml *ml, const struct sonde_report_options *o, size_t limit,
                     struct sonde_buf *out)
{
    const struct ml_text x = { ml, o, limit, out };
    if (!ml) return;
    for (uint32_t i = 0; i < ml->training_count && i < limit; i++) {
        ml_training(&x, &ml->trainings[i]);
    }
    if (ml->model_count) ml_models(&x);
    if (ml->inference_count) ml_inferences(&x);
    if (ml->dataset_count) ml_datasets(&x);
    if (ml->dataset_count) ml_waits(&x);
    if (ml->preprocess_count) ml_preprocesses(&x);
    if (ml->worker_count) ml_workers(&x);
    if (ml->task_count) ml_tasks(&x);
    if (ml->communication_count) ml_communications(&x);
}
