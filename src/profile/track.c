/* track.c - see track.h. */
#include "profile/track.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

void sonde_tracks_destroy(struct sonde_tracks *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->count; i++) sonde__free(t->rows[i].values);
    sonde__free(t->rows);
    sonde_map_release(&t->index);
    sonde__free(t);
}

static struct sonde_tracks *tracks_of(struct sonde_profile *p)
{
    if (!p->tracks && p->bytes + sizeof(*p->tracks) <= p->bytes_max) {
        p->tracks = sonde__calloc(1, sizeof(*p->tracks));
        if (p->tracks) p->bytes += sizeof(*p->tracks);
    }
    return p->tracks;
}

/* Two ticks become one. A value of half of them is that of the whole, as far as it is known. */
static void tracks_join_neighbours(struct sonde_tracks *t)
{
    const uint32_t half = t->tick_count / 2;
    for (uint32_t i = 0; i < t->count; i++) {
        float *v = t->rows[i].values;
        for (uint32_t k = 0; k < half; k++) {
            const float a = v[2 * k], b = v[2 * k + 1];
            const double la = t->ticks[2 * k].length_s, lb = t->ticks[2 * k + 1].length_s;
            const int weighable = la + lb > 0;
            v[k] = isnan(a) ? b : isnan(b) || !weighable ? a
                                : (float)((a * la + b * lb) / (la + lb));
        }
    }
    for (uint32_t k = 0; k < half; k++) {
        t->ticks[k] = (struct sonde_track_tick){
            .end_s = t->ticks[2 * k + 1].end_s,
            .length_s = t->ticks[2 * k].length_s + t->ticks[2 * k + 1].length_s,
        };
    }
    t->tick_count = half;
}

int sonde_tracks_tick(struct sonde_profile *p, double end_s, double length_s)
{
    struct sonde_tracks *t = tracks_of(p);
    if (!t) return SONDE_ENOMEM;
    if (t->tick_count == SONDE_TRACK_TICKS_MAX) tracks_join_neighbours(t);
    for (uint32_t i = 0; i < t->count; i++) t->rows[i].values[t->tick_count] = NAN;
    t->ticks[t->tick_count++] = (struct sonde_track_tick){ .end_s = end_s, .length_s = length_s };
    return 0;
}

static uint32_t track_hash(const struct sonde_track *s)
{
    uint64_t h = sonde_hash_mix(s->pid, sonde_hash_text(s->family));
    h = sonde_hash_mix(h, sonde_hash_text(s->labels));
    return sonde_hash_end(h);
}

static int track_is_same(const struct sonde_track *a, const struct sonde_track *b)
{
    return a->pid == b->pid && !strcmp(a->family, b->family) && !strcmp(a->labels, b->labels) &&
           !strcmp(a->program, b->program);
}

/* p's copy of a text; *failed is set when there is no memory for it. */
static const char *track_text_keep(struct sonde_profile *p, const char *text, int *failed)
{
    const uint32_t id = *text ? sonde_profile_cstring(p, text) : 0;
    if (*text && !id) *failed = 1;
    return sonde_profile_str(p, id);
}

/* A row for a series that is not there yet, without values; NULL = there is no room. */
static struct sonde_track *track_new(struct sonde_profile *p, const struct sonde_track *s,
                                     uint32_t hash)
{
    struct sonde_tracks *t = p->tracks;
    const struct sonde_budget budget = { &p->bytes, p->bytes_max };
    const size_t bytes = SONDE_TRACK_TICKS_MAX * sizeof(float);
    int failed = 0;
    if (t->count == SONDE_TRACKS_MAX || p->bytes + bytes > p->bytes_max) return NULL;
    struct sonde_track *grown =
        sonde_table_grow(t->rows, t->count, &t->cap, sizeof(*grown), &budget);
    if (!grown) return NULL;
    t->rows = grown;
    if (sonde_intern_reserve(&t->index, &budget)) return NULL;
    struct sonde_track row = {
        .family = track_text_keep(p, s->family, &failed),
        .labels = track_text_keep(p, s->labels, &failed),
        .program = track_text_keep(p, s->program, &failed),
        .pid = s->pid, .gauge = s->gauge,
    };
    row.values = failed ? NULL : sonde__alloc(bytes);
    if (!row.values) return NULL;
    p->bytes += bytes;
    for (uint32_t k = 0; k < SONDE_TRACK_TICKS_MAX; k++) row.values[k] = NAN;
    t->rows[t->count++] = row;
    sonde_map_put(&t->index, hash, t->count); /* rows count from 1 there */
    return &t->rows[t->count - 1];
}

static struct sonde_track *track_find(struct sonde_profile *p, const struct sonde_track *s)
{
    const uint32_t hash = track_hash(s);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&p->tracks->index, hash, &at))) {
        if (track_is_same(&p->tracks->rows[row - 1], s)) return &p->tracks->rows[row - 1];
    }
    return track_new(p, s, hash);
}

int sonde_tracks_put(struct sonde_profile *p, const struct sonde_track *series, double value)
{
    struct sonde_tracks *t = p->tracks;
    assert(t && t->tick_count);
    if (!isfinite((float)value)) return 0;
    struct sonde_track *row = track_find(p, series);
    if (!row) {
        t->dropped++;
        return SONDE_ENOMEM;
    }
    row->values[t->tick_count - 1] = (float)value;
    return 0;
}

int sonde_tracks_add(struct sonde_profile *p, const struct sonde_track *track)
{
    struct sonde_tracks *t = tracks_of(p);
    struct sonde_track *row = t ? track_find(p, track) : NULL;
    if (!row) return SONDE_ENOMEM;
    memcpy(row->values, track->values, t->tick_count * sizeof(*row->values));
    return 0;
}

int sonde_tracks_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    const struct sonde_tracks *t = from->tracks;
    int rc = 0;
    if (!t || (p->tracks && p->tracks->tick_count)) return 0;
    for (uint32_t k = 0; !rc && k < t->tick_count; k++) {
        rc = sonde_tracks_tick(p, t->ticks[k].end_s, t->ticks[k].length_s);
    }
    for (uint32_t i = 0; !rc && i < t->count; i++) rc = sonde_tracks_add(p, &t->rows[i]);
    if (!rc) p->tracks->dropped += t->dropped;
    return rc;
}
