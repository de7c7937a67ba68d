/* otava.h - Apache Otava's (Hunter's) change points, written from its published description (Daly
 * et al. 2020; Fleming et al. 2023; docs/MATH.md of the project) to stand beside ours: E-divisive
 * in windows of 50 points that overlap by half, a split kept when Student's t-test of its two sides
 * is below the level ("weak" at ten times the level), then the weakest removed until all are
 * strong. */
#ifndef SONDE_PERF_OTAVA_H
#define SONDE_PERF_OTAVA_H

#include <math.h>
#include <stddef.h>

#include "analyze/stats.h"

enum { OTAVA_WINDOW = 50, OTAVA_POINTS_MAX = 4096 };
#define OTAVA_LEVEL 0.001

/* Student's t of v[from, at) and v[at, to), equal variances, as the project has it. */
static inline double otava_p(const double *v, size_t from, size_t at, size_t to)
{
    const double n = (double)(at - from), m = (double)(to - at);
    double a = 0, b = 0, square = 0;
    if (n < 2 || m < 2) return 1;
    for (size_t i = from; i < at; i++) a += v[i] / n;
    for (size_t i = at; i < to; i++) b += v[i] / m;
    for (size_t i = from; i < at; i++) square += (v[i] - a) * (v[i] - a);
    for (size_t i = at; i < to; i++) square += (v[i] - b) * (v[i] - b);
    const double se = sqrt(square / (n + m - 2) * (1 / n + 1 / m));
    if (!(se > 0)) return a < b || a > b ? 0 : 1;
    return sonde_t_p((a - b) / se, n + m - 2);
}

/* The split of v[from, to) with the largest energy statistic. */
static inline size_t otava_best(const double *v, size_t from, size_t to)
{
    const size_t n = to - from;
    double best = -INFINITY;
    size_t at = from;
    double left = 0, cross = 0, right = 0; /* sums of |x - y| within and between */
    for (size_t i = from; i < to; i++) {
        for (size_t k = i + 1; k < to; k++) right += fabs(v[i] - v[k]);
    }
    for (size_t k = 1; k < n; k++) {
        const size_t moved = from + k - 1;
        double to_left = 0, to_right = 0;
        for (size_t i = from; i < moved; i++) to_left += fabs(v[i] - v[moved]);
        for (size_t i = moved + 1; i < to; i++) to_right += fabs(v[i] - v[moved]);
        left += to_left;
        right -= to_right;
        cross += to_right - to_left;
        const double a = (double)k, b = (double)(n - k);
        double e = 2 * cross / (a * b);
        if (k > 1) e -= 2 * left / (a * (a - 1));
        if (n - k > 1) e -= 2 * right / (b * (b - 1));
        const double q = a * b / (a + b) * e;
        if (q > best) {
            best = q;
            at = from + k;
        }
    }
    return at;
}

static inline void otava_split(const double *v, size_t from, size_t to, size_t *out, size_t *count)
{
    if (to - from < 4 || *count == OTAVA_POINTS_MAX) return;
    const size_t at = otava_best(v, from, to);
    if (at <= from || at >= to || !(otava_p(v, from, at, to) < 10 * OTAVA_LEVEL)) return;
    otava_split(v, from, at, out, count);
    if (*count < OTAVA_POINTS_MAX) out[(*count)++] = at;
    otava_split(v, at, to, out, count);
}

/* Change points of v, ascending: how many. */
static inline size_t otava_find(const double *v, size_t n, size_t out[OTAVA_POINTS_MAX])
{
    size_t count = 0;
    for (size_t start = 0; start < n;) {
        const size_t end = start + OTAVA_WINDOW < n ? start + OTAVA_WINDOW : n;
        size_t found[OTAVA_WINDOW], k = 0, last = 0;
        otava_split(v, start, end, found, &k);
        for (size_t i = 0; i < k; i++) {
            last = found[i];
            if (count && out[count - 1] >= last) continue;
            if (count < OTAVA_POINTS_MAX) out[count++] = last;
        }
        start = last > start + OTAVA_WINDOW / 2 ? last : start + OTAVA_WINDOW / 2;
    }
    for (;;) { /* merge: the weakest goes until all are strong */
        double worst = OTAVA_LEVEL;
        size_t weakest = count;
        for (size_t i = 0; i < count; i++) {
            const double p = otava_p(v, i ? out[i - 1] : 0, out[i], i + 1 < count ? out[i + 1] : n);
            if (p >= worst) {
                worst = p;
                weakest = i;
            }
        }
        if (weakest == count) return count;
        for (size_t i = weakest; i + 1 < count; i++) out[i] = out[i + 1];
        count--;
    }
}

#endif
