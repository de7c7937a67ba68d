/* activity.c - see activity.h. */
#include "analyze/activity.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/activity_scope.h"
#include "analyze/final_model.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

#define NANOSECONDS 1e-9 /* what durations are recorded in */

static const char *const outcome_names[] = {
#define SONDE__X(id, name) name,
    SONDE_ACTIVITY_OUTCOMES(SONDE__X)
#undef SONDE__X
};

const char *sonde_activity_outcome_name(enum sonde_activity_outcome o)
{
    assert((size_t)o < SONDE_COUNT(outcome_names));
    return outcome_names[o];
}

static uint64_t activity_count_of(double v) { return v > 0 ? (uint64_t)(v + 0.5) : 0; }

/* Per second of the time that the series has counted. */
static double activity_rate(double total, const struct sonde_final_series *s)
{
    return s->seconds > 0 ? total / s->seconds : NAN;
}

static int activity_is(const struct sonde_final_series *s, const char *program, const char *subject)
{
    return !strcmp(s->program, program) && !strcmp(s->subject, subject);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static struct sonde_activity_operation *activity_operation_find(const struct sonde_activity *a,
                                                                const char *program,
                                                                const char *operation)
{
    for (uint32_t i = 0; i < a->operation_count; i++) {
        struct sonde_activity_operation *o = &a->operations[i];
        if (!strcmp(o->program, program) && !strcmp(o->operation, operation)) return o;
    }
    return NULL;
}

static int activity_on_operation(struct sonde_activity *a, const struct sonde_final_series *s)
{
    if (!s->count) return 0; /* defined, and never done */
    struct sonde_activity_operation *o = activity_operation_find(a, s->program, s->subject);
    if (!o) {
        o = SONDE_ARRAY_ADD(a->operations, a->operation_count, a->operation_cap);
        if (!o) return SONDE_ENOMEM;
        *o = (struct sonde_activity_operation){ .program = s->program, .operation = s->subject };
    }
    size_t outcome = 0;
    while (outcome < SONDE_COUNT(outcome_names) && strcmp(outcome_names[outcome], s->detail) != 0) {
        outcome++;
    }
    if (outcome == SONDE_COUNT(outcome_names)) outcome = SONDE_ACTIVITY_ERROR;
    o->outcomes[outcome] += s->count;
    o->count += s->count;
    if (outcome != SONDE_ACTIVITY_OK) o->errors += s->count;
    o->seconds += s->value > 0 ? s->value : 0;
    o->rate += activity_rate((double)s->count, s);
    return 0;
}

/* Percentiles need the histograms of all outcomes and processes at once. */
static void activity_percentiles(struct sonde_activity_operation *o,
                                 const struct sonde_final_series *series, size_t count,
                                 const struct sonde_final_series **found)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(series[i].family, "sonde_operation_duration_seconds") &&
            activity_is(&series[i], o->program, o->operation)) {
            found[n++] = &series[i];
        }
    }
    o->mean_s = o->seconds / (double)o->count;
    o->p50_s = sonde_final_quantile(found, n, 0.5, NANOSECONDS);
    o->p95_s = sonde_final_quantile(found, n, 0.95, NANOSECONDS);
    o->p99_s = sonde_final_quantile(found, n, 0.99, NANOSECONDS);
    o->max_s = sonde_final_quantile(found, n, 1, NANOSECONDS);
}

static int activity_by_time(const void *a, const void *b)
{
    const struct sonde_activity_operation *x = a, *y = b;
    if (x->seconds != y->seconds) return SONDE_CMP(y->seconds, x->seconds);
    const int name = strcmp(x->operation, y->operation);
    return name ? name : strcmp(x->program, y->program);
}

/* ---- Errors, caches, bandwidth --------------------------------------------------------------- */

static int activity_on_error(struct sonde_activity *a, const struct sonde_final_series *s)
{
    const uint64_t n = activity_count_of(s->value);
    struct sonde_activity_error *e = a->errors, *end = e + a->error_count;
    if (!n) return 0;
    while (e < end && !(activity_is(s, e->program, e->operation) && !strcmp(e->type, s->detail))) {
        e++;
    }
    if (e == end) {
        e = SONDE_ARRAY_ADD(a->errors, a->error_count, a->error_cap);
        if (!e) return SONDE_ENOMEM;
        *e = (struct sonde_activity_error){ .program = s->program, .operation = s->subject,
                                            .type = s->detail };
    }
    e->count += n;
    e->rate += activity_rate((double)n, s);
    return 0;
}

static int activity_on_cache(struct sonde_activity *a, const struct sonde_final_series *s)
{
    const uint64_t n = activity_count_of(s->value);
    struct sonde_activity_cache *c = a->caches, *end = c + a->cache_count;
    if (!n) return 0;
    while (c < end && !activity_is(s, c->program, c->tier)) c++;
    if (c == end) {
        c = SONDE_ARRAY_ADD(a->caches, a->cache_count, a->cache_cap);
        if (!c) return SONDE_ENOMEM;
        *c = (struct sonde_activity_cache){ .program = s->program, .tier = s->subject };
    }
    *(!strcmp(s->detail, "hit") ? &c->hits : &c->misses) += n;
    c->rate += activity_rate((double)n, s);
    return 0;
}

