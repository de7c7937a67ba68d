/* sequential.c - see sequential.h. */
#include "analyze/sequential.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/stats.h"

/* Sizes of effects, as shares of the spread of a pair, that K is made for; squared. */
static const double sequential_sizes[] = { 1, 0.1, 0.01 };
#define SEQUENTIAL_SIZES (sizeof(sequential_sizes) / sizeof(sequential_sizes[0]))

/* How alike neighbours may be taken to be; beyond, nothing can be said from them. */
#define SEQUENTIAL_LIKENESS_MAX 0.95
#define SEQUENTIAL_SCALE_MIN 6
/* Pairs of arms on places of their own, before which likeness is not known at all. */
#define SEQUENTIAL_ARMS_MIN 8u

/* The search for an end of an interval goes this far from the estimate, in widths at first. */
#define SEQUENTIAL_REACH 60
#define SEQUENTIAL_MORE_MAX 1e6

static const char *const sequential_verdicts[] = {
    [SONDE_SEQUENTIAL_UNDECIDED] = "undecided",
    [SONDE_SEQUENTIAL_A] = "a is better",
    [SONDE_SEQUENTIAL_B] = "b is better",
    [SONDE_SEQUENTIAL_DIFFERENT] = "different",
    [SONDE_SEQUENTIAL_SAME] = "no difference that matters",
};

const char *sonde_sequential_verdict_name(enum sonde_sequential_verdict v)
{
    return sequential_verdicts[v];
}

void sonde_sequential_init(struct sonde_sequential *s,
                           const struct sonde_sequential_options *options)
{
    memset(s, 0, sizeof(*s));
    s->options = *options;
    if (!(s->options.level > 0)) s->options.level = SONDE_SEQUENTIAL_LEVEL;
    assert(s->options.level < 1);
    assert(s->options.detect >= 0);
}

/* ---- Evidence -------------------------------------------------------------------------------- */

static void sequential_sums_add(struct sonde_sequential_sums *m, double u, double v)
{
    m->n += 1;
    m->u += u;
    m->v += v;
    m->uu += u * u;
    m->uv += u * v;
    m->vv += v * v;
}

/* Sum and sum of squares of x = b - ratio a - shift. With a = offset + u and b = offset + v that is
 * v - ratio u + k, so that values that are large and hardly differ lose no digits. */
static void sequential_combine(const struct sonde_sequential_sums *m, double offset, double ratio,
                               double shift, double *sum, double *square)
{
    const double k = offset * (1 - ratio) - shift;
    const double line = m->v - ratio * m->u;
    *sum = line + m->n * k;
    *square = fmax(0, m->vv - 2 * ratio * m->uv + ratio * ratio * m->uu + 2 * k * line +
                          m->n * k * k);
}

/* By how much the variance of a sum of pairs is larger than if they did not know of each other.
 *
 * Neighbours tell: if they are correlated by r, and each only with its neighbour's help with the
 * next, (1 + r) / (1 - r). But slow noise under fast noise has a small r and a long memory. So sums
 * over 2, 4, 8 ... pairs are looked at too, as long as there are SEQUENTIAL_SCALE_MIN of them: how
 * much more they spread than single pairs do. The largest counts. */
static double sequential_inflation(const struct sonde_sequential *s)
{
    if (s->options.drawn || s->pairs < 3) return 1;
    double sum, square;
    sequential_combine(&s->all, s->offset, 1, 0, &sum, &square);
    const double n = s->all.n, mean = sum / n;
    const double spread = square - n * mean * mean;
    if (!(spread > 0)) return 1;
    const double product = s->lag - mean * (2 * sum - s->begin - s->last) + (n - 1) * mean * mean;
    /* Less its bias, and with what is expected before (stats.h). */
    double r = product / spread;
    r += (1 + 3 * r) / n;
    r = (n * r + SONDE_RUNS_LIKENESS_PAIRS * SONDE_RUNS_LIKENESS) / (n + SONDE_RUNS_LIKENESS_PAIRS);
    r = fmin(fmax(r, 0), SEQUENTIAL_LIKENESS_MAX);
    double most = (1 + r) / (1 - r), width = 1;
    for (size_t i = 0; i < SONDE_SEQUENTIAL_SCALES; i++) {
        const double count = (double)s->scales[i].count;
        width *= 2;
        if (count < SEQUENTIAL_SCALE_MIN) break;
        const double own = width * (mean - s->begin);
        const double around = s->scales[i].squares - 2 * own * s->scales[i].sum + count * own * own;
        most = fmax(most, around / (count - 1) / width / (spread / (n - 1)));
    }
    return most;
}

