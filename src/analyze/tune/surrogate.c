/* surrogate.c - see surrogate.h. */
#include "analyze/tune/surrogate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

#define CONSTANT_VARIANCE 4.0   /* of c: nothing is known of it */
#define DRIFT_TRIALS 4.0        /* over which it goes on */
#define PAIR_FLOOR 0.01         /* a knob that does nothing by itself may with another */

/* What weights are tried: variances of logarithms, so 1e-4 is 1 % and 0.01 about 10 %. */
static const double knob_steps[] = { 1e-6, 1e-4, 6e-4, 4e-3, 0.02, 0.1, 0.6, 4 };
static const double pair_steps[] = { 0.01, 0.03, 0.1, 0.3, 1 };
static const double own_steps[] = { 1e-7, 1e-4, 4e-4, 2e-3 };
static const double drift_steps[] = { 1e-6, 1e-4, 6e-4, 4e-3 };
static const double noise_steps[] = { 4e-6, 2.5e-5, 1e-4, 3e-4, 9e-4, 2.5e-3, 6.4e-3, 0.016, 0.04,
                                      0.1 };

/* ---- Covariance ------------------------------------------------------------------------------ */

static void tune_alike_fill(struct sonde_tune_surrogate *s)
{
    for (size_t k = 0; k < s->space->knob_count; k++) {
        const struct sonde_tune_knob *knob = &s->space->knobs[k];
        for (uint8_t a = 0; a < knob->level_count; a++) {
            for (uint8_t b = 0; b < knob->level_count; b++) {
                const double apart = fabs(knob->places[a] - knob->places[b]);
                s->alike[k][a][b] = a == b ? 1 : knob->ordered ? exp(-apart) : 0;
            }
        }
    }
}

/* Of the surface, without drift and noise. The sum over pairs is (e1^2 - e2) / 2. */
static double tune_kernel(const struct sonde_tune_surrogate *s, const uint8_t *a, const uint8_t *b)
{
    const struct sonde_tune_weights *w = &s->weights;
    double first = 0, roots = 0, squares = 0;
    int same = 1;
    for (size_t k = 0; k < s->space->knob_count; k++) {
        const double alike = s->alike[k][a[k]][b[k]];
        const double root = sqrt(w->knob[k] + PAIR_FLOOR) * alike;
        if (a[k] != b[k]) same = 0;
        first += w->knob[k] * alike;
        roots += root;
        squares += root * root;
    }
    return CONSTANT_VARIANCE + first + w->pair * 0.5 * (roots * roots - squares) +
           (same ? w->own : 0);
}

/* The matrix of what was seen, factored in place; 0 = it is not positive definite. */
static int tune_factor(const struct sonde_tune_surrogate *s, double *m)
{
    const size_t n = s->count;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            const double apart = fabs((double)s->seen[i].time - (double)s->seen[j].time);
            double v = tune_kernel(s, s->levels[i], s->levels[j]);
            if (s->weights.drift > 1e-6) v += s->weights.drift * exp(-apart / DRIFT_TRIALS);
            if (i == j) v += s->weights.noise;
            for (size_t k = 0; k < j; k++) v -= m[i * n + k] * m[j * n + k];
            if (i > j) {
                m[i * n + j] = v / m[j * n + j];
            } else {
                if (!(v > 1e-12)) return 0;
                m[i * n + i] = sqrt(v);
            }
        }
    }
    return 1;
}

/* L x = y in place, then with its transpose. */
static void tune_solve_lower(const double *factor, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        for (size_t k = 0; k < i; k++) v -= factor[i * n + k] * x[k];
        x[i] = v / factor[i * n + i];
    }
}

