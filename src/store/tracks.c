/* tracks.c - see tracks.h. */
#include "store/tracks.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "model/track_ticks.h"
#include "profile/track.h"
#include "sonde/sonde.h"

enum { LABELS_MAX = 1024 };

struct tracks_fill {
    struct sonde_profile *p;
    double from_s, step_s;
    uint32_t ticks;
    float values[2][SONDE_TRACK_TICKS_MAX]; /* a histogram is two series */
    int rc;
};

double sonde_store_step_s(double seconds, uint32_t points_max)
{
    static const double steps[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600 };
    assert(points_max > 0);
    for (size_t i = 0; i < SONDE_COUNT(steps); i++) {
        if (seconds / steps[i] <= points_max) return steps[i];
    }
    return ceil(seconds / points_max / 3600) * 3600;
}

static void tracks_fill_point(struct tracks_fill *f, const struct sonde_store_point *point,
                              enum sonde_type type)
{
    const double at = floor((point->time_s - f->from_s) / f->step_s + 0.5);
    if (!(at >= 0 && at < f->ticks)) return;
    float *first = &f->values[0][(uint32_t)at], *second = &f->values[1][(uint32_t)at];
    if (type == SONDE_GAUGE) {
        if (point->count > 0) *first = (float)(point->sum / point->count);
    } else if (point->seconds > 0) {
        *first = (float)((type == SONDE_COUNTER ? point->sum : point->count) / point->seconds);
        *second = (float)(point->sum / point->seconds);
    }
}

static void tracks_fill_add(struct tracks_fill *f, struct sonde_track *t, const char *suffix,
                            float *values)
{
    char name[LABELS_MAX];
    snprintf(name, sizeof(name), "%s%s", t->family, suffix);
    struct sonde_track one = *t;
    one.family = name;
    one.values = values;
    const int full = f->p->tracks->count == SONDE_TRACKS_MAX;
    if (full) f->p->tracks->dropped++;
    else if (!f->rc) f->rc = sonde_tracks_add(f->p, &one);
}

static void tracks_on_series(const struct sonde_store_series *s,
                             const struct sonde_store_point *all,
                             const struct sonde_store_point *points, size_t count, void *arg)
{
    struct tracks_fill *f = arg;
    char labels[LABELS_MAX];
    (void)all;
    if (f->rc || !strncmp(s->name, "sonde_thread_", 13)) return; /* as in recordings */
    size_t len = strlen(s->labels);
    if (*s->program) len = sonde_track_labels_len(s->labels, len);
    if (len >= LABELS_MAX) len = 0;
    memcpy(labels, s->labels, len);
    labels[len] = '\0';
    for (uint32_t i = 0; i < f->ticks; i++) f->values[0][i] = f->values[1][i] = NAN;
    for (size_t i = 0; i < count; i++) tracks_fill_point(f, &points[i], s->type);
    struct sonde_track t = { .family = s->name, .labels = labels, .program = s->program,
                             .pid = s->pid, .gauge = s->type == SONDE_GAUGE };
    tracks_fill_add(f, &t, s->type == SONDE_HISTOGRAM ? "_count" : "", f->values[0]);
    if (s->type == SONDE_HISTOGRAM) tracks_fill_add(f, &t, "_sum", f->values[1]);
}

int sonde_store_tracks(const struct sonde_store_ops *ops, struct sonde_store *s, const char *names,
                       double from_s, double to_s, struct sonde_profile *p, struct sonde_err *err)
{
    assert(!p->tracks);
    if (!(to_s > from_s)) return sonde_err_set(err, SONDE_EINVAL, "the time range is empty");
    struct tracks_fill *f = sonde__calloc(1, sizeof(*f));
    if (!f) return sonde_err_set(err, SONDE_ENOMEM, "no memory for series");
    /* One less: from_s is taken down to a multiple of the step. */
    f->step_s = sonde_store_step_s(to_s - from_s, SONDE_TRACK_TICKS_MAX - 1);
    f->from_s = floor(from_s / f->step_s) * f->step_s;
    f->ticks = (uint32_t)ceil((to_s - f->from_s) / f->step_s);
    f->p = p;
    for (uint32_t i = 0; !f->rc && i < f->ticks; i++) {
        f->rc = sonde_tracks_tick(p, f->from_s + (i + 1) * f->step_s, f->step_s);
    }
    const struct sonde_filter filter = { .name = names };
    const struct sonde_store_query q = {
        .filters = &filter, .filter_count = 1, .from_s = f->from_s, .to_s = to_s,
        .step_s = f->step_s, .series_max = SONDE_TRACKS_MAX,
        .points_max = (size_t)SONDE_TRACKS_MAX * SONDE_TRACK_TICKS_MAX,
    };
    const struct sonde_store_sink sink = { .series = tracks_on_series, .arg = f };
    int rc = f->rc ? f->rc : ops->query(s, &q, &sink, err);
    if (!rc && f->rc) rc = sonde_err_set(err, f->rc, "no memory for series");
    sonde__free(f);
    return rc;
}
