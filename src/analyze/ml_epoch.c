/* ml_epoch.c - epochs of training out of spans `ml.epoch`: what their attributes say (sonde/ml.h).
 * Every number that is not one of the known attributes is a value of the epoch's: the loss, the
 * accuracy, whatever the program calls it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/ml_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "model/model.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

static const char span_name[] = "ml.epoch";

struct ml_attr {
    const char *key;
    const char *text; /* NULL = a number */
    double number;
    int64_t whole;    /* as it was recorded, if it was a whole number */
};

/* ---- One epoch ------------------------------------------------------------------------------- */

struct ml_epoch_read {
    struct sonde_ml_epoch epoch;
    const char *model;
    double step_seconds;
};

static int ml_epoch_value_add(struct sonde_ml_epoch *e, const char *name, double value)
{
    struct sonde_ml_value *v = SONDE_ARRAY_ADD(e->values, e->value_count, e->value_cap);
    if (!v) return SONDE_ENOMEM;
    *v = (struct sonde_ml_value){ name, value };
    return 0;
}

static int ml_epoch_attr(struct ml_epoch_read *r, const struct ml_attr *a)
{
    struct sonde_ml_epoch *e = &r->epoch;
    if (a->text) {
        if (!strcmp(a->key, "model")) r->model = a->text;
        return 0;
    }
    const uint64_t count = a->number > 0 && a->number < 1e18 ? (uint64_t)a->number : 0;
    if (!strcmp(a->key, "epoch")) e->epoch = a->whole;
    else if (!strcmp(a->key, "num_samples")) e->samples = count;
    else if (!strcmp(a->key, "steps")) e->steps = count;
    else if (!strcmp(a->key, "step_seconds")) r->step_seconds = a->number;
    else if (!strcmp(a->key, "first_step_seconds")) e->first_step_s = a->number;
    else return ml_epoch_value_add(e, a->key, a->number);
    return 0;
}

static void ml_epoch_begin(struct ml_epoch_read *r, uint64_t start_ns, uint64_t duration_ns,
                           uint32_t outcome, uint32_t pid)
{
    *r = (struct ml_epoch_read){
        .epoch = { .epoch = INT64_MIN, .start_s = (double)start_ns * 1e-9,
                   .duration_s = (double)duration_ns * 1e-9, .outcome = outcome, .pid = pid,
                   .samples_per_s = NAN, .first_step_s = NAN, .later_step_mean_s = NAN },
        .model = "default", .step_seconds = NAN };
}

/* Attributes hold fewer bytes of a name than labels do. */
static int ml_is_model(const char *label, const char *attr)
{
    const size_t len = strlen(attr);
    return !strcmp(label, attr) ||
           (len >= SONDE__ATTR_BYTES - 3 && !strncmp(label, attr, len)); /* cut at a character */
}

static struct sonde_ml_training *ml_epoch_training(struct sonde_ml *ml, const char *program,
                                                   const char *model)
{
    for (uint32_t i = 0; i < ml->training_count; i++) {
        struct sonde_ml_training *t = &ml->trainings[i];
        if ((!program || !strcmp(t->program, program)) && ml_is_model(t->model, model)) return t;
    }
    return ml_training_of(ml, program ? program : "", model);
}

/* Takes what r owns. program NULL = not known. */
static int ml_epoch_add(struct sonde_ml *ml, const char *program, struct ml_epoch_read *r)
{
    struct sonde_ml_epoch *e = &r->epoch;
    struct sonde_ml_training *t = ml_epoch_training(ml, program, r->model);
    struct sonde_ml_epoch *to = t ? SONDE_ARRAY_ADD(t->epochs, t->epoch_count, t->epoch_cap) : NULL;
    if (!to) {
        sonde__free(e->values);
        return SONDE_ENOMEM;
    }
    if (e->samples && e->duration_s > 0) e->samples_per_s = (double)e->samples / e->duration_s;
    if (!e->steps) e->first_step_s = NAN;
    if (e->steps > 1) {
        e->later_step_mean_s = (r->step_seconds - e->first_step_s) / (double)(e->steps - 1);
    }
    *to = *e;
    return 0;
}

double sonde_ml_epoch_value(const struct sonde_ml_epoch *e, const char *name)
{
    for (uint32_t i = 0; i < e->value_count; i++) {
        if (!strcmp(e->values[i].name, name)) return e->values[i].value;
    }
    return NAN;
}

/* ---- Of a recording -------------------------------------------------------------------------- */

/* Spans know their process by its number only; series of it know its name. */
static const char *ml_program_of(const struct sonde_final *final, uint32_t pid)
{
    for (uint32_t i = 0; final && i < final->count; i++) {
        const struct sonde_final_series *s = &final->series[i];
        if (s->pid == pid && !strncmp(s->family, "sonde_ml_", 9)) return s->program;
    }
    return NULL;
}

