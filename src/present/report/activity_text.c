/* activity_text.c - operations, errors, caches, bandwidth and scopes of a report as text or
 * Markdown. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "present/report/activity.h"
#include "present/report/profile_private.h"
#include "present/units.h"

struct activity_text {               /* what all parts are written with */
    const struct sonde_activity *a;
    const struct sonde_report_options *o;
    size_t limit;
    struct sonde_buf *out;
};

/* An empty cell is what is not known. */
static void activity_cell(const struct activity_text *x, struct sonde_table *t, size_t column,
                          double v, enum sonde_unit unit)
{
    char text[SONDE_VALUE_BYTES];
    if (!isnan(v)) {
        sonde_table_cell(t, column, "%s", sonde_value_format(text, v, unit, x->o->ascii));
    }
}

static void activity_name_cell(const struct activity_text *x, struct sonde_table *t,
                               const char *name, const char *program)
{
    if (x->a->several) sonde_table_cell(t, 0, "%s of %s", name, program);
    else sonde_table_cell(t, 0, "%s", name);
}

static void activity_table_put(const struct activity_text *x, const char *title, size_t count,
                               struct sonde_table *t)
{
    char text[96];
    snprintf(text, sizeof(text), "%s", title);
    if (count > x->limit) {
        snprintf(text, sizeof(text), "%s, the first %zu of %zu", title, x->limit, count);
    }
    report_put_table(x->o, text, t, x->out);
}

static void activity_operations(const struct activity_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "OPERATION", .min = 8 }, { .title = "COUNT", .align = SONDE_RIGHT },
        { .title = "PER SECOND", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "ERRORS", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "TIME", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "AVG", .align = SONDE_RIGHT }, { .title = "P50", .align = SONDE_RIGHT },
        { .title = "P95", .align = SONDE_RIGHT }, { .title = "P99", .align = SONDE_RIGHT },
        { .title = "MAX", .align = SONDE_RIGHT, .drop = 3 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->a->operation_count && i < x->limit; i++) {
        const struct sonde_activity_operation *o = &x->a->operations[i];
        const double times[] = { o->seconds, o->mean_s, o->p50_s, o->p95_s, o->p99_s, o->max_s };
        sonde_table_row(&t);
        activity_name_cell(x, &t, o->operation, o->program);
        sonde_table_cell(&t, 1, "%" PRIu64, o->count);
        activity_cell(x, &t, 2, o->rate, SONDE_UNIT_COUNT);
        sonde_table_cell(&t, 3, "%" PRIu64, o->errors);
        report_percent_cell(&t, 4, (double)o->errors / (double)o->count);
        for (size_t k = 0; k < SONDE_COUNT(times); k++) {
            activity_cell(x, &t, 5 + k, times[k], SONDE_UNIT_SECONDS);
        }
    }
    activity_table_put(x, "Operations", x->a->operation_count, &t);
}

static void activity_errors(const struct activity_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "OPERATION", .min = 8 }, { .title = "ERROR", .min = 8 },
        { .title = "COUNT", .align = SONDE_RIGHT }, { .title = "PER SECOND", .align = SONDE_RIGHT },
        { .title = "% OF OPERATION", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->a->error_count && i < x->limit; i++) {
        const struct sonde_activity_error *e = &x->a->errors[i];
        sonde_table_row(&t);
        activity_name_cell(x, &t, e->operation, e->program);
        sonde_table_cell(&t, 1, "%s", e->type);
        sonde_table_cell(&t, 2, "%" PRIu64, e->count);
        activity_cell(x, &t, 3, e->rate, SONDE_UNIT_COUNT);
        if (!isnan(e->share)) report_percent_cell(&t, 4, e->share);
    }
    activity_table_put(x, "Errors by type", x->a->error_count, &t);
}

static void activity_caches(const struct activity_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "CACHE", .min = 8 }, { .title = "LOOK-UPS", .align = SONDE_RIGHT },
        { .title = "PER SECOND", .align = SONDE_RIGHT }, { .title = "HITS", .align = SONDE_RIGHT },
        { .title = "MISSES", .align = SONDE_RIGHT }, { .title = "HIT %", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->a->cache_count && i < x->limit; i++) {
        const struct sonde_activity_cache *c = &x->a->caches[i];
        sonde_table_row(&t);
        activity_name_cell(x, &t, c->tier, c->program);
        sonde_table_cell(&t, 1, "%" PRIu64, c->hits + c->misses);
        activity_cell(x, &t, 2, c->rate, SONDE_UNIT_COUNT);
        sonde_table_cell(&t, 3, "%" PRIu64, c->hits);
        sonde_table_cell(&t, 4, "%" PRIu64, c->misses);
        report_percent_cell(&t, 5, c->hit_ratio);
    }
    activity_table_put(x, "Caches", x->a->cache_count, &t);
}

