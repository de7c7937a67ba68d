/* steady.c - see steady.h. */
#include "analyze/steady.h"

#include <math.h>

#include "analyze/stats.h"
#include "base/alloc.h"

static double steady_batch(const double *v, size_t batch)
{
    double sum = 0;
    for (size_t i = 0; i < SONDE_STEADY_BATCH; i++) sum += v[batch * SONDE_STEADY_BATCH + i];
    return sum / SONDE_STEADY_BATCH;
}

static double steady_mean(const double *v, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += v[i];
    return count ? sum / (double)count : NAN;
}

static double steady_covariance(const double *v, size_t count, double mean, size_t lag)
{
    double sum = 0;
    for (size_t i = 0; i + lag < count; i++) sum += (v[i] - mean) * (v[i + lag] - mean);
    return sum / (double)count;
}

/* Of more values than that, means of neighbours are looked at: count * lags is what it costs. */
enum { EFFECTIVE_MAX = 40000, LAGS_MAX = 2000 };

/* n_eff is variance of a value / variance of the mean; the latter is the same for means of
 * neighbours. */
static double steady_effective_of_many(const double *v, size_t count)
{
    const size_t each = count / (EFFECTIVE_MAX / 2), batches = count / each;
    double *means = sonde__calloc(batches, sizeof(*means));
    if (!means) return 1; /* nothing is claimed */
    for (size_t b = 0; b < batches; b++) means[b] = steady_mean(v + b * each, each);
    const double all = steady_covariance(v, count, steady_mean(v, count), 0);
    const double some = steady_covariance(means, batches, steady_mean(means, batches), 0);
    const double effective = some > 0 ? all / some * sonde_steady_effective(means, batches)
                                      : (double)count;
    sonde__free(means);
    return effective < 1 ? 1 : effective > (double)count ? (double)count : effective;
}

double sonde_steady_effective(const double *v, size_t count)
{
    if (count > EFFECTIVE_MAX) return steady_effective_of_many(v, count);
    if (count < 2) return (double)count;
    const double n = (double)count, mean = steady_mean(v, count);
    const double variance = steady_covariance(v, count, mean, 0);
    if (!(variance > 1e-24 * mean * mean)) return n; /* all are equal */
    double sum = 0, before = INFINITY;
    for (size_t k = 0; k + 1 < count / 2 && k < LAGS_MAX; k += 2) {
        double pair = (steady_covariance(v, count, mean, k) +
                       steady_covariance(v, count, mean, k + 1)) / variance;
        if (!(pair > 0)) break;
        if (pair > before) pair = before; /* monotone, as that of a reversible chain is */
        before = pair;
        sum += pair;
    }
    const double factor = 2 * sum - 1;
    const double effective = factor > 1 ? n / factor : n;
    return effective < 1 ? 1 : effective;
}

/* Whether what would be left out is unlike what is left: its mean is off by more than three times
 * what the mean of so many values of the rest would be. Where there is no warm-up the minimum of
 * MSER is anywhere, behind whatever was unusual by chance. */
static int steady_differs(const double *v, size_t cut, size_t count)
{
    const size_t n = count - cut;
    if (!cut || n < 2) return 0;
    const double mean = steady_mean(v + cut, n), off = fabs(steady_mean(v, cut) - mean);
    const double variance = steady_covariance(v + cut, n, mean, 0);
    const double alike = (double)n / sonde_steady_effective(v + cut, n);
    const double part = (double)cut / alike; /* so many independent ones were left out */
    return off > 3 * sqrt(variance / (part < 1 ? 1 : part)) && off > 1e-12 * fabs(mean);
}

struct sonde_steady sonde_steady_find(const double *v, size_t count)
{
    struct sonde_steady s = { 0, 0, 0 };
    const size_t batches = count / SONDE_STEADY_BATCH, half = batches / 2;
    if (count < SONDE_STEADY_MIN) return s;
    s.known = 1;
    /* Backwards, so that sums over all that is left grow by one batch a step (Welford). */
    double mean = 0, squares = 0, least = INFINITY;
    size_t at = 0, n = 0;
    for (size_t b = batches; b-- > 0;) {
        const double y = steady_batch(v, b), off = y - mean;
        n++;
        mean += off / (double)n;
        squares += off * (y - mean);
        if (b > half || n < 2) continue;
        const double mser = squares / ((double)n * (double)n);
        if (mser <= least) { /* of equals the earliest: nothing is left out without a reason */
            least = mser;
            at = b;
        }
    }
    s.cut = at * SONDE_STEADY_BATCH;
    s.steady = at < half;
    if (!steady_differs(v, s.cut, count)) {
        s.cut = 0;
        s.steady = 1;
    }
    return s;
}

static double steady_variance_of_mean(const double *v, size_t count, double *effective)
{
    const double mean = steady_mean(v, count);
    *effective = sonde_steady_effective(v, count);
    if (*effective < 2) return NAN;
    return steady_covariance(v, count, mean, 0) * *effective / (*effective - 1) / *effective;
}

struct sonde_drift sonde_steady_trend(const double *v, size_t count)
{
    struct sonde_drift t = { NAN, NAN, NAN };
    const size_t third = count / 3;
    if (count < SONDE_STEADY_MIN) return t;
    double n_first, n_last;
    t.first = steady_mean(v, third);
    t.last = steady_mean(v + count - third, third);
    const double a = steady_variance_of_mean(v, third, &n_first);
    const double b = steady_variance_of_mean(v + count - third, third, &n_last);
    if (isnan(a) || isnan(b)) return t;
    if (!(a + b > 0)) {
        t.p = t.first < t.last || t.first > t.last ? 0 : 1;
        return t;
    }
    const double df = (a + b) * (a + b) / (a * a / (n_first - 1) + b * b / (n_last - 1));
    t.p = sonde_t_p((t.last - t.first) / sqrt(a + b), df > 1 ? df : 1);
    return t;
}