static void tune_solve_upper(const double *factor, size_t n, double *x)
{
    for (size_t i = n; i-- > 0;) {
        double v = x[i];
        for (size_t k = i + 1; k < n; k++) v -= factor[k * n + i] * x[k];
        x[i] = v / factor[i * n + i];
    }
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* What is thought of weights beforehand: noise of some percent, knobs that matter some percent,
 * interactions that are weaker than the knobs themselves. Wide, so that a dozen trials outvote
 * it. */
static double tune_prior(const struct sonde_tune_surrogate *s)
{
    const struct sonde_tune_weights *w = &s->weights;
    double sum = 0;
    for (size_t k = 0; k < s->space->knob_count; k++) {
        const double z = log(w->knob[k] / 2e-3) / 4;
        sum += z * z;
    }
    const double noise = log(w->noise / 9e-4) / 2, pair = log(w->pair / 0.1) / 2;
    const double own = log(w->own / 1e-4) / 4;
    return -0.5 * (sum + noise * noise + pair * pair + own * own) -
           (w->drift > 1e-6 ? 0.7 : 0);
}

/* Logarithm of how likely what was seen is under the weights, and of the prior. m and x: room. */
static double tune_likelihood(const struct sonde_tune_surrogate *s, double *m, double *x)
{
    const size_t n = s->count;
    if (!tune_factor(s, m)) return -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < n; i++) x[i] = s->seen[i].y - s->mean;
    tune_solve_lower(m, n, x);
    for (size_t i = 0; i < n; i++) sum += 0.5 * x[i] * x[i] + log(m[i * n + i]);
    return tune_prior(s) - sum;
}

struct tune_weight_steps {
    double *weight;
    const double *steps;
    size_t count;
};

/* One weight to the best of its steps. */
static void tune_climb(struct sonde_tune_surrogate *s, const struct tune_weight_steps *t,
                       double *best, double *m, double *x)
{
    double kept = *t->weight;
    for (size_t i = 0; i < t->count; i++) {
        if (t->steps[i] == kept) continue;
        *t->weight = t->steps[i];
        const double l = tune_likelihood(s, m, x);
        if (l > *best) {
            *best = l;
            kept = t->steps[i];
        }
    }
    *t->weight = kept;
}

/* Its geometric mean over the steps, while the others stay. */
static double tune_weight_mean(struct sonde_tune_surrogate *s, const struct tune_weight_steps *t,
                               double best, double *m, double *x)
{
    const double kept = *t->weight;
    double sum = 0, weight = 0;
    for (size_t i = 0; i < t->count; i++) {
        *t->weight = t->steps[i];
        const double l = t->steps[i] == kept ? best : tune_likelihood(s, m, x);
        const double p = exp(l - best < 0 ? l - best : 0);
        sum += p * log(t->steps[i]);
        weight += p;
    }
    *t->weight = kept;
    return exp(sum / weight);
}

/* The weights one by one, with their steps; 0 = there are no more. */
static int tune_weight_at(struct sonde_tune_surrogate *s, size_t i, struct tune_weight_steps *out)
{
    struct sonde_tune_weights *w = &s->weights;
    const size_t knobs = s->space->knob_count;
    if (i < knobs) {
        *out = (struct tune_weight_steps){ &w->knob[i], knob_steps, SONDE_COUNT(knob_steps) };
        return 1;
    }
    const struct tune_weight_steps others[] = {
        { &w->noise, noise_steps, SONDE_COUNT(noise_steps) },
        { &w->pair, pair_steps, SONDE_COUNT(pair_steps) },
        { &w->own, own_steps, SONDE_COUNT(own_steps) },
        { &w->drift, drift_steps, SONDE_COUNT(drift_steps) },
    };
    if (i - knobs >= SONDE_COUNT(others)) return 0;
    *out = others[i - knobs];
    return 1;
}

/* To the most likely weights; then each to its mean over all of its steps, as likely as these are.
 * A dozen trials do not know that a knob has no effect: the most likely weight may say so, its mean
 * does not. */
static void tune_weigh(struct sonde_tune_surrogate *s, double *m, double *x)
{
    enum { SWEEPS = 4 };
    struct tune_weight_steps t;
    double best = tune_likelihood(s, m, x);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const double before = best;
        for (size_t i = 0; tune_weight_at(s, i, &t); i++) tune_climb(s, &t, &best, m, x);
        if (best - before < 0.05) break;
    }
    double means[SONDE_TUNE_KNOBS_MAX + 8];
    for (size_t i = 0; tune_weight_at(s, i, &t); i++) {
        means[i] = tune_weight_mean(s, &t, best, m, x);
    }
    for (size_t i = 0; tune_weight_at(s, i, &t); i++) *t.weight = means[i];
}

/* ---- Learning -------------------------------------------------------------------------------- */

static void tune_weights_begin(struct sonde_tune_surrogate *s)
{
    struct sonde_tune_weights *w = &s->weights;
    for (size_t k = 0; k < SONDE_TUNE_KNOBS_MAX; k++) w->knob[k] = 4e-3;
    w->pair = 0.1;
    w->own = 1e-4;
    w->drift = 1e-6;
    w->noise = 9e-4;
}

