/* activity_scope.c - see activity_scope.h. */
#include "analyze/activity_scope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/final_model.h"
#include "base/array.h"
#include "base/cmp.h"

#define NANOSECONDS 1e-9

static const char family_wall[] = "sonde_resource_wall_seconds";

static struct sonde_activity_scope *scope_of(struct sonde_activity *a,
                                             const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < a->scope_count; i++) {
        struct sonde_activity_scope *x = &a->scopes[i];
        if (!strcmp(x->program, s->program) && !strcmp(x->scope, s->subject)) return x;
    }
    struct sonde_activity_scope *x = SONDE_ARRAY_ADD(a->scopes, a->scope_count, a->scope_cap);
    if (x) *x = (struct sonde_activity_scope){ .program = s->program, .scope = s->subject };
    return x;
}

static struct sonde_activity_throughput *throughput_of(struct sonde_activity *a,
                                                       const struct sonde_final_series *s)
{
    for (uint32_t i = 0; i < a->throughput_count; i++) {
        struct sonde_activity_throughput *x = &a->throughputs[i];
        if (!strcmp(x->program, s->program) && !strcmp(x->scope, s->subject)) return x;
    }
    struct sonde_activity_throughput *x =
        SONDE_ARRAY_ADD(a->throughputs, a->throughput_count, a->throughput_cap);
    if (x) *x = (struct sonde_activity_throughput){ .program = s->program, .scope = s->subject };
    return x;
}

static uint64_t scope_count_of(double v) { return v > 0 ? (uint64_t)(v + 0.5) : 0; }

static int on_resource(struct sonde_activity *a, const struct sonde_final_series *s,
                       const char *figure)
{
    struct sonde_activity_scope *x = scope_of(a, s);
    if (!x) return SONDE_ENOMEM;
    if (!strcmp(figure, "wall_seconds")) {
        x->count += s->count;
        x->wall_s += s->value > 0 ? s->value : 0;
    } else if (!strcmp(figure, "cpu_seconds")) {
        x->cpu_s += s->value > 0 ? s->value : 0;
    } else if (!strcmp(figure, "page_faults_total")) {
        *(!strcmp(s->detail, "major") ? &x->faults_major : &x->faults_minor) +=
            scope_count_of(s->value);
    } else if (!strcmp(figure, "memory_delta_bytes")) {
        if (!strcmp(s->detail, "sum")) x->memory_sum_bytes += s->value;
        else x->memory_last_bytes = s->value; /* of several processes, one's */
    }
    return 0;
}

static int on_throughput(struct sonde_activity *a, const struct sonde_final_series *s,
                         const char *figure)
{
    struct sonde_activity_throughput *x = throughput_of(a, s);
    if (!x) return SONDE_ENOMEM;
    if (!strcmp(figure, "items_total")) x->items += s->value;
    else if (!strcmp(figure, "seconds_total")) x->seconds += s->value;
    else x->last_rate = s->value;
    return 0;
}

int activity_on_scope(struct sonde_activity *a, const struct sonde_final_series *s)
{
    static const char resource[] = "sonde_resource_", throughput[] = "sonde_throughput_";
    if (!strncmp(s->family, resource, sizeof(resource) - 1)) {
        return on_resource(a, s, s->family + sizeof(resource) - 1);
    }
    if (!strncmp(s->family, throughput, sizeof(throughput) - 1)) {
        return on_throughput(a, s, s->family + sizeof(throughput) - 1);
    }
    return 0;
}

static int scope_by_wall(const void *a, const void *b)
{
    const struct sonde_activity_scope *x = a, *y = b;
    if (x->wall_s != y->wall_s) return SONDE_CMP(y->wall_s, x->wall_s);
    return strcmp(x->scope, y->scope);
}

static int throughput_by_items(const void *a, const void *b)
{
    const struct sonde_activity_throughput *x = a, *y = b;
    if (x->items != y->items) return SONDE_CMP(y->items, x->items);
    return strcmp(x->scope, y->scope);
}

static void scope_percentiles(struct sonde_activity_scope *x,
                              const struct sonde_final_series *series, size_t count,
                              const struct sonde_final_series **found)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(series[i].family, family_wall) && !strcmp(series[i].program, x->program) &&
            !strcmp(series[i].subject, x->scope)) {
            found[n++] = &series[i];
        }
    }
    x->wall_mean_s = x->wall_s / (double)x->count;
    x->wall_p95_s = sonde_final_quantile(found, n, 0.95, NANOSECONDS);
    x->wall_max_s = sonde_final_quantile(found, n, 1, NANOSECONDS);
    x->cpu_ratio = x->wall_s > 0 ? x->cpu_s / x->wall_s : NAN;
}

void activity_scopes_finish(struct sonde_activity *a, const struct sonde_final_series *series,
                            size_t count, const struct sonde_final_series **found)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->scope_count; i++) {
        if (!a->scopes[i].count) continue; /* nobody has been in it */
        scope_percentiles(&a->scopes[i], series, count, found);
        a->scopes[kept++] = a->scopes[i];
    }
    a->scope_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < a->throughput_count; i++) {
        struct sonde_activity_throughput *x = &a->throughputs[i];
        if (!(x->seconds > 0)) continue;
        x->rate = x->items / x->seconds;
        a->throughputs[kept++] = *x;
    }
    a->throughput_count = kept;
    if (a->scope_count) qsort(a->scopes, a->scope_count, sizeof(*a->scopes), scope_by_wall);
    if (kept) qsort(a->throughputs, kept, sizeof(*a->throughputs), throughput_by_items);
}
