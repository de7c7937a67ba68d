/* index.c - spans, waits and samples of a profile in the order they are asked for: see private.h.
 *
 * All tables are sorted once; every question after that is a binary search. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/path/private.h"
#include "base/alloc.h"
#include "base/cmp.h"

uint32_t path_pid(const struct sonde_path_index *x, uint32_t thread)
{
    return thread < x->p->threads_count ? x->p->threads[thread].pid : 0;
}

uint32_t path_tid(const struct sonde_path_index *x, uint32_t thread)
{
    return thread < x->p->threads_count ? x->p->threads[thread].tid : 0;
}

int path_same_trace(uint64_t a_hi, uint64_t a_lo, uint64_t b_hi, uint64_t b_lo)
{
    return !(a_hi | a_lo) || !(b_hi | b_lo) || (a_hi == b_hi && a_lo == b_lo);
}

uint32_t path_id_first(const struct path_id *table, uint32_t count, uint64_t id)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (table[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

uint32_t path_request_find(const struct sonde_path_index *x, uint32_t pid, uint64_t id)
{
    for (uint32_t i = id ? path_id_first(x->requests, x->request_count, id) : x->request_count;
         i < x->request_count && x->requests[i].id == id; i++) {
        if (x->p->infer->requests[x->requests[i].index].pid == pid) return x->requests[i].index;
    }
    return UINT32_MAX;
}

const struct sonde_profile *sonde_path_index_profile(const struct sonde_path_index *x)
{
    return x->p;
}

struct sonde_wait sonde_path_wait(const struct sonde_path_index *x, uint32_t stack)
{
    assert(stack < x->p->stacks_count);
    return x->waits[stack];
}

uint64_t sonde_path_request_end(const struct sonde_profile *p, uint32_t request)
{
    const struct sonde_infer_request *r = &p->infer->requests[request];
    return r->arrived_ns + (uint64_t)(r->total_s * 1e9 + 0.5);
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int path_index_by_off(const void *a, const void *b)
{
    const struct path_off *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    return SONDE_CMP(x->start, y->start);
}

static int path_index_by_short(const void *a, const void *b)
{
    const struct path_short *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->runnable != y->runnable) return SONDE_CMP(x->runnable, y->runnable);
    return SONDE_CMP(x->to, y->to);
}

static int path_index_by_short_time(const void *a, const void *b)
{
    const struct path_short *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    return SONDE_CMP(x->to, y->to);
}

static int path_index_by_cpu(const void *a, const void *b)
{
    const struct path_cpu *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    return SONDE_CMP(x->time, y->time);
}

static uint32_t path_index_function(const struct sonde_profile *p, uint32_t stack)
{
    const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
    return l->line_count ? p->lines[l->line].function : 0;
}

static int path_index_is_off(const struct sonde_profile_sample *s)
{
    return s->kind == SONDE_SAMPLE_OFFCPU || s->kind == SONDE_SAMPLE_RUNNABLE;
}

static int path_index_samples(struct sonde_path_index *x)
{
    const struct sonde_profile *p = x->p;
    const size_t n = (size_t)p->samples_count + 1;
    x->offs = sonde__alloc(n * sizeof(*x->offs));
    x->shorts = sonde__alloc(n * sizeof(*x->shorts));
    x->cpus = sonde__alloc(n * sizeof(*x->cpus));
    x->waits = sonde__calloc((size_t)p->stacks_count + 1, sizeof(*x->waits));
    unsigned char *seen = sonde__calloc((size_t)p->stacks_count + 1, 1);
    if (!x->offs || !x->shorts || !x->cpus || !x->waits || !seen) {
        sonde__free(seen);
        return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (!s->time_ns || !s->thread || s->weight > INT64_MAX) continue;
        if (s->kind == SONDE_SAMPLE_CPU) {
            x->cpus[x->cpu_count++] = (struct path_cpu){
                s->time_ns, s->weight, path_index_function(p, s->stack), s->thread };
        }
        if (!path_index_is_off(s)) continue;
        const int runnable = s->kind == SONDE_SAMPLE_RUNNABLE;
        if (!seen[s->stack]) x->waits[s->stack] = sonde_wait_of(p, s->stack);
        seen[s->stack] = 1;
        if (s->count == 1) {
            x->offs[x->off_count++] = (struct path_off){
                s->time_ns, s->time_ns + s->weight, s->stack, s->thread, runnable };
        } else {
            x->shorts[x->short_count++] = (struct path_short){
                .to = s->time_ns, .ns = s->weight, .stack = s->stack, .thread = s->thread,
                .runnable = runnable };
        }
    }
    sonde__free(seen);
    qsort(x->offs, x->off_count, sizeof(*x->offs), path_index_by_off);
    qsort(x->cpus, x->cpu_count, sizeof(*x->cpus), path_index_by_cpu);
    qsort(x->shorts, x->short_count, sizeof(*x->shorts), path_index_by_short);
    return 0;
}

/* A thread cannot be off twice at a time: of records that overlap the later one is cut. */
static void path_index_disjoin(struct sonde_path_index *x)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < x->off_count; i++) {
        struct path_off o = x->offs[i];
        if (kept && x->offs[kept - 1].thread == o.thread && x->offs[kept - 1].end > o.start) {
            o.start = x->offs[kept - 1].end;
        }
        if (o.end > o.start) x->offs[kept++] = o;
    }
    x->off_count = kept;
}

