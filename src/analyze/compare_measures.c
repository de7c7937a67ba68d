/* compare_measures.c - how figures are added, and those of requests, of the run as a whole and of
 * its memory. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/compare_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "profile/heap.h"
#include "sonde/sonde.h"

#define OBSERVED_MIN 8u /* fewer have no percentiles */

/* ---- Adding ---------------------------------------------------------------------------------- */

int cmp_add(struct cmp *c, const struct cmp_measure *m, const char *subject, double weight,
            const struct sonde_estimate estimates[2])
{
    struct sonde_comparison *out = c->out;
    struct sonde_estimate e[2] = { estimates[0], estimates[1] };
    if (isnan(e[0].value) || isnan(e[1].value)) return 0;
    if (out->lent) {
        const int single = c->side[0].run_count == 1 ? 0 : 1;
        e[single] = sonde_estimate_lend(e[single].value, &e[!single], c->side[!single].run_count);
    }
    if (SONDE_ARRAY_ROOM(out->figures, out->count, out->cap)) return SONDE_ENOMEM;
    struct sonde_strings *pool = &out->texts->pool;
    const uint32_t text = subject ? sonde_strings_add(pool, subject, strlen(subject), &c->budget)
                                  : 0;
    if (subject && *subject && !text) return SONDE_ENOMEM;
    out->figures[out->count++] = (struct sonde_compare_measure){
        .group = m->group, .measure = m->measure, .title = m->title, .unit = m->unit,
        .subject = pool->strings[text], .better = m->better, .amount = m->amount,
        .before = e[0].value, .after = e[1].value, .estimate = { e[0], e[1] },
        .d = sonde_estimate_compare(&e[0], &e[1]),
        .adjusted = NAN, .weight = weight,
    };
    return 0;
}

struct sonde_estimate cmp_ratio(const struct cmp *c, int side, const double *y, const double *x,
                                double variance_min)
{
    const struct cmp_side *s = &c->side[side];
    if (c->out->by_runs && c->o->consecutive) return sonde_estimate_runs(y, x, s->n, variance_min);
    return sonde_estimate_ratio(y, x, s->run_of, s->n, variance_min);
}

int cmp_add_ratio(struct cmp *c, const struct cmp_measure *m, const char *subject, double weight,
                  const double *const y[2], const double *const x[2], const double variance_min[2])
{
    struct sonde_estimate e[2];
    for (int side = 0; side < 2; side++) {
        e[side] = cmp_ratio(c, side, y[side], x[side], variance_min ? variance_min[side] : 0);
    }
    return cmp_add(c, m, subject, weight, e);
}

int cmp_list_add(struct cmp_list *l, double value, uint32_t part)
{
    assert(l->count <= l->cap);
    if (SONDE_ARRAY_ROOM(l->v, l->count, l->cap)) return SONDE_ENOMEM;
    l->v[l->count++] = (struct sonde_observed){ value, part };
    return 0;
}

/* Each run's own quantile is an observation, if all have enough values for one. */
static int quantile_by_runs(const struct cmp *c, int side, const struct cmp_list *l, double q,
                            struct sonde_estimate *out)
{
    assert(q > 0 && q < 1);
    const struct cmp_side *s = &c->side[side];
    double *count = c->work, *value = c->work + s->n;
    for (size_t i = 0; i < s->n; i++) count[i] = value[i] = 0;
    for (size_t i = 0; i < l->count; i++) count[l->v[i].part]++;
    for (size_t i = 0; i < s->n; i++) {
        if (count[i] < 5 / (1 - q)) return 0;
        count[i] = ceil(q * count[i]);
    }
    /* The values are sorted: a run's quantile is where its rank is used up. */
    for (size_t i = 0; i < l->count; i++) {
        if (--count[l->v[i].part] == 0) value[l->v[i].part] = l->v[i].value;
    }
    *out = cmp_ratio(c, side, value, s->ones, 0);
    return 1;
}

int cmp_add_quantiles(struct cmp *c, const struct cmp_measure m[3], const char *subject,
                      double weight, struct cmp_list lists[2])
{
    static const double quantiles[3] = { 0.5, 0.95, 0.99 };
    if (lists[0].count < OBSERVED_MIN || lists[1].count < OBSERVED_MIN) return 0;
    for (int side = 0; side < 2; side++) sonde_observed_sort(lists[side].v, lists[side].count);
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++) {
        struct sonde_estimate e[2];
        /* The largest of a few is no percentile. */
        const double enough = 2 / (1 - quantiles[i]);
        if ((double)lists[0].count < enough || (double)lists[1].count < enough) break;
        for (int side = 0; side < 2; side++) {
            const struct cmp_side *s = &c->side[side];
            if (c->out->by_runs &&
                quantile_by_runs(c, side, &lists[side], quantiles[i], &e[side])) {
                continue;
            }
            e[side] = sonde_estimate_quantile(lists[side].v, lists[side].count, quantiles[i],
                                              s->run_of, s->n, c->work);
        }
        rc = cmp_add(c, &m[i], subject, weight, e);
    }
    return rc;
}

