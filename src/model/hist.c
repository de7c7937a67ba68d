/* hist.c - values of the model's histograms: buckets, exemplars, and what changed between two. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "model/private.h"

/* ---- Values ------------------------------------------------------------------------------- */

struct sonde_hist_value *sonde_model_hist(struct sonde_model_series *s)
{
    if (!s->hist) s->hist = sonde__calloc(1, sizeof(*s->hist));
    return s->hist;
}

static uint64_t *model_hist_octave(struct sonde_hist_value *h, uint32_t octave)
{
    if (!h->octave[octave]) h->octave[octave] = sonde__calloc(64, sizeof(uint64_t));
    return h->octave[octave];
}

int sonde_hist_value_add(struct sonde_hist_value *h, uint32_t p, uint64_t n)
{
    if (p >= SONDE__HIST_BUCKETS) return SONDE_EINVAL;
    uint64_t *counts = model_hist_octave(h, p / 64);
    if (!counts) return SONDE_ENOMEM;
    counts[p % 64] += n;
    h->count += n;
    return 0;
}

void sonde_model_record(struct sonde_model_series *s, uint64_t raw, uint64_t n)
{
    const struct sonde_model_family *f = s->family;
    assert(f->type == SONDE_HISTOGRAM);
    struct sonde_hist_value *h = sonde_model_hist(s);
    if (!h) return;
    if (f->bounds && !s->le) s->le = sonde__calloc(f->bound_count, sizeof(*s->le));
    if (f->bounds && !s->le) return;
    const double value = sonde_family_value(f, raw);
    const uint64_t p = sonde__hist_bucket(value);
    if (p < SONDE__HIST_BUCKETS) {
        if (sonde_hist_value_add(h, (uint32_t)p, n) != 0) return;
    } else {
        h->zero += n;
        h->count += n;
    }
    h->sum_raw += raw * n;
    h->last_raw = raw;
    for (size_t i = 0; i < f->bound_count; i++) {
        if (value > f->bounds[i]) continue;
        s->le[i] += n;
        break;
    }
}

void sonde_hist_value_free(struct sonde_hist_value *h)
{
    if (!h) return;
    for (uint32_t i = 0; i < SONDE__HIST_OCTAVES; i++) sonde__free(h->octave[i]);
    sonde__free(h);
}

static void exemplar_put(struct sonde_model_series *s, const struct sonde_exemplar *e)
{
    uint64_t bucket = sonde__hist_bucket(e->value);
    size_t oldest = 0;
    for (size_t i = 0; i < s->exemplar_count; i++) {
        struct sonde_exemplar *old = &s->exemplar[i];
        if (sonde__hist_bucket(old->value) == bucket) {
            *old = *e;
            return;
        }
        if (old->time_s < s->exemplar[oldest].time_s) oldest = i;
    }
    if (s->exemplar_count < SONDE_EXEMPLARS_MAX) s->exemplar[s->exemplar_count++] = *e;
    else s->exemplar[oldest] = *e;
}

void sonde_model_exemplar(struct sonde_model_series *s, const struct sonde_exemplar *e)
{
    for (size_t i = 0; i < s->exemplar_count; i++) {
        const struct sonde_exemplar *old = &s->exemplar[i];
        if (old->trace_hi == e->trace_hi && old->trace_lo == e->trace_lo &&
            !(old->value < e->value) && !(old->value > e->value)) {
            return;
        }
    }
    if (!s->exemplar) {
        s->exemplar = sonde__calloc(SONDE_EXEMPLARS_MAX, sizeof(*s->exemplar));
        if (!s->exemplar) return;
    }
    exemplar_put(s, e);
}

/* ---- Differences --------------------------------------------------------------------------- */

int model_hist_went_back(const struct sonde_hist_value *now, const struct sonde_hist_value *old)
{
    if (now->count < old->count || now->zero < old->zero) return 1;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        if (!old->octave[o]) continue;
        if (!now->octave[o]) return 1;
        for (uint32_t i = 0; i < 64; i++) {
            if (now->octave[o][i] < old->octave[o][i]) return 1;
        }
    }
    return 0;
}

uint32_t model_hist_changes(const struct sonde_hist_value *now, const struct sonde_hist_value *old,
                            struct sonde_hist_delta *d)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        const uint64_t *a = now->octave[o], *b = old->octave[o];
        if (!a || (b && memcmp(a, b, 64 * sizeof(*a)) == 0)) continue;
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t grown = a[i] - (b ? b[i] : 0);
            if (grown == 0) continue;
            if (d) {
                uint32_t fits = grown > UINT32_MAX ? UINT32_MAX : (uint32_t)grown;
                d->bucket[n] = (struct sonde_hist_bucket){ (uint16_t)(o * 64 + i), fits };
            }
            n++;
        }
    }
    return n;
}

void model_hist_copy(struct sonde_hist_value *old, const struct sonde_hist_value *now)
{
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        if (!now->octave[o]) {
            sonde__free(old->octave[o]);
            old->octave[o] = NULL;
            continue;
        }
        if (!model_hist_octave(old, o)) return;
        memcpy(old->octave[o], now->octave[o], 64 * sizeof(uint64_t));
    }
    old->count = now->count;
    old->zero = now->zero;
    old->sum_raw = now->sum_raw;
    old->last_raw = now->last_raw;
}