/* Time of a thread that is in offs, between two times. */
static uint64_t path_index_off_ns(const struct sonde_path_index *x, uint32_t thread, uint64_t from,
                                  uint64_t to, uint32_t *at)
{
    uint64_t ns = 0;
    while (*at < x->off_first[thread + 1] && x->offs[*at].end <= from) (*at)++;
    for (uint32_t i = *at; i < x->off_first[thread + 1] && x->offs[i].start < to; i++) {
        const uint64_t a = x->offs[i].start > from ? x->offs[i].start : from;
        const uint64_t b = x->offs[i].end < to ? x->offs[i].end : to;
        ns += b - a;
    }
    return ns;
}

/* What a sum stands for began where the one before it ended. */
static void path_index_stretch_shorts(struct sonde_path_index *x)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < x->short_count; i++) {
        struct path_short *s = &x->shorts[i];
        const struct path_short *before = i ? s - 1 : NULL;
        const int follows =
            before && before->thread == s->thread && before->runnable == s->runnable;
        if (!follows) at = x->off_first[s->thread];
        s->from = follows ? before->to : x->p->start_ns;
        if (s->from > s->to) s->from = s->to;
        /* It cannot have been in less time than it took. */
        if (s->to - s->from < s->ns) s->from = s->to > s->ns ? s->to - s->ns : 0;
        const uint64_t off = path_index_off_ns(x, s->thread, s->from, s->to, &at);
        s->run_ns = s->to - s->from > off ? s->to - s->from - off : 0;
        if (s->run_ns < s->ns) s->run_ns = s->ns;
    }
    qsort(x->shorts, x->short_count, sizeof(*x->shorts), path_index_by_short_time);
}

/* Where each thread begins, in rows of any table that begin with what of_row gives. */
#define PATH_INDEX_FIRSTS(x, table, count, first)                                                  \
    do {                                                                                           \
        uint32_t row_ = 0;                                                                         \
        for (uint32_t t_ = 0; t_ <= (x)->p->threads_count; t_++) {                                 \
            while (row_ < (count) && (table)[row_].thread < t_) row_++;                            \
            (first)[t_] = row_;                                                                    \
        }                                                                                          \
    } while (0)

static int path_index_threads(struct sonde_path_index *x)
{
    const struct sonde_profile *p = x->p;
    const size_t n = (size_t)p->threads_count + 1;
    x->off_first = sonde__calloc(n, sizeof(uint32_t));
    x->short_first = sonde__calloc(n, sizeof(uint32_t));
    x->cpu_first = sonde__calloc(n, sizeof(uint32_t));
    x->known = sonde__calloc(n, 1);
    if (!x->off_first || !x->short_first || !x->cpu_first || !x->known) return SONDE_ENOMEM;
    path_index_disjoin(x);
    PATH_INDEX_FIRSTS(x, x->offs, x->off_count, x->off_first);
    path_index_stretch_shorts(x);
    PATH_INDEX_FIRSTS(x, x->shorts, x->short_count, x->short_first);
    PATH_INDEX_FIRSTS(x, x->cpus, x->cpu_count, x->cpu_first);

    struct path_id *pids = sonde__calloc(n, sizeof(*pids)); /* id: process, index: known */
    if (!pids) return SONDE_ENOMEM;
    for (uint32_t t = 0; t < p->threads_count; t++) pids[t].id = p->threads[t].pid;
    qsort(pids, p->threads_count, sizeof(*pids), sonde_cmp_u64);
    for (uint32_t t = 1; t < p->threads_count; t++) {
        const int some = x->off_first[t] < x->off_first[t + 1] ||
                         x->short_first[t] < x->short_first[t + 1];
        if (some) pids[path_id_first(pids, p->threads_count, p->threads[t].pid)].index = 1;
    }
    for (uint32_t t = 1; t < p->threads_count; t++) {
        x->known[t] = (unsigned char)pids[path_id_first(pids, p->threads_count,
                                                        p->threads[t].pid)].index;
    }
    sonde__free(pids);
    return 0;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static int path_index_by_span(const void *a, const void *b, void *arg)
{
    const struct sonde_profile *p = arg;
    const struct sonde_profile_span *x = &p->spans[*(const uint32_t *)a],
                                    *y = &p->spans[*(const uint32_t *)b];
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->start_ns != y->start_ns) return SONDE_CMP(x->start_ns, y->start_ns);
    return SONDE_CMP(y->end_ns, x->end_ns);
}

static int path_index_by_id(const void *a, const void *b)
{
    const struct path_id *x = a, *y = b;
    if (x->id != y->id) return SONDE_CMP(x->id, y->id);
    return SONDE_CMP(x->index, y->index);
}

