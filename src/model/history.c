/* history.c - ticks, and recent history of the model's series.
 *
 * History is what was added in each of the last SONDE_HISTORY ticks. A histogram's tick is kept
 * sparse, since a second of one histogram touches a few of its 6144 buckets: 8 bytes each
 * instead of 512 an octave. For the difference the counts of the last tick are kept whole. */
#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "model/private.h"

void sonde_model_series_free(struct sonde_model *m, struct sonde_model_series *s)
{
    assert(!(s->history || s->history_hist) || m->index->history_series > 0);
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
    SONDE_MODEL_ASSERT_WRITE(m);
    s->counter_prev = s->counter;
    s->real_prev = s->gauge;
    s->ticks_seen = 1;
    if (s->hist && s->hist->count && history_hist(m, s)) model_hist_copy(s->hist_prev, s->hist);
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
        model_hist_copy(s->hist_prev, s->hist);
        return;
    }
    struct sonde_hist_value nothing = { 0 };
    const struct sonde_hist_value *now = s->hist, *old = s->hist_prev;
    if (now->count == old->count && now->zero == old->zero && now->sum_raw == old->sum_raw) {
        history_advance(s);
        return;
    }
    if (model_hist_went_back(now, old)) old = &nothing;
    uint32_t n = model_hist_changes(now, old, NULL);
    if (n > 0) {
        d->bucket = sonde__alloc(n * sizeof(*d->bucket));
        if (!d->bucket) {  /* this tick stays empty, the next one has both */
            history_advance(s);
            return;
        }
        d->bucket_count = model_hist_changes(now, old, d);
    }
    d->count = now->count - old->count;
    d->zero = now->zero - old->zero;
    d->sum_raw = now->sum_raw - old->sum_raw;
    model_hist_copy(s->hist_prev, now);
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
    SONDE_MODEL_ASSERT_WRITE(m);
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
