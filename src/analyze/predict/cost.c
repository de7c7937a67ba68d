/* cost.c - see cost.h. */
#include "analyze/predict/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { ROUNDS = 8 };
#define HUBER 1.5             /* of the scale of relative errors: what is further off counts less */
#define SCALE_MIN 0.01        /* a clock that ticks coarsely makes errors of 0 */
#define SECONDS_MIN 1e-9
enum { WINDOW_MIN = 8, WINDOW_MAX = 100 };
#define ALIKE 1.5             /* costs up to so many times as large are */

/* ---- Least squares with coefficients that are not negative ----------------------------------- */

/* Cholesky of the features that `in` has. 0, or -1: they do not determine anything. */
static int predict_lsq_solve_some(double a[][PREDICT_FEATURES_MAX], const double *b, uint32_t n,
                                  const int *in, double *out)
{
    double l[PREDICT_FEATURES_MAX][PREDICT_FEATURES_MAX] = { { 0 } }, y[PREDICT_FEATURES_MAX];
    uint32_t at[PREDICT_FEATURES_MAX], m = 0;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = 0;
        if (in[i] && a[i][i] > 0) at[m++] = i;
    }
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double s = a[at[i]][at[j]];
            for (uint32_t k = 0; k < j; k++) s -= l[i][k] * l[j][k];
            if (i != j) {
                l[i][j] = s / l[j][j];
                continue;
            }
            /* One that is a sum of others: they do for it. */
            if (s <= 1e-9 * a[at[i]][at[i]]) return -1 - (int)at[i];
            l[i][i] = sqrt(s);
        }
        y[i] = b[at[i]];
        for (uint32_t k = 0; k < i; k++) y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    for (uint32_t i = m; i-- > 0;) {
        double s = y[i];
        for (uint32_t k = i + 1; k < m; k++) s -= l[k][i] * out[at[k]];
        out[at[i]] = s / l[i][i];
    }
    return 0;
}

/* Features whose coefficient would be negative go, the worst first, and are tried again when all
 * others have settled. */
static void predict_lsq_solve(double a[][PREDICT_FEATURES_MAX], const double *b, uint32_t n,
                              double *out)
{
    int in[PREDICT_FEATURES_MAX];
    for (uint32_t i = 0; i < n; i++) in[i] = 1;
    for (uint32_t round = 0; round < 4 * n; round++) {
        const int rc = predict_lsq_solve_some(a, b, n, in, out);
        uint32_t worst = n;
        double least = 0;
        if (rc) {
            in[-1 - rc] = 0;
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            /* By what it takes away, in units of its own size. */
            const double weight = out[i] * sqrt(a[i][i]);
            if (in[i] && weight < least) {
                least = weight;
                worst = i;
            }
        }
        if (worst < n) {
            in[worst] = 0;
            continue;
        }
        /* The gradient of one that was left out: would it help now? */
        double best = 1e-9;
        for (uint32_t i = 0; i < n; i++) {
            if (in[i] || a[i][i] <= 0 || round >= 2 * n) continue;
            double g = b[i];
            for (uint32_t k = 0; k < n; k++) g -= a[i][k] * out[k];
            g /= sqrt(a[i][i]) * (1 + fabs(b[0]));
            if (g > best) {
                best = g;
                worst = i;
            }
        }
        if (worst == n) return;
        in[worst] = 1;
    }
    for (uint32_t i = 0; i < n; i++) out[i] = out[i] > 0 ? out[i] : 0;
}

static double predict_lsq_sum(const double *beta, const double *x, uint32_t n)
{
    double s = 0;
    for (uint32_t i = 0; i < n; i++) s += beta[i] * x[i];
    return s;
}

/* ---- Fitting --------------------------------------------------------------------------------- */

static uint32_t predict_lsq_block(uint32_t row, uint32_t count, uint32_t blocks)
{
    return (uint32_t)((uint64_t)row * blocks / count);
}

/* Normal equations by block, with weights by what was fitted last. */
static void predict_lsq_normal(struct predict_cost *c, const struct predict_row *rows,
                               uint32_t count, const double *weights)
{
    const uint32_t n = c->features;
    memset(c->xtx, 0, c->blocks * sizeof(*c->xtx));
    memset(c->xty, 0, c->blocks * sizeof(*c->xty));
    for (uint32_t r = 0; r < count; r++) {
        const uint32_t block = predict_lsq_block(r, count, c->blocks);
        const double *x = rows[r].x, w = weights[r];
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k <= i; k++) c->xtx[block][i][k] += w * x[i] * x[k];
            c->xty[block][i] += w * x[i] * rows[r].seconds;
        }
    }
}

