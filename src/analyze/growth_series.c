/* growth_series.c - what one curve of memory in use means.
 *
 * The question is whether the curve has a slope, and that depends on what one takes for noise.
 * Memory in use wanders: what is allocated stays, so the next value starts from this one, and a
 * line through such a walk has a "significant" slope more often than not if its points are taken
 * for independent. So there are two tests:
 *
 *   differences  The mean step from point to point against the steps' spread. Right for a walk,
 *                and for bursts: k equal steps up and none down are sqrt(k) standard errors, so one
 *                jump, however high, is never growth. Weak where values only jitter about a line;
 *                less so with longer steps, between means of some points, which is tried too.
 *                Points are means over time, which makes the steps of a walk look alike by a third
 *                (Working 1960): their variance counts 1.5 times.
 *   levels       Least squares through the points, the error widened for residuals that resemble
 *                their neighbours, (1 + r) / (1 - r). Strong against jitter, wrong for a walk: used
 *                only where the residuals are shown not to be one (Dickey-Fuller at 1 %).
 *
 * The slope is that of the last half, so that what happened early does not count. Few large bursts
 * do not suffice there; they may be seen in the whole curve, if the last half has its share of it.
 *
 * Growth that slows down is a cache: the curvature by the same two tests, and the slope at the end
 * less than SLOWER of that at the start; or no new high for twice as long as there ever was between
 * two. Growth that was given back is no leak: a ring, a pool.
 *
 * Rejected: rank tests (Mann-Kendall), which a walk passes as easily as least squares does; and one
 * test with a long-run variance (Newey-West), since 64 points are too few to estimate it. */
#include "analyze/growth.h"

#include <math.h>
#include <stdint.h>

enum {
    POINTS_MIN = 16,     /* fewer: no verdict */
    BLOCKS = 8,          /* the curve smoothed, to see what was given back */
    JOIN = 4,            /* points that make a longer step */
    STEPS_MIN = 6,       /* that must be left of longer steps */
    SAMPLES_MIN = 8,     /* growth of fewer sampled allocations may be chance, or slow down */
};
#define SECONDS_MIN 5.0  /* shorter: no verdict; a program that builds something up is no leak */
#define WALK 1.5         /* variance of a walk's steps over that of its means' steps, squared */
#define SHARE_MIN 0.35   /* of the whole growth that is in the last half, where that is not clear */
#define SLOWER 0.7       /* slope at the end over that at the start */
#define GIVEN_BACK 0.5   /* of the growth */
#define FLOOR_SHARE 0.25 /* of the growth of means that the lows have to have */
#define Z_95 1.959964    /* two-sided */
#define Z_GROWTH 2.3263  /* one-sided 1 % */
#define Z_WHOLE 2.5758   /* 0.5 %: a second chance to be wrong */

struct curve {
    double y[SONDE_CURVE_POINTS];
    uint32_t n;
    double dt;           /* seconds between points */
};

/* An estimate, its standard error and degrees of freedom; by points, not seconds. */
struct growth_series_fit { double value, se, df; };

/* ---- Statistics ------------------------------------------------------------------------------ */

/* Student's quantile of a normal one (Cornish-Fisher). */
static double growth_series_student(double z, double df)
{
    if (df < 1) df = 1;
    const double z3 = z * z * z, z5 = z3 * z * z;
    return z + (z3 + z) / (4 * df) + (5 * z5 + 16 * z3 + 3 * z) / (96 * df * df);
}

static int growth_series_beyond(const struct growth_series_fit *f, double z)
{
    return f->df > 0 && f->value > growth_series_student(z, f->df) * f->se;
}

static struct growth_series_fit mean_of(const double *x, uint32_t n)
{
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i];
    const double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    return (struct growth_series_fit){ .value = mean, .df = n - 1.0,
                                       .se = sqrt(WALK * square / (n - 1.0) / n) };
}

/* Least squares of y on 1, x and, degree 2, x² made orthogonal to both; x is centred. Fills the
 * residuals; returns the coefficient of the highest power with the error of independent points. */
