/* ml.c - see ml.h: what series say, and all of it put together. Epochs are ml_epoch.c, gauges over
 * time ml_history.c.
 *
 * Rows are found first, then each asks for the histograms that are about it, all processes and
 * outcomes at once: percentiles cannot be added up. */
#include "analyze/ml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/final_model.h"
#include "analyze/ml_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "model/model.h"
#include "profile/profile.h"
#include "sonde/ml.h"

#define NANOSECONDS 1e-9 /* what durations are recorded in */

#define EMPTY_TIME                                                                             \
    (struct sonde_ml_time){ .mean_s = NAN, .min_s = NAN, .p50_s = NAN, .p90_s = NAN,           \
                            .p95_s = NAN, .p99_s = NAN, .max_s = NAN }

/* ---- Rows ------------------------------------------------------------------------------------ */

static int ml_is(const char *program, const char *name, const char *of_program, const char *of_name)
{
    return !strcmp(program, of_program) && !strcmp(name, of_name);
}

/* Find or add in an array of structures whose first members are `program` and `name`; the new one
 * is `value`. */
#define ROW_OF(items, count, cap, member, of_program, of_name, ...)                            \
    do {                                                                                       \
        for (uint32_t row_i = 0; row_i < (count); row_i++) {                                   \
            if (ml_is((items)[row_i].program, (items)[row_i].member, of_program, of_name)) {   \
                return &(items)[row_i];                                                        \
            }                                                                                  \
        }                                                                                      \
        __typeof__(items) row_new = SONDE_ARRAY_ADD(items, count, cap);                        \
        if (row_new) *row_new = (__typeof__(*(items))){ __VA_ARGS__ };                         \
        return row_new;                                                                        \
    } while (0)

static struct sonde_ml_model *ml_model_of(struct sonde_ml *ml, const char *program,
                                          const char *model)
{
    ROW_OF(ml->models, ml->model_count, ml->model_cap, model, program, model, .program = program,
           .model = model, .load = EMPTY_TIME, .init = EMPTY_TIME, .bytes = NAN);
}

static struct sonde_ml_inference *ml_inference_of(struct sonde_ml *ml, const char *program,
                                                  const char *model)
{
    ROW_OF(ml->inferences, ml->inference_count, ml->inference_cap, model, program, model,
           .program = program, .model = model, .time = EMPTY_TIME, .items_per_s = NAN);
}

struct sonde_ml_training *ml_training_of(struct sonde_ml *ml, const char *program,
                                         const char *model)
{
    ROW_OF(ml->trainings, ml->training_count, ml->training_cap, model, program, model,
           .program = program, .model = model, .epoch = EMPTY_TIME, .step = EMPTY_TIME,
           .first_step = EMPTY_TIME, .samples_per_s = NAN, .epoch_now = NAN);
}

static struct sonde_ml_dataset *ml_dataset_of(struct sonde_ml *ml, const char *program,
                                              const char *dataset)
{
    ROW_OF(ml->datasets, ml->dataset_count, ml->dataset_cap, dataset, program, dataset,
           .program = program, .dataset = dataset, .format = "", .load = EMPTY_TIME,
           .bytes_per_s = NAN, .items_per_s = NAN, .wait = EMPTY_TIME, .use = EMPTY_TIME,
           .first_wait = EMPTY_TIME, .wait_share = NAN);
}

static struct sonde_ml_preprocess *ml_preprocess_of(struct sonde_ml *ml, const char *program,
                                                    const char *operation)
{
    ROW_OF(ml->preprocesses, ml->preprocess_count, ml->preprocess_cap, operation, program,
           operation, .program = program, .operation = operation, .time = EMPTY_TIME);
}

struct sonde_ml_worker *ml_worker_of(struct sonde_ml *ml, const char *program, const char *worker)
{
    ROW_OF(ml->workers, ml->worker_count, ml->worker_cap, worker, program, worker,
           .program = program, .worker = worker, .utilization = NAN, .memory_bytes = NAN,
           .memory_peak_bytes = NAN, .active_tasks = NAN);
}

