/* correlate_series.c - see correlate_private.h. */
#include "analyze/correlate_private.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/correlate.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { ORDER_MAX = 16 };
#define DRIFT_SUM 0.9     /* coefficients that add up to more are those of a series that drifts */
#define OUTLIER_SDS 3.0
#define MAD_TO_SD 1.4826  /* of a normal distribution */

/* ---- Sums ------------------------------------------------------------------------------------ */

static double correlate_mean(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i];
    return sum / (double)n;
}

/* Sum of squares about the mean that is more than rounding. */
static int correlate_varies(double squares, double mean, size_t n)
{
    return squares > 1e-20 * (double)n * mean * mean && squares > 0 && isfinite(squares);
}

double correlate_pearson(const double *x, const double *y, size_t n)
{
    if (n < 2) return NAN;
    const double mx = correlate_mean(x, n), my = correlate_mean(y, n);
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        const double dx = x[i] - mx, dy = y[i] - my;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    if (!correlate_varies(xx, mx, n) || !correlate_varies(yy, my, n)) return NAN;
    const double r = xy / (sqrt(xx) * sqrt(yy));
    return fmax(-1, fmin(1, r));
}

size_t correlate_pairs(const double *x, const double *y, size_t points, int lag, double *xs,
                       double *ys)
{
    const size_t shift = (size_t)(lag < 0 ? -lag : lag);
    size_t n = 0;
    if (shift >= points) return 0;
    for (size_t i = 0; i + shift < points; i++) {
        const double a = x[lag < 0 ? i + shift : i], b = y[lag < 0 ? i : i + shift];
        if (isnan(a) || isnan(b)) continue;
        xs[n] = a;
        ys[n++] = b;
    }
    return n;
}

struct correlate_ranked { double v; size_t at; };

static int correlate_by_value(const void *a, const void *b)
{
    const struct correlate_ranked *x = a, *y = b;
    return SONDE_CMP(x->v, y->v);
}

int correlate_rank(double *v, size_t n)
{
    struct correlate_ranked *sorted = sonde__calloc(n ? n : 1, sizeof(*sorted));
    if (!sorted) return SONDE_ENOMEM;
    for (size_t i = 0; i < n; i++) sorted[i] = (struct correlate_ranked){ v[i], i };
    qsort(sorted, n, sizeof(*sorted), correlate_by_value);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && !(sorted[end].v > sorted[i].v)) end++;
        for (size_t k = i; k < end; k++) v[sorted[k].at] = (double)(i + end + 1) / 2;
        i = end;
    }
    sonde__free(sorted);
    return 0;
}

double correlate_n_effective(const double *x, const double *y, size_t n)
{
    if (n < 4) return NAN;
    const double mx = correlate_mean(x, n), my = correlate_mean(y, n);
    double xx = 0, yy = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    if (!correlate_varies(xx, mx, n) || !correlate_varies(yy, my, n)) return NAN;
    /* Beyond a quarter of the points autocorrelations are mostly noise. */
    for (size_t k = 1; k <= n / 4; k++) {
        double x_k = 0, y_k = 0;
        for (size_t i = 0; i + k < n; i++) {
            x_k += (x[i] - mx) * (x[i + k] - mx);
            y_k += (y[i] - my) * (y[i + k] - my);
        }
        sum += (1 - (double)k / (double)n) * (x_k / xx) * (y_k / yy);
    }
    const double divisor = 1 + 2 * sum;
    return divisor > 1 ? (double)n / divisor : (double)n;
}

/* ---- What is new ----------------------------------------------------------------------------- */

/* Burg's method: a[1 … order] of x[t] = Σ a[k] x[t - k] + e, of the order up to `most` with the
 * least AIC. x has mean 0; work: 2 n. The order. */
static uint32_t correlate_burg(const double *x, size_t n, uint32_t most, double *work, double *out)
{
    double *f = work, *b = work + n;
    double a[ORDER_MAX + 1] = { 0 }, before[ORDER_MAX + 1], power = 0;
    for (size_t i = 0; i < n; i++) power += x[i] * x[i];
    power /= (double)n;
    memcpy(f, x, n * sizeof(*f));
    memcpy(b, x, n * sizeof(*b));
    uint32_t best = 0;
    double least = (double)n * log(power);
    for (uint32_t m = 1; m <= most; m++) {
        double num = 0, den = 0;
        for (size_t t = m; t < n; t++) {
            num += f[t] * b[t - 1];
            den += f[t] * f[t] + b[t - 1] * b[t - 1];
        }
        if (!(den > 0)) break;
        const double k = 2 * num / den;
        memcpy(before, a, sizeof(a));
        a[m] = k;
        for (uint32_t i = 1; i < m; i++) a[i] = before[i] - k * before[m - i];
        for (size_t t = n - 1; t >= m; t--) {
            const double forward = f[t];
            f[t] = forward - k * b[t - 1];
            b[t] = b[t - 1] - k * forward;
        }
        power *= 1 - k * k;
        if (!(power > 0)) break;
        const double aic = (double)n * log(power) + 2 * m;
        if (aic >= least) continue;
        least = aic;
        best = m;
        memcpy(out, a, sizeof(a));
    }
    return best;
}

