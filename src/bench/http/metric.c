/* metric.c - see metric.h. */
#include "bench/http/metric.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

static const struct { const char *name; double q; } metric_rows[] = {
#define SONDE__X(id, name, q) { name, q },
    SONDE_LOAD_QUANTILES(SONDE__X)
#undef SONDE__X
};

const char *sonde_load_quantile_name(enum sonde_load_quantile_id id)
{
    return metric_rows[id].name;
}

double sonde_load_quantile_q(enum sonde_load_quantile_id id) { return metric_rows[id].q; }

uint64_t sonde_load_quantile_least(enum sonde_load_quantile_id id)
{
    return (uint64_t)ceil(log(0.025) / log(metric_rows[id].q));
}

static void metric_clear(struct sonde_load_metric *m, size_t part_count)
{
    memset(m, 0, sizeof(*m));
    m->part_count = part_count;
    m->mean = m->mean_low = m->mean_high = m->min = m->max = NAN;
    for (size_t i = 0; i < SONDE_LOAD_QUANTILE_COUNT; i++) {
        m->q[i].value = m->q[i].low = m->q[i].high = NAN;
        for (size_t k = 0; k < SONDE_LOAD_PARTS_MAX; k++) m->q[i].parts[k] = NAN;
    }
    for (size_t k = 0; k < SONDE_LOAD_PARTS_MAX; k++) m->mean_parts[k] = NAN;
}

/* Mean and its interval, from sums and counts of parts. */
static void metric_mean(struct sonde_load_metric *m, const double *sums, const double *counts)
{
    static const uint32_t run[SONDE_LOAD_PARTS_MAX];
    for (size_t i = 0; i < m->part_count; i++) {
        if (counts[i] > 0) m->mean_parts[i] = sums[i] / counts[i];
    }
    const struct sonde_estimate e = sonde_estimate_ratio(sums, counts, run, m->part_count, 0);
    m->mean = e.value;
    if (isinf(e.se_low) || isnan(e.value)) return;
    const double arm = sonde_t_quantile(0.975, e.df) * e.se_low;
    m->mean_low = fmax(e.value - arm, 0);
    m->mean_high = e.value + arm;
}

static double metric_bound(double value, double se, double df, double sign)
{
    return isinf(se) ? NAN : value + sign * sonde_t_quantile(0.975, df) * se;
}

/* Of the values of one part, in order, at ranks[0..n). */
static void metric_parts(const struct sonde_observed *v, size_t count, struct sonde_load_metric *m,
                         const double *counts)
{
    size_t seen[SONDE_LOAD_PARTS_MAX] = { 0 };
    for (size_t i = 0; i < count; i++) {
        const uint32_t p = v[i].part;
        seen[p]++;
        for (size_t k = 0; k < SONDE_LOAD_QUANTILE_COUNT; k++) {
            if (counts[p] < (double)sonde_load_quantile_least((enum sonde_load_quantile_id)k)) {
                continue;
            }
            if ((double)seen[p] >= ceil(metric_rows[k].q * counts[p]) &&
                isnan(m->q[k].parts[p])) {
                m->q[k].parts[p] = v[i].value;
            }
        }
    }
}

int sonde_load_metric_of(struct sonde_observed *v, size_t count, size_t part_count,
                         struct sonde_load_metric *out)
{
    static const uint32_t run[SONDE_LOAD_PARTS_MAX];
    double sums[SONDE_LOAD_PARTS_MAX] = { 0 }, counts[SONDE_LOAD_PARTS_MAX] = { 0 };
    double work[2 * SONDE_LOAD_PARTS_MAX];
    metric_clear(out, part_count);
    out->count = count;
    if (!count) return 0;
    sonde_observed_sort(v, count);
    for (size_t i = 0; i < count; i++) {
        sums[v[i].part] += v[i].value;
        counts[v[i].part]++;
    }
    metric_mean(out, sums, counts);
    metric_parts(v, count, out, counts);
    out->min = v[0].value;
    out->max = v[count - 1].value;
    for (size_t k = 0; k < SONDE_LOAD_QUANTILE_COUNT; k++) {
        struct sonde_load_quantile *q = &out->q[k];
        if (count < sonde_load_quantile_least((enum sonde_load_quantile_id)k)) continue;
        const struct sonde_estimate e =
            sonde_estimate_quantile(v, count, metric_rows[k].q, run, part_count, work);
        q->value = part_count < 2 ? v[(size_t)ceil(metric_rows[k].q * (double)count) - 1].value
                                  : e.value;
        if (part_count < 2) continue;
        q->low = metric_bound(e.value, e.se_low, e.df, -1);
        q->high = metric_bound(e.value, e.se_high, e.df, 1);
    }
    return 0;
}

/* ---- Gaps in buckets ------------------------------------------------------------------------- */

