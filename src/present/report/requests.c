/* requests.c - which requests, in which order: see requests.h. */
#include "present/report/requests.h"

#include <assert.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "base/trace_id.h"

enum { LIMIT_DEFAULT = 100 };

const char *const sonde_requests_sorts[] = {
#define SONDE__X(id, name) name,
    SONDE_REQUESTS_SORTS(SONDE__X)
#undef SONDE__X
    NULL,
};

int sonde_requests_sort_find(const char *name)
{
    for (int i = 0; sonde_requests_sorts[i]; i++) {
        if (!strcmp(name, sonde_requests_sorts[i])) return i;
    }
    return -1;
}

static const struct { const char *name, *unit; } metrics[] = {
    { "", "" },
#define SONDE__X(id, text, of) { text, of },
    SONDE_REQUEST_METRICS(SONDE__X)
#undef SONDE__X
};

int sonde_request_metric_find(const char *name)
{
    for (int i = 1; i < SONDE_METRIC_COUNT; i++) {
        if (!strcmp(name, metrics[i].name)) return i;
    }
    return -1;
}

const char *sonde_request_metric_name(enum sonde_request_metric metric)
{
    assert(metric < SONDE_METRIC_COUNT);
    return metrics[metric].name;
}

const char *sonde_request_metric_unit(enum sonde_request_metric metric)
{
    assert(metric < SONDE_METRIC_COUNT);
    return metrics[metric].unit;
}

int sonde_request_metric(const struct sonde_infer_request *r, enum sonde_request_metric metric,
                         double *out)
{
    assert(metric < SONDE_METRIC_COUNT);
    const int whole = !(r->flags & SONDE_INFER_INCOMPLETE);
    int known = 0;
    if ((r->flags & SONDE_INFER_RUNNING) || *r->invalid) return 0;
    switch (metric) {
    case SONDE_METRIC_TTFT:
        known = sonde_infer_has_ttft(r);
        *out = r->ttft_s;
        break;
    case SONDE_METRIC_ITL:
        known = r->itl_count > 0;
        *out = r->itl_s;
        break;
    case SONDE_METRIC_QUEUE:
        known = whole && r->phase_count[SONDE_PHASE_QUEUE] > 0;
        *out = sonde_infer_queue_s(r);
        break;
    case SONDE_METRIC_TOKENS_PER_S:
        known = whole && r->tokens_out > 0;
        *out = r->tokens_per_s;
        break;
    default:
        known = whole;
        *out = r->total_s;
        break;
    }
    return known;
}

/* Bounds of time come as decimal fractions in a double, which at today's times is good to a quarter
 * of a microsecond. Rounded to a whole one they are what was written, so that a request at a bound
 * is on the same side of it whoever computes. */
static int64_t requests_microseconds(double s) { return (int64_t)llround(s * 1e6); }

static int is_in_time(const struct sonde_requests_query *q, const struct sonde_infer_request *r)
{
    const int64_t arrived_us = (int64_t)(r->arrived_ns / 1000);
    if (q->from_s > 0 && arrived_us < requests_microseconds(q->from_s)) return 0;
    return !(q->to_s > 0) || arrived_us < requests_microseconds(q->to_s);
}

static int is_in_bounds(const struct sonde_requests_query *q, const struct sonde_infer_request *r)
{
    double v;
    if (q->metric == SONDE_METRIC_NONE) return 1;
    if (!sonde_request_metric(r, q->metric, &v) || v < q->metric_min) return 0;
    return !(q->metric_max > 0) || v < q->metric_max;
}

int sonde_request_passes(const struct sonde_requests_query *q,
                         const struct sonde_infer_request *r)
{
    const int running = (r->flags & SONDE_INFER_RUNNING) != 0;
    if (q->state == SONDE_REQUESTS_RUNNING && !running) return 0;
    if (q->state == SONDE_REQUESTS_DONE && running) return 0;
    if (q->outcome >= 0 && (running || r->outcome != (uint32_t)q->outcome)) return 0;
    if (q->source >= 0 && r->source != (uint32_t)q->source) return 0;
    if (q->pid && r->pid != q->pid) return 0;
    if (r->total_s < q->min_s) return 0;
    if (!is_in_time(q, r) || !is_in_bounds(q, r)) return 0;
    if ((q->trace_hi || q->trace_lo) &&
        (r->trace_hi != q->trace_hi || r->trace_lo != q->trace_lo)) {
        return 0;
    }
    if (q->process && fnmatch(q->process, r->program, 0) != 0) return 0;
    if (q->model && fnmatch(q->model, r->model, 0) != 0) return 0;
    return !q->route || fnmatch(q->route, r->route, 0) == 0;
}

static double requests_key_of(enum sonde_requests_sort sort, const struct sonde_infer_request *r)
{
    switch (sort) {
    case SONDE_REQUESTS_NEWEST:
    case SONDE_REQUESTS_OLDEST: return 0; /* to the nanosecond: below */
    case SONDE_REQUESTS_TTFT: return sonde_infer_has_ttft(r) ? r->ttft_s : -1;
    case SONDE_REQUESTS_ITL: return r->itl_count ? r->itl_s : -1;
    case SONDE_REQUESTS_QUEUE: return sonde_infer_queue_s(r);
    case SONDE_REQUESTS_TOKENS: return (double)r->tokens_out;
    default: return r->total_s;
    }
}

int sonde_requests_compare(enum sonde_requests_sort by, const struct sonde_infer_request *x,
                           const struct sonde_infer_request *y)
{
    const double v = requests_key_of(by, x), w = requests_key_of(by, y);
    if (v != w) return SONDE_CMP(w, v);
    if (x->arrived_ns != y->arrived_ns) {
        return (x->arrived_ns > y->arrived_ns) == (by != SONDE_REQUESTS_OLDEST) ? -1 : 1;
    }
    return SONDE_CMP(x->id, y->id);
}

static int requests_by_key(const void *a, const void *b, void *sort)
{
    return sonde_requests_compare(*(const enum sonde_requests_sort *)sort,
                                  *(const struct sonde_infer_request *const *)a,
                                  *(const struct sonde_infer_request *const *)b);
}

size_t sonde_requests_select(const struct sonde_requests_query *q,
                             const struct sonde_infer_request **list, size_t count, size_t *total)
{
    enum sonde_requests_sort sort = q->sort;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (sonde_request_passes(q, list[i])) list[kept++] = list[i];
    }
    if (kept > 1) qsort_r(list, kept, sizeof(*list), requests_by_key, &sort);
    if (total) *total = kept;
    const size_t limit = q->limit ? q->limit : LIMIT_DEFAULT;
    return kept < limit ? kept : limit;
}

int sonde_request_is(const struct sonde_infer_request *r, const char *text)
{
    if (!*text) return 0;
    if (!strcmp(text, r->own_id)) return 1;
    char number[17];
    uint64_t hi, lo;
    snprintf(number, sizeof(number), "%016" PRIx64, r->id);
    if (!strcasecmp(text, number)) return 1;
    return sonde_trace_id_parse(text, &hi, &lo) && r->trace_hi == hi && r->trace_lo == lo;
}

const char *sonde_request_name(const struct sonde_infer_request *r, char out[SONDE_REQUEST_NAME])
{
    if (r->own_id[0]) snprintf(out, SONDE_REQUEST_NAME, "%s", r->own_id);
    else snprintf(out, SONDE_REQUEST_NAME, "%016" PRIx64, r->id);
    return out;
}
