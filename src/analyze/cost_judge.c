/* cost_judge.c - which functions changed: see cost.h.
 *
 * For each function that has a share worth judging:
 *   1. The stretch of bins [i, j) whose share differs most from that of the rest, by
 *      (R_in - R_out)² / (1/W_in + 1/W_out), W the weight of all functions in it: circular binary
 *      segmentation (Olshen et al. 2004) with one round.
 *   2. Its significance by the ratio estimator, times the number of stretches that are more or
 *      less independent, times the number of functions. A stretch that was searched for looks
 *      steadier than it is, and neighbours that are a little alike for hours do not show it, so the
 *      variance is not taken to be less than what is usual among all functions: how much their
 *      shares differ between spans of two hours, beyond sampling.
 *   3. Whether a line and a daily curve explain the function better than the stretch does.
 *   4. What others lost: shares of (all - this function), so that they do not fall merely because
 *      this one rose. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/cost_private.h"
#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum {
    COST_STRETCH_MIN = 8,        /* bins: two hours */
    COST_STEPS = 12,             /* that are more or less independent of each other, … */
    COST_STRETCHES = 60,         /* … and stretches with a beginning and an end */
    COST_CHANGES_MAX = 1000,
    COST_SURES_MIN = 10,
    COST_SPAN = 8,               /* bins: two hours */
    COST_CURVE = 4,              /* level, line, sine, cosine */
};
#define COST_LOST_P 0.001        /* what another function lost is no chance */
#define COST_LOST_ANY_P 1e-6     /* nor of one that has nothing to do with this one */
#define COST_MOVED 0.5           /* of a rise that others must have lost */
#define COST_MOVED_ANY 0.6
#define COST_MOVED_MOST 1.6
#define COST_MIDDLE 1.3          /* a stretch must be so much better than a step */
#define COST_CURVE_BETTER 1.1    /* a rhythm must explain so much more to be the explanation */
#define COST_SURE 0.003          /* of a span's relative variance: that of sampling */
#define COST_BACK 0.35           /* of a change that may be left when it went away */

/* One look at all functions. */
struct cost_look {
    struct sonde_cost *c;
    size_t n;                    /* bins, without those in which nothing was sampled */
    int64_t *bin;                /* their numbers */
    size_t *slot;
    double *x, *y, *in_y, *in_x, *out_y, *out_x; /* n each */
    uint32_t *run, *in_run, *out_run;            /* so that only neighbours count as such */
    uint32_t judged;             /* functions */
    double usual;                /* relative variance of a share in one bin, in the long run */
    struct sonde_cost_change *changes;
    size_t count, cap;
};

struct cost_stretch { size_t from, to; double size; int middle; };

static void cost_look_release(struct cost_look *l)
{
    sonde__free(l->bin);
    sonde__free(l->slot);
    sonde__free(l->x);
    sonde__free(l->run);
}

static int cost_look_init(struct cost_look *l, struct sonde_cost *c)
{
    const size_t bins = c->o.bins;
    *l = (struct cost_look){ .c = c };
    l->bin = sonde__calloc(bins, sizeof(*l->bin));
    l->slot = sonde__calloc(bins, sizeof(*l->slot));
    l->x = sonde__calloc(6 * bins, sizeof(*l->x));
    l->run = sonde__calloc(3 * bins, sizeof(*l->run));
    if (!l->bin || !l->slot || !l->x || !l->run) {
        cost_look_release(l);
        return SONDE_ENOMEM;
    }
    l->y = l->x + bins;
    l->in_y = l->y + bins;
    l->in_x = l->in_y + bins;
    l->out_y = l->in_x + bins;
    l->out_x = l->out_y + bins;
    l->in_run = l->run + bins;
    l->out_run = l->in_run + bins;
    for (int64_t b = c->first; b <= c->last; b++) {
        const size_t slot = cost_slot(c, b);
        if (!(c->whole[slot] > 0)) continue;
        l->bin[l->n] = b;
        l->slot[l->n] = slot;
        l->x[l->n] = (double)c->whole[slot];
        l->run[l->n] = l->n && l->bin[l->n - 1] != b - 1 ? l->run[l->n - 1] + 1
                       : l->n ? l->run[l->n - 1] : 0;
        l->n++;
    }
    return 0;
}