/* A figure that a run has one of. values are of runs. mean_bytes: of a sample (0 = exact). */
static int add_single(struct cmp *c, const struct cmp_measure *m, const double *const values[2],
                      const double mean_bytes[2])
{
    struct sonde_estimate e[2];
    for (int side = 0; side < 2; side++) {
        const struct cmp_side *s = &c->side[side];
        const double runs = (double)s->run_count;
        double sum = 0;
        for (size_t i = 0; i < s->run_count; i++) sum += values[side][i];
        if (c->out->by_runs) {
            /* Runs in which no sample fell on anything are alike, and know nothing for that. */
            const double mean = mean_bytes[side];
            e[side] = cmp_ratio(c, side, values[side], s->ones,
                                (sum > 0 ? sum + mean : mean) * mean / (runs * runs));
        } else {
            /* What sampling leaves open. Small allocations are a Poisson process, of which a mean
             * of bytes is one event; large ones are known better. */
            const double se = sqrt(sum * mean_bytes[side]) / runs;
            e[side] = (struct sonde_estimate){ sum / runs, se, se, INFINITY };
        }
    }
    return cmp_add(c, m, NULL, 0, e);
}

/* ---- Requests and their phases --------------------------------------------------------------- */

#define QUANTILES(name, title, unit, group)                                                    \
    { name "p50", title " p50", unit, group, -1, 0 },                                          \
    { name "p95", title " p95", unit, group, -1, 0 },                                          \
    { name "p99", title " p99", unit, group, -1, 0 }

enum request_time { TOTAL, TTFT, ITL, REQUEST_TIMES };
static const struct cmp_measure request_times[REQUEST_TIMES][3] = {
    { QUANTILES("", "request time", "seconds", SONDE_MEASURE_REQUESTS) },
    { QUANTILES("ttft.", "time to first token", "seconds", SONDE_MEASURE_REQUESTS) },
    { QUANTILES("itl.", "time between tokens", "seconds", SONDE_MEASURE_REQUESTS) },
};

enum request_rate { REQUESTS, TOKENS, PROMPT, ERRORS, REQUEST_RATES };
static const struct cmp_measure request_rates[REQUEST_RATES] = {
    { "requests", "requests", "per second", SONDE_MEASURE_REQUESTS, 1, 0 },
    { "tokens", "tokens out", "per second", SONDE_MEASURE_REQUESTS, 1, 0 },
    { "prompt", "prompt tokens", "per second", SONDE_MEASURE_REQUESTS, 1, 0 },
    { "errors", "requests that failed", "ratio", SONDE_MEASURE_REQUESTS, -1, 1 },
};

static const struct cmp_measure phase_measures[3] = {
    { "phase.p50", "time p50", "seconds", SONDE_MEASURE_PHASES, -1, 0 },
    { "phase.p95", "time p95", "seconds", SONDE_MEASURE_PHASES, -1, 0 },
    { "phase.p99", "time p99", "seconds", SONDE_MEASURE_PHASES, -1, 0 },
};

struct request_work {
    struct cmp_list times[REQUEST_TIMES][2], phases[SONDE_PHASE_COUNT][2];
    double *rates[REQUEST_RATES][2]; /* by part */
};

static int compare_measures_add_request(struct request_work *w, int side,
                                        const struct sonde_infer_request *r, uint32_t part)
{
    w->rates[REQUESTS][side][part]++;
    w->rates[TOKENS][side][part] += (double)r->tokens_out;
    w->rates[PROMPT][side][part] += (double)r->tokens_in;
    w->rates[ERRORS][side][part] += r->outcome != SONDE_OK;
    /* How long one took that failed says nothing about speed. */
    if (r->outcome != SONDE_OK) return 0;
    int rc = cmp_list_add(&w->times[TOTAL][side], r->total_s, part);
    if (!rc && r->tokens_out) rc = cmp_list_add(&w->times[TTFT][side], r->ttft_s, part);
    if (!rc && r->itl_count) rc = cmp_list_add(&w->times[ITL][side], r->itl_s, part);
    for (int i = 1; i < SONDE_PHASE_COUNT && !rc; i++) {
        if (r->phase_count[i]) rc = cmp_list_add(&w->phases[i][side], r->phase_s[i], part);
    }
    return rc;
}

