/* race_answer.c - see race.h: the final, and what a race came to. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/stats.h"
#include "analyze/tune/race.h"
#include "analyze/tune/race_private.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define FINAL_PAIRS_MIN 3u
#define FINAL_LEVEL 0.99        /* one-sided, at each look; over all of them 0.975 and more */
#define SPREAD_TRIALS_MAX 8.0   /* what trials of the search say of the spread counts as so many */
#define SURFACES 400            /* drawn to judge what may be lost */
#define RIVALS_MAX 64u          /* points that may be the best, most promising first */

/* ---- The final ------------------------------------------------------------------------------- */

/* Limits of the mean of n differences. Three pairs know little of how much they differ; so what the
 * search has learnt of the noise is a part of the spread. */
static void tune_final_judge(const struct sonde_tune_race *r, const double *d, size_t n,
                             struct tune_final *out)
{
    const struct sonde_tune_weights *w = &r->surrogate.weights;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++) mean += d[i] / (double)n;
    for (size_t i = 0; i < n; i++) squares += (d[i] - mean) * (d[i] - mean);
    const double known = (double)r->surrogate.count / 3;
    const double before = known < SPREAD_TRIALS_MAX ? known : SPREAD_TRIALS_MAX;
    const double df = before + (double)n - 1;
    const double se = sqrt((before * 2 * w->noise + squares) / df / (double)n);
    const double half = sonde_t_quantile(FINAL_LEVEL, df) * se;
    out->mean = mean;
    out->low = mean - half;
    out->high = mean + half;
    const double tail = 0.5 * sonde_t_p(mean / se, df);
    out->p_better = mean > 0 ? 1 - tail : tail;
    out->decided = n >= FINAL_PAIRS_MIN &&
                   (out->low > log1p(r->o.min_gain) || out->high < log1p(r->o.min_gain));
}

int race_final(const struct sonde_tune_race *r, struct tune_final *out)
{
    double given[SONDE_TUNE_TRIALS_MAX], winner[SONDE_TUNE_TRIALS_MAX];
    int begun = 0;
    *out = (struct tune_final){ .winner = r->given };
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct sonde_tune_trial *t = &r->trials[i];
        if (t->step.phase != SONDE_TUNE_FINAL || t->outcome == SONDE_TUNE_FAILED) continue;
        const double y = r->o.less ? -log(t->value) : log(t->value);
        if (t->step.point == r->given) {
            if (begun) given[out->given_count++] = y;
            continue;
        }
        if (!race_allowed(r, t->step.point)) continue; /* it failed later on */
        if (!begun || t->step.point != out->winner) {
            *out = (struct tune_final){ .winner = t->step.point };
            begun = 1;
        }
        winner[out->winner_count++] = y;
    }
    if (!begun) return 0;
    out->pairs = out->given_count < out->winner_count ? out->given_count : out->winner_count;
    for (size_t i = 0; i < out->pairs; i++) winner[i] -= given[i];
    if (out->pairs) tune_final_judge(r, winner, out->pairs, out);
    return 1;
}

/* Back to what was given, knob by knob, the least loss first. What several cost together is
 * compared with the leader, so that small losses do not add up. */
uint32_t race_simplest(const struct sonde_tune_race *r, uint32_t leader)
{
    const struct sonde_tune_space *space = r->o.space;
    uint8_t given[SONDE_TUNE_KNOBS_MAX], now[SONDE_TUNE_KNOBS_MAX];
    uint32_t at = leader;
    sonde_tune_levels(space, r->given, given);
    for (;;) {
        double least = INFINITY;
        uint32_t next = at;
        sonde_tune_levels(space, at, now);
        for (size_t k = 0; k < space->knob_count; k++) {
            if (now[k] == given[k]) continue;
            const uint32_t p = sonde_tune_moved(space, at, k, given[k]);
            if (!race_allowed(r, p)) continue;
            const struct sonde_tune_guess d = sonde_tune_difference(&r->surrogate, leader, p);
            const double loss = -d.mean, sd = sqrt(d.variance);
            /* Next to nothing is lost; or little, and even that may be noise. */
            const int noise = loss < sd && loss < 0.5 * SONDE_TUNE_NEAR;
            if (loss > 0.5 * log1p(r->o.min_gain) && !noise) continue;
            if (loss < least) {
                least = loss;
                next = p;
            }
        }
        if (next == at) return at;
        at = next;
    }
}

/* ---- What may be lost ------------------------------------------------------------------------ */

/* The points that promise most, point itself first. */
static size_t tune_rivals(const struct sonde_tune_race *r, uint32_t point, uint32_t *out)
{
    double promise[RIVALS_MAX];
    size_t n = 1;
    out[0] = point;
    for (uint32_t p = 0; p < r->points; p++) {
        if (p == point) continue;
        const double v = r->guesses[p].mean + 2 * sqrt(r->guesses[p].variance);
        if (n == RIVALS_MAX && v <= promise[n - 1]) continue;
        if (!race_allowed(r, p)) continue;
        size_t at = n < RIVALS_MAX ? n++ : n - 1;
        for (; at > 1 && promise[at - 1] < v; at--) {
            promise[at] = promise[at - 1];
            out[at] = out[at - 1];
        }
        promise[at] = v;
        out[at] = p;
    }
    return n;
}