static struct sonde_ml_task *ml_task_of(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < ml->task_count; i++) {
        struct sonde_ml_task *t = &ml->tasks[i];
        if (ml_is(t->program, t->task, s->program, s->subject) && !strcmp(t->worker, s->detail)) {
            return t;
        }
    }
    struct sonde_ml_task *t = SONDE_ARRAY_ADD(ml->tasks, ml->task_count, ml->task_cap);
    if (t) {
        *t = (struct sonde_ml_task){ .program = s->program, .task = s->subject,
                                     .worker = s->detail, .time = EMPTY_TIME };
    }
    return t;
}

static struct sonde_ml_communication *ml_communication_of(struct sonde_ml *ml,
                                                          const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < ml->communication_count; i++) {
        struct sonde_ml_communication *c = &ml->communications[i];
        if (ml_is(c->program, c->operation, s->program, s->subject) &&
            !strcmp(c->worker, s->detail)) {
            return c;
        }
    }
    struct sonde_ml_communication *c =
        SONDE_ARRAY_ADD(ml->communications, ml->communication_count, ml->communication_cap);
    if (c) {
        *c = (struct sonde_ml_communication){ .program = s->program, .operation = s->subject,
                                              .worker = s->detail, .time = EMPTY_TIME,
                                              .bytes_per_s = NAN };
    }
    return c;
}

struct sonde_ml_latest *ml_latest_of(struct sonde_ml_training *t, const char *name)
{
    for (uint32_t i = 0; i < t->latest_count; i++) {
        if (!strcmp(t->latest[i].name, name)) return &t->latest[i];
    }
    struct sonde_ml_latest *l = SONDE_ARRAY_ADD(t->latest, t->latest_count, t->latest_cap);
    if (l) *l = (struct sonde_ml_latest){ .name = name, .value = NAN };
    return l;
}

/* ---- What each series adds ------------------------------------------------------------------- */

static uint64_t ml_count_of(double v) { return v > 0 ? (uint64_t)(v + 0.5) : 0; }

static double ml_rate(double total, double seconds) { return seconds > 0 ? total / seconds : NAN; }

static int ml_on_model(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_model *m = ml_model_of(ml, s->program, s->subject);
    if (!m) return SONDE_ENOMEM;
    /* Each process that has loaded it has a copy. */
    if (!strcmp(s->family, "sonde_ml_model_bytes")) {
        m->bytes = (isnan(m->bytes) ? 0 : m->bytes) + s->value;
    }
    return 0;
}

static int ml_on_inference(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_inference *n = ml_inference_of(ml, s->program, s->subject);
    if (!n) return SONDE_ENOMEM;
    if (!strcmp(s->family, "sonde_ml_inference_items_total")) {
        n->items += ml_count_of(s->value);
        return 0;
    }
    if (s->seconds > 0) n->rate += (double)s->count / s->seconds;
    for (uint32_t i = 0; i < n->batch_count; i++) {
        if (!strcmp(n->batches[i].label, s->detail)) return 0;
    }
    struct sonde_ml_batch *b = SONDE_ARRAY_ADD(n->batches, n->batch_count, n->batch_cap);
    if (!b) return SONDE_ENOMEM;
    char *end;
    const unsigned long long size = strtoull(s->detail, &end, 10);
    *b = (struct sonde_ml_batch){ .label = s->detail, .size = *end ? 0 : size,
                                  .time = EMPTY_TIME, .items_per_s = NAN };
    return 0;
}

static int ml_on_phase(struct sonde_ml_training *t, const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < t->phase_count; i++) {
        if (!strcmp(t->phases[i].phase, s->detail)) return 0;
    }
    struct sonde_ml_phase *p = SONDE_ARRAY_ADD(t->phases, t->phase_count, t->phase_cap);
    if (!p) return SONDE_ENOMEM;
    *p = (struct sonde_ml_phase){ .phase = s->detail, .time = EMPTY_TIME, .share = NAN };
    return 0;
}

static int ml_on_training(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_training *t = ml_training_of(ml, s->program, s->subject);
    if (!t) return SONDE_ENOMEM;
    if (!strcmp(s->family, "sonde_ml_phase_seconds")) return ml_on_phase(t, s);
    if (!strcmp(s->family, "sonde_ml_samples_total")) t->samples += ml_count_of(s->value);
    if (!strcmp(s->family, "sonde_ml_steps_total")) t->steps += ml_count_of(s->value);
    if (!strcmp(s->family, "sonde_ml_epoch")) t->epoch_now = fmax(t->epoch_now, s->value);
    if (!strcmp(s->family, "sonde_ml_value")) {
        struct sonde_ml_latest *l = ml_latest_of(t, s->detail);
        if (!l) return SONDE_ENOMEM;
        l->value = s->value;
    }
    return 0;
}

