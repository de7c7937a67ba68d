/* stats.c - see stats.h. */
#include "analyze/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

/* ---- Student's t ----------------------------------------------------------------------------- */

/* The continued fraction of the incomplete beta function, by Lentz's method; x is on the side where
 * it converges in a few steps. */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 400; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-15) break;
    }
    return h;
}

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* I_x(a, b) */
static double beta_share(double a, double b, double x)
{
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    const double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) +
                             b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double sonde_t_p(double t, double df)
{
    assert(isnan(df) || df > 0);
    if (isnan(t) || isnan(df)) return NAN;
    /* So many degrees of freedom are a normal distribution, to 6 digits. */
    if (df > 1e6) return erfc(fabs(t) / sqrt(2));
    if (isinf(t)) return 0;
    return beta_share(df / 2, 0.5, df / (df + t * t));
}

static double t_density(double t, double df)
{
    if (df > 1e6) return exp(-t * t / 2) / sqrt(2 * M_PI);
    return exp(log_gamma((df + 1) / 2) - log_gamma(df / 2) - (df + 1) / 2 * log1p(t * t / df)) /
           sqrt(df * M_PI);
}

double sonde_t_quantile(double q, double df)
{
    assert(q > 0 && q < 1);
    assert(df > 0);
    if (q < 0.5) return -sonde_t_quantile(1 - q, df);
    const double p = 2 * (1 - q);
    double low = 0, high = 1e300, t = 2;
    /* Newton's method, held between what is known to be too low and too high. */
    for (int i = 0; i < 200; i++) {
        const double over = sonde_t_p(t, df) - p;
        if (over > 0) low = t;
        else high = t;
        double next = t + over / (2 * t_density(t, df));
        if (!(next > low && next < high)) next = high < 1e300 ? (low + high) / 2 : 2 * t;
        if (fabs(next - t) <= 1e-13 * t) return next;
        t = next;
    }
    return t;
}

/* ---- Many tests ------------------------------------------------------------------------------ */

struct ranked { double p; size_t at; };

static int by_p(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->p != y->p) return SONDE_CMP(x->p, y->p);
    return SONDE_CMP(x->at, y->at);
}

int sonde_stats_adjust(double *p, size_t count)
{
    assert(p || !count);
    struct ranked *v = sonde__calloc(count ? count : 1, sizeof(*v));
    if (!v) return SONDE_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(p[i])) v[n++] = (struct ranked){ p[i], i };
    }
    qsort(v, n, sizeof(*v), by_p);
    double least = 1;
    for (size_t i = n; i-- > 0;) {
        const double raised = v[i].p * (double)n / (double)(i + 1);
        if (raised < least) least = raised;
        p[v[i].at] = least;
    }
    sonde__free(v);
    return 0;
}

/* ---- Estimates ------------------------------------------------------------------------------- */

/* By how much neighbours that are alike make the variance of a mean larger. r comes out too small
 * by (1 + 3 r) / n (Marriott and Pope 1954); parts that are less alike than chance are let be. */
static double stats_likeness(const double *y, const double *x, const uint32_t *run, size_t n,
                             double ratio)
{
    double square = 0, product = 0;
    size_t pairs = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = y[i] - ratio * x[i];
        square += d * d;
        if (i + 1 < n && run[i] == run[i + 1]) {
            product += d * (y[i + 1] - ratio * x[i + 1]);
            pairs++;
        }
    }
    if (pairs < 4 || square <= 0) return 1;
    const double count = (double)n;
    const double seen = product / (double)pairs / (square / count);
    double r = (seen + 1 / count) / (1 - 3 / count);
    if (r < 0) r = 0;
    if (r > 0.8) r = 0.8;
    return (1 + r) / (1 - r);
}

