/* window.c - statistics over the last ticks of a series.
 *
 * Counters and gauges: at most SONDE_HISTORY numbers, so everything is exact. Histograms: the
 * ticks' sparse buckets are added up, and each bucket stands for the values at its geometric
 * middle, at most 2^(1/128) = 0.54 % off. */
#include "model/window.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"

const char *sonde_trend_name(enum sonde_trend t)
{
    switch (t) {
    case SONDE_TREND_UNKNOWN: return NULL;
    case SONDE_TREND_FLAT: return "flat";
    case SONDE_TREND_UP: return "up";
    case SONDE_TREND_DOWN: return "down";
    }
    return NULL;
}

/* ---- Trend -------------------------------------------------------------------------------- */

/* One number a tick, and when; newest first. */
struct points {
    double x[SONDE_HISTORY], y[SONDE_HISTORY];
    size_t count;
};

/* Least squares: slope b = Sxy / Sxx, its standard error sqrt(Sres / (n - 2) / Sxx). */
static void window_trend(const struct points *p, struct sonde_window *out)
{
    if (p->count < SONDE_TREND_TICKS) return;
    double n = (double)p->count, mx = 0, my = 0, sxx = 0, sxy = 0, syy = 0;
    int same = 1;
    for (size_t i = 0; i < p->count; i++) {
        mx += p->x[i] / n;
        my += p->y[i] / n;
        if (p->y[i] < p->y[0] || p->y[i] > p->y[0]) same = 0;
    }
    for (size_t i = 0; i < p->count; i++) {
        double dx = p->x[i] - mx, dy = p->y[i] - my;
        sxx += dx * dx;
        sxy += dx * dy;
        syy += dy * dy;
    }
    if (!(sxx > 0) || !isfinite(syy)) return;
    if (same) {
        out->trend_per_s = 0;
        out->trend = SONDE_TREND_FLAT;
        return;
    }
    double slope = sxy / sxx, residual = syy - slope * sxy;
    double error = sqrt((residual > 0 ? residual : 0) / (n - 2) / sxx);
    out->trend_per_s = slope;
    if (fabs(slope) <= 2 * error) out->trend = SONDE_TREND_FLAT;
    else out->trend = slope > 0 ? SONDE_TREND_UP : SONDE_TREND_DOWN;
}

/* ---- Counters and gauges ------------------------------------------------------------------ */

/* Linear between the closest ranks. */
static double sorted_quantile(const double *v, size_t count, double q)
{
    double at = q * (double)(count - 1);
    size_t i = (size_t)at;
    if (i + 1 >= count) return v[count - 1];
    return v[i] + (v[i + 1] - v[i]) * (at - (double)i);
}

static void window_describe(const struct points *p, struct sonde_window *out)
{
    double sorted[SONDE_HISTORY], n = (double)p->count, squares = 0;
    memcpy(sorted, p->y, p->count * sizeof(sorted[0]));
    qsort(sorted, p->count, sizeof(sorted[0]), sonde_cmp_double);
    out->count = n;
    out->total = 0;
    for (size_t i = 0; i < p->count; i++) out->total += p->y[i];
    out->avg = out->total / n;
    for (size_t i = 0; i < p->count; i++) {
        squares += (p->y[i] - out->avg) * (p->y[i] - out->avg);
    }
    if (p->count > 1) out->stddev = sqrt(squares / (n - 1));
    out->min = sorted[0];
    out->max = sorted[p->count - 1];
    out->last = p->y[0];
    out->p50 = sorted_quantile(sorted, p->count, 0.50);
    out->p90 = sorted_quantile(sorted, p->count, 0.90);
    out->p95 = sorted_quantile(sorted, p->count, 0.95);
    out->p99 = sorted_quantile(sorted, p->count, 0.99);
}