static int ml_on_dataset(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_dataset *d = ml_dataset_of(ml, s->program, s->subject);
    if (!d) return SONDE_ENOMEM;
    if (!strcmp(s->family, "sonde_ml_dataset_bytes_total")) d->bytes += s->value;
    if (!strcmp(s->family, "sonde_ml_dataset_items_total")) d->items += ml_count_of(s->value);
    return 0;
}

static int ml_on_preprocess(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    return ml_preprocess_of(ml, s->program, s->subject) ? 0 : SONDE_ENOMEM;
}

static int ml_on_task(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_task *t = ml_task_of(ml, s);
    struct sonde_ml_worker *w = ml_worker_of(ml, s->program, s->detail);
    if (!t || !w) return SONDE_ENOMEM;
    const uint64_t failed = s->extra && strcmp(s->extra, "ok") != 0 ? s->count : 0;
    t->failed += failed;
    w->failed += failed;
    w->tasks += s->count;
    w->task_seconds += s->value;
    return 0;
}

static int ml_on_communication(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_communication *c = ml_communication_of(ml, s);
    struct sonde_ml_worker *w = ml_worker_of(ml, s->program, s->detail);
    if (!c || !w) return SONDE_ENOMEM;
    if (!strcmp(s->family, "sonde_ml_communication_bytes_total")) {
        c->bytes += s->value;
        w->communication_bytes += s->value;
    } else {
        w->communication_seconds += s->value;
    }
    return 0;
}

static int ml_on_worker(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    struct sonde_ml_worker *w = ml_worker_of(ml, s->program, s->subject);
    if (!w) return SONDE_ENOMEM;
    if (!strcmp(s->family, "sonde_ml_worker_utilization_ratio")) w->utilization = s->value;
    if (!strcmp(s->family, "sonde_ml_worker_active_tasks")) w->active_tasks = s->value;
    if (!strcmp(s->family, "sonde_ml_worker_memory_bytes")) {
        w->memory_bytes = s->value;
        w->memory_peak_bytes = s->peak;
    }
    return 0;
}

static const struct {
    const char *family;
    int (*on)(struct sonde_ml *ml, const struct sonde_final_series *s);
    int timed; /* a histogram: nothing is said of one that is empty */
} families[] = {
    { "sonde_ml_model_load_seconds", ml_on_model, 1 },
    { "sonde_ml_model_bytes", ml_on_model, 0 },
    { "sonde_ml_inference_seconds", ml_on_inference, 1 },
    { "sonde_ml_inference_items_total", ml_on_inference, 0 },
    { "sonde_ml_epoch_seconds", ml_on_training, 1 },
    { "sonde_ml_step_seconds", ml_on_training, 1 },
    { "sonde_ml_first_step_seconds", ml_on_training, 1 },
    { "sonde_ml_phase_seconds", ml_on_training, 1 },
    { "sonde_ml_samples_total", ml_on_training, 0 },
    { "sonde_ml_steps_total", ml_on_training, 0 },
    { "sonde_ml_epoch", ml_on_training, 0 },
    { "sonde_ml_value", ml_on_training, 0 },
    { "sonde_ml_dataset_load_seconds", ml_on_dataset, 1 },
    { "sonde_ml_dataset_bytes_total", ml_on_dataset, 0 },
    { "sonde_ml_dataset_items_total", ml_on_dataset, 0 },
    { "sonde_ml_dataset_wait_seconds", ml_on_dataset, 1 },
    { "sonde_ml_dataset_use_seconds", ml_on_dataset, 1 },
    { "sonde_ml_dataset_first_wait_seconds", ml_on_dataset, 1 },
    { "sonde_ml_preprocess_seconds", ml_on_preprocess, 1 },
    { "sonde_ml_task_seconds", ml_on_task, 1 },
    { "sonde_ml_communication_seconds", ml_on_communication, 1 },
    { "sonde_ml_communication_bytes_total", ml_on_communication, 0 },
    { "sonde_ml_worker_utilization_ratio", ml_on_worker, 0 },
    { "sonde_ml_worker_memory_bytes", ml_on_worker, 0 },
    { "sonde_ml_worker_active_tasks", ml_on_worker, 0 },
};