/* The blocks that times says, each as often, solved. */
static void predict_lsq_solve_blocks(const struct predict_cost *c, const uint32_t *times,
                                     double *beta)
{
    double a[PREDICT_FEATURES_MAX][PREDICT_FEATURES_MAX] = { { 0 } };
    double b[PREDICT_FEATURES_MAX] = { 0 };
    for (uint32_t block = 0; block < c->blocks; block++) {
        const double t = times ? times[block] : 1;
        for (uint32_t i = 0; t > 0 && i < c->features; i++) {
            for (uint32_t k = 0; k <= i; k++) a[i][k] += t * c->xtx[block][i][k];
            b[i] += t * c->xty[block][i];
        }
    }
    for (uint32_t i = 0; i < c->features; i++) {
        for (uint32_t k = i + 1; k < c->features; k++) a[i][k] = a[k][i];
    }
    predict_lsq_solve(a, b, c->features, beta);
}

static double predict_lsq_middle(double *v, uint32_t n)
{
    qsort(v, n, sizeof(*v), sonde_cmp_double);
    return v[n / 2];
}

/* Weights by how far off each is; the scale of that, and the loss. */
static void predict_lsq_weigh(struct predict_cost *c, const struct predict_row *rows,
                              uint32_t count, double *weights, double *work)
{
    for (uint32_t r = 0; r < count; r++) {
        const double fitted = fmax(predict_lsq_sum(c->beta, rows[r].x, c->features), c->floor_s);
        work[r] = fabs(rows[r].seconds / fitted - 1);
    }
    c->error_median = predict_lsq_middle(work, count);
    const double scale = fmax(1.4826 * c->error_median, SCALE_MIN);
    c->loss = 0;
    for (uint32_t r = 0; r < count; r++) {
        const double fitted = fmax(predict_lsq_sum(c->beta, rows[r].x, c->features), c->floor_s);
        const double e = fabs(rows[r].seconds / fitted - 1) / scale;
        const double w = e > HUBER ? HUBER / e : 1;
        weights[r] = w / (fitted * fitted);
        const double off = e * scale;
        c->loss += e > HUBER ? scale * scale * (2 * HUBER * e - HUBER * HUBER) : off * off;
    }
}

static int predict_row_order(const void *a, const void *b)
{
    const struct predict_row *x = a, *y = b;
    return SONDE_CMP(x->fitted, y->fitted);
}

int predict_cost_fit(const struct predict_row *rows, uint32_t count, uint32_t features,
                     struct predict_cost *out)
{
    struct predict_cost c = { .features = features, .count = count,
                              .blocks = count < PREDICT_BLOCKS ? count : PREDICT_BLOCKS };
    if (!count) {
        *out = c;
        return 0;
    }
    c.rows = sonde__calloc(count, sizeof(*c.rows));
    c.xtx = sonde__calloc(c.blocks, sizeof(*c.xtx));
    c.xty = sonde__calloc(c.blocks, sizeof(*c.xty));
    double *weights = sonde__calloc(2 * (size_t)count, sizeof(*weights));
    if (!c.rows || !c.xtx || !c.xty || !weights) {
        sonde__free(weights);
        predict_cost_release(&c);
        return SONDE_ENOMEM;
    }
    c.floor_s = INFINITY;
    for (uint32_t r = 0; r < count; r++) {
        c.floor_s = fmin(c.floor_s, fmax(rows[r].seconds / 2, SECONDS_MIN));
    }
    for (uint32_t r = 0; r < count; r++) {
        const double s = fmax(rows[r].seconds, c.floor_s);
        weights[r] = 1 / (s * s);
    }
    for (int round = 0; round < ROUNDS; round++) {
        predict_lsq_normal(&c, rows, count, weights);
        predict_lsq_solve_blocks(&c, NULL, c.beta);
        predict_lsq_weigh(&c, rows, count, weights, weights + count);
    }
    for (uint32_t r = 0; r < count; r++) {
        c.rows[r] = rows[r];
        c.rows[r].fitted = fmax(predict_lsq_sum(c.beta, rows[r].x, features), c.floor_s);
        c.rows[r].block = predict_lsq_block(r, count, c.blocks);
    }
    qsort(c.rows, count, sizeof(*c.rows), predict_row_order);
    sonde__free(weights);
    *out = c;
    return 0;
}

