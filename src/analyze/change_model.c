/* change_model.c - the forecast that windows are compared with: see change.h.
 *
 * With m(t) the mean of the window that ends at bin t, and a window of 10 bins,
 *
 *   y(t)  = m(t) - m(t-10)                                what is forecast
 *   d(t)  = m(t-10) - (m(t-20) + m(t-30)) / 2             how it moved before, two hours
 *   e(t)  = m(t-10) - (m(t-40) + m(t-50) + m(t-60)) / 3   and five
 *   Y D E = the medians of y, d, e at the same time of the days before
 *   Z(t)  = (Y(t-10) + Y(t) + Y(t+10)) / 3                smoothed
 *   a(t)  = sum y Y / sum Y², over the twelve hours before: today's rhythm by the usual one
 *
 *   y(t) = w0 (d - D) + w1 (e - E) + w2 Z + w3 (Y - Z) + w4 Z (a - 1)
 *
 * by least squares, robust (Huber) and with a ridge. For a series without drift w0 and w1 become
 * negative, which makes the level before the mean of more hours; for one that drifts they become
 * positive. With a rhythm that repeats w2 is near 1, with jobs at fixed times also w3. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/change_private.h"
#include "base/alloc.h"

enum {
    CHANGE_FIT_STEP = 2,      /* every second bin is a row: neighbours are much the same */
    CHANGE_ROWS_MAX = CHANGE_RING / CHANGE_FIT_STEP,
    CHANGE_ROUNDS = 3,
    CHANGE_FAR_MAX = 3,       /* bins of a window that may be spikes */
    CHANGE_AMPLITUDE = 14,    /* windows: twelve hours */
    CHANGE_WINDOW_MIN = 6,    /* bins that must be there */
    CHANGE_ROWS_MIN = CHANGE_DAY / CHANGE_FIT_STEP / 2,
};
#define CHANGE_RIDGE 0.02
#define CHANGE_UNDONE 0.4
#define CHANGE_NEAR 3.0          /* scales; bins further away are spikes */
#define CHANGE_SCALE_RELATIVE 0.0015 /* no series is taken for steadier than that */

static void change_sort(double *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const double x = v[i];
        size_t k = i;
        for (; k && v[k - 1] > x; k--) v[k] = v[k - 1];
        v[k] = x;
    }
}

double change_middle(double *v, size_t n)
{
    if (!n) return 0;
    change_sort(v, n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double change_near_mean(double *v, size_t n, double middle, double bound, size_t far_max)
{
    double sum = 0;
    size_t left = n;
    for (size_t dropped = 0; dropped < far_max && left > 1; dropped++) {
        size_t far = 0;
        for (size_t i = 1; i < left; i++) {
            if (fabs(v[i] - middle) > fabs(v[far] - middle)) far = i;
        }
        if (!(fabs(v[far] - middle) > bound)) break;
        v[far] = v[--left];
    }
    for (size_t i = 0; i < left; i++) sum += v[i];
    return sum / (double)left;
}

/* The middle of the slopes between all bins (Theil 1950): spikes do not bend it. */
static double change_slope(const double *x, const double *v, size_t n)
{
    double slopes[CHANGE_WINDOW * (CHANGE_WINDOW - 1) / 2];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) slopes[count++] = (v[k] - v[i]) / (x[k] - x[i]);
    }
    return change_middle(slopes, count);
}

/* Bins are judged by their distance from a line: a window of a steep rhythm has no spikes. */
double change_window_mean(const struct sonde_change_series *s, int64_t at)
{
    double v[CHANGE_WINDOW], x[CHANGE_WINDOW], sorted[CHANGE_WINDOW];
    size_t n = 0;
    for (int i = 0; i < CHANGE_WINDOW; i++) {
        const int64_t k = at - CHANGE_WINDOW + 1 + i;
        if (k < s->first || k > s->last) continue;
        const double bin = (double)s->bin[change_slot(k)];
        if (isnan(bin)) continue;
        x[n] = i - (CHANGE_WINDOW - 1) / 2.0;
        v[n++] = bin;
    }
    if (n < CHANGE_WINDOW_MIN) return NAN;
    const double slope = change_slope(x, v, n);
    for (size_t i = 0; i < n; i++) sorted[i] = v[i] -= slope * x[i];
    const double middle = change_middle(sorted, n);
    const double bound = s->linear && !(fabs(middle) > 0) ? INFINITY : CHANGE_NEAR * s->bin_scale;
    return change_near_mean(v, n, middle, bound, CHANGE_FAR_MAX);
}