/* How many ticks of s the window takes in; their time goes to *seconds. */
static uint32_t window_ticks(const struct sonde_model *m, const struct sonde_model_series *s,
                             double window_s, uint64_t tick, double *seconds)
{
    uint32_t n = 0;
    *seconds = 0;
    while (n < s->history_count && tick + n < m->tick) {
        double len = sonde_model_tick_len(m, n);
        /* Half a tick of slack: ticks are a little longer or shorter than asked for. */
        if (*seconds + len > window_s + len / 2 && n > 0) break;
        *seconds += len;
        n++;
    }
    return n;
}

/* Of `ticks` ticks, the newest of which is of age `from`. */
static void scalar_stats(const struct sonde_model *m, const struct sonde_model_series *s,
                         uint32_t from, uint32_t ticks, struct sonde_window *out)
{
    assert(s->history && from + ticks <= SONDE_HISTORY);
    struct points p = { .count = 0 };
    int counter = s->family->type == SONDE_COUNTER;
    double increase = 0;
    for (uint32_t age = from; age < from + ticks; age++) {
        double v = s->history[(m->tick - 1 - age) % SONDE_HISTORY];
        if (isnan(v)) continue;  /* a gauge may be set to it; it is no value */
        increase += v;
        p.x[p.count] = sonde_model_tick_end(m, age);
        p.y[p.count++] = counter ? v / sonde_model_tick_len(m, age) : v;
    }
    if (p.count == 0) return;
    window_describe(&p, out);
    window_trend(&p, out);
    if (!counter) return;
    out->total = increase;
    out->rate = increase / out->seconds;
    out->avg = out->rate;
}

/* ---- Histograms --------------------------------------------------------------------------- */

/* Rank: 1 = the smallest value. */
static uint64_t quantile_rank(double q, uint64_t count)
{
    double r = ceil(q * (double)count);
    if (!(r >= 1)) return 1;
    return r >= (double)count ? count : (uint64_t)r;
}

double sonde_quantile(double q, uint64_t zero, const uint64_t *const octave[SONDE__HIST_OCTAVES],
                      double scale)
{
    uint64_t count = zero;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        for (uint32_t i = 0; octave[o] && i < 64; i++) count += octave[o][i];
    }
    if (count == 0 || !(q >= 0 && q <= 1)) return NAN;
    uint64_t rank = quantile_rank(q, count), seen = zero;
    if (rank <= seen) return 0;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        for (uint32_t i = 0; octave[o] && i < 64; i++) {
            seen += octave[o][i];
            if (seen >= rank) return sonde__hist_middle(o * 64 + i, scale);
        }
    }
    return NAN;
}

/* The window's buckets: 48 KB, so they live on the stack of whoever asks. */
struct window_merged {
    uint64_t n[SONDE__HIST_BUCKETS];
    uint64_t count, zero;
    uint32_t first, last;  /* buckets in use lie between them */
    double sum_raw, scale;
};

static void window_merge(const struct sonde_model *m, const struct sonde_model_series *s,
                         uint32_t from, uint32_t ticks, struct window_merged *all,
                         struct points *averages)
{
    assert(from + ticks <= SONDE_HISTORY);
    memset(all, 0, sizeof(*all));
    all->first = SONDE__HIST_BUCKETS;
    all->scale = s->family->scale;
    averages->count = 0;
    for (uint32_t age = from; s->history_hist && age < from + ticks; age++) {
        const struct sonde_hist_delta *d =
            &s->history_hist[(m->tick - 1 - age) % SONDE_HISTORY];
        if (d->count == 0) continue;
        all->count += d->count;
        all->zero += d->zero;
        all->sum_raw += (double)d->sum_raw;
        for (uint32_t i = 0; i < d->bucket_count; i++) {
            uint32_t p = d->bucket[i].p;
            all->n[p] += d->bucket[i].n;
            if (p < all->first) all->first = p;
            if (p > all->last) all->last = p;
        }
        averages->x[averages->count] = sonde_model_tick_end(m, age);
        averages->y[averages->count++] =
            sonde_family_value(s->family, d->sum_raw) / (double)d->count;
    }
}