/* v with its mean taken off, and the model of it. */
static uint32_t correlate_model(double *v, size_t n, double *work, double *a)
{
    const double mean = correlate_mean(v, n);
    uint32_t most = (uint32_t)(n / 10);
    if (most > ORDER_MAX) most = ORDER_MAX;
    for (size_t i = 0; i < n; i++) v[i] -= mean;
    return correlate_burg(v, n, most, work, a);
}

static int correlate_by_double(const void *a, const void *b)
{
    return SONDE_CMP(*(const double *)a, *(const double *)b);
}

/* v[0 … n) to within three robust standard deviations of the median; work: n. */
static void correlate_draw_in(double *v, size_t n, double *work)
{
    memcpy(work, v, n * sizeof(*v));
    qsort(work, n, sizeof(*work), correlate_by_double);
    const double median = work[n / 2];
    for (size_t i = 0; i < n; i++) work[i] = fabs(v[i] - median);
    qsort(work, n, sizeof(*work), correlate_by_double);
    double reach = OUTLIER_SDS * MAD_TO_SD * work[n / 2];
    if (!(reach > 0)) return; /* most are equal: which of the others are outliers cannot be told */
    for (size_t i = 0; i < n; i++) v[i] = fmax(median - reach, fmin(median + reach, v[i]));
}

/* How far v, what is new in f, is from white and normal. */
static void correlate_fresh_describe(struct correlate_form *f, const double *v, size_t n)
{
    const double mean = correlate_mean(v, n);
    double square = 0, fourth = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (v[i] - mean) * (v[i] - mean);
        square += d;
        fourth += d * d;
    }
    f->alike_count = n / 4;
    f->tails = square > 0 ? (double)n * fourth / (square * square) - 3 : 0;
    for (size_t k = 1; k <= f->alike_count; k++) {
        double sum = 0;
        for (size_t i = 0; i + k < n; i++) sum += (v[i] - mean) * (v[i + k] - mean);
        f->alike[k - 1] = square > 0 ? (1 - (double)k / (double)n) * sum / square : 0;
    }
}

/* The part from first on, n values, of f->level to f->fresh. work: 3 n. */
static void correlate_whiten(struct correlate_form *f, size_t first, size_t n, double *work)
{
    double a[ORDER_MAX + 1] = { 0 };
    double *v = work + 2 * n;
    size_t start = first;
    memcpy(v, f->level + first, n * sizeof(*v));
    f->order = correlate_model(v, n, work, a);
    double sum = 0;
    for (uint32_t k = 1; k <= f->order; k++) sum += a[k];
    if (sum > DRIFT_SUM) {
        f->drifts = 1;
        start = first + 1;
        n--;
        for (size_t i = 0; i < n; i++) v[i] = f->level[start + i] - f->level[start + i - 1];
        memset(a, 0, sizeof(a));
        f->order = correlate_model(v, n, work, a);
    }
    double *fresh = f->fresh + start + f->order;
    const size_t count = n - f->order;
    for (size_t t = f->order; t < n; t++) {
        double e = v[t];
        for (uint32_t k = 1; k <= f->order; k++) e -= a[k] * v[t - k];
        fresh[t - f->order] = e;
    }
    correlate_draw_in(fresh, count, work);
    correlate_fresh_describe(f, fresh, count);
}

/* ---- A series -------------------------------------------------------------------------------- */

/* The longest part without a gap; 0: there is no value. */
static size_t correlate_longest(const double *v, size_t points, size_t *first)
{
    size_t best = 0, since = 0;
    *first = 0;
    for (size_t i = 0; i <= points; i++) {
        if (i < points && isfinite(v[i])) continue;
        if (i - since > best) {
            best = i - since;
            *first = since;
        }
        since = i + 1;
    }
    return best;
}

static const char few[] = "too few values in a row", same[] = "it does not vary";

static const char *correlate_problem(const double *v, size_t n)
{
    if (n < SONDE_CORRELATE_POINTS_MIN) return few;
    const double mean = correlate_mean(v, n);
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean);
    return correlate_varies(squares, mean, n) ? NULL : same;
}

int correlate_form_init(struct correlate_form *f, const double *values, size_t points)
{
    size_t first;
    const size_t n = correlate_longest(values, points, &first);
    *f = (struct correlate_form){ .problem = correlate_problem(values + first, n) };
    f->problem_of_target = f->problem == few ? "the target has too few values in a row"
                                             : "the target does not vary";
    if (f->problem) return 0;
    f->level = sonde__alloc(4 * points * sizeof(*f->level));
    double *work = sonde__alloc(3 * n * sizeof(*work));
    if (!f->level || !work) {
        sonde__free(work);
        return SONDE_ENOMEM;
    }
    f->change = f->level + points;
    f->fresh = f->change + points;
    f->alike = f->fresh + points;
    for (size_t i = 0; i < 3 * points; i++) f->level[i] = NAN;
    memcpy(f->level + first, values + first, n * sizeof(*f->level));
    for (size_t i = first + 1; i < first + n; i++) f->change[i] = values[i] - values[i - 1];
    correlate_whiten(f, first, n, work);
    sonde__free(work);
    return 0;
}

void correlate_form_release(struct correlate_form *f)
{
    sonde__free(f->level); /* the others are behind it */
    *f = (struct correlate_form){ .level = NULL };
}
