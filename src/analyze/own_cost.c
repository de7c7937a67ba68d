/* own_cost.c - see own_cost.h. */
#include "analyze/own_cost.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum {
    EXACT_MAX = 100,    /* pairs; of more the normal distribution is as good */
    PILOT = 8,          /* pairs by which the figure is chosen */
    COUNT_MIN = 50,     /* units of work in a window: fewer are too coarse */
};
#define OUTSIDE 0.025   /* on each side of the interval */
#define LONG_SHARE 0.1  /* of a window: what takes longer began in another one */
#define CLOCK_COUNTS 1.0 /* a counter that differs by no more from seconds times its rate, … */
#define CLOCK_SHARE 3e-4 /* … and so much of it, is a clock */
#define NARROW 0.005    /* half an interval of so much is narrow */
#define FIRST_SHARE (1.0 / 3)

static const char *const measure_names[] = {
#define SONDE__X(id, name, title) name,
    SONDE_OWN_COST_MEASURES(SONDE__X)
#undef SONDE__X
};

const char *sonde_own_cost_measure_name(enum sonde_own_cost_measure m) { return measure_names[m]; }

/* ---- The interval ---------------------------------------------------------------------------- */

/* P(T <= t) of the signed-rank statistic T is how many subsets of 1 … n add up to t or less, over
 * 2^n. */
static size_t own_cost_outside_exact(size_t n)
{
    double p[EXACT_MAX * (EXACT_MAX + 1) / 2 + 1] = { 1 };
    size_t top = 0, outside = 0;
    double sum = 0;
    for (size_t i = 1; i <= n; i++) {
        top += i;
        for (size_t s = top + 1; s-- > 0;) p[s] = 0.5 * (p[s] + (s >= i ? p[s - i] : 0));
    }
    while (outside < top && (sum += p[outside]) <= OUTSIDE) outside++;
    return outside;
}

size_t sonde_own_cost_outside(size_t n)
{
    assert(n >= 6);
    if (n <= EXACT_MAX) return own_cost_outside_exact(n);
    const double dn = (double)n, mean = dn * (dn + 1) / 4;
    const double sd = sqrt(dn * (dn + 1) * (2 * dn + 1) / 24);
    return (size_t)(mean - 1.959963985 * sd - 0.5);
}

static double own_cost_median(const double *sorted, size_t n)
{
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

static double own_cost_of(double d) { return -expm1(-d); }

struct sonde_own_cost_estimate sonde_own_cost_estimate(const double *d, size_t n, double *work)
{
    struct sonde_own_cost_estimate e = { .pairs = n, .ratio = NAN, .low = NAN, .high = NAN };
    if (n < SONDE_OWN_COST_PAIRS_MIN) return e;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i; k < n; k++) work[count++] = 0.5 * (d[i] + d[k]);
    }
    qsort(work, count, sizeof(*work), sonde_cmp_double);
    const size_t outside = sonde_own_cost_outside(n);
    assert(outside && outside < count / 2);
    e.ratio = own_cost_of(own_cost_median(work, count));
    e.low = own_cost_of(work[outside - 1]);
    e.high = own_cost_of(work[count - outside]);
    return e;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* What of a work there was in a window, of a measure, so that more of it is more cost. NaN: not to
 * be told. */
static double own_cost_figure_of(const struct sonde_own_cost_window *w, size_t work,
                                 enum sonde_own_cost_measure m)
{
    const struct sonde_own_cost_done *done = &w->work[work];
    if (!(done->count >= COUNT_MIN) || !(w->seconds > 0)) return NAN;
    /* Such a unit was begun in a window of the other kind. */
    if (done->sum_s / done->count > LONG_SHARE * w->seconds) return NAN;
    switch (m) {
    case SONDE_OWN_COST_CPU: return w->cpu_s > 0 ? w->cpu_s / done->count : NAN;
    case SONDE_OWN_COST_LATENCY: return done->sum_s > 0 ? done->sum_s / done->count : NAN;
    case SONDE_OWN_COST_THROUGHPUT: return w->seconds / done->count;
    case SONDE_OWN_COST_MEASURE_COUNT: break;
    }
    return NAN;
}

double sonde_own_cost_difference(const struct sonde_own_cost_pair *p, size_t work,
                                 enum sonde_own_cost_measure m)
{
    assert(work < SONDE_OWN_COST_WORKS_MAX);
    return log(own_cost_figure_of(&p->on, work, m) / own_cost_figure_of(&p->off, work, m));
}