static int ml_on_series(struct sonde_ml *ml, const struct sonde_final_series *s)
{
    for (size_t i = 0; i < SONDE_COUNT(families); i++) {
        if (strcmp(s->family, families[i].family) != 0) continue;
        return families[i].timed && !s->count ? 0 : families[i].on(ml, s);
    }
    return 0;
}

/* ---- Times ----------------------------------------------------------------------------------- */

struct ml_times {
    const struct sonde_final_series *series;
    size_t count;
    const struct sonde_final_series **found; /* room for all of them */
};

/* Of all histograms of a family that are about this; detail NULL = any. */
static struct sonde_ml_time ml_time_of(const struct ml_times *x, const char *family,
                                       const char *program, const char *subject, const char *detail)
{
    struct sonde_ml_time t = EMPTY_TIME;
    size_t n = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct sonde_final_series *s = &x->series[i];
        if (strcmp(s->family, family) != 0 || !ml_is(s->program, s->subject, program, subject) ||
            (detail && strcmp(s->detail, detail) != 0)) {
            continue;
        }
        x->found[n++] = s;
        t.count += s->count;
        t.sum_s += s->value;
    }
    if (!t.count) return t;
    t.mean_s = t.sum_s / (double)t.count;
    t.min_s = sonde_final_quantile(x->found, n, 0, NANOSECONDS);
    t.p50_s = sonde_final_quantile(x->found, n, 0.5, NANOSECONDS);
    t.p90_s = sonde_final_quantile(x->found, n, 0.9, NANOSECONDS);
    t.p95_s = sonde_final_quantile(x->found, n, 0.95, NANOSECONDS);
    t.p99_s = sonde_final_quantile(x->found, n, 0.99, NANOSECONDS);
    t.max_s = sonde_final_quantile(x->found, n, 1, NANOSECONDS);
    return t;
}

static void ml_times_of_training(const struct ml_times *x, struct sonde_ml_training *t)
{
    t->epoch = ml_time_of(x, "sonde_ml_epoch_seconds", t->program, t->model, NULL);
    t->step = ml_time_of(x, "sonde_ml_step_seconds", t->program, t->model, NULL);
    t->first_step = ml_time_of(x, "sonde_ml_first_step_seconds", t->program, t->model, NULL);
    t->phase_seconds = 0;
    for (uint32_t i = 0; i < t->phase_count; i++) {
        struct sonde_ml_phase *p = &t->phases[i];
        p->time = ml_time_of(x, "sonde_ml_phase_seconds", t->program, t->model, p->phase);
        t->phase_seconds += p->time.sum_s;
    }
    for (uint32_t i = 0; i < t->phase_count; i++) {
        t->phases[i].share = ml_rate(t->phases[i].time.sum_s, t->phase_seconds);
    }
    const double seconds = t->epoch.count ? t->epoch.sum_s : t->step.sum_s;
    if (t->samples) t->samples_per_s = ml_rate((double)t->samples, seconds);
    if (!t->steps) t->steps = t->step.count;
}

static void ml_times_of_inference(const struct ml_times *x, struct sonde_ml_inference *n)
{
    n->time = ml_time_of(x, "sonde_ml_inference_seconds", n->program, n->model, NULL);
    n->items_per_s = n->items ? ml_rate((double)n->items, n->time.sum_s) : NAN;
    for (uint32_t i = 0; i < n->batch_count; i++) {
        struct sonde_ml_batch *b = &n->batches[i];
        b->time = ml_time_of(x, "sonde_ml_inference_seconds", n->program, n->model, b->label);
        const double items = (double)b->size * (double)b->time.count;
        if (b->size) b->items_per_s = ml_rate(items, b->time.sum_s);
    }
}

/* The one that most loads were of. */
static const char *ml_format_of(const struct ml_times *x, const struct sonde_ml_dataset *d)
{
    const char *best = "";
    uint64_t most = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct sonde_final_series *s = &x->series[i];
        if (!strcmp(s->family, "sonde_ml_dataset_load_seconds") && s->count > most &&
            ml_is(s->program, s->subject, d->program, d->dataset)) {
            best = s->detail;
            most = s->count;
        }
    }
    return best;
}