static int ml_epoch_of_span(struct sonde_ml *ml, const struct ml_part *part, uint32_t i)
{
    const struct sonde_profile *p = part->p;
    const struct sonde_profile_span *s = &p->spans[i];
    const uint32_t pid = p->threads[s->thread].pid;
    struct ml_epoch_read r;
    uint32_t count;
    int rc = 0;
    ml_epoch_begin(&r, s->start_ns, s->end_ns > s->start_ns ? s->end_ns - s->start_ns : 0,
                   s->outcome, pid);
    const struct sonde_profile_attr *a = sonde_profile_attrs_of(p, i, &count);
    for (uint32_t k = 0; !rc && k < count; k++) {
        const int whole = a[k].type == SONDE_PROFILE_ATTR_INT;
        const struct ml_attr attr = {
            .key = sonde_profile_str(p, a[k].key),
            .text = a[k].type == SONDE_PROFILE_ATTR_TEXT ? sonde_profile_str(p, a[k].text) : NULL,
            .number = whole ? (double)a[k].value.i : a[k].value.d,
            .whole = whole ? a[k].value.i : INT64_MIN };
        rc = ml_epoch_attr(&r, &attr);
    }
    if (!rc) return ml_epoch_add(ml, ml_program_of(part->final, pid), &r);
    sonde__free(r.epoch.values);
    return rc;
}

int ml_epochs_of_profile(struct sonde_ml *ml, const struct ml_part *part)
{
    const struct sonde_profile *p = part->p;
    const uint32_t name = sonde_profile_find_string(p, span_name);
    int rc = 0;
    for (uint32_t i = 0; name && !rc && i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (s->name != name || (part->from_ns && s->end_ns <= part->from_ns) ||
            (part->to_ns && s->end_ns > part->to_ns)) {
            continue;
        }
        rc = ml_epoch_of_span(ml, part, i);
    }
    return rc;
}

/* ---- Of an agent ----------------------------------------------------------------------------- */

static int ml_epoch_of_model_span(struct sonde_ml *ml, const struct sonde_model_span *s)
{
    struct ml_epoch_read r;
    int rc = 0;
    ml_epoch_begin(&r, s->start_ns, s->duration_ns, s->outcome, s->pid);
    for (uint32_t k = 0; !rc && k < s->attr_count; k++) {
        const struct sonde_model_attr *a = &s->attrs[k];
        const int whole = a->type == SONDE__ATTR_INT;
        const struct ml_attr attr = {
            .key = a->key, .text = a->type == SONDE__ATTR_STR ? a->value.str : NULL,
            .number = whole ? (double)a->value.i : a->value.d,
            .whole = whole ? a->value.i : INT64_MIN };
        rc = ml_epoch_attr(&r, &attr);
    }
    if (!rc) return ml_epoch_add(ml, s->program, &r);
    sonde__free(r.epoch.values);
    return rc;
}

int ml_epochs_of_model(struct sonde_ml *ml, const struct sonde_model *m)
{
    const uint64_t first = m->span_next > m->spans_max ? m->span_next - m->spans_max : 0;
    int rc = 0;
    for (uint64_t i = first; !rc && i < m->span_next; i++) {
        const struct sonde_model_span *s = &m->spans[i % m->spans_max];
        if (s->name && !strcmp(s->name, span_name)) rc = ml_epoch_of_model_span(ml, s);
    }
    return rc;
}

/* ---- Curves ---------------------------------------------------------------------------------- */

static int ml_by_start(const void *a, const void *b)
{
    const struct sonde_ml_epoch *x = a, *y = b;
    return x->start_s != y->start_s ? SONDE_CMP(x->start_s, y->start_s)
                                    : SONDE_CMP(x->epoch, y->epoch);
}

static size_t ml_curve_place(const char *name)
{
    static const char *const known[] = { "train_loss", "loss", "val_loss", "eval_loss",
                                         "train_acc", "train_accuracy", "accuracy", "val_acc",
                                         "val_accuracy", "eval_accuracy", "learning_rate" };
    size_t i = 0;
    while (i < SONDE_COUNT(known) && strcmp(known[i], name) != 0) i++;
    return i;
}

static int ml_by_curve(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    const size_t place_x = ml_curve_place(x), place_y = ml_curve_place(y);
    return place_x != place_y ? SONDE_CMP(place_x, place_y) : strcmp(x, y);
}

static int ml_curve_note(struct sonde_ml_training *t, const char *name)
{
    for (uint32_t i = 0; i < t->curve_count; i++) {
        if (!strcmp(t->curve_names[i], name)) return 0;
    }
    const char **to = SONDE_ARRAY_ADD(t->curve_names, t->curve_count, t->curve_cap);
    if (!to) return SONDE_ENOMEM;
    *to = name;
    return 0;
}

int ml_epochs_finish(struct sonde_ml_training *t)
{
    int rc = 0;
    if (t->epoch_count) qsort(t->epochs, t->epoch_count, sizeof(*t->epochs), ml_by_start);
    for (uint32_t i = 0; i < t->epoch_count; i++) {
        for (uint32_t k = 0; !rc && k < t->epochs[i].value_count; k++) {
            rc = ml_curve_note(t, t->epochs[i].values[k].name);
        }
    }
    if (t->curve_count) {
        qsort(t->curve_names, t->curve_count, sizeof(*t->curve_names), ml_by_curve);
    }
    return rc;
}