static void activity_bandwidth(const struct activity_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "SOURCE", .min = 8 }, { .title = "IN", .align = SONDE_RIGHT },
        { .title = "PER SECOND", .align = SONDE_RIGHT }, { .title = "OUT", .align = SONDE_RIGHT },
        { .title = "PER SECOND", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->a->bandwidth_count && i < x->limit; i++) {
        const struct sonde_activity_bandwidth *b = &x->a->bandwidths[i];
        sonde_table_row(&t);
        activity_name_cell(x, &t, b->source, b->program);
        activity_cell(x, &t, 1, b->in_bytes, SONDE_UNIT_BYTES);
        activity_cell(x, &t, 2, b->in_rate, SONDE_UNIT_BYTES);
        activity_cell(x, &t, 3, b->out_bytes, SONDE_UNIT_BYTES);
        activity_cell(x, &t, 4, b->out_rate, SONDE_UNIT_BYTES);
    }
    activity_table_put(x, "Bandwidth", x->a->bandwidth_count, &t);
}

static void activity_scopes(const struct activity_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "SCOPE", .min = 8 }, { .title = "COUNT", .align = SONDE_RIGHT },
        { .title = "TIME", .align = SONDE_RIGHT }, { .title = "CPU", .align = SONDE_RIGHT },
        { .title = "CPU %", .align = SONDE_RIGHT }, { .title = "AVG", .align = SONDE_RIGHT },
        { .title = "P95", .align = SONDE_RIGHT },
        { .title = "MAX", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "FAULTS", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "MEMORY", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->a->scope_count && i < x->limit; i++) {
        const struct sonde_activity_scope *s = &x->a->scopes[i];
        sonde_table_row(&t);
        activity_name_cell(x, &t, s->scope, s->program);
        sonde_table_cell(&t, 1, "%" PRIu64, s->count);
        activity_cell(x, &t, 2, s->wall_s, SONDE_UNIT_SECONDS);
        activity_cell(x, &t, 3, s->cpu_s, SONDE_UNIT_SECONDS);
        if (!isnan(s->cpu_ratio)) report_percent_cell(&t, 4, s->cpu_ratio);
        activity_cell(x, &t, 5, s->wall_mean_s, SONDE_UNIT_SECONDS);
        activity_cell(x, &t, 6, s->wall_p95_s, SONDE_UNIT_SECONDS);
        activity_cell(x, &t, 7, s->wall_max_s, SONDE_UNIT_SECONDS);
        sonde_table_cell(&t, 8, "%" PRIu64, s->faults_minor + s->faults_major);
        activity_cell(x, &t, 9, s->memory_sum_bytes, SONDE_UNIT_BYTES);
    }
    activity_table_put(x, "Scopes", x->a->scope_count, &t);
}

static void activity_throughputs(const struct activity_text *x)
{
    static const struct sonde_column columns[] = {
        { .title = "SCOPE", .min = 8 }, { .title = "ITEMS", .align = SONDE_RIGHT },
        { .title = "TIME", .align = SONDE_RIGHT },
        { .title = "ITEMS/S", .align = SONDE_RIGHT }, { .title = "LAST", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < x->a->throughput_count && i < x->limit; i++) {
        const struct sonde_activity_throughput *s = &x->a->throughputs[i];
        sonde_table_row(&t);
        activity_name_cell(x, &t, s->scope, s->program);
        activity_cell(x, &t, 1, s->items, SONDE_UNIT_COUNT);
        activity_cell(x, &t, 2, s->seconds, SONDE_UNIT_SECONDS);
        activity_cell(x, &t, 3, s->rate, SONDE_UNIT_COUNT);
        activity_cell(x, &t, 4, s->last_rate, SONDE_UNIT_COUNT);
    }
    activity_table_put(x, "Throughput", x->a->throughput_count, &t);
}

void sonde_activity_report(const struct sonde_activity *a, const struct sonde_report_options *o,
                           size_t limit, struct sonde_buf *out)
{
    const struct activity_text x = { a, o, limit, out };
    if (!a) return;
    if (a->operation_count) activity_operations(&x);
    if (a->error_count) activity_errors(&x);
    if (a->cache_count) activity_caches(&x);
    if (a->bandwidth_count) activity_bandwidth(&x);
    if (a->scope_count) activity_scopes(&x);
    if (a->throughput_count) activity_throughputs(&x);
}