static void ml_times_of_dataset(const struct ml_times *x, struct sonde_ml_dataset *d)
{
    d->load = ml_time_of(x, "sonde_ml_dataset_load_seconds", d->program, d->dataset, NULL);
    d->wait = ml_time_of(x, "sonde_ml_dataset_wait_seconds", d->program, d->dataset, NULL);
    d->use = ml_time_of(x, "sonde_ml_dataset_use_seconds", d->program, d->dataset, NULL);
    d->first_wait =
        ml_time_of(x, "sonde_ml_dataset_first_wait_seconds", d->program, d->dataset, NULL);
    d->wait_share = ml_rate(d->wait.sum_s, d->wait.sum_s + d->use.sum_s);
    d->format = ml_format_of(x, d);
    if (d->bytes > 0) d->bytes_per_s = ml_rate(d->bytes, d->load.sum_s);
    if (d->items) d->items_per_s = ml_rate((double)d->items, d->load.sum_s);
}

static void ml_times_fill(const struct ml_times *x, struct sonde_ml *ml)
{
    for (uint32_t i = 0; i < ml->model_count; i++) {
        struct sonde_ml_model *m = &ml->models[i];
        m->load = ml_time_of(x, "sonde_ml_model_load_seconds", m->program, m->model, "load");
        m->init = ml_time_of(x, "sonde_ml_model_load_seconds", m->program, m->model, "init");
    }
    for (uint32_t i = 0; i < ml->inference_count; i++) {
        ml_times_of_inference(x, &ml->inferences[i]);
    }
    for (uint32_t i = 0; i < ml->training_count; i++) ml_times_of_training(x, &ml->trainings[i]);
    for (uint32_t i = 0; i < ml->dataset_count; i++) ml_times_of_dataset(x, &ml->datasets[i]);
    for (uint32_t i = 0; i < ml->preprocess_count; i++) {
        struct sonde_ml_preprocess *p = &ml->preprocesses[i];
        p->time = ml_time_of(x, "sonde_ml_preprocess_seconds", p->program, p->operation, NULL);
    }
    for (uint32_t i = 0; i < ml->task_count; i++) {
        struct sonde_ml_task *t = &ml->tasks[i];
        t->time = ml_time_of(x, "sonde_ml_task_seconds", t->program, t->task, t->worker);
    }
    for (uint32_t i = 0; i < ml->communication_count; i++) {
        struct sonde_ml_communication *c = &ml->communications[i];
        c->time = ml_time_of(x, "sonde_ml_communication_seconds", c->program, c->operation,
                             c->worker);
        if (c->bytes > 0) c->bytes_per_s = ml_rate(c->bytes, c->time.sum_s);
    }
}

int ml_series_add(struct sonde_ml *ml, const struct sonde_final_series *series, size_t count)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) rc = ml_on_series(ml, &series[i]);
    struct ml_times x = { series, count, NULL };
    if (!rc) x.found = sonde__alloc((count + 1) * sizeof(*x.found));
    if (!rc && !x.found) rc = SONDE_ENOMEM;
    if (!rc) ml_times_fill(&x, ml);
    sonde__free(x.found);
    return rc;
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Most seconds first, then by name. */
#define BY_TIME(function, tag, seconds, name)                                                  \
    static int function(const void *a, const void *b)                                          \
    {                                                                                          \
        const struct tag *x = a, *y = b;                                                       \
        if (x->seconds != y->seconds) return SONDE_CMP(y->seconds, x->seconds);                \
        const int order = strcmp(x->name, y->name);                                            \
        return order ? order : strcmp(x->program, y->program);                                 \
    }
BY_TIME(ml_by_inference, sonde_ml_inference, time.sum_s, model)
BY_TIME(ml_by_dataset, sonde_ml_dataset, load.sum_s, dataset)
BY_TIME(ml_by_preprocess, sonde_ml_preprocess, time.sum_s, operation)

static int ml_by_model(const void *a, const void *b)
{
    const struct sonde_ml_model *x = a, *y = b;
    const double time_x = x->load.sum_s + x->init.sum_s, time_y = y->load.sum_s + y->init.sum_s;
    if (time_x != time_y) return SONDE_CMP(time_y, time_x);
    const int order = strcmp(x->model, y->model);
    return order ? order : strcmp(x->program, y->program);
}