static void cost_look_at(struct cost_look *l, const float *row)
{
    for (size_t i = 0; i < l->n; i++) l->y[i] = (double)row[l->slot[i]];
}

/* ---- One function ---------------------------------------------------------------------------- */

static struct cost_stretch cost_find_stretch(const struct cost_look *l)
{
    double *sum_y = l->in_y, *sum_x = l->in_x; /* up to and with i; used for nothing else yet */
    const size_t n = l->n;
    double all_y = 0, all_x = 0;
    for (size_t i = 0; i < n; i++) {
        sum_y[i] = all_y += l->y[i];
        sum_x[i] = all_x += l->x[i];
    }
    struct cost_stretch best[2] = { { .size = 0 }, { .middle = 1 } };
    for (size_t i = 0; i + COST_STRETCH_MIN <= n; i++) {
        for (size_t j = i + COST_STRETCH_MIN; j <= n; j++) {
            /* What is left at either end is a stretch too, or nothing. */
            if (n - (j - i) < COST_STRETCH_MIN) continue;
            if ((i && i < COST_STRETCH_MIN) || (j < n && n - j < COST_STRETCH_MIN)) continue;
            const double y = sum_y[j - 1] - (i ? sum_y[i - 1] : 0);
            const double x = sum_x[j - 1] - (i ? sum_x[i - 1] : 0);
            const double d = y / x - (all_y - y) / (all_x - x);
            const double size = d * d / (1 / x + 1 / (all_x - x));
            const int middle = i && j < n;
            if (size > best[middle].size) {
                best[middle] = (struct cost_stretch){ i, j, size, middle };
            }
        }
    }
    /* Chance alone finds a stretch that ends a little before the last bin. */
    return best[best[1].size > COST_MIDDLE * best[0].size];
}

/* The estimate of the bins within the stretch, or of the others. */
static struct sonde_estimate cost_estimate(const struct cost_look *l, const struct cost_stretch *s,
                                           int inside)
{
    double *y = inside ? l->in_y : l->out_y, *x = inside ? l->in_x : l->out_x;
    uint32_t *run = inside ? l->in_run : l->out_run;
    double sum_y = 0, sum_x = 0;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if ((i >= s->from && i < s->to) != inside) continue;
        y[n] = l->y[i];
        x[n] = l->x[i];
        run[n++] = 2 * l->run[i] + (i >= s->to);
        sum_y += l->y[i];
        sum_x += l->x[i];
    }
    const double share = sum_x > 0 ? sum_y / sum_x : 0;
    const double events = sum_x * l->c->events / fmax(1, l->c->weight);
    /* One that was never seen may still have up to about one sample. */
    const double sampling = events > 0 ? fmax(share * fmax(0, 1 - share), 1 / events) / events : 0;
    const double least = sampling + (n ? share * share * l->usual / (double)n : 0);
    return sonde_estimate_ratio(y, x, run, n, least);
}

static struct sonde_difference cost_compare(const struct cost_look *l, const struct cost_stretch *s)
{
    const struct sonde_estimate out = cost_estimate(l, s, 0), in = cost_estimate(l, s, 1);
    /* A stretch at the beginning is what was before. */
    return s->from == 0 ? sonde_estimate_compare(&in, &out) : sonde_estimate_compare(&out, &in);
}

/* The chance of such a difference. Normal, not Student's: the variance is not less than one that
 * is known from all functions. */
static double cost_chance(const struct cost_look *l, const struct cost_stretch *s)
{
    const struct sonde_estimate out = cost_estimate(l, s, 0), in = cost_estimate(l, s, 1);
    const double se = hypot(out.se_low, in.se_low);
    return isfinite(se) && se > 0 ? sonde_t_p((in.value - out.value) / se, INFINITY) : 1;
}

static double cost_share(const struct cost_look *l, size_t from, size_t to)
{
    double y = 0, x = 0;
    for (size_t i = from; i < to; i++) {
        y += l->y[i];
        x += l->x[i];
    }
    return x > 0 ? y / x : 0;
}