struct sonde_estimate sonde_estimate_ratio(const double *y, const double *x, const uint32_t *run,
                                           size_t n, double variance_min)
{
    assert(variance_min >= 0);
    struct sonde_estimate e = { NAN, INFINITY, INFINITY, 1 };
    double sum_y = 0, sum_x = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        sum_y += y[i];
        sum_x += x[i];
    }
    if (!(sum_x > 0)) return e;
    e.value = sum_y / sum_x;
    if (n < 2) return e;
    for (size_t i = 0; i < n; i++) {
        const double d = y[i] - e.value * x[i];
        square += d * d;
    }
    const double parts = (double)n, raised = stats_likeness(y, x, run, n, e.value);
    double variance = raised * square * parts / (parts - 1) / (sum_x * sum_x);
    if (variance < variance_min) variance = variance_min;
    e.se_low = e.se_high = sqrt(variance);
    e.df = (parts - 1) / raised;
    if (e.df < 1) e.df = 1;
    return e;
}

/* Of neighbouring runs, between 0 and 0.8: what is seen of d, which have a mean of 0, and what is
 * expected. */
static double stats_runs_likeness(const double *y, const double *x, size_t n, double ratio)
{
    double square = 0, product = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = y[i] - ratio * x[i];
        square += d * d;
        if (i) product += d * before;
        before = d;
    }
    if (n < 4 || square <= 0) return SONDE_RUNS_LIKENESS;
    const double count = (double)n, pairs = count - 1;
    const double seen = product / pairs / (square / count);
    const double r = fmin(fmax((seen + 1 / count) / (1 - 3 / count), -1), 0.9);
    const double mixed = (pairs * r + SONDE_RUNS_LIKENESS_PAIRS * SONDE_RUNS_LIKENESS) /
                         (pairs + SONDE_RUNS_LIKENESS_PAIRS);
    return fmin(fmax(mixed, 0), 0.8);
}

struct sonde_estimate sonde_estimate_runs(const double *y, const double *x, size_t n,
                                          double variance_min)
{
    assert(variance_min >= 0);
    struct sonde_estimate e = { NAN, INFINITY, INFINITY, 1 };
    double sum_y = 0, sum_x = 0, square = 0, f = 1, power = 1;
    for (size_t i = 0; i < n; i++) {
        sum_y += y[i];
        sum_x += x[i];
    }
    if (!(sum_x > 0)) return e;
    e.value = sum_y / sum_x;
    if (n < 2) return e;
    for (size_t i = 0; i < n; i++) {
        const double d = y[i] - e.value * x[i];
        square += d * d;
    }
    const double runs = (double)n, r = stats_runs_likeness(y, x, n, e.value);
    for (size_t k = 1; k < n && power > 1e-9; k++) {
        power *= r;
        f += 2 * (1 - (double)k / runs) * power;
    }
    const double raised = f / fmax(1 - (f - 1) / (runs - 1), 0.2);
    double variance = raised * square * runs / (runs - 1) / (sum_x * sum_x);
    if (variance < variance_min) variance = variance_min;
    e.se_low = e.se_high = sqrt(variance);
    e.df = runs - 1;
    return e;
}

static int stats_by_value(const void *a, const void *b)
{
    const struct sonde_observed *x = a, *y = b;
    if (x->value != y->value) return SONDE_CMP(x->value, y->value);
    return SONDE_CMP(x->part, y->part);
}

void sonde_observed_sort(struct sonde_observed *v, size_t count)
{
    qsort(v, count, sizeof(*v), stats_by_value);
}

static size_t stats_rank_of(double q, size_t count)
{
    const double r = ceil(q * (double)count) - 1;
    return r <= 0 ? 0 : r >= (double)count ? count - 1 : (size_t)r;
}

struct sonde_estimate sonde_estimate_quantile(const struct sonde_observed *v, size_t count,
                                              double q, const uint32_t *run, size_t n, double *work)
{
    assert(q > 0 && q < 1);
    struct sonde_estimate e = { NAN, INFINITY, INFINITY, 1 };
    if (!count || n < 2) return e;
    const size_t rank = stats_rank_of(q, count);
    double *y = work, *x = work + n;
    for (size_t i = 0; i < n; i++) y[i] = x[i] = 0;
    /* Of values that are equal to it an equal share each: those of some parts must not come
     * first. */
    size_t first = rank, end = rank + 1;
    while (first > 0 && !(v[first - 1].value < v[rank].value)) first--;
    while (end < count && !(v[end].value > v[rank].value)) end++;
    const double share = (double)(rank + 1 - first) / (double)(end - first);
    for (size_t i = 0; i < count; i++) {
        x[v[i].part]++;
        if (i < end) y[v[i].part] += i < first ? 1 : share;
    }
    const struct sonde_estimate f = sonde_estimate_ratio(y, x, run, n, q * (1 - q) / (double)count);
    const double t = sonde_t_quantile(0.975, f.df), arm = t * f.se_low;
    e.value = v[rank].value;
    e.df = f.df;
    /* Bounds beyond the values that there are, are not known. */
    if (q - arm > 0) e.se_low = (e.value - v[stats_rank_of(q - arm, count)].value) / t;
    if (ceil((q + arm) * (double)count) <= (double)count - 1) {
        const size_t above = stats_rank_of(q + arm, count) + 1;
        e.se_high = (v[above].value - e.value) / t;
    }
    return e;
}

