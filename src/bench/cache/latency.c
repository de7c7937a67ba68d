/* latency.c - names, latencies and results of rows: see cache.h. */
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "bench/cache/cache.h"
#include "sonde/sonde.h"

static const char *const latency_patterns[] = {
#define SONDE__X(id, name) name,
    SONDE_CACHE_PATTERNS(SONDE__X)
};
static const char *const latency_states[] = {
    SONDE_CACHE_STATES(SONDE__X)
#undef SONDE__X
};

const char *sonde_cache_pattern_name(enum sonde_cache_pattern p) { return latency_patterns[p]; }
const char *sonde_cache_state_name(enum sonde_cache_state s) { return latency_states[s]; }

/* ---- Latencies ------------------------------------------------------------------------------- */

/* Below 64 a bucket each; above, every power of two in 64 parts. */
static size_t latency_bucket(uint64_t ns)
{
    if (ns < 64) return (size_t)ns;
    const unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - 6u;
    const size_t i = ((size_t)shift + 1) * 64 + (size_t)(ns >> shift) - 64;
    return i < SONDE_CACHE_BUCKETS ? i : SONDE_CACHE_BUCKETS - 1;
}

static double latency_middle(size_t i)
{
    if (i < 64) return (double)i;
    return ldexp((double)(i % 64 + 64) + 0.5, (int)(i / 64) - 1);
}

void sonde_cache_latency_add(struct sonde_cache_latency *l, uint64_t ns)
{
    l->counts[latency_bucket(ns)]++;
    l->count++;
}

void sonde_cache_latency_merge(struct sonde_cache_latency *into,
                               const struct sonde_cache_latency *from)
{
    for (size_t i = 0; i < SONDE_CACHE_BUCKETS; i++) into->counts[i] += from->counts[i];
    into->count += from->count;
}

double sonde_cache_latency_quantile(const struct sonde_cache_latency *l, double q)
{
    const double n = (double)l->count;
    if (!l->count || n * (1 - q) < 5 - 1e-9) return NAN;
    const uint64_t rank = (uint64_t)ceil(q * n - 1e-9);
    uint64_t seen = 0;
    for (size_t i = 0; i < SONDE_CACHE_BUCKETS; i++) {
        seen += l->counts[i];
        if (seen >= rank) return latency_middle(i) * 1e-9;
    }
    return NAN;
}

/* ---- As a result ----------------------------------------------------------------------------- */

static const struct { const char *name; double q; } latency_quantiles[] = {
    { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 },
};

static double latency_hit_ratio(const struct sonde_cache_row *row)
{
    const uint64_t known = row->hits + row->misses;
    return known ? (double)row->hits / (double)known : NAN;
}

static int latency_row_figures(const struct sonde_cache_row *row, struct sonde_bench_result *r)
{
    char base[64], name[SONDE_BENCH_NAME_MAX + 1];
    snprintf(base, sizeof(base), "%s.%s.%zu%s", sonde_cache_state_name(row->state),
             sonde_cache_pattern_name(row->pattern), row->block, row->threads > 1 ? "/t" : "");
    if (row->threads > 1) {
        snprintf(name, sizeof(name), "%s%u", base, row->threads);
        snprintf(base, sizeof(base), "%.60s", name);
    }
    snprintf(name, sizeof(name), "%s.bytes_per_s", base);
    struct sonde_bench_figure *f = sonde_bench_figure_add(r, name, "bytes/s", 1);
    if (!f || sonde_bench_figure_parts(f, row->rates, row->rate_count)) return SONDE_ENOMEM;
    sonde_bench_figure_mean(f);
    /* Of all of it, not of whole fifths. */
    f->value = row->seconds > 0 ? (double)row->bytes / row->seconds : NAN;
    f->samples = row->reads;
    for (size_t i = 0; i < sizeof(latency_quantiles) / sizeof(latency_quantiles[0]); i++) {
        snprintf(name, sizeof(name), "%s.latency_s.%s", base, latency_quantiles[i].name);
        f = sonde_bench_figure_add(r, name, "s", -1);
        if (!f) return SONDE_ENOMEM;
        f->value = sonde_cache_latency_quantile(&row->latency, latency_quantiles[i].q);
        f->samples = row->latency.count;
    }
    snprintf(name, sizeof(name), "%s.hit_ratio", base);
    f = sonde_bench_figure_add(r, name, "ratio", 1);
    if (!f) return SONDE_ENOMEM;
    f->value = latency_hit_ratio(row);
    f->samples = row->hits + row->misses;
    return 0;
}

static void latency_row_json(const struct sonde_cache_row *row, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "state", sonde_cache_state_name(row->state));
    sonde_json_str(out, "pattern", sonde_cache_pattern_name(row->pattern));
    sonde_json_u64(out, "block_bytes", row->block);
    sonde_json_u64(out, "threads", row->threads);
    sonde_json_bool(out, "measured", row->measured);
    sonde_json_str(out, "why", row->why[0] ? row->why : NULL);
    if (row->measured) {
        sonde_json_u64(out, "reads", row->reads);
        sonde_json_u64(out, "bytes", row->bytes);
        sonde_json_num(out, "seconds", row->seconds);
        sonde_json_num(out, "bytes_per_s", (double)row->bytes / row->seconds);
        sonde_json_u64(out, "hits", row->hits);
        sonde_json_u64(out, "misses", row->misses);
        sonde_json_num(out, "hit_ratio", latency_hit_ratio(row));
        sonde_json_num(out, "resident_before", row->resident_before);
        sonde_json_u64(out, "errors", row->errors);
        sonde_json_u64(out, "revalidated", row->revalidated);
        sonde_json_u64(out, "connects", row->connects);
        sonde_json_key_open(out, "latency_s", '{');
        for (size_t i = 0; i < sizeof(latency_quantiles) / sizeof(latency_quantiles[0]); i++) {
            sonde_json_num(out, latency_quantiles[i].name,
                           sonde_cache_latency_quantile(&row->latency, latency_quantiles[i].q));
        }
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

int sonde_cache_result(const struct sonde_cache_row *rows, size_t count,
                       const struct sonde_cache_target *target, struct sonde_bench_result *r)
{
    struct sonde_buf *out = &r->extra;
    int rc = 0;
    sonde_json_u64(out, "bytes", target->bytes);
    sonde_json_u64(out, "bytes_all", target->bytes_all);
    sonde_json_str(out, "target", target->what);
    sonde_json_bool(out, "in_memory", target->in_memory);
    sonde_json_key_open(out, "rows", '[');
    for (size_t i = 0; i < count; i++) latency_row_json(&rows[i], out);
    sonde_json_close(out, ']');
    for (size_t i = 0; i < count && !rc; i++) {
        if (rows[i].measured) rc = latency_row_figures(&rows[i], r);
    }
    return rc ? rc : out->error;
}
