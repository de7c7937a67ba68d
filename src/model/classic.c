/* classic.c - see classic.h.
 *
 * Exponents are counted from SONDE__HIST_EXP_MIN: bit e of le_shown is the bound 2^(e - 40).
 * Fine bucket p lies in ((p-1)/64, p/64] of that scale, so the values <= bound e are all octaves
 * below e and bucket 0 of octave e. */
#include "model/classic.h"

#include <math.h>

enum { WANTED = 20 };

/* Exponents that enclose all values; low > high: none. */
struct classic_range { uint32_t low, high; };

static void classic_widen(struct classic_range *r, const struct sonde_hist_value *h)
{
    uint32_t first = SONDE__HIST_BUCKETS, last = 0;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        for (uint32_t i = 0; h->octave[o] && i < 64; i++) {
            if (!h->octave[o][i]) continue;
            if (first == SONDE__HIST_BUCKETS) first = o * 64 + i;
            last = o * 64 + i;
        }
    }
    if (first == SONDE__HIST_BUCKETS) return;
    const uint32_t low = first ? (first - 1) / 64 : 0, high = (last + 63) / 64;
    if (low < r->low) r->low = low;
    if (high > r->high) r->high = high;
}

static int classic_bits(const uint64_t set[2])
{
    return __builtin_popcountll(set[0]) + __builtin_popcountll(set[1]);
}

static int classic_has(const uint64_t set[2], uint32_t e) { return set[e / 64] >> e % 64 & 1; }

/* set and every step-th exponent that r needs. */
static void classic_cover(const struct classic_range *r, uint32_t step, const uint64_t set[2],
                          uint64_t out[2])
{
    out[0] = set[0];
    out[1] = set[1];
    for (uint32_t e = r->low / step * step; e < r->high + step; e += step) {
        out[e / 64] |= 1ull << e % 64;
    }
}

static void expected_bounds(const struct sonde_model_family *f, struct sonde_classic *out)
{
    out->count = f->bound_count;
    for (size_t i = 0; i < f->bound_count; i++) {
        out->bound[i] = f->bounds[i];
    }
}

void sonde_classic_bounds(struct sonde_model_family *f, struct sonde_classic *out)
{
    if (f->bounds) {
        expected_bounds(f, out);
        return;
    }
    struct classic_range r = { SONDE_CLASSIC_MAX, 0 };
    for (size_t i = 0; i < f->series_count; i++) {
        if (f->series[i]->hist) classic_widen(&r, f->series[i]->hist);
    }
    uint64_t shown[2] = { __atomic_load_n(&f->le_shown[0], __ATOMIC_RELAXED),
                          __atomic_load_n(&f->le_shown[1], __ATOMIC_RELAXED) };
    if (r.low <= r.high) {
        uint64_t wider[2];
        for (uint32_t step = 1; step <= 4; step *= 2) {
            classic_cover(&r, step, shown, wider);
            if (classic_bits(wider) <= WANTED) break;
        }
        /* Two scrapes may do this at once; they see the same values and add the same bits. */
        shown[0] = __atomic_or_fetch(&f->le_shown[0], wider[0], __ATOMIC_RELAXED);
        shown[1] = __atomic_or_fetch(&f->le_shown[1], wider[1], __ATOMIC_RELAXED);
    }
    out->count = 0;
    for (uint32_t e = 0; e < SONDE_CLASSIC_MAX; e++) {
        if (!classic_has(shown, e)) continue;
        out->octave[out->count] = (uint8_t)e;
        out->bound[out->count++] = ldexp(1, (int)e + SONDE__HIST_EXP_MIN);
    }
}

void sonde_classic_counts(const struct sonde_classic *c, const struct sonde_model_series *s,
                          uint64_t cumulative[SONDE_CLASSIC_MAX])
{
    const struct sonde_hist_value *h = s->hist;
    if (s->family->bounds) {
        for (size_t i = 0; i < c->count; i++) {
            cumulative[i] = (i ? cumulative[i - 1] : 0) + (s->le ? s->le[i] : 0);
        }
        return;
    }
    uint64_t below = h ? h->zero : 0; /* values in octaves < o */
    uint32_t o = 0;
    for (size_t i = 0; i < c->count; i++) {
        for (; h && o < c->octave[i]; o++) {
            for (uint32_t k = 0; h->octave[o] && k < 64; k++) {
                below += h->octave[o][k];
            }
        }
        cumulative[i] = below;
        if (h && o < SONDE__HIST_OCTAVES && h->octave[o]) cumulative[i] += h->octave[o][0];
    }
}

void sonde_classic_exemplars(const struct sonde_classic *c, const struct sonde_model_series *s,
                             const struct sonde_exemplar *out[SONDE_CLASSIC_MAX + 1])
{
    for (size_t i = 0; i <= c->count; i++) {
        out[i] = NULL;
    }
    for (size_t k = 0; k < s->exemplar_count; k++) {
        const struct sonde_exemplar *e = &s->exemplar[k];
        size_t i = 0;
        while (i < c->count && !(e->value <= c->bound[i])) {
            i++;
        }
        if (!out[i] || out[i]->time_s <= e->time_s) out[i] = e;
    }
}