static int gather_requests(struct cmp *c, struct request_work *w)
{
    int rc = 0;
    for (int side = 0; side < 2; side++) {
        const struct cmp_side *s = &c->side[side];
        for (int i = 0; i < REQUEST_RATES; i++) {
            w->rates[i][side] = sonde__calloc(s->n, sizeof(double));
            if (!w->rates[i][side]) return SONDE_ENOMEM;
        }
        for (size_t run = 0; run < s->run_count; run++) {
            const struct sonde_infer_run *infer = s->runs[run].profile->infer;
            for (size_t i = 0; infer && i < infer->request_count && !rc; i++) {
                const struct sonde_infer_request *r = &infer->requests[i];
                const uint32_t part = cmp_part(c, side, run, cmp_request_end(r));
                if (cmp_request_counts(r) && part != CMP_NO_PART) {
                    rc = compare_measures_add_request(w, side, r, part);
                }
            }
        }
    }
    return rc;
}

static double compare_measures_sum_of(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i];
    return sum;
}

static int add_request_figures(struct cmp *c, struct request_work *w)
{
    int rc = 0;
    for (int i = 0; i < REQUEST_TIMES && !rc; i++) {
        rc = cmp_add_quantiles(c, request_times[i], NULL, 0, w->times[i]);
    }
    for (int i = 0; i < REQUEST_RATES && !rc; i++) {
        const double *const y[2] = { w->rates[i][0], w->rates[i][1] };
        const double *const seconds[2] = { c->side[0].seconds, c->side[1].seconds };
        const double *const requests[2] = { w->rates[REQUESTS][0], w->rates[REQUESTS][1] };
        if (compare_measures_sum_of(y[0], c->side[0].n) +
                compare_measures_sum_of(y[1], c->side[1].n) <=
            0) {
            continue;
        }
        double floor_of[2];
        for (int side = 0; side < 2; side++) {
            const double all = compare_measures_sum_of(requests[side], c->side[side].n);
            floor_of[side] = i == ERRORS && all > 0 ? 1 / (all * all) : 0;
        }
        rc = cmp_add_ratio(c, &request_rates[i], NULL, 0, y, i == ERRORS ? requests : seconds,
                           floor_of);
    }
    for (int i = 1; i < SONDE_PHASE_COUNT && !rc; i++) {
        rc = cmp_add_quantiles(c, phase_measures, sonde_phase_name((size_t)i), 0, w->phases[i]);
    }
    return rc;
}

int cmp_requests(struct cmp *c)
{
    struct request_work w = { 0 };
    int rc = gather_requests(c, &w);
    if (!rc) rc = add_request_figures(c, &w);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < REQUEST_TIMES; i++) sonde__free(w.times[i][side].v);
        for (int i = 0; i < SONDE_PHASE_COUNT; i++) sonde__free(w.phases[i][side].v);
        for (int i = 0; i < REQUEST_RATES; i++) sonde__free(w.rates[i][side]);
    }
    return rc;
}

/* ---- The run --------------------------------------------------------------------------------- */

static const struct cmp_measure cpu_request = {
    "cpu", "CPU time a request", "seconds", SONDE_MEASURE_RUN, -1, 1 };
static const struct cmp_measure cpu_run = {
    "cpu", "CPU time a run", "seconds", SONDE_MEASURE_RUN, -1, 1 };
static const struct cmp_measure cpu_second = {
    "cpu", "CPUs busy", "cpus", SONDE_MEASURE_RUN, 0, 1 };
static const struct cmp_measure cores = {
    "cores", "CPUs busy", "cpus", SONDE_MEASURE_RUN, 0, 1 };
static const struct cmp_measure blocked_request = {
    "off-cpu", "time blocked a request", "seconds", SONDE_MEASURE_RUN, -1, 1 };
static const struct cmp_measure blocked_second = {
    "off-cpu", "threads blocked", "threads", SONDE_MEASURE_RUN, 0, 1 };
static const struct cmp_measure run_time = {
    "time", "run time", "seconds", SONDE_MEASURE_RUN, 0, 1 };