void predict_cost_release(struct predict_cost *c)
{
    sonde__free(c->rows);
    sonde__free(c->xtx);
    sonde__free(c->xty);
    *c = (struct predict_cost){ 0 };
}

/* ---- Drawing --------------------------------------------------------------------------------- */

int predict_draws_init(struct predict_draws *d, const struct predict_cost *c)
{
    *d = (struct predict_draws){ .features = c->features };
    /* Blocks are nearly of one size; the largest drawn every time is the most there can be. */
    const size_t room = (size_t)c->blocks * (c->blocks ? c->count / c->blocks + 1 : 0) + 1;
    d->fitted = sonde__calloc(room, sizeof(*d->fitted));
    d->ratio = sonde__calloc(room, sizeof(*d->ratio));
    if (d->fitted && d->ratio) return 0;
    predict_draws_release(d);
    return SONDE_ENOMEM;
}

void predict_draws_release(struct predict_draws *d)
{
    sonde__free(d->fitted);
    sonde__free(d->ratio);
    *d = (struct predict_draws){ 0 };
}

void predict_draws_set(struct predict_draws *d, const struct predict_cost *c,
                       struct predict_rng *rng)
{
    uint32_t times[PREDICT_BLOCKS] = { 0 };
    d->features = c->features;
    d->floor_s = c->floor_s;
    d->count = 0;
    memcpy(d->place, c->beta, sizeof(d->place));
    memcpy(d->beta, c->beta, sizeof(d->beta));
    if (!c->count) return;
    for (uint32_t i = 0; i < c->blocks; i++) {
        times[rng ? predict_rng_below(rng, c->blocks) : i]++;
    }
    if (rng) predict_lsq_solve_blocks(c, times, d->beta);
    for (uint32_t i = 0; i < c->count; i++) {
        const struct predict_row *row = &c->rows[i];
        if (!times[row->block]) continue;
        /* By what this replicate has for it: else a slow block would be slow twice, in its
         * coefficients and in its residuals. */
        const double fitted = fmax(predict_lsq_sum(d->beta, row->x, c->features), c->floor_s);
        for (uint32_t t = 0; t < times[row->block]; t++) {
            d->fitted[d->count] = row->fitted;
            d->ratio[d->count++] = row->seconds / fitted;
        }
    }
    const uint32_t window = d->count / 100;
    d->window = window < WINDOW_MIN ? WINDOW_MIN : window > WINDOW_MAX ? WINDOW_MAX : window;
}

/* The first residual that was seen at that cost or more. */
static uint32_t predict_draws_find(const struct predict_draws *d, double cost)
{
    uint32_t low = 0, high = d->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (d->fitted[middle] < cost) low = middle + 1;
        else high = middle;
    }
    return low;
}

double predict_draws_cost(const struct predict_draws *d, const double *x, struct predict_rng *rng)
{
    if (!d->count) return 0;
    const double place = fmax(predict_lsq_sum(d->place, x, d->features), d->floor_s);
    const uint32_t at = predict_draws_find(d, place);
    uint32_t first = at > d->window ? at - d->window : 0;
    uint32_t end = d->count - at > d->window ? at + d->window : d->count;
    /* What delays a step of 2 ms by half does not delay one of 50 ms by half: only alike ones, as
     * long as there are some. */
    const uint32_t alike = predict_draws_find(d, place / ALIKE);
    const uint32_t unlike = predict_draws_find(d, place * ALIKE);
    if (unlike - alike >= WINDOW_MIN) {
        first = first > alike ? first : alike;
        end = end < unlike ? end : unlike;
    } else {
        first = at > WINDOW_MIN ? at - WINDOW_MIN : 0;
        end = d->count - first > 2 * WINDOW_MIN ? first + 2 * WINDOW_MIN : d->count;
        if (end - first < 2 * WINDOW_MIN && end > 2 * WINDOW_MIN) first = end - 2 * WINDOW_MIN;
    }
    return fmax(predict_lsq_sum(d->beta, x, d->features), d->floor_s) *
           d->ratio[first + predict_rng_below(rng, end - first)];
}