static void tune_surrogate_forget(struct sonde_tune_surrogate *s)
{
    sonde__free(s->seen);
    sonde__free(s->levels);
    sonde__free(s->factor);
    sonde__free(s->solved);
    s->seen = NULL;
    s->levels = NULL;
    s->factor = s->solved = NULL;
    s->count = 0;
}

int sonde_tune_surrogate_learn(struct sonde_tune_surrogate *s, const struct sonde_tune_space *space,
                               const struct sonde_tune_seen *seen, size_t count)
{
    if (!count || count > SONDE_TUNE_TRIALS_MAX) return SONDE_EINVAL;
    tune_surrogate_forget(s);
    s->space = space;
    s->seen = sonde__calloc(count, sizeof(*s->seen));
    s->levels = sonde__calloc(count, sizeof(*s->levels));
    s->factor = sonde__calloc(count * count, sizeof(double));
    s->solved = sonde__calloc(count, sizeof(double));
    if (!s->seen || !s->levels || !s->factor || !s->solved) {
        tune_surrogate_forget(s);
        return SONDE_ENOMEM;
    }
    s->count = count;
    s->mean = 0;
    for (size_t i = 0; i < count; i++) {
        s->seen[i] = seen[i];
        s->seen[i].y -= sonde_tune_expected(space, seen[i].point);
        s->mean += s->seen[i].y / (double)count;
        sonde_tune_levels(space, seen[i].point, s->levels[i]);
    }
    tune_alike_fill(s);
    /* Weighing is most of the work, and among many trials one more changes little. */
    if (!s->weighed || count < s->weighed || count * 8 >= s->weighed * 9) {
        tune_weights_begin(s);
        tune_weigh(s, s->factor, s->solved);
        s->weighed = count;
    }
    if (!tune_factor(s, s->factor)) { /* cannot be: noise is added to what is one already */
        tune_surrogate_forget(s);
        return SONDE_EINVAL;
    }
    for (size_t i = 0; i < count; i++) s->solved[i] = s->seen[i].y - s->mean;
    tune_solve_lower(s->factor, count, s->solved);
    tune_solve_upper(s->factor, count, s->solved);
    return 0;
}

void sonde_tune_surrogate_release(struct sonde_tune_surrogate *s)
{
    tune_surrogate_forget(s);
    memset(s, 0, sizeof(*s));
}

/* ---- Guesses --------------------------------------------------------------------------------- */

struct sonde_tune_guess sonde_tune_guess(const struct sonde_tune_surrogate *s, uint32_t point,
                                         double *load)
{
    assert(s->count);
    double room[SONDE_TUNE_TRIALS_MAX];
    double *x = load ? load : room;
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(s->space, point, levels);
    struct sonde_tune_guess g = { .mean = s->mean + sonde_tune_expected(s->space, point),
                                  .variance = tune_kernel(s, levels, levels) };
    for (size_t i = 0; i < s->count; i++) {
        x[i] = tune_kernel(s, levels, s->levels[i]);
        g.mean += x[i] * s->solved[i];
    }
    tune_solve_lower(s->factor, s->count, x);
    for (size_t i = 0; i < s->count; i++) g.variance -= x[i] * x[i];
    if (g.variance < 0) g.variance = 0;
    return g;
}

double sonde_tune_covariance(const struct sonde_tune_surrogate *s, uint32_t a, const double *load_a,
                             uint32_t b, const double *load_b)
{
    uint8_t levels_a[SONDE_TUNE_KNOBS_MAX], levels_b[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(s->space, a, levels_a);
    sonde_tune_levels(s->space, b, levels_b);
    double v = tune_kernel(s, levels_a, levels_b);
    for (size_t i = 0; i < s->count; i++) v -= load_a[i] * load_b[i];
    return v;
}

struct sonde_tune_guess sonde_tune_difference(const struct sonde_tune_surrogate *s, uint32_t a,
                                              uint32_t b)
{
    double load_a[SONDE_TUNE_TRIALS_MAX], load_b[SONDE_TUNE_TRIALS_MAX];
    const struct sonde_tune_guess of_a = sonde_tune_guess(s, a, load_a);
    const struct sonde_tune_guess of_b = sonde_tune_guess(s, b, load_b);
    const double variance = of_a.variance + of_b.variance -
                            2 * sonde_tune_covariance(s, a, load_a, b, load_b);
    return (struct sonde_tune_guess){ .mean = of_b.mean - of_a.mean,
                                      .variance = variance > 0 && a != b ? variance : 0 };
}