static double ml_training_seconds(const struct sonde_ml_training *t)
{
    return t->epoch.count ? t->epoch.sum_s : t->step.sum_s;
}

static int ml_by_training(const void *a, const void *b)
{
    const struct sonde_ml_training *x = a, *y = b;
    const double time_x = ml_training_seconds(x), time_y = ml_training_seconds(y);
    if (time_x != time_y) return SONDE_CMP(time_y, time_x);
    const int order = strcmp(x->model, y->model);
    return order ? order : strcmp(x->program, y->program);
}

static int ml_by_task(const void *a, const void *b)
{
    const struct sonde_ml_task *x = a, *y = b;
    if (x->time.sum_s != y->time.sum_s) return SONDE_CMP(y->time.sum_s, x->time.sum_s);
    const int order = strcmp(x->task, y->task);
    return order ? order : strcmp(x->worker, y->worker);
}

static int ml_by_communication(const void *a, const void *b)
{
    const struct sonde_ml_communication *x = a, *y = b;
    if (x->time.sum_s != y->time.sum_s) return SONDE_CMP(y->time.sum_s, x->time.sum_s);
    const int order = strcmp(x->operation, y->operation);
    return order ? order : strcmp(x->worker, y->worker);
}

/* Names of workers often end in their number: "w2" comes before "w10". */
static int ml_by_worker(const void *a, const void *b)
{
    const struct sonde_ml_worker *x = a, *y = b;
    const int order = strverscmp(x->worker, y->worker);
    return order ? order : strcmp(x->program, y->program);
}

static int ml_by_batch(const void *a, const void *b)
{
    const struct sonde_ml_batch *x = a, *y = b;
    return x->size != y->size ? SONDE_CMP(x->size, y->size) : strcmp(x->label, y->label);
}

static int ml_phase_place(const char *phase)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_ML_PHASES(SONDE__X)
#undef SONDE__X
    };
    size_t i = 0;
    while (i < SONDE_COUNT(names) && strcmp(names[i], phase) != 0) i++;
    return i == SONDE_ML_OTHER ? (int)SONDE_COUNT(names) + 1 : (int)i; /* last of all */
}

static int ml_by_phase(const void *a, const void *b)
{
    const struct sonde_ml_phase *x = a, *y = b;
    const int place_x = ml_phase_place(x->phase), place_y = ml_phase_place(y->phase);
    if (place_x != place_y) return SONDE_CMP(place_x, place_y);
    if (x->time.sum_s != y->time.sum_s) return SONDE_CMP(y->time.sum_s, x->time.sum_s);
    return strcmp(x->phase, y->phase);
}

