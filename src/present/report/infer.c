/* infer.c - the figures of a report on inference: see infer.h. */
#include "present/report/infer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "present/report/requests.h"
#include "sonde/sonde.h"

enum { PARTS_MAX = 200, SLOWEST_MAX = 10 };

#define SONDE__X(id, key, title) key,
const char *const infer_measure_keys[] = { INFER_MEASURES(SONDE__X) };
#undef SONDE__X
#define SONDE__X(id, key, title) title,
const char *const infer_measure_titles[] = { INFER_MEASURES(SONDE__X) };
#undef SONDE__X

/* NaN: it has none. */
static double infer_report_measure(const struct sonde_infer_request *r, enum infer_measure m)
{
    const int well = r->outcome == SONDE_OK && !(r->flags & SONDE_INFER_INCOMPLETE);
    if (*r->invalid || r->outcome == SONDE_INFER_LOST) return NAN;
    switch (m) {
    case INFER_TTFT: return sonde_infer_has_ttft(r) ? r->ttft_s : NAN;
    case INFER_ITL: return r->itl_count ? r->itl_s : NAN;
    case INFER_GAP: return r->itl_count ? r->itl_max_s : NAN;
    case INFER_QUEUE: return r->phase_count[SONDE_PHASE_QUEUE] ? sonde_infer_queue_s(r) : NAN;
    case INFER_TOTAL: return well ? r->total_s : NAN;
    case INFER_RATE: return well && r->tokens_out ? r->tokens_per_s : NAN;
    default: return NAN;
    }
}

/* The smallest value that at least q of all do not exceed. */
static double infer_report_rank(const double *sorted, size_t n, double q)
{
    const double at = ceil(q * (double)n);
    return sorted[at < 1 ? 0 : (size_t)at - 1];
}

static struct infer_dist dist_of(double *values, size_t n)
{
    struct infer_dist d = { .count = n, .mean = NAN, .p50 = NAN, .p95 = NAN, .p99 = NAN,
                            .max = NAN };
    if (!n) return d;
    double sum = 0;
    qsort(values, n, sizeof(*values), sonde_cmp_double);
    for (size_t i = 0; i < n; i++) sum += values[i];
    d.mean = sum / (double)n;
    d.p50 = infer_report_rank(values, n, 0.5);
    d.p95 = infer_report_rank(values, n, 0.95);
    d.p99 = infer_report_rank(values, n, 0.99);
    d.max = values[n - 1];
    return d;
}

/* 1 if it arrived in the time that is asked for. */
static int infer_report_wants(const struct infer_report *r, const struct sonde_infer_request *q)
{
    const struct sonde_profile_filter *f = &r->o->filter;
    return q->arrived_ns >= f->from_ns && (!f->to_ns || q->arrived_ns < f->to_ns);
}

static int infer_report_is_of(const struct infer_part *part, const struct sonde_infer_request *r)
{
    /* Texts of one profile are stored once. */
    return !part->model || (part->model == r->model && part->route == r->route);
}

static void sum_part(const struct infer_report *r, struct infer_part *part, double *room)
{
    const struct sonde_infer_run *run = r->run;
    for (size_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *q = &run->requests[i];
        if (!infer_report_wants(r, q) || !infer_report_is_of(part, q)) continue;
        assert(q->outcome < SONDE_INFER_OUTCOMES);
        part->count++;
        part->requests[q->outcome]++;
        part->invalid += *q->invalid != 0;
        part->slo_met += (q->flags & SONDE_INFER_SLO_MET) != 0;
        part->slo_missed += (q->flags & SONDE_INFER_SLO_MISSED) != 0;
    }
    for (int m = 0; m < INFER_MEASURE_COUNT; m++) {
        size_t n = 0;
        for (size_t i = 0; i < run->request_count; i++) {
            const struct sonde_infer_request *q = &run->requests[i];
            const int wanted = infer_report_wants(r, q) && infer_report_is_of(part, q);
            const double v = wanted ? infer_report_measure(q, (enum infer_measure)m) : NAN;
            if (!isnan(v)) room[n++] = v;
        }
        part->dist[m] = dist_of(room, n);
    }
}