/* The sums over 2, 4, 8 ... pairs, each made of two of the one before. */
static void sequential_scales_add(struct sonde_sequential *s, double d)
{
    double part = d;
    for (size_t i = 0; i < SONDE_SEQUENTIAL_SCALES; i++) {
        s->scales[i].open += part;
        if ((s->pairs >> i) % 2 == 0) return; /* the first of two: the sum is not complete */
        part = s->scales[i].open;
        s->scales[i].open = 0;
        s->scales[i].sum += part;
        s->scales[i].squares += part * part;
        s->scales[i].count++;
    }
}

static int sequential_ready(const struct sonde_sequential *s)
{
    return s->pairs >= (s->options.drawn ? SONDE_SEQUENTIAL_FIRST : SEQUENTIAL_ARMS_MIN);
}

/* The logarithm of E, mean of those of all sizes of K, against b = ratio a + shift. */
static double sequential_evidence(const struct sonde_sequential *s, double inflation, double ratio,
                                  double shift)
{
    double sum, square, first_sum, first_square;
    if (!sequential_ready(s)) return 0;
    sequential_combine(&s->all, s->offset, ratio, shift, &sum, &square);
    sequential_combine(&s->first, s->offset, ratio, shift, &first_sum, &first_square);
    if (!(square > 0)) return 0;
    /* The first pairs did not differ at all, as counts may: then all say what the spread is. */
    const double scale = first_square > 0 ? first_square / s->first.n : square / s->all.n;
    const double raised = square * inflation;
    double log_e[SEQUENTIAL_SIZES], most = -INFINITY, total = 0;
    for (size_t i = 0; i < SEQUENTIAL_SIZES; i++) {
        const double k = sequential_sizes[i] / scale;
        log_e[i] = k * sum * sum / (2 * (1 + k * raised)) - 0.5 * log1p(k * raised);
        if (log_e[i] > most) most = log_e[i];
    }
    for (size_t i = 0; i < SEQUENTIAL_SIZES; i++) total += exp(log_e[i] - most);
    return most + log(total / (double)SEQUENTIAL_SIZES);
}

