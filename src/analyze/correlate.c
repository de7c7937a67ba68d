/* correlate.c - see correlate.h. */
#include "analyze/correlate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/correlate_private.h"
#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { ROWS_DEFAULT = 50 };
#define LEVEL_DEFAULT 0.05
#define SPEARMAN_VARIANCE 1.06 /* of Fisher's z, against 1 of Pearson's (Fieller et al. 1957) */
#define LEVELS_MIN 0.5          /* levels that correlate less are not worth a word */
#define MOMENTS_MIN 8          /* a correlation that rests on fewer points may be chance */

const char *sonde_correlate_verdict_name(enum sonde_correlate_verdict v)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_CORRELATE_VERDICTS(SONDE__X)
#undef SONDE__X
    };
    assert((size_t)v < SONDE_COUNT(names));
    return names[v];
}

/* ---- One view of a pair ---------------------------------------------------------------------- */

static double correlate_p(double r, double n)
{
    if (isnan(r) || !(n > 2)) return NAN;
    if (fabs(r) >= 1) return 0;
    return sonde_t_p(r * sqrt((n - 2) / (1 - r * r)), n - 2);
}

static void correlate_interval(double r, double n, double variance, double *low, double *high)
{
    *low = *high = NAN;
    if (isnan(r) || !(n > 4)) return;
    const double reach = sonde_t_quantile(0.975, n - 2) * sqrt(variance / (n - 3));
    const double z = atanh(fmax(-1 + 1e-15, fmin(1 - 1e-15, r)));
    *low = tanh(z - reach);
    *high = tanh(z + reach);
}

struct correlate_room { double *x, *y; };

static int correlate_view(const double *other, const double *target, size_t points, int lag,
                          const struct correlate_room *room, struct sonde_correlate_view *out)
{
    const size_t n = correlate_pairs(other, target, points, lag, room->x, room->y);
    *out = (struct sonde_correlate_view){
        .n_effective = correlate_n_effective(room->x, room->y, n),
        .pearson = correlate_pearson(room->x, room->y, n),
    };
    const double worth = out->n_effective;
    correlate_interval(out->pearson, worth, 1, &out->pearson_low, &out->pearson_high);
    out->pearson_p = correlate_p(out->pearson, worth);
    if (correlate_rank(room->x, n) || correlate_rank(room->y, n)) return SONDE_ENOMEM;
    out->spearman = correlate_pearson(room->x, room->y, n);
    correlate_interval(out->spearman, worth, SPEARMAN_VARIANCE, &out->spearman_low,
                       &out->spearman_high);
    out->spearman_p = correlate_p(out->spearman, worth);
    return 0;
}