static struct growth_series_fit least_squares(const double *y, uint32_t n, int degree,
                                              double *residual)
{
    double xx = 0, qq = 0, mean = 0, slope = 0, curve = 0, rss = 0;
    const double middle = (n - 1.0) / 2, q0 = (n * (double)n - 1) / 12; /* mean of x² */
    for (uint32_t i = 0; i < n; i++) {
        const double x = i - middle, q = x * x - q0;
        mean += y[i] / n;
        slope += x * y[i];
        curve += q * y[i];
        xx += x * x;
        qq += q * q;
    }
    slope /= xx;
    curve = degree == 2 ? curve / qq : 0;
    for (uint32_t i = 0; i < n; i++) {
        const double x = i - middle;
        residual[i] = y[i] - mean - slope * x - curve * (x * x - q0);
        rss += residual[i] * residual[i];
    }
    const double df = n - 1.0 - degree;
    return degree == 2
               ? (struct growth_series_fit){ .value = curve, .df = df, .se = sqrt(rss / df / qq) }
               : (struct growth_series_fit){ .value = slope, .df = df, .se = sqrt(rss / df / xx) };
}

/* Do residuals come back to zero, or do they wander? Dickey-Fuller at 1 %, for what is left of a
 * line or parabola (MacKinnon's response surfaces). *widen: of the error, for their likeness. */
static int comes_back(const double *u, uint32_t n, int degree, double *widen)
{
    double before = 0, product = 0, rss = 0;
    for (uint32_t i = 1; i < n; i++) {
        before += u[i - 1] * u[i - 1];
        product += u[i - 1] * (u[i] - u[i - 1]);
    }
    if (!(before > 0)) return 0;
    const double phi = product / before;
    for (uint32_t i = 1; i < n; i++) {
        const double e = u[i] - u[i - 1] - phi * u[i - 1];
        rss += e * e;
    }
    const double t = n - 1.0, se = sqrt(rss / (t - 1) / before);
    const double limit = degree == 2 ? -4.3711 - 11.5882 / t - 35.819 / (t * t)
                                     : -3.9638 - 8.353 / t - 47.44 / (t * t);
    if (!(phi < limit * se)) return 0;
    /* Likeness is underestimated by about (2 + 4r)/n once a line was fitted. */
    double r = 1 + phi;
    r += (2 + 4 * r) / n;
    r = r < 0 ? 0 : r > 0.98 ? 0.98 : r;
    *widen = sqrt((1 + r) / (1 - r));
    return 1;
}

/* By levels. 0: may not be used for this curve. */
static int by_levels(const double *y, uint32_t n, int degree, struct growth_series_fit *out)
{
    double residual[SONDE_CURVE_POINTS], widen;
    *out = least_squares(y, n, degree, residual);
    if (!comes_back(residual, n, degree, &widen)) return 0;
    out->se *= widen;
    return 1;
}

static uint32_t steps_of(const double *y, uint32_t n, double *step)
{
    for (uint32_t i = 1; i < n; i++) step[i - 1] = y[i] - y[i - 1];
    return n - 1;
}

/* Means of each `per` points; what is too few for one is left out at the start. */
static uint32_t means_of(const double *y, uint32_t n, uint32_t per, double *mean)
{
    const uint32_t count = n / per;
    y += n - count * per;
    for (uint32_t b = 0; b < count; b++) {
        mean[b] = 0;
        for (uint32_t i = 0; i < per; i++) mean[b] += y[b * per + i] / per;
    }
    return count;
}

static struct growth_series_fit by_steps(const double *y, uint32_t n, uint32_t per)
{
    double mean[SONDE_CURVE_POINTS], step[SONDE_CURVE_POINTS];
    struct growth_series_fit f = mean_of(step, steps_of(mean, means_of(y, n, per, mean), step));
    f.value /= per;
    f.se /= per;
    return f;
}

static void growth_series_surer(struct growth_series_fit *best, struct growth_series_fit f)
{
    if (growth_series_student(Z_GROWTH, f.df) * f.se <
        growth_series_student(Z_GROWTH, best->df) * best->se) {
        *best = f;
    }
}

/* The slope by whichever test is surest. */
static struct growth_series_fit slope_of(const double *y, uint32_t n)
{
    struct growth_series_fit best = by_steps(y, n, 1), levels;
    if (n >= JOIN * STEPS_MIN) growth_series_surer(&best, by_steps(y, n, JOIN));
    if (by_levels(y, n, 1, &levels)) growth_series_surer(&best, levels);
    return best;
}

/* ---- Kinds of growth ------------------------------------------------------------------------- */

