/* figures.c - from runs to means with intervals, to how commands compare, and to runs that fell out
 * of the rest and why. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "bench/cmd/timing.h"
#include "present/units.h"
#include "sonde/sonde.h"

/* ---- Means ----------------------------------------------------------------------------------- */

double sonde_timing_shell_mean(const struct sonde_timing_bench *b, enum sonde_timing_metric metric)
{
    double sum = 0;
    if (metric > SONDE_TIMING_SYSTEM || !b->shell_count) return 0;
    for (size_t i = 0; i < b->shell_count; i++) sum += b->shell_s[metric][i];
    return sum / (double)b->shell_count;
}

static double figures_of(const struct sonde_spawn_use *u, enum sonde_timing_metric metric)
{
    switch (metric) {
    case SONDE_TIMING_WALL: return u->wall_s;
    case SONDE_TIMING_USER: return u->user_s;
    case SONDE_TIMING_SYSTEM: return u->system_s;
    case SONDE_TIMING_RSS: return (double)u->rss_bytes;
    case SONDE_TIMING_FAULTS_MAJOR: return (double)u->faults_major;
    case SONDE_TIMING_FAULTS_MINOR: return (double)u->faults_minor;
    case SONDE_TIMING_VOLUNTARY: return (double)u->switches_voluntary;
    case SONDE_TIMING_INVOLUNTARY: return (double)u->switches_involuntary;
    case SONDE_TIMING_READ: return (double)u->read_bytes;
    case SONDE_TIMING_WAITED: return u->waited_s;
    case SONDE_TIMING_INSTRUCTIONS: return u->counts[SONDE_COUNTER_INSTRUCTIONS];
    case SONDE_TIMING_CYCLES: return u->counts[SONDE_COUNTER_CYCLES];
    case SONDE_TIMING_METRICS: break;
    }
    return NAN;
}

void sonde_timing_values(const struct sonde_timing_options *o, const struct sonde_timing_bench *b,
                         const struct sonde_timing_case *c, enum sonde_timing_metric metric,
                         double *out)
{
    const double shell = o->commands[c->command].shell ? sonde_timing_shell_mean(b, metric) : 0;
    for (size_t i = 0; i < b->rounds; i++) {
        const double v = figures_of(&c->runs[i], metric);
        out[i] = shell > 0 ? fmax(v - shell, 0) : v;
    }
}

/* The variance of such an estimate is one of the spread (of n - 1 degrees of freedom) times one of
 * how alike neighbours are, (1 + r) / (1 - r), and r is an estimate too: off by about the root of 1
 * / n, less what sonde_estimate_runs takes from what is expected. Satterthwaite's degrees of
 * freedom of the product. */
struct sonde_estimate sonde_timing_degrees(struct sonde_estimate e, size_t n)
{
    if (n < 3 || !isfinite(e.se_high)) return e;
    const double runs = (double)n, pairs = runs - 1;
    const double share = pairs / (pairs + SONDE_RUNS_LIKENESS_PAIRS);
    e.df = 2 / (2 / (runs - 1) + 4 * share * share / runs);
    return e;
}

struct sonde_estimate sonde_timing_mean(const double *values, size_t n)
{
    struct sonde_estimate e = { NAN, INFINITY, INFINITY, 1 };
    double *ones = sonde__calloc(n ? n : 1, sizeof(*ones));
    if (!ones) return e;
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    e = sonde_timing_degrees(sonde_estimate_runs(values, ones, n, 0), n);
    sonde__free(ones);
    return e;
}

double sonde_timing_half(const struct sonde_estimate *e)
{
    return isfinite(e->se_high) ? sonde_t_quantile(0.975, e->df) * e->se_high : INFINITY;
}

/* Means of a and b, their variances and covariance from round to round. */
struct figures_pair { double a, b, var_a, var_b, cov; };