static int infer_report_by_count(const void *a, const void *b)
{
    const struct infer_part *x = a, *y = b;
    if (x->count != y->count) return SONDE_CMP(y->count, x->count);
    const int order = strcmp(x->model, y->model);
    return order ? order : strcmp(x->route, y->route);
}

static int infer_report_find_parts(struct infer_report *r)
{
    size_t cap = 0;
    for (size_t i = 0; i < r->run->request_count; i++) {
        const struct sonde_infer_request *q = &r->run->requests[i];
        size_t k = 0;
        if (!infer_report_wants(r, q)) continue;
        while (k < r->part_count && !infer_report_is_of(&r->parts[k], q)) k++;
        if (k < r->part_count || r->part_count == PARTS_MAX) continue;
        if (SONDE_ARRAY_ROOM(r->parts, r->part_count, cap)) return SONDE_ENOMEM;
        r->parts[r->part_count++] = (struct infer_part){ .model = q->model, .route = q->route };
    }
    return 0;
}

static void sum_all(struct infer_report *r)
{
    uint64_t first_ns = UINT64_MAX;
    double last_s = 0;
    const struct sonde_infer_run *run = r->run;
    for (size_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *q = &run->requests[i];
        if (infer_report_wants(r, q) && q->arrived_ns < first_ns) first_ns = q->arrived_ns;
    }
    for (size_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *q = &run->requests[i];
        if (!infer_report_wants(r, q)) continue;
        const double end_s = (double)(q->arrived_ns - first_ns) * 1e-9 + q->total_s;
        if (end_s > last_s) last_s = end_s;
        r->tokens_in += q->tokens_in;
        r->tokens_reused += q->tokens_reused;
        r->tokens_out += q->tokens_out;
        if (*q->invalid) continue;
        for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) {
            r->phase_s[k] += q->phase_s[k];
            r->phase_all_s += q->phase_s[k];
            r->phase_requests[k] += q->phase_count[k] != 0;
        }
    }
    r->seconds = last_s;
}

static int find_slowest(struct infer_report *r)
{
    const size_t count = r->run->request_count;
    const struct sonde_requests_query q = {
        .outcome = -1, .source = -1, .limit = r->limit < SLOWEST_MAX ? r->limit : SLOWEST_MAX };
    r->slowest = sonde__calloc(count + 1, sizeof(struct sonde_infer_request *));
    if (!r->slowest) return SONDE_ENOMEM;
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (infer_report_wants(r, &r->run->requests[i])) {
            r->slowest[wanted++] = &r->run->requests[i];
        }
    }
    r->slowest_count = sonde_requests_select(&q, r->slowest, wanted, NULL);
    return 0;
}

int infer_report_init(struct infer_report *r, const struct sonde_profile *p,
                      const struct sonde_report_options *o, size_t limit)
{
    assert(p->infer);
    *r = (struct infer_report){ .p = p, .o = o, .run = p->infer, .limit = limit };
    double *room = sonde__calloc(p->infer->request_count + 1, sizeof(*room));
    int rc = room ? infer_report_find_parts(r) : SONDE_ENOMEM;
    if (!rc) {
        sum_all(r);
        sum_part(r, &r->all, room);
        for (size_t i = 0; i < r->part_count; i++) {
            sum_part(r, &r->parts[i], room);
        }
        if (r->part_count > 1) {
            qsort(r->parts, r->part_count, sizeof(*r->parts), infer_report_by_count);
        }
        rc = find_slowest(r);
    }
    sonde__free(room);
    return rc;
}

void infer_report_release(struct infer_report *r)
{
    sonde__free(r->parts);
    sonde__free(r->slowest);
}