static void path_index_names(struct sonde_path_index *x)
{
    const struct sonde_profile *p = x->p;
    for (size_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        const char *name = sonde_phase_name(k);
        const uint32_t id = *name ? sonde_profile_find_string(p, name) : 0;
        if (id) x->phase[id] = (unsigned char)k;
    }
}

static int path_index_spans(struct sonde_path_index *x)
{
    const struct sonde_profile *p = x->p;
    const size_t n = (size_t)p->spans_count + 1;
    x->spans = sonde__alloc(n * sizeof(*x->spans));
    x->span_first = sonde__calloc((size_t)p->threads_count + 1, sizeof(uint32_t));
    x->by_parent = sonde__alloc(n * sizeof(*x->by_parent));
    x->by_id = sonde__alloc(n * sizeof(*x->by_id));
    x->part_first = sonde__calloc(n, sizeof(uint32_t));
    x->by_request = sonde__alloc(((size_t)p->parts_count + 1) * sizeof(*x->by_request));
    x->phase = sonde__calloc((size_t)p->strings_count + 1, 1);
    if (!x->spans || !x->span_first || !x->by_parent || !x->by_id || !x->part_first ||
        !x->by_request || !x->phase) {
        return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < p->spans_count; i++) {
        x->spans[i] = i;
        const struct sonde_profile_span *s = &p->spans[i];
        if (s->parent) x->by_parent[x->by_parent_count++] = (struct path_id){ s->parent, i };
        if (s->id) x->by_id[x->by_id_count++] = (struct path_id){ s->id, i };
    }
    qsort_r(x->spans, p->spans_count, sizeof(*x->spans), path_index_by_span,
            (void *)(uintptr_t)p);
    qsort(x->by_parent, x->by_parent_count, sizeof(*x->by_parent), path_index_by_id);
    qsort(x->by_id, x->by_id_count, sizeof(*x->by_id), path_index_by_id);
    uint32_t row = 0;
    for (uint32_t t = 0; t <= p->threads_count; t++) {
        while (row < p->spans_count && p->spans[x->spans[row]].thread < t) row++;
        x->span_first[t] = row;
    }
    uint32_t part = 0;
    for (uint32_t i = 0; i <= p->spans_count; i++) {
        while (part < p->parts_count && p->parts[part].span < i) part++;
        x->part_first[i] = part;
    }
    for (uint32_t i = 0; i < p->parts_count; i++) {
        if (!p->parts[i].request || p->parts[i].span >= p->spans_count) continue;
        x->by_request[x->by_request_count++] = (struct path_id){ p->parts[i].request, i };
    }
    qsort(x->by_request, x->by_request_count, sizeof(*x->by_request), path_index_by_id);
    path_index_names(x);
    return sonde_profile_innermost_spans(p, &x->of_sample, &x->of_span);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int path_index_by_trace(const void *a, const void *b, void *arg)
{
    const struct sonde_infer_run *run = arg;
    const struct sonde_infer_request *x = &run->requests[*(const uint32_t *)a],
                                     *y = &run->requests[*(const uint32_t *)b];
    if (x->trace_hi != y->trace_hi) return SONDE_CMP(x->trace_hi, y->trace_hi);
    return SONDE_CMP(x->trace_lo, y->trace_lo);
}

static int path_index_requests(struct sonde_path_index *x)
{
    const struct sonde_infer_run *run = x->p->infer;
    const uint32_t count = run ? run->request_count : 0;
    x->requests = sonde__calloc((size_t)count + 1, sizeof(*x->requests));
    x->by_trace = sonde__calloc((size_t)count + 1, sizeof(*x->by_trace));
    if (!x->requests || !x->by_trace) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        x->requests[i] = (struct path_id){ run->requests[i].id, i };
        if (run->requests[i].trace_hi | run->requests[i].trace_lo) {
            x->by_trace[x->by_trace_count++] = i;
        }
    }
    x->request_count = count;
    if (!count) return 0;
    qsort(x->requests, count, sizeof(*x->requests), path_index_by_id);
    qsort_r(x->by_trace, x->by_trace_count, sizeof(*x->by_trace), path_index_by_trace,
            (void *)(uintptr_t)run);
    return 0;
}

int sonde_path_index_create(const struct sonde_profile *p, struct sonde_path_index **out)
{
    struct sonde_path_index *x = sonde__calloc(1, sizeof(*x));
    if (!x) return SONDE_ENOMEM;
    x->p = p;
    int rc = path_index_samples(x);
    if (!rc) rc = path_index_threads(x);
    if (!rc) rc = path_index_spans(x);
    if (!rc) rc = path_index_requests(x);
    if (rc) sonde_path_index_destroy(x);
    else *out = x;
    return rc;
}

void sonde_path_index_destroy(struct sonde_path_index *x)
{
    if (!x) return;
    void *const all[] = { x->offs, x->shorts, x->cpus, x->spans, x->off_first, x->short_first,
                          x->cpu_first, x->span_first, x->of_span, x->of_sample, x->known, x->phase,
                          x->by_parent, x->by_id, x->by_request, x->requests, x->by_trace,
                          x->part_first, x->waits };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) sonde__free(all[i]);
    sonde__free(x);
}