static struct figures_pair figures_pair_of(const double *a, const double *b, size_t n)
{
    struct figures_pair p = { 0, 0, 0, 0, 0 };
    const double count = (double)n;
    for (size_t i = 0; i < n; i++) {
        p.a += a[i] / count;
        p.b += b[i] / count;
    }
    for (size_t i = 0; i < n; i++) {
        p.var_a += (a[i] - p.a) * (a[i] - p.a) / (count - 1);
        p.var_b += (b[i] - p.b) * (b[i] - p.b) / (count - 1);
        p.cov += (a[i] - p.a) * (b[i] - p.b) / (count - 1);
    }
    return p;
}

/* The differences b - a of rounds decide whether there is one; their mean has the standard error of
 * runs that are alike to their neighbours. The interval of the ratio are those r for which b - r a
 * could be 0 by the same test (Fieller 1954):
 *
 *   (b - r a)^2 <= t^2 f (var b - 2 r cov + r^2 var a) / n
 *
 * f is by how much the likeness of neighbours raises the variance, of the differences. So it leaves
 * out 1 just when a difference is seen. Rejected: the spread of b - R a, R being the ratio: what is
 * a hundred times as long as a command that varies by half is then not known to be longer. */
struct sonde_timing_ratio sonde_timing_compare(const double *a, const double *b, size_t n,
                                               size_t pairs)
{
    struct sonde_timing_ratio r = { NAN, NAN, NAN, NAN, NAN };
    double *differences = n > 1 ? sonde__calloc(n, sizeof(*differences)) : NULL;
    if (!differences) return r;
    for (size_t i = 0; i < n; i++) differences[i] = b[i] - a[i];
    const struct sonde_estimate e = sonde_timing_mean(differences, n);
    sonde__free(differences);
    const struct figures_pair p = figures_pair_of(a, b, n);
    const double among = (double)(pairs ? pairs : 1), t = sonde_t_quantile(0.975, e.df);
    if (!(p.a > 0) || !isfinite(e.se_high)) return r;
    const double spread = p.var_a + p.var_b - 2 * p.cov;
    const double raised = spread > 0 ? e.se_high * e.se_high / spread : 1 / (double)n;
    r.value = p.b / p.a;
    r.p = e.se_high > 0 ? sonde_t_p(e.value / e.se_high, e.df) : p.a == p.b ? 1 : 0;
    r.p = fmin(r.p * among, 1);
    r.smallest = (sonde_t_quantile(1 - 0.025 / among, e.df) + sonde_t_quantile(0.9, e.df)) *
                 e.se_high / p.a;
    const double k = t * t * raised, square = p.a * p.a - k * p.var_a;
    const double middle = p.a * p.b - k * p.cov, rest = p.b * p.b - k * p.var_b;
    const double root = middle * middle - square * rest;
    if (!(square > 0) || !(root >= 0)) return r; /* a may be 0 for all that is known */
    r.low = fmax((middle - sqrt(root)) / square, 0);
    r.high = (middle + sqrt(root)) / square;
    return r;
}

/* ---- Outliers -------------------------------------------------------------------------------- */

static double figures_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), sonde_cmp_double);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* What is usual, to compare a run with. */
struct figures_usual { double wall_s, mad_s, metric[SONDE_TIMING_METRICS]; };

static struct figures_usual figures_usual_of(const struct sonde_spawn_use *runs,
                                             const double *walls, size_t n, double *work)
{
    struct figures_usual u;
    memcpy(work, walls, n * sizeof(*work));
    u.wall_s = figures_median(work, n);
    for (size_t i = 0; i < n; i++) work[i] = fabs(walls[i] - u.wall_s);
    u.mad_s = figures_median(work, n);
    for (int m = 0; m < SONDE_TIMING_METRICS; m++) {
        for (size_t i = 0; i < n; i++) work[i] = figures_of(&runs[i], (enum sonde_timing_metric)m);
        u.metric[m] = figures_median(work, n);
    }
    return u;
}

