/* usl.c - see usl.h. */
#include "analyze/usl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/random.h"
#include "sonde/sonde.h"

enum { USL_DRAWS = 2000 };

struct usl_line { double a, b, c; };

struct usl_row { double n, y, weight; }; /* y = N / X, weight = 1 / variance of y */

/* Weighted least squares of those of the three columns that mask names; 0 if it is singular. */
static int usl_solve(const struct usl_row *rows, size_t count, unsigned mask, struct usl_line *out)
{
    double m[3][4] = { { 0 } };
    for (size_t i = 0; i < count; i++) {
        const double n = rows[i].n, x[3] = { 1, n - 1, n * (n - 1) };
        for (int r = 0; r < 3; r++) {
            for (int c = 0; c < 3; c++) m[r][c] += rows[i].weight * x[r] * x[c];
            m[r][3] += rows[i].weight * x[r] * rows[i].y;
        }
    }
    for (int r = 0; r < 3; r++) {
        if (mask & 1u << r) continue;
        for (int c = 0; c < 4; c++) m[r][c] = 0;
        for (int k = 0; k < 3; k++) m[k][r] = 0;
        m[r][r] = 1;
    }
    /* Symmetric and positive: elimination needs no pivots. */
    for (int k = 0; k < 3; k++) {
        const double pivot = m[k][k];
        if (!(pivot > 0)) return 0;
        for (int r = k + 1; r < 3; r++) {
            const double f = m[r][k] / pivot;
            for (int c = k; c < 4; c++) m[r][c] -= f * m[k][c];
        }
    }
    double v[3];
    for (int r = 2; r >= 0; r--) {
        v[r] = m[r][3];
        for (int c = r + 1; c < 3; c++) v[r] -= m[r][c] * v[c];
        v[r] /= m[r][r];
        if (!isfinite(v[r])) return 0;
    }
    *out = (struct usl_line){ v[0], v[1], v[2] };
    return 1;
}

static double usl_misfit(const struct usl_row *rows, size_t count, const struct usl_line *l)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double n = rows[i].n;
        const double d = rows[i].y - l->a - l->b * (n - 1) - l->c * n * (n - 1);
        sum += rows[i].weight * d * d;
    }
    return sum;
}

/* The best of all sets of columns whose solution is allowed; with three columns these are few
 * enough to try. */
static int usl_best(const struct usl_row *rows, size_t count, struct usl_line *out)
{
    static const unsigned masks[] = { 7, 3, 5, 1 };
    double least = INFINITY;
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        struct usl_line l;
        if (!usl_solve(rows, count, masks[i], &l)) continue;
        if (!(masks[i] & 2)) l.b = 0;
        if (!(masks[i] & 4)) l.c = 0;
        if (!(l.a > 0) || l.b < 0 || l.c < 0) continue;
        const double misfit = usl_misfit(rows, count, &l);
        if (misfit < least) {
            least = misfit;
            *out = l;
        }
    }
    return isfinite(least);
}

static double usl_best_n(const struct usl_line *l)
{
    const double s = l->b / l->a, k = l->c / l->a;
    if (s >= 1) return 1;
    return k > 0 ? fmax(sqrt((1 - s) / k), 1) : INFINITY;
}

/* Student's t with df degrees of freedom, from a standard normal number. */
static double usl_t(double z, double df)
{
    /* Cornish and Fisher's expansion around the normal: exact enough for drawing, and thousands of
     * times cheaper than the quantile. */
    const double z3 = z * z * z, z5 = z3 * z * z;
    return z + (z3 + z) / (4 * df) + (5 * z5 + 16 * z3 + 3 * z) / (96 * df * df);
}

static struct sonde_usl_range usl_range(double value, double *drawn, size_t count)
{
    qsort(drawn, count, sizeof(*drawn), sonde_cmp_double);
    const size_t tail = count * 25 / 1000;
    return (struct sonde_usl_range){ value, drawn[tail], drawn[count - 1 - tail] };
}

/* Errors by which points are drawn anew; raised where they do not explain the misfit. */
static double usl_raise(const struct usl_row *rows, size_t count, const struct usl_line *l)
{
    if (count <= SONDE_USL_POINTS_MIN) return 1;
    const double ratio = usl_misfit(rows, count, l) / (double)(count - SONDE_USL_POINTS_MIN);
    return ratio > 1 ? sqrt(ratio) : 1;
}

