/* ml_history.c - gauges of ml.h over time: values of training and how busy workers are, out of the
 * tracks of a recording or what an agent remembers. Where several processes tell the same, the
 * first that has something is shown: values of two cannot be joined. */
#include <math.h>
#include <string.h>

#include "analyze/ml_private.h"
#include "base/array.h"
#include "model/model.h"
#include "profile/profile.h"
#include "profile/track.h"
#include "sonde/sonde.h"

static int ml_history_add(struct sonde_ml_history *h, double time_s, double value)
{
    if (!isfinite(value)) return 0;
    if (SONDE_ARRAY_ROOM(h->time_s, h->count, h->cap) ||
        SONDE_ARRAY_ROOM(h->value, h->count, h->cap_value)) {
        return SONDE_ENOMEM;
    }
    h->time_s[h->count] = time_s;
    h->value[h->count++] = value;
    return 0;
}

/* ---- Of a recording -------------------------------------------------------------------------- */

/* The value of a label in `a="b",c="d"`, as Prometheus escapes it; 0 = it is not there, or does not
 * fit. */
static int ml_label_read(const char *labels, const char *name, char *out, size_t size)
{
    const size_t len = strlen(name);
    const char *at = labels;
    while (*at) {
        const int here = !strncmp(at, name, len) && at[len] == '=' && at[len + 1] == '"';
        size_t n = 0;
        at = strchr(at, '"');
        if (!at) return 0;
        for (at++; *at && *at != '"'; at++) {
            char c = *at;
            if (c == '\\' && at[1]) c = *++at == 'n' ? '\n' : *at;
            if (n + 1 < size) out[n] = c;
            n++;
        }
        if (here) {
            if (n >= size) return 0;
            out[n] = '\0';
            return 1;
        }
        if (*at) at++;
        if (*at == ',') at++;
    }
    return 0;
}

static struct sonde_ml_history *ml_history_of_value(struct sonde_ml *ml, const char *program,
                                                    const char *model, const char *name)
{
    for (uint32_t i = 0; i < ml->training_count; i++) {
        struct sonde_ml_training *t = &ml->trainings[i];
        if (strcmp(t->program, program) != 0 || strcmp(t->model, model) != 0) continue;
        for (uint32_t k = 0; k < t->latest_count; k++) {
            if (!strcmp(t->latest[k].name, name)) return &t->latest[k].history;
        }
    }
    return NULL;
}

static struct sonde_ml_history *ml_history_of_worker(struct sonde_ml *ml, const char *program,
                                                     const char *worker)
{
    for (uint32_t i = 0; i < ml->worker_count; i++) {
        struct sonde_ml_worker *w = &ml->workers[i];
        if (!strcmp(w->program, program) && !strcmp(w->worker, worker)) return &w->utilizations;
    }
    return NULL;
}

static struct sonde_ml_history *ml_history_of_track(struct sonde_ml *ml,
                                                    const struct sonde_track *t)
{
    char a[SONDE_LABEL_VALUE_MAX + 1], b[SONDE_LABEL_VALUE_MAX + 1];
    if (!strcmp(t->family, "sonde_ml_value")) {
        const int both = ml_label_read(t->labels, "model", a, sizeof(a)) &&
                         ml_label_read(t->labels, "name", b, sizeof(b));
        return both ? ml_history_of_value(ml, t->program, a, b) : NULL;
    }
    if (!strcmp(t->family, "sonde_ml_worker_utilization_ratio")) {
        const int has = ml_label_read(t->labels, "worker", a, sizeof(a));
        return has ? ml_history_of_worker(ml, t->program, a) : NULL;
    }
    return NULL;
}

int ml_histories_of_profile(struct sonde_ml *ml, const struct ml_part *part)
{
    const struct sonde_tracks *tracks = part->p->tracks;
    const double from_s = (double)part->from_ns * 1e-9, to_s = (double)part->to_ns * 1e-9;
    int rc = 0;
    for (uint32_t i = 0; tracks && i < tracks->count; i++) {
        const struct sonde_track *t = &tracks->rows[i];
        struct sonde_ml_history *h = ml_history_of_track(ml, t);
        if (!h || h->count) continue;
        for (uint32_t k = 0; !rc && k < tracks->tick_count; k++) {
            const double end_s = tracks->ticks[k].end_s;
            if (end_s <= from_s || (to_s > 0 && end_s > to_s)) continue;
            rc = ml_history_add(h, end_s, (double)t->values[k]);
        }
    }
    return rc;
}

/* ---- Of an agent ----------------------------------------------------------------------------- */

static const char *ml_series_label(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

static int ml_history_of_series(const struct sonde_model *m, const struct sonde_model_series *s,
                                struct sonde_ml_history *h)
{
    int rc = 0;
    if (!h || h->count || !s->history) return 0;
    for (uint32_t age = s->history_count; !rc && age--;) {
        rc = ml_history_add(h, sonde_model_tick_end(m, age),
                            s->history[(m->tick - 1 - age) % SONDE_HISTORY]);
    }
    return rc;
}

int ml_histories_of_model(struct sonde_ml *ml, const struct sonde_model *m)
{
    const struct sonde_model_family *values = sonde_model_family_find(m, "sonde_ml_value");
    const struct sonde_model_family *workers =
        sonde_model_family_find(m, "sonde_ml_worker_utilization_ratio");
    int rc = 0;
    for (size_t i = 0; values && !rc && i < values->series_count; i++) {
        const struct sonde_model_series *s = values->series[i];
        const char *program = s->process ? s->process->program : "";
        rc = ml_history_of_series(m, s, ml_history_of_value(ml, program,
                                                            ml_series_label(s, "model"),
                                                            ml_series_label(s, "name")));
    }
    for (size_t i = 0; workers && !rc && i < workers->series_count; i++) {
        const struct sonde_model_series *s = workers->series[i];
        const char *program = s->process ? s->process->program : "";
        rc = ml_history_of_series(m, s,
                                  ml_history_of_worker(ml, program, ml_series_label(s, "worker")));
    }
    return rc;
}