static double change_step(const struct sonde_change_series *s, int64_t at)
{
    return change_mean_at(s, at) - change_mean_at(s, at - CHANGE_WINDOW);
}

static double change_level(const struct sonde_change_series *s, int64_t at, int from, int to)
{
    double sum = 0;
    for (int k = from; k <= to; k++) sum += change_mean_at(s, at - k * CHANGE_WINDOW);
    return sum / (to - from + 1);
}

static double change_drift(const struct sonde_change_series *s, int64_t at, int from, int to)
{
    return change_mean_at(s, at - CHANGE_WINDOW) - change_level(s, at, from, to);
}

enum change_move { CHANGE_STEP, CHANGE_DRIFT, CHANGE_LONG_DRIFT, CHANGE_MOVES };

static double change_move_at(const struct sonde_change_series *s, int64_t at, enum change_move m)
{
    switch (m) {
    case CHANGE_STEP: return change_step(s, at);
    case CHANGE_DRIFT: return change_drift(s, at, 2, 3);
    default: return change_drift(s, at, 4, 6);
    }
}

/* How the series moves at this time of a day: the middle of the days before bin `now`. */
static double change_season(const struct sonde_change_series *s, int64_t at, int64_t now,
                            enum change_move m)
{
    double v[SONDE_CHANGE_DAYS];
    size_t n = 0;
    for (int64_t k = 1; k < SONDE_CHANGE_DAYS; k++) {
        const int64_t then = at - k * CHANGE_DAY;
        if (then <= s->first) break;
        const double x = then < now ? change_move_at(s, then, m) : NAN;
        if (!isnan(x)) v[n++] = x;
    }
    /* Of two, one may have been a spike. */
    if (n == 2) return fabs(v[0]) < fabs(v[1]) ? v[0] : v[1];
    return change_middle(v, n);
}

double change_spread(const struct sonde_change_series *s, int64_t at)
{
    double v[SONDE_CHANGE_DAYS];
    size_t n = 0;
    for (int64_t k = 1; k < SONDE_CHANGE_DAYS; k++) {
        const double x = change_step(s, at - k * CHANGE_DAY);
        if (!isnan(x)) v[n++] = x;
    }
    if (n < 2) return 0;
    double sorted[SONDE_CHANGE_DAYS];
    memcpy(sorted, v, n * sizeof(*v));
    const double middle = change_middle(sorted, n);
    for (size_t i = 0; i < n; i++) v[i] = fabs(v[i] - middle);
    return change_middle(v, n);
}

/* Seasons of all bins, worked out once for a fit. */
struct change_seasons { double of[CHANGE_MOVES][CHANGE_RING]; };

/* seasons NULL = as they are asked for. */
static double change_season_of(const struct sonde_change_series *s,
                               const struct change_seasons *seasons, int64_t at,
                               enum change_move m)
{
    if (!seasons || at < s->first || at > s->last) return change_season(s, at, s->last, m);
    return seasons->of[m][change_slot(at)];
}

/* Today's rhythm by the usual one, drawn towards 1 where little is known. */
static double change_amplitude(const struct sonde_change_series *s,
                               const struct change_seasons *seasons, int64_t at)
{
    double both = 0, square = 0;
    for (int k = 1; k <= CHANGE_AMPLITUDE; k++) {
        const int64_t then = at - k * CHANGE_WINDOW;
        const double step = change_step(s, then);
        if (isnan(step)) continue;
        const double usual = change_season_of(s, seasons, then, CHANGE_STEP);
        both += step * usual;
        square += usual * usual;
    }
    const double prior = CHANGE_AMPLITUDE * s->fit.scale * s->fit.scale;
    if (!(square + prior > 0)) return 1;
    const double a = (both + prior) / (square + prior);
    return a < 0 ? 0 : a > 2 ? 2 : a;
}

