/* history.c - values and recent history of the model's series.
 *
 * History is what was added in each of the last SONDE_HISTORY ticks. A histogram's tick is kept
 * sparse, since a second of one histogram touches a few of its 6144 buckets: 8 bytes each
 * instead of 512 an octave. For the difference the counts of the last tick are kept whole. */
#include <math.h>
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

void sonde_model_series_free(struct sonde_model *m, struct sonde_model_series *s)
{
    if (s->history || s->history_hist) m->index->history_series--;
    if (s->history_hist) {
        for (size_t i = 0; i < SONDE_HISTORY; i++) sonde__free(s->history_hist[i].bucket);
    }
    sonde__free(s->history_hist);
    sonde__free(s->history);
    sonde_hist_value_free(s->hist);
    sonde_hist_value_free(s->hist_prev);
    sonde__free(s->exemplar);
    sonde__free(s->le);
    sonde__free(s->renamed);
    sonde__free(s);
}

/* ---- History ------------------------------------------------------------------------------ */

static double *history_doubles(struct sonde_model *m, struct sonde_model_series *s)
{
    if (s->history || m->index->history_series >= m->history_series_max) return s->history;
    s->history = sonde__calloc(SONDE_HISTORY, sizeof(double));
    if (s->history) m->index->history_series++;
    return s->history;
}

static void history_advance(struct sonde_model_series *s)
{
    if (s->history_count < SONDE_HISTORY) s->history_count++;
}

static void push_counter(struct sonde_model *m, struct sonde_model_series *s, size_t at)
{
    uint64_t prev = s->counter_prev;
    int first = s->ticks_seen == 0 && !s->from_zero;
    s->counter_prev = s->counter;
    if (first || !history_doubles(m, s)) return;
    uint64_t increase = s->counter >= prev ? s->counter - prev : s->counter;
    s->history[at] = sonde_family_value(s->family, increase);
    history_advance(s);
}

/* A total that goes down begins again from zero; one that is no number has no increase. */
static void push_real(struct sonde_model *m, struct sonde_model_series *s, size_t at)
{
    const double prev = s->real_prev, now = s->gauge;
    const int first = s->ticks_seen == 0 && !s->from_zero;
    s->real_prev = now;
    if (first || !history_doubles(m, s)) return;
    const double increase = now >= prev ? now - prev : now;
    s->history[at] = isfinite(increase) ? increase : 0;
    history_advance(s);
}

static void push_gauge(struct sonde_model *m, struct sonde_model_series *s, size_t at)
{
    if (!history_doubles(m, s)) return;
    s->history[at] = s->gauge;
    history_advance(s);
}

static int hist_went_back(const struct sonde_hist_value *now, const struct sonde_hist_value *old)
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

/* How many buckets grew; with d, put them into d->bucket, which has room. */
static uint32_t hist_changes(const struct sonde_hist_value *now,
                             const struct sonde_hist_value *old, struct sonde_hist_delta *d)
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

/* old = now. Out of memory for an octave: the rest stays old and is a difference again. */
static void hist_copy(struct sonde_hist_value *old, const struct sonde_hist_value *now)
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

static int history_hist(struct sonde_model *m, struct sonde_model_series *s)
{
    if (!s->history_hist) {
        if (m->index->history_series >= m->history_series_max) return 0;
        s->history_hist = sonde__calloc(SONDE_HISTORY, sizeof(*s->history_hist));
        if (!s->history_hist) return 0;
        m->index->history_series++;
    }
    if (!s->hist_prev) s->hist_prev = sonde__calloc(1, sizeof(*s->hist_prev));
    return s->hist_prev != NULL;
}

void sonde_model_series_continue(struct sonde_model *m, struct sonde_model_series *s)
{
    s->counter_prev = s->counter;
    s->real_prev = s->gauge;
    s->ticks_seen = 1;
    if (s->hist && s->hist->count && history_hist(m, s)) hist_copy(s->hist_prev, s->hist);
}

static void push_hist(struct sonde_model *m, struct sonde_model_series *s, size_t at)
{
    if (!s->hist || s->hist->count == 0) {
        /* All zero so far; memory comes with the first record. A first value that is zero is
         * known to be the start. */
        s->from_zero = 1;
        if (m->index->history_series < m->history_series_max || s->history_hist) {
            history_advance(s);
        }
        return;
    }
    if (!history_hist(m, s)) {
        s->history_count = 0;
        return;
    }
    struct sonde_hist_delta *d = &s->history_hist[at];
    sonde__free(d->bucket);
    *d = (struct sonde_hist_delta){ 0 };
    if (s->ticks_seen == 0 && !s->from_zero) {
        hist_copy(s->hist_prev, s->hist);
        return;
    }
    struct sonde_hist_value nothing = { 0 };
    const struct sonde_hist_value *now = s->hist, *old = s->hist_prev;
    if (now->count == old->count && now->zero == old->zero && now->sum_raw == old->sum_raw) {
        history_advance(s);
        return;
    }
    if (hist_went_back(now, old)) old = &nothing;
    uint32_t n = hist_changes(now, old, NULL);
    if (n > 0) {
        d->bucket = sonde__alloc(n * sizeof(*d->bucket));
        if (!d->bucket) {  /* this tick stays empty, the next one has both */
            history_advance(s);
            return;
        }
        d->bucket_count = hist_changes(now, old, d);
    }
    d->count = now->count - old->count;
    d->zero = now->zero - old->zero;
    d->sum_raw = now->sum_raw - old->sum_raw;
    hist_copy(s->hist_prev, now);
    history_advance(s);
}

static void history_push(struct sonde_model *m, struct sonde_model_series *s)
{
    size_t at = (size_t)(m->tick % SONDE_HISTORY);
    if (s->family->type == SONDE_COUNTER && s->real) push_real(m, s, at);
    else if (s->family->type == SONDE_COUNTER) push_counter(m, s, at);
    else if (s->family->type == SONDE_GAUGE) push_gauge(m, s, at);
    else push_hist(m, s, at);
    s->ticks_seen = 1;
}

void sonde_model_tick(struct sonde_model *m, double now_s)
{
    /* The wall clock may be set back; then the length of the last tick is the best guess. */
    if (m->now_s > 0 && now_s > m->now_s) m->interval_s = now_s - m->now_s;
    m->now_s = now_s;
    for (size_t i = 0; i < m->family_count; i++) {
        struct sonde_model_family *f = m->families[i];
        for (size_t k = 0; k < f->series_count; k++) history_push(m, f->series[k]);
    }
    m->tick_end_s[m->tick % SONDE_HISTORY] = now_s;
    m->tick_len_s[m->tick % SONDE_HISTORY] = m->interval_s;
    m->tick++;
}