/* Least squares by Gauss, m unknowns; what cannot be told apart is left at 0. */
static void cost_solve(double a[COST_CURVE][COST_CURVE], double b[COST_CURVE])
{
    for (int i = 0; i < COST_CURVE; i++) {
        for (int k = i + 1; k < COST_CURVE; k++) {
            const double q = a[i][i] > 0 ? a[k][i] / a[i][i] : 0;
            for (int j = i; j < COST_CURVE; j++) a[k][j] -= q * a[i][j];
            b[k] -= q * b[i];
        }
    }
    for (int i = COST_CURVE - 1; i >= 0; i--) {
        for (int j = i + 1; j < COST_CURVE; j++) b[i] -= a[i][j] * b[j];
        b[i] = a[i][i] > 1e-12 ? b[i] / a[i][i] : 0;
    }
}

/* What a line and a daily curve leave unexplained of the shares, by weight. */
static double cost_curve_left(const struct cost_look *l)
{
    double a[COST_CURVE][COST_CURVE] = { { 0 } }, b[COST_CURVE] = { 0 }, left = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) cost_solve(a, b);
        for (size_t i = 0; i < l->n; i++) {
            const double t = (double)(l->bin[i] - l->bin[0]) * l->c->o.bin_s / 86400;
            const double f[COST_CURVE] = { 1, t - 0.5, sin(2 * M_PI * t), cos(2 * M_PI * t) };
            const double share = l->y[i] / l->x[i];
            double fitted = 0;
            for (int k = 0; k < COST_CURVE; k++) {
                if (pass) fitted += b[k] * f[k];
                else b[k] += l->x[i] * f[k] * share;
                for (int m = 0; m < COST_CURVE && !pass; m++) a[k][m] += l->x[i] * f[k] * f[m];
            }
            if (pass) left += l->x[i] * (share - fitted) * (share - fitted);
        }
    }
    return left;
}

static double cost_stretch_left(const struct cost_look *l, const struct cost_stretch *s)
{
    double in_y = 0, in_x = 0, all_y = 0, all_x = 0, left = 0;
    for (size_t i = 0; i < l->n; i++) {
        const int in = i >= s->from && i < s->to;
        in_y += in ? l->y[i] : 0;
        in_x += in ? l->x[i] : 0;
        all_y += l->y[i];
        all_x += l->x[i];
    }
    const double in_share = in_y / in_x, out_share = (all_y - in_y) / (all_x - in_x);
    for (size_t i = 0; i < l->n; i++) {
        const double d = l->y[i] / l->x[i] - (i >= s->from && i < s->to ? in_share : out_share);
        left += l->x[i] * d * d;
    }
    return left;
}

/* ---- What others lost ------------------------------------------------------------------------ */

static int cost_calls(const struct sonde_cost *c, uint32_t f, uint32_t caller)
{
    for (int i = 0; i < COST_CALLERS && c->functions[f].callers[i]; i++) {
        if (c->functions[f].callers[i] == caller + 1) return 1;
    }
    return 0;
}

/* 1 if one calls the other, or something calls both. */
static int cost_related(const struct sonde_cost *c, uint32_t f, uint32_t g)
{
    if (cost_calls(c, f, g) || cost_calls(c, g, f)) return 1;
    for (int i = 0; i < COST_CALLERS && c->functions[f].callers[i]; i++) {
        if (cost_calls(c, g, c->functions[f].callers[i] - 1)) return 1;
    }
    return 0;
}

/* What g lost, as a share of all but f; 0 = nothing that is sure. inclusive: g with what it calls,
 * but f. */
static double cost_lost(struct cost_look *l, const struct cost_stretch *s, uint32_t f, uint32_t g,
                        int inclusive, double level, double sign)
{
    const struct cost_function *rose = &l->c->functions[f], *other = &l->c->functions[g];
    double *keep = sonde__alloc(l->n * sizeof(*keep));
    if (!keep) return 0;
    memcpy(keep, l->x, l->n * sizeof(*keep));
    for (size_t i = 0; i < l->n; i++) {
        const double self = (double)rose->self[l->slot[i]];
        l->x[i] = fmax(keep[i] - self, 1e-9 * keep[i]);
        l->y[i] = inclusive ? fmax(0, (double)other->total[l->slot[i]] - self)
                            : (double)other->self[l->slot[i]];
    }
    const struct sonde_difference d = cost_compare(l, s);
    memcpy(l->x, keep, l->n * sizeof(*keep));
    sonde__free(keep);
    return d.p < level && d.change * sign < 0 ? fabs(d.change) : 0;
}