/* What is known before the window that ends at `at`. 0 = not enough. */
static int change_features(const struct sonde_change_series *s,
                           const struct change_seasons *seasons, int64_t at,
                           double f[CHANGE_FEATURES])
{
    f[0] = change_move_at(s, at, CHANGE_DRIFT);
    f[1] = change_move_at(s, at, CHANGE_LONG_DRIFT);
    f[2] = f[3] = f[4] = 0;
    if (isnan(f[0]) && isnan(f[1])) return 0;
    if (s->fit.seasons) {
        f[0] -= change_season_of(s, seasons, at, CHANGE_DRIFT);
        f[1] -= change_season_of(s, seasons, at, CHANGE_LONG_DRIFT);
        const double usual = change_season_of(s, seasons, at, CHANGE_STEP);
        f[2] = (change_season_of(s, seasons, at - CHANGE_WINDOW, CHANGE_STEP) + usual +
                change_season_of(s, seasons, at + CHANGE_WINDOW, CHANGE_STEP)) / 3;
        f[3] = usual - f[2];
        if (s->fit.sizes) f[4] = f[2] * (change_amplitude(s, seasons, at) - 1);
    }
    if (isnan(f[0])) f[0] = 0;
    if (isnan(f[1])) f[1] = 0;
    return 1;
}

static double change_forecast(const double w[CHANGE_FEATURES], const double f[CHANGE_FEATURES])
{
    double sum = 0;
    for (int i = 0; i < CHANGE_FEATURES; i++) sum += w[i] * f[i];
    return sum;
}

double change_error(const struct sonde_change_series *s, int64_t at)
{
    double f[CHANGE_FEATURES];
    const double y = change_step(s, at);
    if (isnan(y) || !change_features(s, NULL, at, f)) return NAN;
    return y - change_forecast(s->fit.weight, f);
}

/* ---- The fit --------------------------------------------------------------------------------- */

struct change_row { double f[CHANGE_FEATURES], y, error; int64_t at; };

struct change_scratch {
    struct change_row rows[CHANGE_ROWS_MAX];
    struct change_seasons seasons;
};

static int change_by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* a x = b, a symmetric and positive: Gauss without pivots, as the ridge makes them large. */
static void change_solve(double a[CHANGE_FEATURES][CHANGE_FEATURES], double b[CHANGE_FEATURES])
{
    for (int i = 0; i < CHANGE_FEATURES; i++) {
        for (int k = i + 1; k < CHANGE_FEATURES; k++) {
            const double q = a[i][i] > 0 ? a[k][i] / a[i][i] : 0;
            for (int j = i; j < CHANGE_FEATURES; j++) a[k][j] -= q * a[i][j];
            b[k] -= q * b[i];
        }
    }
    for (int i = CHANGE_FEATURES - 1; i >= 0; i--) {
        for (int j = i + 1; j < CHANGE_FEATURES; j++) b[i] -= a[i][j] * b[j];
        b[i] = a[i][i] > 0 ? b[i] / a[i][i] : 0;
    }
}

/* One round: rows beyond `bound` count for less. */
static void change_regress(const struct change_row *rows, size_t n, double bound,
                           double w[CHANGE_FEATURES])
{
    /* Beyond these a weight is chance. */
    static const double least[CHANGE_FEATURES] = { -1, -1, 0, 0, 0 };
    static const double most[CHANGE_FEATURES] = { 1, 1, 1.2, 1, 1.2 };
    double a[CHANGE_FEATURES][CHANGE_FEATURES] = { { 0 } }, b[CHANGE_FEATURES] = { 0 };
    for (size_t r = 0; r < n; r++) {
        const double size = fabs(rows[r].error);
        const double weight = size > bound && bound > 0 ? bound / size : 1;
        for (int i = 0; i < CHANGE_FEATURES; i++) {
            for (int k = 0; k < CHANGE_FEATURES; k++) {
                a[i][k] += weight * rows[r].f[i] * rows[r].f[k];
            }
            b[i] += weight * rows[r].f[i] * rows[r].y;
        }
    }
    for (int i = 0; i < CHANGE_FEATURES; i++) a[i][i] += CHANGE_RIDGE * a[i][i];
    change_solve(a, b);
    for (int i = 0; i < CHANGE_FEATURES; i++) w[i] = fmax(least[i], fmin(b[i], most[i]));
}

/* The scale that the middle, the nine tenths and the last fortieth of errors ask for: a normal
 * distribution gives three times the same, heavy tails a larger one. */