static double merged_quantile(const struct window_merged *all, double q)
{
    uint64_t rank = quantile_rank(q, all->count), seen = all->zero;
    if (rank <= seen) return 0;
    for (uint32_t p = all->first; p <= all->last; p++) {
        seen += all->n[p];
        if (seen >= rank) return sonde__hist_middle(p, all->scale);
    }
    return sonde__hist_middle(all->last, all->scale);
}

/* Around the average of the buckets' middles, not the exact one: the two differ by up to a
 * bucket, which would count as spread. */
static double merged_stddev(const struct window_merged *all)
{
    double n = (double)all->count, mean = 0, squares;
    for (uint32_t p = all->first; p <= all->last; p++) {
        if (all->n[p]) mean += sonde__hist_middle(p, all->scale) * ((double)all->n[p] / n);
    }
    squares = mean * mean * (double)all->zero;
    for (uint32_t p = all->first; p <= all->last; p++) {
        if (!all->n[p]) continue;
        double d = sonde__hist_middle(p, all->scale) - mean;
        squares += d * d * (double)all->n[p];
    }
    return sqrt(squares / (n - 1));
}

static void hist_stats(const struct sonde_model *m, const struct sonde_model_series *s,
                       uint32_t from, uint32_t ticks, struct sonde_window *out)
{
    struct window_merged all;
    struct points averages;
    window_merge(m, s, from, ticks, &all, &averages);
    out->count = (double)all.count;
    out->total = all.sum_raw * s->family->scale;
    out->rate = out->count / out->seconds;
    if (all.count == 0) return;
    out->avg = out->total / out->count;
    out->last = (double)(int64_t)s->hist->last_raw * s->family->scale;
    out->min = all.zero ? 0 : sonde__hist_middle(all.first, all.scale);
    out->max = all.first < SONDE__HIST_BUCKETS ? sonde__hist_middle(all.last, all.scale) : 0;
    if (all.count > 1) out->stddev = merged_stddev(&all);
    out->p50 = merged_quantile(&all, 0.50);
    out->p90 = merged_quantile(&all, 0.90);
    out->p95 = merged_quantile(&all, 0.95);
    out->p99 = merged_quantile(&all, 0.99);
    window_trend(&averages, out);
}

static const struct sonde_window unknown = {
    .count = NAN, .total = NAN, .avg = NAN, .min = NAN, .max = NAN, .stddev = NAN,
    .last = NAN, .p50 = NAN, .p90 = NAN, .p95 = NAN, .p99 = NAN, .rate = NAN,
    .trend_per_s = NAN, .trend = SONDE_TREND_UNKNOWN,
};

void sonde_window_stats(const struct sonde_model *m, const struct sonde_model_series *s,
                        double window_s, struct sonde_window *out)
{
    sonde_window_stats_since(m, s, window_s, 0, out);
}

void sonde_window_stats_since(const struct sonde_model *m, const struct sonde_model_series *s,
                              double window_s, uint64_t tick, struct sonde_window *out)
{
    *out = unknown;
    uint32_t ticks = window_ticks(m, s, window_s, tick, &out->seconds);
    if (ticks == 0) {
        if (tick && tick >= m->tick && s->family->type == SONDE_HISTOGRAM) {
            out->count = out->total = 0;
        }
        return;
    }
    if (s->family->type == SONDE_HISTOGRAM) hist_stats(m, s, 0, ticks, out);
    else if (s->history) scalar_stats(m, s, 0, ticks, out);
}

void sonde_window_between(const struct sonde_model *m, const struct sonde_model_series *s,
                          double from_s, double to_s, struct sonde_window *out)
{
    uint32_t from = 0, ticks = 0;
    *out = unknown;
    while (from < s->history_count && from < m->tick && sonde_model_tick_end(m, from) >= to_s) {
        from++;
    }
    while (from + ticks < s->history_count && from + ticks < m->tick &&
           sonde_model_tick_end(m, from + ticks) >= from_s) {
        out->seconds += sonde_model_tick_len(m, from + ticks++);
    }
    if (ticks == 0) return;
    if (s->family->type == SONDE_HISTOGRAM) hist_stats(m, s, from, ticks, out);
    else if (s->history) scalar_stats(m, s, from, ticks, out);
}