static int activity_on_bandwidth(struct sonde_activity *a, const struct sonde_final_series *s)
{
    struct sonde_activity_bandwidth *b = a->bandwidths, *end = b + a->bandwidth_count;
    if (!(s->value > 0)) return 0;
    while (b < end && !activity_is(s, b->program, b->source)) b++;
    if (b == end) {
        b = SONDE_ARRAY_ADD(a->bandwidths, a->bandwidth_count, a->bandwidth_cap);
        if (!b) return SONDE_ENOMEM;
        *b = (struct sonde_activity_bandwidth){ .program = s->program, .source = s->subject };
    }
    const int in = !strcmp(s->detail, "in");
    *(in ? &b->in_bytes : &b->out_bytes) += s->value;
    *(in ? &b->in_rate : &b->out_rate) += activity_rate(s->value, s);
    return 0;
}

static int activity_by_errors(const void *a, const void *b)
{
    const struct sonde_activity_error *x = a, *y = b;
    if (x->count != y->count) return SONDE_CMP(y->count, x->count);
    const int name = strcmp(x->operation, y->operation);
    return name ? name : strcmp(x->type, y->type);
}

static int activity_by_lookups(const void *a, const void *b)
{
    const struct sonde_activity_cache *x = a, *y = b;
    const uint64_t nx = x->hits + x->misses, ny = y->hits + y->misses;
    return nx != ny ? SONDE_CMP(ny, nx) : strcmp(x->tier, y->tier);
}

static int activity_by_bytes(const void *a, const void *b)
{
    const struct sonde_activity_bandwidth *x = a, *y = b;
    const double nx = x->in_bytes + x->out_bytes, ny = y->in_bytes + y->out_bytes;
    return nx != ny ? SONDE_CMP(ny, nx) : strcmp(x->source, y->source);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int activity_on_series(struct sonde_activity *a, const struct sonde_final_series *s)
{
    if (!strcmp(s->family, "sonde_operation_duration_seconds")) return activity_on_operation(a, s);
    if (!strcmp(s->family, "sonde_operation_errors_total")) return activity_on_error(a, s);
    if (!strcmp(s->family, "sonde_cache_accesses_total")) return activity_on_cache(a, s);
    if (!strcmp(s->family, "sonde_bandwidth_bytes_total")) return activity_on_bandwidth(a, s);
    return activity_on_scope(a, s);
}

static void activity_note_program(struct sonde_activity *a, const char **first, const char *program)
{
    if (*first && strcmp(*first, program) != 0) a->several = 1;
    *first = program;
}

static void activity_note_programs(struct sonde_activity *a)
{
    const char *first = NULL;
    for (uint32_t i = 0; i < a->operation_count; i++) {
        activity_note_program(a, &first, a->operations[i].program);
    }
    for (uint32_t i = 0; i < a->error_count; i++) {
        activity_note_program(a, &first, a->errors[i].program);
    }
    for (uint32_t i = 0; i < a->cache_count; i++) {
        activity_note_program(a, &first, a->caches[i].program);
    }
    for (uint32_t i = 0; i < a->bandwidth_count; i++) {
        activity_note_program(a, &first, a->bandwidths[i].program);
    }
    for (uint32_t i = 0; i < a->scope_count; i++) {
        activity_note_program(a, &first, a->scopes[i].program);
    }
    for (uint32_t i = 0; i < a->throughput_count; i++) {
        activity_note_program(a, &first, a->throughputs[i].program);
    }
}

static void activity_sort(void *rows, uint32_t count, size_t size,
                          int (*order)(const void *, const void *))
{
    if (count) qsort(rows, count, size, order);
}

static int activity_finish(struct sonde_activity *a, const struct sonde_final_series *series,
                           size_t count)
{
    const struct sonde_final_series **found = sonde__alloc((count + 1) * sizeof(*found));
    if (!found) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < a->operation_count; i++) {
        activity_percentiles(&a->operations[i], series, count, found);
    }
    activity_scopes_finish(a, series, count, found);
    sonde__free(found);
    for (uint32_t i = 0; i < a->error_count; i++) {
        struct sonde_activity_error *e = &a->errors[i];
        const struct sonde_activity_operation *o =
            activity_operation_find(a, e->program, e->operation);
        e->share = o ? (double)e->count / (double)o->count : NAN;
    }
    for (uint32_t i = 0; i < a->cache_count; i++) {
        struct sonde_activity_cache *c = &a->caches[i];
        c->hit_ratio = (double)c->hits / (double)(c->hits + c->misses);
    }
    activity_note_programs(a);
    activity_sort(a->operations, a->operation_count, sizeof(*a->operations), activity_by_time);
    activity_sort(a->errors, a->error_count, sizeof(*a->errors), activity_by_errors);
    activity_sort(a->caches, a->cache_count, sizeof(*a->caches), activity_by_lookups);
    activity_sort(a->bandwidths, a->bandwidth_count, sizeof(*a->bandwidths), activity_by_bytes);
    return 0;
}

int sonde_activity_build(const struct sonde_final_series *series, size_t count,
                         struct sonde_activity **out)
{
    struct sonde_activity *a = sonde__calloc(1, sizeof(*a));
    int rc = a ? 0 : SONDE_ENOMEM;
    *out = NULL;
    for (size_t i = 0; !rc && i < count; i++) rc = activity_on_series(a, &series[i]);
    if (!rc) rc = activity_finish(a, series, count);
    const int any = !rc && (a->operation_count || a->error_count || a->cache_count ||
                            a->bandwidth_count || a->scope_count || a->throughput_count);
    if (any) *out = a;
    else sonde_activity_destroy(a);
    return rc;
}

void sonde_activity_destroy(struct sonde_activity *a)
{
    if (!a) return;
    sonde__free(a->operations);
    sonde__free(a->errors);
    sonde__free(a->caches);
    sonde__free(a->bandwidths);
    sonde__free(a->scopes);
    sonde__free(a->throughputs);
    sonde__free(a);
}