static double change_scale(const struct change_row *rows, size_t n)
{
    double size[CHANGE_ROWS_MAX];
    for (size_t i = 0; i < n; i++) size[i] = fabs(rows[i].error);
    qsort(size, n, sizeof(*size), change_by_size);
    const double middle = size[n / 2] / 0.6745;
    const double high = size[n * 9 / 10] / 1.645;
    const double far = size[n * 39 / 40] / 2.2414;
    return fmax(middle, fmax(high, far));
}

/* Rows to learn from: those of the later half, that have days before them as there are now. */
static size_t change_rows(const struct sonde_change_series *s,
                          const struct change_seasons *seasons, struct change_row *rows)
{
    int64_t from = s->first;
    if (s->fit.seasons) {
        from += CHANGE_DAY + 3 * CHANGE_WINDOW;
        if (from < s->first + (s->last - s->first) / 2) from = s->first + (s->last - s->first) / 2;
    }
    size_t n = 0;
    for (int64_t at = from; at <= s->last - CHANGE_WINDOW && n < CHANGE_ROWS_MAX;
         at += CHANGE_FIT_STEP) {
        struct change_row *r = &rows[n];
        r->at = at;
        r->y = change_step(s, at);
        if (isnan(r->y) || !change_features(s, seasons, at, r->f)) continue;
        r->error = r->y;
        n++;
    }
    return n;
}

int change_is_excursion(double error, double beside)
{
    return error * beside < 0 && fabs(beside) > CHANGE_UNDONE * fabs(error);
}

static double change_largest(const struct change_row *rows, size_t n)
{
    enum { BESIDE = CHANGE_WINDOW / CHANGE_FIT_STEP };
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = rows[i].error;
        if (fabs(e) <= largest) continue;
        if (i >= BESIDE && change_is_excursion(e, rows[i - BESIDE].error)) continue;
        if (i + BESIDE < n && change_is_excursion(e, rows[i + BESIDE].error)) continue;
        largest = fabs(e);
    }
    return largest;
}

static double change_rows_level(const struct sonde_change_series *s, const struct change_row *rows,
                                size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += change_mean_at(s, rows[i].at);
    return sum / (double)n;
}

static void change_fit_rows(struct sonde_change_series *s, struct change_row *rows, size_t n)
{
    struct change_fit *fit = &s->fit;
    double bound = 0;
    for (int round = 0; round < CHANGE_ROUNDS; round++) {
        change_regress(rows, n, bound, fit->weight);
        for (size_t i = 0; i < n; i++) {
            rows[i].error = rows[i].y - change_forecast(fit->weight, rows[i].f);
        }
        bound = 1.345 * change_scale(rows, n);
    }
    /* Rows that overlap are not independent: about one in five is. */
    const double hours = (double)n / 5;
    const double scale = change_scale(rows, n) *
                         sqrt(hours / fmax(1, hours - CHANGE_FEATURES));
    const double level = fabs(change_mean_at(s, s->last));
    const double least = s->linear ? CHANGE_SCALE_RELATIVE * (isnan(level) ? 0 : level)
                                   : CHANGE_SCALE_RELATIVE;
    fit->scale = fmax(scale, least);
    fit->level = change_rows_level(s, rows, n);
    fit->largest = change_largest(rows, n);
}

void change_fit_make(struct sonde_change_series *s)
{
    struct change_fit *fit = &s->fit;
    fit->at = s->last;
    struct change_scratch *scratch = sonde__alloc(sizeof(*scratch));
    if (!scratch) return; /* what there was goes on */
    /* With fewer days there are too few rows to learn what days before are worth, and what the
     * size of today's rhythm is. */
    fit->seasons = s->last - s->first > 3 * CHANGE_DAY + 3 * CHANGE_WINDOW;
    fit->sizes = s->last - s->first > 5 * CHANGE_DAY;
    if (fit->seasons) {
        for (int64_t at = s->first; at <= s->last; at++) {
            for (int m = 0; m < CHANGE_MOVES; m++) {
                scratch->seasons.of[m][change_slot(at)] =
                    change_season(s, at, s->last, (enum change_move)m);
            }
        }
    }
    const size_t n = change_rows(s, &scratch->seasons, scratch->rows);
    if (n >= CHANGE_ROWS_MIN) change_fit_rows(s, scratch->rows, n);
    else fit->scale = 0;
    sonde__free(scratch);
}