void sonde_sequential_add(struct sonde_sequential *s, double a, double b)
{
    if (!isfinite(a) || !isfinite(b)) {
        s->skipped++;
        return;
    }
    if (!s->pairs) {
        s->offset = a;
        s->begin = b - a;
    } else {
        s->lag += s->last * (b - a);
    }
    s->last = b - a;
    sequential_scales_add(s, b - a - s->begin);
    sequential_sums_add(&s->all, a - s->offset, b - s->offset);
    if (s->pairs < SONDE_SEQUENTIAL_FIRST) {
        sequential_sums_add(&s->first, a - s->offset, b - s->offset);
    }
    s->pairs++;
    const double e = sequential_evidence(s, sequential_inflation(s), 1, 0);
    if (e > s->evidence_max) s->evidence_max = e;
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static double sequential_mean(const struct sonde_sequential *s, int b)
{
    return s->pairs ? s->offset + (b ? s->all.v : s->all.u) / s->all.n : NAN;
}

enum sonde_sequential_verdict sonde_sequential_decide(const struct sonde_sequential *s)
{
    const double limit = -log(s->options.level), inflation = sequential_inflation(s);
    const double a = sequential_mean(s, 0), b = sequential_mean(s, 1);
    if (!sequential_ready(s)) return SONDE_SEQUENTIAL_UNDECIDED;
    if (sequential_evidence(s, inflation, 1, 0) >= limit) {
        if (!s->options.better) return SONDE_SEQUENTIAL_DIFFERENT;
        return (b > a) == (s->options.better > 0) ? SONDE_SEQUENTIAL_B : SONDE_SEQUENTIAL_A;
    }
    const double detect = s->options.detect;
    /* Nothing at all on both sides, each time: no ratio, and no difference. */
    if (detect > 0 && a == 0 && b == 0 && s->all.uu == 0 && s->all.vv == 0 &&
        s->pairs >= SEQUENTIAL_ARMS_MIN) {
        return SONDE_SEQUENTIAL_SAME;
    }
    if (!(detect > 0) || !(a > 0) || !(fabs(b / a - 1) < detect)) return SONDE_SEQUENTIAL_UNDECIDED;
    return sequential_evidence(s, inflation, 1 + detect, 0) >= limit &&
                   sequential_evidence(s, inflation, 1 - detect, 0) >= limit
               ? SONDE_SEQUENTIAL_SAME
               : SONDE_SEQUENTIAL_UNDECIDED;
}

/* ---- Intervals ------------------------------------------------------------------------------- */

struct sequential_end { const struct sonde_sequential *s; double inflation, limit; int relative; };

static int sequential_excluded(const struct sequential_end *e, double at)
{
    return (e->relative ? sequential_evidence(e->s, e->inflation, at, 0)
                        : sequential_evidence(e->s, e->inflation, 1, at)) >= e->limit;
}

/* From the estimate, which E cannot exclude, in steps that double until a value is excluded; then
 * between the two. Infinite = none is. */
static double sequential_limit(const struct sequential_end *e, double estimate, double step)
{
    double inside = estimate, outside = estimate + step;
    int tries = 0;
    while (!sequential_excluded(e, outside)) {
        if (++tries > SEQUENTIAL_REACH) return step > 0 ? INFINITY : -INFINITY;
        inside = outside;
        step *= 2;
        outside = estimate + step;
    }
    for (int i = 0; i < 50; i++) {
        const double middle = inside + (outside - inside) / 2;
        if (sequential_excluded(e, middle)) outside = middle;
        else inside = middle;
    }
    return outside;
}

/* How many pairs until the interval, half as wide as `half` with those there are, is narrow enough:
 * it shrinks a little slower than the root of their number. */
static double sequential_more(const struct sonde_sequential *s,
                              const struct sonde_sequential_look *look)
{
    const double half = (look->relative_high - look->relative_low) / 2;
    const double clear = fabs(look->relative);
    const double same = s->options.detect - clear;
    const double wanted = fmax(clear, same);
    if (!isfinite(half) || !(wanted > 0)) return NAN;
    const double ratio = half / wanted;
    if (ratio <= 1) return 1;
    const double more = s->all.n * (pow(ratio, 2.2) - 1);
    return more < SEQUENTIAL_MORE_MAX ? ceil(more) : NAN;
}

struct sonde_sequential_look sonde_sequential_look(const struct sonde_sequential *s)
{
    struct sonde_sequential_look look = {
        .verdict = sonde_sequential_decide(s),
        .pairs = s->pairs,
        .a = sequential_mean(s, 0),
        .b = sequential_mean(s, 1),
        .low = -INFINITY,
        .high = INFINITY,
        .relative = NAN,
        .relative_low = NAN,
        .relative_high = NAN,
        .p = fmin(1, exp(-s->evidence_max)),
        .inflation = sequential_inflation(s),
        .more = NAN,
    };
    look.change = look.b - look.a;
    if (look.a > 0) {
        look.relative = look.b / look.a - 1;
        look.relative_low = -INFINITY;
        look.relative_high = INFINITY;
    }
    if (!sequential_ready(s)) return look;
    double sum, square;
    sequential_combine(&s->all, s->offset, 1, look.change, &sum, &square);
    /* A step that is sure to be small beside the interval, yet not lost beside the values. */
    const double step = fmax(sqrt(square) / s->all.n, 1e-12 * (fabs(look.a) + fabs(look.b)));
    if (!(step > 0)) {
        look.low = look.high = look.change;
        return look;
    }
    struct sequential_end end = { s, look.inflation, -log(s->options.level), 0 };
    look.low = sequential_limit(&end, look.change, -step);
    look.high = sequential_limit(&end, look.change, step);
    if (!(look.a > 0)) return look;
    end.relative = 1;
    look.relative_low = sequential_limit(&end, look.b / look.a, -step / look.a) - 1;
    look.relative_high = sequential_limit(&end, look.b / look.a, step / look.a) - 1;
    if (look.verdict == SONDE_SEQUENTIAL_UNDECIDED) look.more = sequential_more(s, &look);
    return look;
}

/* ---- Arms ------------------------------------------------------------------------------------ */

void sonde_sequential_arms_init(struct sonde_sequential_arms *arms,
                                const struct sonde_sequential_options *options)
{
    memset(arms, 0, sizeof(*arms));
    sonde_sequential_init(&arms->pairs, options);
    arms->block_s = SONDE_SEQUENTIAL_BLOCK_S;
    arms->block_values = SONDE_SEQUENTIAL_BLOCK_VALUES;
    arms->begin_s = NAN;
}

void sonde_sequential_arms_add(struct sonde_sequential_arms *arms, int arm, double value,
                               double time_s)
{
    assert(arm == 0 || arm == 1);
    if (!isfinite(value)) {
        arms->pairs.skipped++;
        return;
    }
    if (isnan(arms->begin_s)) arms->begin_s = time_s;
    arms->sum[arm] += value;
    arms->count[arm]++;
    arms->total[arm] += value;
    arms->total_count[arm]++;
    if (time_s - arms->begin_s < arms->block_s || arms->count[0] < arms->block_values ||
        arms->count[1] < arms->block_values) {
        return;
    }
    sonde_sequential_add(&arms->pairs, arms->sum[0] / (double)arms->count[0],
                         arms->sum[1] / (double)arms->count[1]);
    arms->begin_s = NAN;
    arms->sum[0] = arms->sum[1] = 0;
    arms->count[0] = arms->count[1] = 0;
}
