/* track_ticks.c - see track_ticks.h. */
#include "model/track_ticks.h"

#include <stdio.h>
#include <string.h>

#include "profile/track.h"

enum { LABELS_MAX = 1024 };

/* Left out: figures of single threads, of which there may be thousands. */
static int track_wanted(const struct sonde_model_family *f)
{
    static const char threads[] = "sonde_thread_";
    return strncmp(f->name, threads, sizeof(threads) - 1) != 0;
}

size_t sonde_track_labels_len(const char *labels, size_t len)
{
    const char *end = labels + len, *at = labels, *process = NULL;
    while ((at = strstr(at, "process=\"")) && at < end) process = at++;
    if (!process || (process != labels && process[-1] != ',')) return len;
    return process == labels ? 0 : (size_t)(process - labels) - 1;
}

static void track_labels(const struct sonde_model_series *s, char out[LABELS_MAX])
{
    size_t len = s->label_text_len;
    if (s->process) len = sonde_track_labels_len(s->label_text, len);
    if (len >= LABELS_MAX) len = 0; /* a cut one would be another's */
    memcpy(out, s->label_text, len);
    out[len] = '\0';
}

static void track_put_hist(const struct sonde_model_series *s, const struct sonde_hist_delta *d,
                           double length_s, struct sonde_profile *p, struct sonde_track *t)
{
    char name[256];
    snprintf(name, sizeof(name), "%.200s_count", s->family->name);
    t->family = name;
    sonde_tracks_put(p, t, d ? (double)d->count / length_s : 0);
    snprintf(name, sizeof(name), "%.200s_sum", s->family->name);
    sonde_tracks_put(p, t, d ? sonde_family_value(s->family, d->sum_raw) / length_s : 0);
}

static void track_put(const struct sonde_model *m, const struct sonde_model_series *s, uint32_t age,
                      double length_s, struct sonde_profile *p)
{
    char labels[LABELS_MAX];
    const size_t at = (m->tick - 1 - age) % SONDE_HISTORY;
    if (age >= s->history_count) return;
    track_labels(s, labels);
    struct sonde_track t = {
        .family = s->family->name, .labels = labels,
        .program = s->process ? s->process->program : "", .pid = s->process ? s->process->pid : 0,
        .gauge = s->family->type == SONDE_GAUGE,
    };
    if (s->family->type == SONDE_HISTOGRAM) {
        track_put_hist(s, s->history_hist ? &s->history_hist[at] : NULL, length_s, p, &t);
    } else if (s->history) {
        sonde_tracks_put(p, &t, t.gauge ? s->history[at] : s->history[at] / length_s);
    }
}

static void track_age(const struct sonde_model *m, uint32_t age, struct sonde_profile *p)
{
    const double length_s = sonde_model_tick_len(m, age);
    if (!(length_s > 0) || sonde_tracks_tick(p, sonde_model_tick_end(m, age), length_s)) return;
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        for (size_t k = 0; track_wanted(f) && k < f->series_count; k++) {
            track_put(m, f->series[k], age, length_s, p);
        }
    }
}

void sonde_model_track_tick(const struct sonde_model *m, struct sonde_profile *p)
{
    if (m->shared) sonde_assert_held(&m->lock);
    if (m->tick) track_age(m, 0, p);
}

void sonde_model_track_since(const struct sonde_model *m, double since_s, struct sonde_profile *p)
{
    if (m->shared) sonde_assert_held(&m->lock);
    if (p->tracks && p->tracks->tick_count) return;
    const uint32_t known = m->tick < SONDE_HISTORY ? (uint32_t)m->tick : SONDE_HISTORY;
    for (uint32_t age = known; age--;) {
        if (sonde_model_tick_end(m, age) > since_s) track_age(m, age, p);
    }
}