static struct sonde_correlate_view correlate_view_none(void)
{
    return (struct sonde_correlate_view){ NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
}

/* ---- One pair -------------------------------------------------------------------------------- */

/* What n pairs of innovations say: models that do not fit leave something predictable, so that
 * fewer count; and where both are zero but for a few spikes, these meet more often than normal
 * distributions have it. Over all permutations the correlation's excess kurtosis is the product of
 * both by n (Pitman 1937), and so is that of Student's t with these degrees of freedom. */
struct correlate_null { double worth, df; };

static struct correlate_null correlate_null_of(const struct correlate_form *x,
                                               const struct correlate_form *y, size_t n)
{
    const size_t count = x->alike_count < y->alike_count ? x->alike_count : y->alike_count;
    double sum = 0;
    for (size_t k = 0; k < count; k++) sum += x->alike[k] * y->alike[k];
    const double tails = x->tails > 0 && y->tails > 0 ? x->tails * y->tails / (double)n : 0;
    struct correlate_null null = { (double)n / fmax(1, 1 + 2 * sum), (double)n - 2 };
    if (tails > 6 / null.df) null.df = 4 + 6 / tails;
    return null;
}

static double correlate_null_p(double r, struct correlate_null null)
{
    if (isnan(r) || !(null.worth > 3)) return NAN;
    if (fabs(r) >= 1) return 0;
    const double t = r * sqrt((null.worth - 2) / (1 - r * r));
    /* Of few degrees of freedom t has a variance of its own: it is to be that of r. */
    const double wide = null.df < null.worth - 2 ? sqrt(null.df / (null.df - 2)) : 1;
    return sonde_t_p(t * wide, null.df < null.worth - 2 ? null.df : null.worth - 2);
}

/* On how many of the pairs their correlation rests: n if all contribute alike, 1 if one pair is all
 * of it. Of two independent normal ones it is 0.4 n. */
static double correlate_moments(const double *x, const double *y, size_t n)
{
    double mx = 0, my = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        mx += x[i] / (double)n;
        my += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double part = fabs((x[i] - mx) * (y[i] - my));
        sum += part;
        squares += part * part;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

/* The lag at which what is new in both goes together most surely. 1 = there is none. */
static int correlate_lag_find(const struct correlate_form *target,
                              const struct correlate_form *other, size_t points, int lag_max,
                              const struct correlate_room *room, struct sonde_correlation *c)
{
    double least = 2;
    int lags = 0;
    /* From 0 outwards: of equals the nearest. */
    for (int i = 0; i <= 2 * lag_max; i++) {
        const int lag = i % 2 ? (i + 1) / 2 : -i / 2;
        const size_t n = correlate_pairs(other->fresh, target->fresh, points, lag, room->x,
                                         room->y);
        if (n < SONDE_CORRELATE_POINTS_MIN) continue;
        const double r = correlate_pearson(room->x, room->y, n);
        const double p = correlate_null_p(r, correlate_null_of(target, other, n));
        if (isnan(p)) continue;
        lags++;
        /* Where both round to 0 the stronger is the better. */
        if (p > least || (lags > 1 && p >= least && fabs(r) <= fabs(c->innovation))) continue;
        least = p;
        c->lag = lag;
        c->points = (uint32_t)n;
        c->innovation = r;
    }
    if (!lags) return 1;
    c->p = -expm1(lags * log1p(-least)); /* 1 - (1 - p)^lags */
    return 0;
}

/* All but its views, which are for those that are told of. */
static void correlate_pair(const struct correlate_form *target, const struct correlate_form *other,
                           size_t points, int lag_max, const struct correlate_room *room,
                           struct sonde_correlation *c)
{
    c->verdict = SONDE_CORRELATE_UNKNOWN;
    c->reason = "";
    c->p = c->p_adjusted = c->innovation = NAN;
    c->level = c->change = correlate_view_none();
    if (target->problem || other->problem) {
        c->reason = target->problem ? target->problem_of_target : other->problem;
        return;
    }
    if (correlate_lag_find(target, other, points, lag_max, room, c)) {
        c->reason = "too few values at the same times";
        return;
    }
    c->verdict = SONDE_CORRELATE_NONE;
    const size_t n = correlate_pairs(other->fresh, target->fresh, points, c->lag, room->x, room->y);
    if (c->p <= LEVEL_DEFAULT && correlate_moments(room->x, room->y, n) < MOMENTS_MIN) {
        c->verdict = SONDE_CORRELATE_UNKNOWN;
        c->reason = "it rests on too few moments";
        c->p = NAN;
    }
    const size_t levels = correlate_pairs(other->level, target->level, points, c->lag, room->x,
                                          room->y);
    c->level.pearson = correlate_pearson(room->x, room->y, levels);
}

/* ---- All pairs ------------------------------------------------------------------------------- */

static int correlate_by_strength(const void *a, const void *b)
{
    const struct sonde_correlation *x = a, *y = b;
    const double sx = fabs(x->innovation), sy = fabs(y->innovation);
    if (x->verdict != y->verdict) return SONDE_CMP(x->verdict, y->verdict);
    if (!isnan(sx) && !isnan(sy) && sx != sy) return SONDE_CMP(sy, sx);
    if (x->target != y->target) return SONDE_CMP(x->target, y->target);
    return SONDE_CMP(x->other, y->other);
}

static void correlate_reason_count(struct sonde_correlations *c, const char *text)
{
    struct sonde_correlate_reason *r = c->reasons, *end = r + SONDE_COUNT(c->reasons) - 1;
    while (r < end && r->text && strcmp(r->text, text) != 0) r++;
    if (r == end) return;
    r->text = text;
    r->count++;
}

static int correlate_judge(struct sonde_correlations *c)
{
    double *p = sonde__alloc((c->count ? c->count : 1) * sizeof(*p));
    if (!p) return SONDE_ENOMEM;
    for (size_t i = 0; i < c->count; i++) p[i] = c->rows[i].p;
    const int rc = sonde_stats_adjust(p, c->count);
    for (size_t i = 0; !rc && i < c->count; i++) {
        struct sonde_correlation *row = &c->rows[i];
        row->p_adjusted = p[i];
        if (p[i] <= c->level) {
            row->verdict = SONDE_CORRELATE_CORRELATED;
        } else if (!isnan(p[i]) && fabs(row->level.pearson) >= LEVELS_MIN) {
            row->verdict = SONDE_CORRELATE_LEVELS;
        }
        c->verdicts[row->verdict]++;
        if (row->verdict == SONDE_CORRELATE_UNKNOWN) correlate_reason_count(c, row->reason);
    }
    sonde__free(p);
    if (!rc && c->count) qsort(c->rows, c->count, sizeof(*c->rows), correlate_by_strength);
    return rc;
}

static int correlate_forms(const struct sonde_correlate_series *series, size_t count,
                           size_t points, struct correlate_form **out)
{
    int rc = 0;
    *out = sonde__calloc(count ? count : 1, sizeof(**out));
    if (!*out) return SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < count; i++) {
        rc = correlate_form_init(&(*out)[i], series[i].values, points);
    }
    return rc;
}

static void correlate_forms_destroy(struct correlate_form *forms, size_t count)
{
    for (size_t i = 0; forms && i < count; i++) correlate_form_release(&forms[i]);
    sonde__free(forms);
}

/* Made ready once, compared many times. */
struct correlate_work {
    struct correlate_form *target, *other;
    struct correlate_room room;
};

static int correlate_tell(const struct correlate_work *w, struct sonde_correlations *c,
                          size_t rows_max)
{
    int rc = 0;
    if (c->count > rows_max) c->count = rows_max;
    for (size_t i = 0; !rc && i < c->count; i++) {
        struct sonde_correlation *row = &c->rows[i];
        const struct correlate_form *t = &w->target[row->target], *o = &w->other[row->other];
        if (isnan(row->level.pearson)) continue;
        rc = correlate_view(o->level, t->level, c->points, row->lag, &w->room, &row->level);
        if (!rc) {
            rc = correlate_view(o->change, t->change, c->points, row->lag, &w->room, &row->change);
        }
    }
    return rc;
}

static int correlate_work_init(struct correlate_work *w, size_t points,
                               const struct sonde_correlate_series *targets, size_t target_count,
                               const struct sonde_correlate_series *others, size_t other_count)
{
    *w = (struct correlate_work){ .room = { sonde__alloc((points + 1) * sizeof(double)),
                                            sonde__alloc((points + 1) * sizeof(double)) } };
    int rc = w->room.x && w->room.y ? 0 : SONDE_ENOMEM;
    if (!rc) rc = correlate_forms(targets, target_count, points, &w->target);
    if (!rc) rc = correlate_forms(others, other_count, points, &w->other);
    return rc;
}

int sonde_correlate(const struct sonde_correlate_series *targets, size_t target_count,
                    const struct sonde_correlate_series *others, size_t other_count,
                    size_t points, const struct sonde_correlate_options *o,
                    struct sonde_correlations *out)
{
    struct sonde_correlations c = {
        .points = (uint32_t)points, .level = o->level > 0 ? o->level : LEVEL_DEFAULT,
        .lag_max = o->lag_max ? o->lag_max : SONDE_CORRELATE_LAG_DEFAULT,
    };
    struct correlate_work w;
    if (points > SONDE_CORRELATE_POINTS_MAX) return SONDE_EINVAL;
    if (c.lag_max > points / 8) c.lag_max = (uint32_t)(points / 8);
    int rc = correlate_work_init(&w, points, targets, target_count, others, other_count);
    if (!rc) c.rows = sonde__calloc(target_count * other_count + 1, sizeof(*c.rows));
    if (!rc && !c.rows) rc = SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < target_count * other_count; i++) {
        const size_t t = i / other_count, s = i % other_count;
        if (targets[t].values == others[s].values) continue;
        struct sonde_correlation *row = &c.rows[c.count++];
        row->target = (uint32_t)t;
        row->other = (uint32_t)s;
        correlate_pair(&w.target[t], &w.other[s], points, (int)c.lag_max, &w.room, row);
    }
    c.pairs = c.count;
    if (!rc) rc = correlate_judge(&c);
    if (!rc) rc = correlate_tell(&w, &c, o->rows_max ? o->rows_max : ROWS_DEFAULT);
    correlate_forms_destroy(w.target, target_count);
    correlate_forms_destroy(w.other, other_count);
    sonde__free(w.room.x);
    sonde__free(w.room.y);
    if (rc) sonde_correlations_release(&c);
    else *out = c;
    return rc;
}

void sonde_correlations_release(struct sonde_correlations *c)
{
    sonde__free(c->rows);
    *c = (struct sonde_correlations){ .rows = NULL };
}
