/* activity_json.c - operations, errors, caches, bandwidth and scopes of a report for programs. */
#include <math.h>

#include "base/json.h"
#include "present/report/activity.h"

/* To six decimals: more is noise. */
static void activity_json_share(struct sonde_buf *out, const char *key, double share)
{
    sonde_json_num(out, key, round(share * 1e6) / 1e6);
}

static void activity_json_operation(struct sonde_buf *out,
                                    const struct sonde_activity_operation *o)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", o->program);
    sonde_json_str(out, "operation", o->operation);
    sonde_json_u64(out, "count", o->count);
    sonde_json_num(out, "rate_per_s", o->rate);
    sonde_json_u64(out, "errors", o->errors);
    activity_json_share(out, "error_ratio", (double)o->errors / (double)o->count);
    sonde_json_key_open(out, "outcomes", '{');
    for (int i = 0; i < SONDE_ACTIVITY_OUTCOME_COUNT; i++) {
        if (!o->outcomes[i]) continue;
        sonde_json_u64(out, sonde_activity_outcome_name((enum sonde_activity_outcome)i),
                       o->outcomes[i]);
    }
    sonde_json_close(out, '}');
    sonde_json_num(out, "seconds", o->seconds);
    sonde_json_num(out, "mean_s", o->mean_s);
    sonde_json_num(out, "p50_s", o->p50_s);
    sonde_json_num(out, "p95_s", o->p95_s);
    sonde_json_num(out, "p99_s", o->p99_s);
    sonde_json_num(out, "max_s", o->max_s);
    sonde_json_close(out, '}');
}

static void activity_json_error(struct sonde_buf *out, const struct sonde_activity_error *e)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", e->program);
    sonde_json_str(out, "operation", e->operation);
    sonde_json_str(out, "type", e->type);
    sonde_json_u64(out, "count", e->count);
    sonde_json_num(out, "rate_per_s", e->rate);
    activity_json_share(out, "share", e->share);
    sonde_json_close(out, '}');
}

static void activity_json_cache(struct sonde_buf *out, const struct sonde_activity_cache *c)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", c->program);
    sonde_json_str(out, "tier", c->tier);
    sonde_json_u64(out, "hits", c->hits);
    sonde_json_u64(out, "misses", c->misses);
    activity_json_share(out, "hit_ratio", c->hit_ratio);
    sonde_json_num(out, "rate_per_s", c->rate);
    sonde_json_close(out, '}');
}

static void activity_json_bandwidth(struct sonde_buf *out,
                                    const struct sonde_activity_bandwidth *b)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", b->program);
    sonde_json_str(out, "source", b->source);
    sonde_json_num(out, "in_bytes", b->in_bytes);
    sonde_json_num(out, "out_bytes", b->out_bytes);
    sonde_json_num(out, "in_bytes_per_s", b->in_rate);
    sonde_json_num(out, "out_bytes_per_s", b->out_rate);
    sonde_json_close(out, '}');
}

static void activity_json_scope(struct sonde_buf *out, const struct sonde_activity_scope *s)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", s->program);
    sonde_json_str(out, "scope", s->scope);
    sonde_json_u64(out, "count", s->count);
    sonde_json_num(out, "wall_seconds", s->wall_s);
    sonde_json_num(out, "cpu_seconds", s->cpu_s);
    activity_json_share(out, "cpu_ratio", s->cpu_ratio);
    sonde_json_num(out, "mean_s", s->wall_mean_s);
    sonde_json_num(out, "p95_s", s->wall_p95_s);
    sonde_json_num(out, "max_s", s->wall_max_s);
    sonde_json_u64(out, "page_faults_minor", s->faults_minor);
    sonde_json_u64(out, "page_faults_major", s->faults_major);
    sonde_json_num(out, "memory_last_bytes", s->memory_last_bytes);
    sonde_json_num(out, "memory_sum_bytes", s->memory_sum_bytes);
    sonde_json_close(out, '}');
}

static void activity_json_throughput(struct sonde_buf *out,
                                     const struct sonde_activity_throughput *t)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "program", t->program);
    sonde_json_str(out, "scope", t->scope);
    sonde_json_num(out, "items", t->items);
    sonde_json_num(out, "seconds", t->seconds);
    sonde_json_num(out, "items_per_s", t->rate);
    sonde_json_num(out, "last_items_per_s", t->last_rate);
    sonde_json_close(out, '}');
}

void sonde_activity_json(const struct sonde_activity *a, struct sonde_buf *out)
{
    if (!a) return;
#define PUT_ROWS(key, rows, row_count, put)                                                    \
    if (a->row_count) {                                                                        \
        sonde_json_key_open(out, key, '[');                                                    \
        for (uint32_t i = 0; i < a->row_count; i++) put(out, &a->rows[i]);                     \
        sonde_json_close(out, ']');                                                            \
    }
    PUT_ROWS("operations", operations, operation_count, activity_json_operation)
    PUT_ROWS("operation_errors", errors, error_count, activity_json_error)
    PUT_ROWS("caches", caches, cache_count, activity_json_cache)
    PUT_ROWS("bandwidth", bandwidths, bandwidth_count, activity_json_bandwidth)
    PUT_ROWS("scopes", scopes, scope_count, activity_json_scope)
    PUT_ROWS("throughput", throughputs, throughput_count, activity_json_throughput)
#undef PUT_ROWS
}