/* All windows of a part added up: rows of buckets. */
struct metric_gaps {
    uint64_t *all;           /* owned: of all parts */
    uint64_t *parts;         /* owned: part_count rows */
    size_t buckets, part_count;
    uint64_t count;
};

/* The value at rank (from 1 on) of a row; NaN = there is none. */
static double metric_gap_at(const uint64_t *row, size_t buckets, double rank)
{
    uint64_t seen = 0;
    for (size_t b = 0; b < buckets; b++) {
        seen += row[b];
        if (row[b] && (double)seen >= rank) return sonde_load_gap_middle_ns(b) * 1e-9;
    }
    return NAN;
}

static int metric_gaps_add(const struct sonde_load_gaps *g, size_t first, size_t end,
                           struct metric_gaps *out)
{
    const size_t windows = end - first, buckets = sonde_load_gap_buckets();
    out->buckets = buckets;
    out->part_count = windows < SONDE_LOAD_PARTS_MAX ? windows : SONDE_LOAD_PARTS_MAX;
    out->all = sonde__calloc(buckets, sizeof(*out->all));
    out->parts = sonde__calloc(out->part_count * buckets + 1, sizeof(*out->parts));
    if (!out->all || !out->parts) return SONDE_ENOMEM;
    for (size_t w = 0; w < windows; w++) {
        const uint32_t *row = g->counts + (first + w) * buckets;
        uint64_t *part = out->parts + (w * out->part_count / windows) * buckets;
        for (size_t b = 0; b < buckets; b++) {
            part[b] += row[b];
            out->all[b] += row[b];
            out->count += row[b];
        }
    }
    return 0;
}

/* Woodruff's interval, as sonde_estimate_quantile has it, of values in buckets. */
static void metric_gap_quantile(const struct metric_gaps *m, double q,
                                struct sonde_load_quantile *out)
{
    static const uint32_t run[SONDE_LOAD_PARTS_MAX];
    double y[SONDE_LOAD_PARTS_MAX] = { 0 }, x[SONDE_LOAD_PARTS_MAX] = { 0 };
    const double n = (double)m->count;
    uint64_t below = 0;
    size_t at = 0;
    while (at + 1 < m->buckets && (double)(below + m->all[at]) < ceil(q * n)) below += m->all[at++];
    const double share = (ceil(q * n) - (double)below) / (double)m->all[at];
    out->value = sonde_load_gap_middle_ns(at) * 1e-9;
    for (size_t p = 0; p < m->part_count; p++) {
        const uint64_t *row = m->parts + p * m->buckets;
        for (size_t b = 0; b < m->buckets; b++) {
            x[p] += (double)row[b];
            if (b < at) y[p] += (double)row[b];
        }
        y[p] += share * (double)row[at];
        if (x[p] >= log(0.025) / log(q)) {
            out->parts[p] = metric_gap_at(row, m->buckets, ceil(q * x[p]));
        }
    }
    if (m->part_count < 2) return;
    const struct sonde_estimate f = sonde_estimate_ratio(y, x, run, m->part_count, q * (1 - q) / n);
    const double arm = isinf(f.se_low) ? INFINITY : sonde_t_quantile(0.975, f.df) * f.se_low;
    if (q - arm > 0) out->low = metric_gap_at(m->all, m->buckets, ceil((q - arm) * n));
    if (q + arm < 1) out->high = metric_gap_at(m->all, m->buckets, ceil((q + arm) * n));
}

int sonde_load_metric_of_gaps(const struct sonde_load_gaps *g, size_t first, size_t end,
                              struct sonde_load_metric *out)
{
    double sums[SONDE_LOAD_PARTS_MAX] = { 0 }, counts[SONDE_LOAD_PARTS_MAX] = { 0 };
    struct metric_gaps m = { 0 };
    metric_clear(out, 0);
    if (first >= end) return 0;
    int rc = metric_gaps_add(g, first, end, &m);
    out->part_count = m.part_count;
    out->count = m.count;
    if (!rc && m.count) {
        for (size_t p = 0; p < m.part_count; p++) {
            for (size_t b = 0; b < m.buckets; b++) {
                const double n = (double)m.parts[p * m.buckets + b];
                counts[p] += n;
                if (n > 0) sums[p] += n * sonde_load_gap_middle_ns(b) * 1e-9;
            }
        }
        metric_mean(out, sums, counts);
        out->min = metric_gap_at(m.all, m.buckets, 1);
        out->max = metric_gap_at(m.all, m.buckets, (double)m.count);
        for (size_t k = 0; k < SONDE_LOAD_QUANTILE_COUNT; k++) {
            if (m.count < sonde_load_quantile_least((enum sonde_load_quantile_id)k)) continue;
            metric_gap_quantile(&m, metric_rows[k].q, &out->q[k]);
        }
    }
    sonde__free(m.all);
    sonde__free(m.parts);
    return rc;
}