/* The slope gets smaller, and by enough to matter. */
static int slows_down(const struct curve *c)
{
    double step[SONDE_CURVE_POINTS], rest[SONDE_CURVE_POINTS], residual[SONDE_CURVE_POINTS];
    struct growth_series_fit f;
    const uint32_t n = c->n;
    double bend; /* change of the slope from point to point */
    if (by_levels(c->y, n, 2, &f)) {
        f.value = -f.value;
        bend = -2 * f.value;
    } else {
        /* The steps' own slope. */
        f = least_squares(step, steps_of(c->y, n, step), 1, rest);
        f.se *= sqrt(WALK);
        bend = f.value;
        f.value = -f.value;
    }
    if (!growth_series_beyond(&f, Z_GROWTH)) return 0;
    const double middle = least_squares(c->y, n, 1, residual).value;
    return middle + bend * n / 2 < SLOWER * (middle - bend * n / 2);
}

/* It grew, and then for long there was no new high. */
static int has_stopped(const struct curve *c)
{
    double high = c->y[0];
    uint32_t last = 0, gap_max = 1;
    for (uint32_t i = 1; i < c->n; i++) {
        if (c->y[i] <= high) continue;
        if (i - last > gap_max) gap_max = i - last;
        high = c->y[i];
        last = i;
    }
    const uint32_t since = c->n - 1 - last;
    return since >= 4 && since >= c->n / 8 && since >= 2 * gap_max;
}

/* The largest fall from a high, of the smoothed curve. */
static double fall_of(const double *y, uint32_t n)
{
    double high = -INFINITY, fall = 0;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        const uint32_t from = b * n / BLOCKS, to = (b + 1) * n / BLOCKS;
        double mean = 0;
        for (uint32_t i = from; i < to; i++) mean += y[i] / (to - from);
        if (mean > high) high = mean;
        if (high - mean > fall) fall = high - mean;
    }
    return fall;
}

/* Bytes that one sample stands for; 0 = all are counted. */
static double growth_series_weight_of(const struct curve *c, double noise)
{
    const double level = c->y[c->n - 1];
    return noise > 0 && level > 0 ? noise * noise / level : 0;
}

static double growth_series_lowest(const double *y, uint32_t n)
{
    double low = y[0];
    for (uint32_t i = 1; i < n; i++) low = y[i] < low ? y[i] : low;
    return low;
}

/* What does not grow for sure: does it not, or is there too little to say? The latter when it ends
 * a good deal higher without a fall, or when even its lows have risen. */
static enum sonde_heap_verdict growth_series_unsure(const struct curve *c)
{
    const uint32_t half = c->n / 2;
    const double *y = c->y + half;
    double high = 0;
    for (uint32_t i = 0; i < c->n; i++) high = c->y[i] > high ? c->y[i] : high;
    const double grown = c->y[c->n - 1] - y[0], much = 0.1 * high;
    const uint32_t quarter = (c->n - half) / 2;
    const double risen =
        growth_series_lowest(y + quarter, c->n - half - quarter) - growth_series_lowest(y, quarter);
    const int rises = (grown > much && fall_of(y, c->n - half) < GIVEN_BACK * grown) ||
                      (risen > much && grown > 0);
    return rises && !has_stopped(c) ? SONDE_HEAP_UNKNOWN : SONDE_HEAP_STABLE;
}

/* What leaks is never given back, so the lows of the curve rise with its means. Means alone may
 * climb for as long as one looks: a site of which hardly ever anything is in use when it is
 * counted, buffers of requests, has as many values of zero at the end as at the start. Between the
 * first quarter and the last. */
static int lows_rise(const struct curve *c)
{
    const uint32_t quarter = c->n / 4;
    const double *last = c->y + c->n - quarter;
    double risen = 0;
    for (uint32_t i = 0; i < quarter; i++) risen += (last[i] - c->y[i]) / quarter;
    return growth_series_lowest(last, quarter) - growth_series_lowest(c->y, quarter) >=
           FLOOR_SHARE * risen;
}

static enum sonde_heap_verdict verdict_of(const struct curve *c,
                                          const struct growth_series_fit *late, double noise)
{
    const uint32_t half = c->n / 2;
    const double *y = c->y + half;
    const struct growth_series_fit whole = slope_of(c->y, c->n);
    const double grown = late->value * (c->n - half - 1), all = whole.value * (c->n - 1);
    const struct growth_series_fit fallen = { .value = -late->value, .se = late->se,
                                              .df = late->df };
    if (growth_series_beyond(&fallen, Z_GROWTH)) return SONDE_HEAP_SHRINKING;

    const int grows = growth_series_beyond(late, Z_GROWTH) ||
                      (growth_series_beyond(&whole, Z_WHOLE) && grown >= SHARE_MIN * all);
    if (!grows || fall_of(y, c->n - half) > GIVEN_BACK * grown) return growth_series_unsure(c);
    /* It has been here before, and gave it back then. */
    if (fall_of(c->y, c->n) > GIVEN_BACK * grown) return SONDE_HEAP_UNKNOWN;
    if (all < SAMPLES_MIN * growth_series_weight_of(c, noise)) return SONDE_HEAP_UNKNOWN;
    if (!(noise > 0) && !lows_rise(c)) return SONDE_HEAP_UNKNOWN;
    return slows_down(c) || has_stopped(c) ? SONDE_HEAP_CACHE : SONDE_HEAP_LEAK;
}