/* Their covariance, factored in place; what rounding makes negative is as good as nothing. */
static void tune_rivals_factor(const struct sonde_tune_surrogate *s, const uint32_t *points,
                               size_t n, const double *loads, double *m)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            double v = sonde_tune_covariance(s, points[i], loads + i * s->count, points[j],
                                             loads + j * s->count);
            for (size_t k = 0; k < j; k++) v -= m[i * n + k] * m[j * n + k];
            if (i == j) m[i * n + i] = v > 1e-12 ? sqrt(v) : 1e-6;
            else m[i * n + j] = v / m[j * n + j];
        }
    }
}

int race_loss(struct sonde_tune_race *r, uint32_t point, double *expected, double *near)
{
    const struct sonde_tune_surrogate *s = &r->surrogate;
    uint32_t points[RIVALS_MAX];
    const size_t n = tune_rivals(r, point, points);
    double *loads = sonde__calloc(n * s->count, sizeof(*loads));
    double *m = sonde__calloc(n * n, sizeof(*m));
    if (!loads || !m) {
        sonde__free(loads);
        sonde__free(m);
        return SONDE_ENOMEM;
    }
    double mean[RIVALS_MAX], z[RIVALS_MAX], sum = 0;
    size_t within = 0;
    for (size_t i = 0; i < n; i++) {
        mean[i] = sonde_tune_guess(s, points[i], loads + i * s->count).mean;
    }
    tune_rivals_factor(s, points, n, loads, m);
    for (int draw = 0; draw < SURFACES; draw++) {
        double own = 0, best = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            double v = mean[i];
            z[i] = sqrt(RACE_DOUBT) * race_normal(r);
            for (size_t k = 0; k <= i; k++) v += m[i * n + k] * z[k];
            if (i == 0) own = v;
            if (v > best) best = v;
        }
        const double loss = -expm1(own - best);
        sum += loss;
        within += loss <= SONDE_TUNE_NEAR;
    }
    *expected = sum / SURFACES;
    *near = (double)within / SURFACES;
    sonde__free(loads);
    sonde__free(m);
    return 0;
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* The mean of a point's trials; of logarithms, as everything here is. */
static double tune_value_of(const struct sonde_tune_race *r, uint32_t point)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->trial_count; i++) {
        if (r->trials[i].step.point != point || r->trials[i].outcome == SONDE_TUNE_FAILED) continue;
        sum += log(r->trials[i].value);
        n++;
    }
    return n ? exp(sum / (double)n) : NAN;
}

static void tune_effects(const struct sonde_tune_race *r, struct sonde_tune_answer *a)
{
    const struct sonde_tune_space *space = r->o.space;
    uint8_t given[SONDE_TUNE_KNOBS_MAX], winner[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(space, a->given, given);
    sonde_tune_levels(space, a->winner, winner);
    a->effect_count = space->knob_count;
    for (size_t k = 0; k < space->knob_count; k++) {
        struct sonde_tune_effect *e = &a->effects[k];
        *e = (struct sonde_tune_effect){ .given = given[k], .winner = winner[k],
                                         .rival = winner[k] };
        double best = -INFINITY;
        for (uint8_t l = 0; l < space->knobs[k].level_count; l++) {
            const uint32_t p = sonde_tune_moved(space, a->winner, k, l);
            if (l == winner[k] || !race_allowed(r, p) || r->guesses[p].mean <= best) continue;
            best = r->guesses[p].mean;
            e->rival = l;
        }
        const int moved = given[k] != winner[k];
        const uint8_t other = moved ? given[k] : e->rival;
        const uint32_t p = sonde_tune_moved(space, a->winner, k, other);
        /* What a knob that was moved brought; of another, what moving it would. */
        const struct sonde_tune_guess d =
            sonde_tune_difference(&r->surrogate, moved ? p : a->winner, moved ? a->winner : p);
        const double half = 1.96 * sqrt(d.variance);
        e->gain = expm1(d.mean);
        e->low = expm1(d.mean - half);
        e->high = expm1(d.mean + half);
    }
}

int sonde_tune_race_answer(struct sonde_tune_race *r, struct sonde_tune_answer *out)
{
    struct tune_final f;
    *out = (struct sonde_tune_answer){
        .verdict = SONDE_TUNE_NOTHING, .given = r->given, .winner = r->given,
        .recommended = r->given, .gain = NAN, .low = NAN, .high = NAN, .p_better = NAN,
        .value_given = tune_value_of(r, r->given), .value_winner = NAN, .loss_expected = NAN,
        .p_near = NAN, .noise = NAN };
    int rc = race_learn(r);
    if (rc) return rc == SONDE_ENOENT ? 0 : rc;
    out->noise = sqrt(r->surrogate.weights.noise);
    if (!race_leader(r, &out->winner)) return 0;
    out->winner = race_simplest(r, out->winner);
    if (!r->point_ok[out->winner]) race_leader(r, &out->winner); /* not known to work */
    const int given_works = r->point_ok[r->given] && race_allowed(r, r->given);
    if (!given_works) {
        out->verdict = SONDE_TUNE_ONLY;
        out->recommended = out->winner;
    } else {
        out->verdict = SONDE_TUNE_KEEP;
        if (race_final(r, &f)) {
            out->winner = f.winner;
            out->pairs = f.pairs;
        }
        if (out->pairs) {
            out->gain = expm1(f.mean);
            out->low = expm1(f.low);
            out->high = expm1(f.high);
            out->p_better = f.p_better;
            if (f.low > 0 && f.mean >= log1p(r->o.min_gain)) {
                out->verdict = SONDE_TUNE_CHANGE;
                out->recommended = f.winner;
            }
        }
    }
    out->value_winner = tune_value_of(r, out->winner);
    tune_effects(r, out);
    return race_loss(r, out->recommended, &out->loss_expected, &out->p_near);
}