struct sonde_estimate sonde_estimate_lend(double value, const struct sonde_estimate *from,
                                          size_t n)
{
    assert(n >= 2);
    const double parts = (double)n;
    /* Welch's formula takes the two spreads for independent, and finds more degrees of freedom than
     * there are: with s^2/n and s^2 it is to find from->df. */
    return (struct sonde_estimate){ .value = value, .se_low = from->se_low * sqrt(parts),
                                    .se_high = from->se_high * sqrt(parts),
                                    .df = from->df * parts / (parts + 2) };
}

/* ---- Difference ------------------------------------------------------------------------------ */

static double welch_df(double se_a, double df_a, double se_b, double df_b)
{
    const double a = se_a * se_a, b = se_b * se_b;
    if (!(a + b > 0) || isinf(a) || isinf(b)) return 1;
    const double below = (isinf(df_a) ? 0 : a * a / df_a) + (isinf(df_b) ? 0 : b * b / df_b);
    return below > 0 ? (a + b) * (a + b) / below : INFINITY;
}

/* The bound of after / before towards which sign points. arm_a is before's arm away from it, arm_b
 * after's: (b - r a)^2 = arm_b^2 + r^2 arm_a^2 solved for r. */
static double ratio_bound(double a, double b, double arm_a, double arm_b, double sign)
{
    const double below = a * a - arm_a * arm_a;
    const double inner = a * a * b * b - below * (b * b - arm_b * arm_b);
    /* before may be 0 for all that is known: then the ratio may be anything. */
    if (!(a > 0) || !(below > 0) || !(inner >= 0) || isinf(arm_b)) return NAN;
    const double r = (a * b + sign * sqrt(inner)) / below;
    return r < 0 ? 0 : r;
}

struct sonde_difference sonde_estimate_compare(const struct sonde_estimate *before,
                                               const struct sonde_estimate *after)
{
    const double a = before->value, b = after->value;
    struct sonde_difference d = { NAN, NAN, NAN, NAN, NAN, NAN, NAN };
    if (isnan(a) || isnan(b)) return d;
    d.change = b - a;
    if (a > 0) d.relative = b / a - 1;

    const double df_low = welch_df(before->se_high, before->df, after->se_low, after->df);
    const double df_high = welch_df(before->se_low, before->df, after->se_high, after->df);
    const double t_low = sonde_t_quantile(0.975, df_low);
    const double t_high = df_high == df_low ? t_low : sonde_t_quantile(0.975, df_high);
    d.low = d.change - t_low * hypot(before->se_high, after->se_low);
    d.high = d.change + t_high * hypot(before->se_low, after->se_high);
    d.relative_low = ratio_bound(a, b, t_low * before->se_high, t_low * after->se_low, -1) - 1;
    d.relative_high = ratio_bound(a, b, t_high * before->se_low, t_high * after->se_high, 1) - 1;

    const double se = d.change >= 0 ? hypot(before->se_high, after->se_low)
                                    : hypot(before->se_low, after->se_high);
    if (isinf(se)) {
        /* Nothing is known of one: it cannot be judged. Or not upwards: it may as well be equal. */
        const int blind = (isinf(before->se_low) && isinf(before->se_high)) ||
                          (isinf(after->se_low) && isinf(after->se_high));
        d.p = blind ? NAN : 1;
        return d;
    }
    if (se > 0) d.p = sonde_t_p(d.change / se, d.change >= 0 ? df_low : df_high);
    else d.p = d.change == 0 ? 1 : 0;
    return d;
}