/* ---- Series ---------------------------------------------------------------------------------- */

static void curve_of(const struct sonde_curve *s, double tick_s, uint32_t skip, struct curve *c)
{
    const uint32_t per = s->per_point ? s->per_point : 1;
    const uint32_t count = s->count < SONDE_CURVE_POINTS ? s->count : SONDE_CURVE_POINTS;
    const uint32_t late = skip > s->first ? skip - s->first : 0;
    const uint32_t from = late / per + (late % per != 0);
    c->n = from < count ? count - from : 0;
    c->dt = per * tick_s;
    for (uint32_t i = 0; i < c->n; i++) c->y[i] = (double)s->value[from + i];
}

void sonde_growth_judge(const struct sonde_curve *s, double tick_s, uint32_t skip, double noise,
                        struct sonde_growth *out)
{
    struct curve c;
    curve_of(s, tick_s, skip, &c);
    *out = (struct sonde_growth){ .verdict = SONDE_HEAP_UNKNOWN };
    if (c.n < 4 || !(tick_s > 0)) return;
    const uint32_t from = c.n < POINTS_MIN ? 0 : c.n / 2;
    const struct growth_series_fit late = slope_of(c.y + from, c.n - from);
    /* Sampling adds to what the points show: a sample more or less. */
    const double grown = late.value * (c.n - from - 1.0),
                 weight = growth_series_weight_of(&c, noise);
    const double sampled = sqrt(weight * fabs(grown)) / (c.n - from - 1.0);
    const double error =
        growth_series_student(Z_95, late.df) * (sampled > late.se ? sampled : late.se);
    out->slope = late.value / c.dt;
    out->slope_low = (late.value - error) / c.dt;
    out->slope_high = (late.value + error) / c.dt;
    if (c.n >= POINTS_MIN && c.n * c.dt >= SECONDS_MIN) {
        out->verdict = verdict_of(&c, &late, noise);
    }
}

/* ---- Warm-up --------------------------------------------------------------------------------- */

/* Of the floor, which is what was never given back later: a burst that came and went is no part of
 * starting up. The last step up that is larger than those of the last third ends it, if before it
 * the floor rose STEEPER times as fast as after: chance has larger steps too. */
uint32_t sonde_growth_warm_up(const struct sonde_curve *total)
{
    enum { PARTS = 16, STEPS = PARTS - 1, END = STEPS / 3, STEEPER = 3 };
    struct curve c;
    double floor[PARTS], end_max = 0;
    curve_of(total, 1, 0, &c);
    if (c.n < POINTS_MIN) return UINT32_MAX;
    for (uint32_t b = PARTS; b-- > 0;) {
        const uint32_t from = b * c.n / PARTS, to = (b + 1) * c.n / PARTS;
        double mean = 0;
        for (uint32_t i = from; i < to; i++) mean += c.y[i] / (to - from);
        floor[b] = b + 1 < PARTS && floor[b + 1] < mean ? floor[b + 1] : mean;
    }
    for (uint32_t b = STEPS - END; b < STEPS; b++) {
        const double step = floor[b + 1] - floor[b];
        if (step > end_max) end_max = step;
    }
    const double risen = floor[STEPS] - floor[0], lately = floor[STEPS] - floor[STEPS - END];
    /* Nearly all came at the end, and that is much: still loading. */
    if (lately > 0.75 * risen && lately > floor[STEPS] / 4) return UINT32_MAX;
    /* On top, half of what a step has on average: less is not worth calling warm-up. */
    const double most = end_max + risen / STEPS / 2;
    uint32_t first = STEPS - END;
    while (first > 0 && floor[first] - floor[first - 1] <= most) first--;
    const double before = (floor[first] - floor[0]) * (STEPS - first);
    const double after = (floor[STEPS] - floor[first]) * first;
    /* The end of it may reach into the part it leads to: that is left out too. */
    first = before <= STEEPER * after ? 0 : first + 1;
    const uint32_t per = total->per_point ? total->per_point : 1;
    return total->first + first * c.n / PARTS * per;
}