static int usl_intervals(const struct usl_row *rows, const double *df, size_t count,
                         const struct usl_line *l, uint64_t seed, struct sonde_usl *out)
{
    double *drawn = sonde__calloc(4 * USL_DRAWS, sizeof(*drawn));
    if (!drawn) return SONDE_ENOMEM;
    struct usl_row again[SONDE_USL_POINTS_MAX];
    const double raise = usl_raise(rows, count, l);
    size_t n = 0;
    for (int i = 0; i < USL_DRAWS; i++) {
        struct usl_line d;
        for (size_t k = 0; k < count; k++) {
            again[k] = rows[k];
            again[k].y += raise / sqrt(rows[k].weight) * usl_t(sonde_random_normal(&seed), df[k]);
        }
        if (!usl_best(again, count, &d)) continue;
        drawn[n] = 1 / d.a;
        drawn[USL_DRAWS + n] = d.b / d.a;
        drawn[2 * USL_DRAWS + n] = d.c / d.a;
        drawn[3 * USL_DRAWS + n] = usl_best_n(&d);
        n++;
    }
    if (n >= USL_DRAWS / 2) {
        out->single = usl_range(out->single.value, drawn, n);
        out->contention = usl_range(out->contention.value, drawn + USL_DRAWS, n);
        out->coherence = usl_range(out->coherence.value, drawn + 2 * USL_DRAWS, n);
        out->best_n = usl_range(out->best_n.value, drawn + 3 * USL_DRAWS, n);
    }
    sonde__free(drawn);
    return 0;
}

double sonde_usl_at(const struct sonde_usl *u, double n)
{
    return u->single.value * n /
           (1 + u->contention.value * (n - 1) + u->coherence.value * n * (n - 1));
}

static double usl_r2(const struct sonde_usl_point *p, size_t count, const struct sonde_usl *u)
{
    double mean = 0, all = 0, left = 0;
    for (size_t i = 0; i < count; i++) mean += p[i].throughput / (double)count;
    for (size_t i = 0; i < count; i++) {
        const double d = p[i].throughput - sonde_usl_at(u, p[i].n);
        all += (p[i].throughput - mean) * (p[i].throughput - mean);
        left += d * d;
    }
    return all > 0 ? 1 - left / all : NAN;
}

int sonde_usl_fit(const struct sonde_usl_point *points, size_t count, uint64_t seed,
                  struct sonde_usl *out)
{
    struct usl_row rows[SONDE_USL_POINTS_MAX];
    double df[SONDE_USL_POINTS_MAX], seen = 0;
    size_t different = 0;
    int known = 1;
    if (count > SONDE_USL_POINTS_MAX) return SONDE_EINVAL;
    for (size_t i = 0; i < count; i++) {
        const struct sonde_usl_point *p = &points[i];
        size_t k = 0;
        if (!(p->n >= 1) || !(p->throughput > 0) || !isfinite(p->n) || !isfinite(p->throughput)) {
            return SONDE_EINVAL;
        }
        while (k < i && points[k].n != p->n) k++;
        different += k == i;
        known &= p->se > 0 && isfinite(p->se);
        seen = fmax(seen, p->n);
    }
    if (different < SONDE_USL_POINTS_MIN) return SONDE_EINVAL;
    for (size_t i = 0; i < count; i++) {
        const double y = points[i].n / points[i].throughput;
        /* The relative error of N / X is that of X. Where one is not known all count alike. */
        const double relative = known ? points[i].se / points[i].throughput : 0.01;
        rows[i] = (struct usl_row){ points[i].n, y, 1 / (y * y * relative * relative) };
        df[i] = points[i].df >= 2 && known ? points[i].df : 2;
    }
    struct usl_line l;
    if (!usl_best(rows, count, &l)) return SONDE_EINVAL;
    const double best = usl_best_n(&l);
    *out = (struct sonde_usl){ .single = { 1 / l.a, NAN, NAN },
                               .contention = { l.b / l.a, NAN, NAN },
                               .coherence = { l.c / l.a, NAN, NAN }, .best_n = { best, NAN, NAN },
                               .seen_n = seen };
    out->best_throughput = isfinite(best) ? sonde_usl_at(out, best) : l.b > 0 ? 1 / l.b : INFINITY;
    out->r2 = usl_r2(points, count, out);
    return known ? usl_intervals(rows, df, count, &l, seed, out) : 0;
}