static int ml_by_name(const void *a, const void *b)
{
    const struct sonde_ml_latest *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void ml_sort(void *rows, uint32_t count, size_t size,
                    int (*order)(const void *, const void *))
{
    if (count) qsort(rows, count, size, order);
}

static void ml_note_program(struct sonde_ml *ml, const char **first, const char *program)
{
    if (*first && strcmp(*first, program) != 0) ml->several = 1;
    *first = program;
}

static void ml_note_programs(struct sonde_ml *ml)
{
    const char *first = NULL;
#define NOTE(rows, count)                                                                      \
    for (uint32_t i = 0; i < ml->count; i++) ml_note_program(ml, &first, ml->rows[i].program)
    NOTE(models, model_count);
    NOTE(inferences, inference_count);
    NOTE(trainings, training_count);
    NOTE(datasets, dataset_count);
    NOTE(preprocesses, preprocess_count);
    NOTE(tasks, task_count);
    NOTE(communications, communication_count);
    NOTE(workers, worker_count);
#undef NOTE
}

static int ml_finish(struct sonde_ml *ml)
{
    int rc = 0;
    for (uint32_t i = 0; i < ml->inference_count; i++) {
        struct sonde_ml_inference *n = &ml->inferences[i];
        ml_sort(n->batches, n->batch_count, sizeof(*n->batches), ml_by_batch);
    }
    for (uint32_t i = 0; !rc && i < ml->training_count; i++) {
        struct sonde_ml_training *t = &ml->trainings[i];
        ml_sort(t->phases, t->phase_count, sizeof(*t->phases), ml_by_phase);
        ml_sort(t->latest, t->latest_count, sizeof(*t->latest), ml_by_name);
        rc = ml_epochs_finish(t);
    }
    ml_note_programs(ml);
    ml_sort(ml->models, ml->model_count, sizeof(*ml->models), ml_by_model);
    ml_sort(ml->inferences, ml->inference_count, sizeof(*ml->inferences), ml_by_inference);
    ml_sort(ml->trainings, ml->training_count, sizeof(*ml->trainings), ml_by_training);
    ml_sort(ml->datasets, ml->dataset_count, sizeof(*ml->datasets), ml_by_dataset);
    ml_sort(ml->preprocesses, ml->preprocess_count, sizeof(*ml->preprocesses), ml_by_preprocess);
    ml_sort(ml->tasks, ml->task_count, sizeof(*ml->tasks), ml_by_task);
    ml_sort(ml->communications, ml->communication_count, sizeof(*ml->communications),
            ml_by_communication);
    ml_sort(ml->workers, ml->worker_count, sizeof(*ml->workers), ml_by_worker);
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int ml_has_any(const struct sonde_ml *ml)
{
    return ml->model_count || ml->inference_count || ml->training_count || ml->dataset_count ||
           ml->preprocess_count || ml->task_count || ml->communication_count || ml->worker_count;
}

static int ml_handed_out(struct sonde_ml *ml, int rc, struct sonde_ml **out)
{
    if (!rc) rc = ml_finish(ml);
    *out = NULL;
    if (!rc && ml_has_any(ml)) *out = ml;
    else sonde_ml_destroy(ml);
    return rc;
}

int sonde_ml_of_part(const struct sonde_profile *p, const struct sonde_final *final,
                     uint64_t from_ns, uint64_t to_ns, struct sonde_ml **out)
{
    struct sonde_ml *ml = sonde__calloc(1, sizeof(*ml));
    const struct ml_part part = { p, final, from_ns, to_ns };
    int rc = ml ? 0 : SONDE_ENOMEM;
    if (!rc && final) rc = ml_series_add(ml, final->series, final->count);
    if (!rc) rc = ml_epochs_of_profile(ml, &part);
    if (!rc) rc = ml_histories_of_profile(ml, &part);
    return ml_handed_out(ml, rc, out);
}

int sonde_ml_of_profile(const struct sonde_profile *p, struct sonde_ml **out)
{
    return sonde_ml_of_part(p, p->final, 0, 0, out);
}

int sonde_ml_of_model(const struct sonde_model *m, struct sonde_ml **out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct sonde_ml *ml = sonde__calloc(1, sizeof(*ml));
    struct sonde_final f = { .series = NULL };
    int rc = ml ? sonde_final_of_model(m, &f) : SONDE_ENOMEM;
    if (!rc) rc = ml_series_add(ml, f.series, f.count);
    if (!rc) rc = ml_epochs_of_model(ml, m);
    if (!rc) rc = ml_histories_of_model(ml, m);
    sonde_final_release(&f);
    return ml_handed_out(ml, rc, out);
}

static void ml_history_release(struct sonde_ml_history *h)
{
    sonde__free(h->time_s);
    sonde__free(h->value);
}

static void ml_training_release(struct sonde_ml_training *t)
{
    for (uint32_t i = 0; i < t->epoch_count; i++) sonde__free(t->epochs[i].values);
    for (uint32_t i = 0; i < t->latest_count; i++) ml_history_release(&t->latest[i].history);
    sonde__free(t->phases);
    sonde__free(t->epochs);
    sonde__free(t->latest);
    sonde__free(t->curve_names);
}

void sonde_ml_destroy(struct sonde_ml *ml)
{
    if (!ml) return;
    for (uint32_t i = 0; i < ml->inference_count; i++) sonde__free(ml->inferences[i].batches);
    for (uint32_t i = 0; i < ml->training_count; i++) ml_training_release(&ml->trainings[i]);
    for (uint32_t i = 0; i < ml->worker_count; i++) {
        ml_history_release(&ml->workers[i].utilizations);
    }
    sonde__free(ml->models);
    sonde__free(ml->inferences);
    sonde__free(ml->trainings);
    sonde__free(ml->datasets);
    sonde__free(ml->preprocesses);
    sonde__free(ml->tasks);
    sonde__free(ml->communications);
    sonde__free(ml->workers);
    sonde__free(ml);
}
