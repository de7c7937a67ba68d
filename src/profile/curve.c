#include "profile/curve.h"

#include <assert.h>
#include <string.h>

/* Behind the points there are zeros, so that equal series are equal bytes. */
static void profile_series_set_count(struct sonde_curve *s, uint32_t count)
{
    memset(s->value + count, 0, (SONDE_CURVE_POINTS - count) * sizeof(s->value[0]));
    s->count = count;
}

/* Two points become one; the next is made of twice as many ticks. */
static void profile_series_join(struct sonde_curve *s)
{
    for (uint32_t i = 0; i < SONDE_CURVE_POINTS / 2; i++) {
        s->value[i] = (s->value[2 * i] + s->value[2 * i + 1]) / 2;
    }
    profile_series_set_count(s, SONDE_CURVE_POINTS / 2);
    s->per_point *= 2;
}

void sonde_curve_add(struct sonde_curve *s, double value)
{
    if (!s->per_point) s->per_point = 1;
    if (s->count == SONDE_CURVE_POINTS && !s->pending) profile_series_join(s);
    s->pending_sum += value;
    if (++s->pending < s->per_point) return;
    s->value[s->count++] = (float)(s->pending_sum / s->per_point);
    s->pending = 0;
    s->pending_sum = 0;
}

void sonde_curve_coarsen(struct sonde_curve *s)
{
    assert(s->per_point <= 1 && !s->pending);
    uint32_t n = 0, i = 0;
    if (s->first % 2 && s->count) s->value[n++] = s->value[i++];
    for (; i + 1 < s->count; i += 2) s->value[n++] = (s->value[i] + s->value[i + 1]) / 2;
    if (i < s->count) s->value[n++] = s->value[i];
    profile_series_set_count(s, n);
    s->first /= 2;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint64_t ticks_per_point(const struct sonde_curve *s)
{
    return s->per_point ? s->per_point : 1;
}

static uint64_t end_tick(const struct sonde_curve *s)
{
    return s->first + ticks_per_point(s) * s->count + s->pending;
}

/* The sum of its values over the ticks [from, to); where it has none they are 0. */
static double sum_over(const struct sonde_curve *s, uint64_t from, uint64_t to)
{
    const uint64_t per = ticks_per_point(s), points_end = s->first + per * s->count;
    double sum = 0;
    uint64_t at = from > s->first ? from : s->first;
    while (at < to && at < points_end) {
        const uint64_t point = (at - s->first) / per, next = s->first + (point + 1) * per;
        const uint64_t until = next < to ? next : to;
        sum += (double)s->value[point] * (double)(until - at);
        at = until;
    }
    const uint64_t end = points_end + s->pending < to ? points_end + s->pending : to;
    if (s->pending && at < end) sum += s->pending_sum / s->pending * (double)(end - at);
    return sum;
}

void sonde_curve_sum(struct sonde_curve *s, const struct sonde_curve *add)
{
    if (!add->count && !add->pending) return;
    if (!s->count && !s->pending) {
        *s = *add;
        return;
    }
    const uint64_t first = s->first < add->first ? s->first : add->first;
    const uint64_t end = end_tick(s) > end_tick(add) ? end_tick(s) : end_tick(add);
    uint64_t per = ticks_per_point(s) > ticks_per_point(add) ? ticks_per_point(s)
                                                             : ticks_per_point(add);
    while ((end - first) / per > SONDE_CURVE_POINTS) per *= 2;
    struct sonde_curve sum = { .first = (uint32_t)first, .per_point = (uint32_t)per };
    uint64_t at = first;
    for (; at + per <= end; at += per) {
        sum.value[sum.count++] =
            (float)((sum_over(s, at, at + per) + sum_over(add, at, at + per)) / (double)per);
    }
    sum.pending = (uint32_t)(end - at);
    sum.pending_sum = sum_over(s, at, end) + sum_over(add, at, end);
    *s = sum;
}