/* Where the change of f went, or came from: a function + 1, or 0. */
static uint32_t cost_find_shift(struct cost_look *l, const struct cost_stretch *s, uint32_t f,
                                double change)
{
    const struct sonde_cost *c = l->c;
    const double size = fabs(change), sign = change > 0 ? 1 : -1;
    double related = 0, any = 0, most = 0;
    uint32_t who = 0;
    for (uint32_t g = 0; g < c->count; g++) {
        if (g == f || !c->functions[g].samples) continue;
        const int near = cost_related(c, f, g);
        const double lost = cost_lost(l, s, f, g, 0, near ? COST_LOST_P : COST_LOST_ANY_P, sign);
        if (!(lost > 0)) continue;
        related += near ? lost : 0;
        any += lost;
        if (lost * (near ? 4 : 1) > most) {
            most = lost * (near ? 4 : 1);
            who = g + 1;
        }
    }
    if (related >= COST_MOVED * size) return who;
    if (any >= COST_MOVED_ANY * size && any <= COST_MOVED_MOST * size) return who;
    /* Spread over many below one caller: each too little to be sure of. */
    for (int i = 0; i < COST_CALLERS && c->functions[f].callers[i]; i++) {
        const uint32_t caller = c->functions[f].callers[i] - 1;
        if (cost_lost(l, s, f, caller, 1, COST_LOST_P, sign) >= COST_MOVED * size) {
            return caller + 1;
        }
    }
    return 0;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static uint32_t cost_main_caller(const struct cost_function *f)
{
    int most = 0;
    for (int i = 1; i < COST_CALLERS; i++) {
        if (f->callers[i] && f->calls[i] > f->calls[most]) most = i;
    }
    return f->callers[most];
}

static const char *cost_name(const struct sonde_cost *c, uint32_t row)
{
    return row ? c->pool.strings[c->functions[row - 1].name] : NULL;
}

static void cost_tell(struct cost_look *l, uint32_t row, const struct cost_stretch *s,
                      const struct sonde_difference *d, double p, struct sonde_cost_change *out)
{
    const struct sonde_cost *c = l->c;
    const struct cost_function *f = &c->functions[row];
    const size_t at = s->from ? s->from : s->to;
    const double before = s->from ? cost_share(l, 0, s->from) : cost_share(l, 0, s->to);
    const int ended = s->from && s->to < l->n;
    *out = (struct sonde_cost_change){
        .function = c->pool.strings[f->name],
        .module = c->pool.strings[f->module],
        .caller = cost_name(c, cost_main_caller(f)),
        .kind = d->change > 0 ? SONDE_COST_REGRESSION : SONDE_COST_IMPROVEMENT,
        .time_s = (double)l->bin[at] * c->o.bin_s,
        .time_low_s = (double)l->bin[at - 1] * c->o.bin_s,
        .time_high_s = (double)(l->bin[at] + 1) * c->o.bin_s,
        .before = before,
        .after = before + d->change,
        .absolute = d->change, .absolute_low = d->low, .absolute_high = d->high,
        .relative = d->relative, .relative_low = d->relative_low,
        .relative_high = d->relative_high,
        .p = p,
        .samples = f->samples,
    };
    if (ended && fabs(cost_share(l, s->to, l->n) - before) < COST_BACK * fabs(d->change)) {
        out->until_s = (double)l->bin[s->to] * c->o.bin_s;
    }
}

static int cost_judge_one(struct cost_look *l, uint32_t row)
{
    const struct sonde_cost *c = l->c;
    struct sonde_cost_change told;
    cost_look_at(l, c->functions[row].self);
    const struct cost_stretch s = cost_find_stretch(l);
    if (!(s.size > 0)) return 0;
    const struct sonde_difference d = cost_compare(l, &s);
    const double p = cost_chance(l, &s) * (s.middle ? COST_STRETCHES : COST_STEPS) * l->judged;
    if (!(p < c->o.level)) return 0;
    const double before = s.from ? cost_share(l, 0, s.from) : cost_share(l, 0, s.to);
    if (before > 0 && fabs(d.change) < c->o.min_relative * before) return 0;
    if (COST_CURVE_BETTER * cost_curve_left(l) < cost_stretch_left(l, &s)) return 0;
    cost_tell(l, row, &s, &d, p, &told);
    const uint32_t with = cost_find_shift(l, &s, row, d.change);
    if (with) {
        told.kind = SONDE_COST_SHIFT;
        told.with = cost_name(c, with);
    }
    if (SONDE_ARRAY_ROOM_MAX(l->changes, l->count, l->cap, COST_CHANGES_MAX)) return SONDE_ENOMEM;
    l->changes[l->count++] = told;
    return 0;
}

static int cost_by_size(const void *a, const void *b)
{
    const struct sonde_cost_change *x = a, *y = b;
    return SONDE_CMP(fabs(y->absolute), fabs(x->absolute));
}

/* 1 if its share is worth judging in the bins that there are. */
static int cost_is_judged(const struct cost_look *l, uint32_t row, double all)
{
    double sum = 0;
    if (!l->c->functions[row].samples) return 0;
    for (size_t i = 0; i < l->n; i++) sum += (double)l->c->functions[row].self[l->slot[i]];
    return sum >= l->c->o.share_min * all;
}

/* How much the function's share differs between spans, beyond sampling, as a variance of one
 * bin. */
static double cost_wander(struct cost_look *l, uint32_t row, double *noise)
{
    cost_look_at(l, l->c->functions[row].self);
    const double share = cost_share(l, 0, l->n);
    double sum = 0, sampling = 0;
    size_t spans = 0;
    for (size_t from = 0; from + COST_SPAN <= l->n; from += COST_SPAN) {
        double x = 0;
        for (size_t i = from; i < from + COST_SPAN; i++) x += l->x[i];
        const double d = cost_share(l, from, from + COST_SPAN) / share - 1;
        sum += d * d;
        sampling += l->c->weight / l->c->events / (share * x);
        spans++;
    }
    if (spans < 2) return 0;
    *noise = sampling / (double)spans;
    return COST_SPAN * fmax(0, (sum - sampling) / (double)(spans - 1));
}

static int cost_by_value(const void *a, const void *b)
{
    return SONDE_CMP(*(const double *)a, *(const double *)b);
}

/* Three quarters of all functions wander less; and half as much again, as two hours do not show all
 * of it. */
static int cost_find_usual(struct cost_look *l, double all)
{
    double *v = sonde__alloc(2 * (size_t)(l->judged + 1) * sizeof(*v)), *sure = v;
    size_t n = 0, sures = 0;
    if (!v) return SONDE_ENOMEM;
    sure += l->judged + 1;
    for (uint32_t i = 0; i < l->c->count && n < l->judged; i++) {
        double noise = INFINITY;
        if (!cost_is_judged(l, i, all)) continue;
        v[n] = cost_wander(l, i, &noise);
        if (noise < COST_SURE) sure[sures++] = v[n];
        n++;
    }
    /* Of those that are sampled well, if they are some: the others show sampling above all. */
    if (sures >= COST_SURES_MIN) {
        memcpy(v, sure, sures * sizeof(*v));
        n = sures;
    }
    if (n) qsort(v, n, sizeof(*v), cost_by_value);
    l->usual = n ? 1.5 * v[n * 3 / 4] : 0;
    sonde__free(v);
    return 0;
}

int sonde_cost_judge(struct sonde_cost *c, struct sonde_cost_change **out, size_t *count)
{
    struct cost_look l;
    *out = NULL;
    *count = 0;
    int rc = cost_look_init(&l, c);
    if (rc) return rc;
    double all = 0;
    for (size_t i = 0; i < l.n; i++) all += l.x[i];
    for (uint32_t i = 0; i < c->count; i++) l.judged += (uint32_t)cost_is_judged(&l, i, all);
    rc = cost_find_usual(&l, all);
    for (uint32_t i = 0; i < c->count && !rc && l.n >= SONDE_COST_BINS_MIN; i++) {
        if (cost_is_judged(&l, i, all)) rc = cost_judge_one(&l, i);
    }
    cost_look_release(&l);
    if (rc) {
        sonde__free(l.changes);
        return rc;
    }
    if (l.count) qsort(l.changes, l.count, sizeof(*l.changes), cost_by_size);
    *out = l.changes;
    *count = l.count;
    return 0;
}