int cmp_run(struct cmp *c)
{
    const struct cmp_side *a = &c->side[0], *b = &c->side[1];
    const double *const cpu[2] = { a->cpu, b->cpu }, *const blocked[2] = { a->off_cpu, b->off_cpu };
    const double *const requests[2] = { a->requests, b->requests };
    const double *const seconds[2] = { a->seconds, b->seconds };
    const double *const ones[2] = { a->ones, b->ones };
    const int have_requests = a->request_count && b->request_count;
    int rc = 0;
    if (a->cpu_all > 0 || b->cpu_all > 0) {
        if (have_requests) rc = cmp_add_ratio(c, &cpu_request, NULL, 0, cpu, requests, NULL);
        else if (c->out->by_runs) rc = cmp_add_ratio(c, &cpu_run, NULL, 0, cpu, ones, NULL);
        const int other = have_requests || c->out->by_runs;
        if (!rc) rc = cmp_add_ratio(c, other ? &cores : &cpu_second, NULL, 0, cpu, seconds, NULL);
    }
    if (!rc && (a->off_cpu_all > 0 || b->off_cpu_all > 0)) {
        rc = have_requests
                 ? cmp_add_ratio(c, &blocked_request, NULL, 0, blocked, requests, NULL)
                 : cmp_add_ratio(c, &blocked_second, NULL, 0, blocked, seconds, NULL);
    }
    if (!rc && c->out->by_runs && compare_measures_sum_of(a->seconds, a->n) > 0 &&
        compare_measures_sum_of(b->seconds, b->n) > 0) {
        rc = cmp_add_ratio(c, &run_time, NULL, 0, seconds, ones, NULL);
    }
    return rc;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

enum memory_figure { PEAK, LIVE, ALLOC, RSS, MEMORY_FIGURES };
static const struct cmp_measure memory_measures[MEMORY_FIGURES] = {
    { "peak", "memory in use at the peak", "bytes", SONDE_MEASURE_MEMORY, -1, 1 },
    { "live", "memory in use at the end", "bytes", SONDE_MEASURE_MEMORY, -1, 1 },
    { "alloc", "memory allocated", "bytes per second", SONDE_MEASURE_MEMORY, -1, 1 },
    { "rss", "resident memory at the peak", "bytes", SONDE_MEASURE_MEMORY, -1, 1 },
};

static double memory_value(const struct sonde_compare_run *r, int figure)
{
    const struct sonde_heap *h = r->profile->heap;
    uint64_t start_ns, end_ns;
    cmp_range(r, &start_ns, &end_ns);
    switch (figure) {
    case PEAK: return (double)h->peak_bytes;
    case LIVE: return h->live_bytes.value;
    case ALLOC:
        return end_ns > start_ns ? h->alloc_bytes.value / ((double)(end_ns - start_ns) / 1e9) : NAN;
    default: return h->rss_peak_bytes ? (double)h->rss_peak_bytes : NAN;
    }
}

/* Bytes that one sample stands for in that figure. */
static double memory_mean(const struct sonde_compare_run *r, int figure)
{
    const struct sonde_heap *h = r->profile->heap;
    if (h->full || figure == RSS) return 0;
    uint64_t start_ns, end_ns;
    cmp_range(r, &start_ns, &end_ns);
    const double seconds = (double)(end_ns - start_ns) / 1e9;
    return figure == ALLOC && seconds > 0 ? (double)h->mean / seconds : (double)h->mean;
}

int cmp_memory(struct cmp *c)
{
    double *values[2] = { NULL, NULL }, mean[2] = { 0, 0 };
    int rc = 0;
    for (int side = 0; side < 2; side++) {
        const struct cmp_side *s = &c->side[side];
        for (size_t i = 0; i < s->run_count; i++) {
            if (!s->runs[i].profile->heap) return 0;
        }
    }
    for (int side = 0; side < 2; side++) {
        values[side] = sonde__calloc(c->side[side].run_count, sizeof(double));
        if (!values[side]) rc = SONDE_ENOMEM;
    }
    for (int figure = 0; figure < MEMORY_FIGURES && !rc; figure++) {
        for (int side = 0; side < 2; side++) {
            const struct cmp_side *s = &c->side[side];
            for (size_t i = 0; i < s->run_count; i++) {
                values[side][i] = memory_value(&s->runs[i], figure);
            }
            mean[side] = memory_mean(&s->runs[0], figure);
        }
        const double *const borrowed[2] = { values[0], values[1] };
        rc = add_single(c, &memory_measures[figure], borrowed, mean);
    }
    sonde__free(values[0]);
    sonde__free(values[1]);
    return rc;
}