/* Why a run took longer, by what it did differently: the first that accounts for half of it. */
static void figures_reason(const struct sonde_spawn_use *r, const struct figures_usual *u,
                           size_t run, double over_s, char out[160])
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const double *m = u->metric;
    const double faults = (double)r->faults_major - m[SONDE_TIMING_FAULTS_MAJOR];
    const double read = (double)r->read_bytes - m[SONDE_TIMING_READ];
    const double waited = r->waited_s - m[SONDE_TIMING_WAITED];
    const double cpu = r->user_s + r->system_s - m[SONDE_TIMING_USER] - m[SONDE_TIMING_SYSTEM];
    const double lost = (double)r->switches_involuntary - m[SONDE_TIMING_INVOLUNTARY];
    const char *first = run ? "" : ", in the first run";
    if (over_s < 0) {
        snprintf(out, 160, "shorter than the rest: the others were slowed down, or it did less");
    } else if (faults > 0 || read >= 64 * 1024) {
        snprintf(out, 160, "page cache: major faults (%.0f) and data read from disk (%s) beyond "
                 "the usual%s",
                 fmax(faults, 0), sonde_value_format(a, fmax(read, 0), SONDE_UNIT_BYTES, 0), first);
    } else if (r->stolen_s >= over_s / 2) {
        snprintf(out, 160, "other load: the host took %s of CPU time",
                 sonde_value_format(a, r->stolen_s, SONDE_UNIT_SECONDS, 0));
    } else if (waited >= over_s / 2) {
        snprintf(out, 160, "other load: it was ready and waited %s for a CPU; others used %s",
                 sonde_value_format(a, r->waited_s, SONDE_UNIT_SECONDS, 0),
                 sonde_value_format(b, r->others_s, SONDE_UNIT_SECONDS, 0));
    } else if (cpu >= over_s / 2) {
        snprintf(out, 160, "it used %s more CPU time than usual: more work, a colder cache or a "
                 "slower clock", sonde_value_format(a, cpu, SONDE_UNIT_SECONDS, 0));
    } else if (fmax(waited, 0) + r->stolen_s >= over_s / 2) {
        snprintf(out, 160, "other load: it was ready and waited %s for a CPU, and the host took %s",
                 sonde_value_format(a, r->waited_s, SONDE_UNIT_SECONDS, 0),
                 sonde_value_format(b, r->stolen_s, SONDE_UNIT_SECONDS, 0));
    } else if (lost > 1 && r->others_s + r->stolen_s >= over_s / 2) {
        /* Only of its first process is it known how long it waited. */
        snprintf(out, 160, "other load: %.0f involuntary switches more than usual, others used %s "
                 "of CPU time", lost, sonde_value_format(a, r->others_s, SONDE_UNIT_SECONDS, 0));
    } else {
        snprintf(out, 160, "it waited for something that is not seen from outside%s", first);
    }
}

int sonde_timing_outliers(const struct sonde_spawn_use *runs, const double *walls, size_t n,
                          struct sonde_timing_outlier **out, size_t *count)
{
    size_t cap = 0;
    *out = NULL;
    *count = 0;
    if (n < 5) return 0;
    double *work = sonde__calloc(n, sizeof(*work));
    if (!work) return SONDE_ENOMEM;
    const struct figures_usual u = figures_usual_of(runs, walls, n, work);
    sonde__free(work);
    const double limit_s = fmax(5 * 1.4826 * u.mad_s, 0.02 * u.wall_s);
    for (size_t i = 0; i < n && *count < SONDE_TIMING_OUTLIERS_MAX; i++) {
        const double over_s = walls[i] - u.wall_s;
        if (fabs(over_s) <= limit_s) continue;
        struct sonde_timing_outlier *o = SONDE_ARRAY_ADD(*out, *count, cap);
        if (!o) {
            sonde__free(*out);
            *out = NULL;
            *count = 0;
            return SONDE_ENOMEM;
        }
        o->run = i;
        o->wall_s = walls[i];
        o->relative = u.wall_s > 0 ? over_s / u.wall_s : NAN;
        figures_reason(&runs[i], &u, i, over_s, o->reason);
    }
    return 0;
}