static size_t own_cost_kept(const struct sonde_own_cost *o)
{
    return o->pair_count < SONDE_OWN_COST_PAIRS_MAX ? (size_t)o->pair_count
                                                    : SONDE_OWN_COST_PAIRS_MAX;
}

/* Oldest first. */
static const struct sonde_own_cost_pair *own_cost_pair_at(const struct sonde_own_cost *o, size_t i)
{
    const uint64_t first = o->pair_count - own_cost_kept(o);
    return &o->pairs[(first + i) % SONDE_OWN_COST_PAIRS_MAX];
}

static size_t own_cost_differences(const struct sonde_own_cost *o, size_t work,
                                   enum sonde_own_cost_measure m, double *d)
{
    size_t n = 0;
    for (size_t i = 0; i < own_cost_kept(o); i++) {
        d[n] = sonde_own_cost_difference(own_cost_pair_at(o, i), work, m);
        if (isfinite(d[n])) n++;
    }
    return n;
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* Does this counter follow the clock rather than the work? By how far counts are from seconds times
 * the median rate, in the median. */
static int own_cost_is_clock(const struct sonde_own_cost *o, size_t work, double *rates)
{
    size_t n = 0;
    for (size_t i = 0; i < own_cost_kept(o); i++) {
        const struct sonde_own_cost_pair *p = own_cost_pair_at(o, i);
        rates[n++] = p->off.work[work].count / p->off.seconds;
        rates[n++] = p->on.work[work].count / p->on.seconds;
    }
    if (!n) return 0;
    qsort(rates, n, sizeof(*rates), sonde_cmp_double);
    const double rate = own_cost_median(rates, n);
    for (size_t i = 0; i < n; i++) rates[i] = fabs(rates[i] - rate);
    qsort(rates, n, sizeof(*rates), sonde_cmp_double);
    const double seconds = own_cost_pair_at(o, 0)->off.seconds;
    return own_cost_median(rates, n) * seconds <= CLOCK_COUNTS + CLOCK_SHARE * rate * seconds;
}

static int own_cost_may_judge(const struct sonde_own_cost *o, size_t work,
                              enum sonde_own_cost_measure m)
{
    const enum sonde_own_cost_rank rank = o->works[work].rank;
    if (rank < SONDE_OWN_COST_TIMED || m == SONDE_OWN_COST_LATENCY) return 1;
    return !own_cost_is_clock(o, work, o->scratch);
}

/* ---- Choice ---------------------------------------------------------------------------------- */

/* How far the first pairs are from each other, in the median, by rank: what says less of the
 * program must be that much steadier. INFINITY: too few. */
static double own_cost_spread(const struct sonde_own_cost *o, size_t work,
                              enum sonde_own_cost_measure m)
{
    static const double weights[] = { [SONDE_OWN_COST_NAMED] = 0.01, [SONDE_OWN_COST_TOKENS] = 1,
                                      [SONDE_OWN_COST_REQUESTS] = 1.5, [SONDE_OWN_COST_TIMED] = 2,
                                      [SONDE_OWN_COST_COUNTED] = 3 };
    double d[SONDE_OWN_COST_PAIRS_MAX];
    size_t n = own_cost_differences(o, work, m, d);
    if (n < PILOT || !own_cost_may_judge(o, work, m)) return INFINITY;
    n = PILOT;
    qsort(d, n, sizeof(*d), sonde_cmp_double);
    const double middle = own_cost_median(d, n);
    for (size_t i = 0; i < n; i++) d[i] = fabs(d[i] - middle);
    qsort(d, n, sizeof(*d), sonde_cmp_double);
    return weights[o->works[work].rank] * (own_cost_median(d, n) + 1e-9);
}

/* Nothing of it could be compared of late: the program does something else now. */
static int own_cost_has_ended(const struct sonde_own_cost *o)
{
    const size_t kept = own_cost_kept(o), work = (size_t)o->chosen / SONDE_OWN_COST_MEASURE_COUNT;
    const enum sonde_own_cost_measure m =
        (enum sonde_own_cost_measure)(o->chosen % SONDE_OWN_COST_MEASURE_COUNT);
    for (size_t i = kept > PILOT ? kept - PILOT : 0; i < kept; i++) {
        if (isfinite(sonde_own_cost_difference(own_cost_pair_at(o, i), work, m))) return 0;
    }
    return 1;
}

static void own_cost_choose(struct sonde_own_cost *o)
{
    double least = INFINITY;
    if (o->chosen >= 0 && !own_cost_has_ended(o)) return;
    o->chosen = -1;
    for (size_t i = 0; i < o->work_count * SONDE_OWN_COST_MEASURE_COUNT; i++) {
        const double spread = own_cost_spread(
            o, i / SONDE_OWN_COST_MEASURE_COUNT,
            (enum sonde_own_cost_measure)(i % SONDE_OWN_COST_MEASURE_COUNT));
        if (!(spread < least)) continue;
        least = spread;
        o->chosen = (int)i;
    }
}

static void own_cost_put(struct sonde_own_cost *o, size_t at, struct sonde_own_cost_figure *out,
                         size_t max, size_t *count)
{
    double d[SONDE_OWN_COST_PAIRS_MAX];
    const size_t work = at / SONDE_OWN_COST_MEASURE_COUNT;
    const enum sonde_own_cost_measure m =
        (enum sonde_own_cost_measure)(at % SONDE_OWN_COST_MEASURE_COUNT);
    const size_t n = own_cost_differences(o, work, m, d);
    if (*count == max || !n || !own_cost_may_judge(o, work, m)) return;
    out[(*count)++] = (struct sonde_own_cost_figure){
        .work = work, .measure = m, .estimate = sonde_own_cost_estimate(d, n, o->scratch) };
}

int sonde_own_cost_judge(struct sonde_own_cost *o, struct sonde_own_cost_figure *out, size_t max,
                         size_t *count)
{
    own_cost_choose(o);
    if (!out) return o->chosen >= 0;
    *count = 0;
    if (o->chosen >= 0) own_cost_put(o, (size_t)o->chosen, out, max, count);
    for (size_t i = 0; i < o->work_count * SONDE_OWN_COST_MEASURE_COUNT; i++) {
        if ((int)i != o->chosen) own_cost_put(o, i, out, max, count);
    }
    return o->chosen >= 0;
}

/* ---- How often ------------------------------------------------------------------------------- */

double sonde_own_cost_off_share(const struct sonde_own_cost_estimate *e, double most)
{
    if (!e || isnan(e->ratio)) return fmax(FIRST_SHARE, most);
    return (e->high - e->low) / 2 <= NARROW ? most / 5 : most;
}

/* ---- Life and words -------------------------------------------------------------------------- */

int sonde_own_cost_init(struct sonde_own_cost *o)
{
    const size_t averages = (size_t)SONDE_OWN_COST_PAIRS_MAX * (SONDE_OWN_COST_PAIRS_MAX + 1) / 2;
    *o = (struct sonde_own_cost){ .chosen = -1 };
    o->pairs = sonde__calloc(SONDE_OWN_COST_PAIRS_MAX, sizeof(*o->pairs));
    o->scratch = sonde__calloc(averages, sizeof(*o->scratch));
    if (o->pairs && o->scratch) return 0;
    sonde_own_cost_release(o);
    return SONDE_ENOMEM;
}

void sonde_own_cost_release(struct sonde_own_cost *o)
{
    sonde__free(o->pairs);
    sonde__free(o->scratch);
    *o = (struct sonde_own_cost){ .chosen = -1 };
}

void sonde_own_cost_clear(struct sonde_own_cost *o)
{
    o->pair_count = o->work_count = 0;
    o->chosen = -1;
}

void sonde_own_cost_add(struct sonde_own_cost *o, const struct sonde_own_cost_pair *p)
{
    o->pairs[o->pair_count++ % SONDE_OWN_COST_PAIRS_MAX] = *p;
}

void sonde_own_cost_percent(const struct sonde_own_cost_estimate *e, char *out, size_t size)
{
    const double half = 100 * fmax(e->high - e->ratio, e->ratio - e->low);
    /* One digit of what is not sure: 0.3 ± 0.2, 2 ± 1, 0.012 ± 0.009. */
    int digits = half > 0 ? (int)-floor(log10(half)) : 3;
    digits = digits < 0 ? 0 : digits > 4 ? 4 : digits;
    const double unit = pow(10, -digits);
    /* Rounded to 0, it has no sign. */
    const double shown = fabs(100 * e->ratio) < unit / 2 ? 0 : 100 * e->ratio;
    const double least = fabs(ceil(half / unit - 1e-6)) * unit; /* rounded up */
    snprintf(out, size, "%.*f ± %.*f %%", digits, shown, digits, least);
}
