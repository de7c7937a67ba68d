/* request_profile.c - what is sampled for requests, and what of it is of one: see
 * profiler_request.h.
 *
 * Only the thread of profiler_request.c comes here, and who ends it. What is kept is copied to a
 * profile of its own with just the stacks that it needs: what was sampled meanwhile of other
 * requests may be a thousand times as much. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "profile/copy.h"
#include "profile/select/select.h"
#include "agent/profiler_private.h"
#include "sonde/sonde.h"

#define RATE_HZ 1000                           /* of engines that are started for a request */
#define ENGINE_BYTES_MAX ((size_t)64 << 20)
#define WINDOW_BYTES_MAX ((size_t)64 << 20)    /* of everything that was sampled meanwhile */
#define KEPT_BYTES_MAX ((size_t)8 << 20)       /* of what is left of it */
#define LATE_NS 2000000u                       /* is worth telling */

__attribute__((format(printf, 2, 3)))
static void request_profile_note(struct sonde_request_profile *r, const char *format, ...)
{
    va_list args;
    if (r->note_count == SONDE_REQUEST_PROFILE_NOTES) return;
    va_start(args, format);
    vsnprintf(r->notes[r->note_count++], sizeof(r->notes[0]), format, args);
    va_end(args);
}

/* ---- Sampling -------------------------------------------------------------------------------- */

static void stop_engine(struct profiler_requests *q, size_t i)
{
    struct sonde_profile *unused = NULL;
    if (sonde_cpu_stop(q->engines[i].cpu, &unused) == 0) sonde_profile_destroy(unused);
    q->engines[i] = q->engines[--q->engine_count];
}

void request_engines_stop(struct sonde_profiler *p)
{
    struct profiler_requests *q = &p->requests;
    while (q->engine_count) stop_engine(q, q->engine_count - 1);
}

static size_t find_engine(const struct profiler_requests *q, uint32_t pid)
{
    size_t i = 0;
    while (i < q->engine_count && q->engines[i].pid != pid) i++;
    return i;
}

/* Engines for what runs and has none, an end to those of what does not. */
static void start_engines(struct sonde_profiler *p)
{
    struct profiler_requests *q = &p->requests;
    uint32_t pids[PROFILER_PROCESSES_MAX];
    const size_t count = profiler_processes(p, 0, pids, PROFILER_PROCESSES_MAX);
    for (size_t i = q->engine_count; i-- > 0;) {
        size_t k = 0;
        while (k < count && pids[k] != q->engines[i].pid) k++;
        if (k == count) stop_engine(q, i);
    }
    if (!count) {
        sonde_err_set(&q->why, SONDE_ENOENT, "no process of this user records with libsonde, so "
                      "there is none to sample");
    }
    for (size_t i = 0; i < count; i++) {
        if (find_engine(q, pids[i]) < q->engine_count) continue;
        const struct sonde_cpu_options o = { .pid = pids[i], .rate_hz = RATE_HZ,
                                             .depth_max = p->o.depth_max, .dir = p->o.dir,
                                             .readers = sonde_collector_readers(p->o.collector),
                                             .profile_bytes_max = ENGINE_BYTES_MAX };
        struct sonde_cpu *cpu;
        if (sonde_cpu_start(&o, &cpu, &q->why) != 0) continue;
        q->engines[q->engine_count++] = (struct profiler_engine){
            .pid = pids[i], .cpu = cpu, .since_ns = sonde_clock_ns(CLOCK_REALTIME) };
    }
}

uint64_t request_engines_start(struct sonde_profiler *p)
{
    struct profiler_requests *q = &p->requests;
    sonde_lock(&p->lock);
    const int runs = p->cpu != NULL;
    sonde_unlock(&p->lock);
    sonde_lock(&p->pool.lock);
    profiler_switch_on(p);
    sonde_unlock(&p->pool.lock);
    profiler_heap_watch(p);
    if (runs) {
        request_engines_stop(p);
        return 1;
    }
    start_engines(p);
    uint64_t since_ns = 1;
    for (size_t i = 0; i < q->engine_count; i++) {
        if (q->engines[i].since_ns > since_ns) since_ns = q->engines[i].since_ns;
    }
    return since_ns;
}

/* *sampled: there was something to take from. */
static int take_cpu(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *into,
                    int *sampled)
{
    struct profiler_requests *q = &p->requests;
    struct sonde_profile *one = NULL;
    struct sonde_cpu *cpu = profiler_cpu_take(p);
    int rc = 0;
    *sampled = cpu || q->engine_count;
    if (cpu) {
        rc = sonde_cpu_snapshot(cpu, from_ns, &one);
        profiler_cpu_give(p);
        if (!rc) rc = sonde_profile_merge(into, one);
        sonde_profile_destroy(one);
        return rc;
    }
    for (size_t i = 0; !rc && i < q->engine_count; i++) {
        rc = sonde_cpu_snapshot(q->engines[i].cpu, from_ns, &one);
        if (rc) break;
        rc = sonde_profile_merge(into, one);
        sonde_profile_destroy(one);
    }
    return rc;
}

/* ---- Whose is it (in the tracker, which asserts the read lock) ------------------------------- */

static int same_trace(const struct sonde_infer_request *a, const struct sonde_profiler_request *r)
{
    return a->trace_hi == r->trace_hi && a->trace_lo == r->trace_lo;
}

/* 1 if an engine says that it did it for this very request. */
static int has_child(const struct sonde_infer_tracker *tracker, uint64_t id)
{
    for (size_t age = 0; age < sonde_infer_done_count(tracker); age++) {
        if (sonde_infer_done(tracker, age)->parent == id) return 1;
    }
    return 0;
}

/* If it is of that time. exact: what was done for it is known by its parent. Others of the same
 * trace lose it here: by their traces they would be taken for this one. */
static int request_profile_add_request(const struct sonde_infer_request *d,
                                       const struct sonde_request_profile *r, int exact,
                                       const struct profiler_joined *joined,
                                       struct sonde_profile *into)
{
    const uint64_t end_ns = d->arrived_ns + (uint64_t)(d->total_s * 1e9);
    if (end_ns < r->request.arrived_ns || d->arrived_ns > r->ended_ns) return 0;
    struct sonde_infer_request copy = *d;
    copy.flags &= ~SONDE_INFER_WENT_ON; /* it replaces nothing here */
    if (d == joined->request) {
        copy.trace_hi = r->request.trace_hi;
        copy.trace_lo = r->request.trace_lo;
        return sonde_infer_run_add(into, &copy);
    }
    const int mine = same_trace(d, &r->request) &&
                     (d->id == r->request.id || d->parent == r->request.id ||
                      (!exact && d->source != r->request.source));
    if (!mine) {
        copy.items = NULL;
        copy.item_count = 0;
        if (same_trace(d, &r->request)) copy.trace_hi = copy.trace_lo = 0;
    }
    return sonde_infer_run_add(into, &copy);
}

/* What an engine that knows of no traces did for it is of its trace from now on. */
static void join_spans(const struct profiler_joined *joined, struct sonde_request_profile *r,
                       struct sonde_profile *into)
{
    const struct sonde_infer_request *d = joined->request;
    if (!d) return;
    for (uint32_t i = 0; i < into->spans_count; i++) {
        struct sonde_profile_span *s = &into->spans[i];
        if (s->trace_hi != d->trace_hi || s->trace_lo != d->trace_lo) continue;
        s->trace_hi = r->request.trace_hi;
        s->trace_lo = r->request.trace_lo;
    }
    if (joined->others) {
        request_profile_note(
            r,
            "%s does not say which request it serves: this was found by time and tokens, and %u "
            "other%s would fit about as well: samples may be those of another",
            d->program[0] ? d->program : "the server", joined->others,
            joined->others == 1 ? "" : "s");
    }
}

/* The request itself, as whoever began it saw it and as the engine behind did; and all others of
 * that time, so that what is theirs is known; those that have not ended have spans already. */
static int request_profile_add_requests(const struct sonde_infer_tracker *tracker,
                                        struct sonde_request_profile *r, struct sonde_profile *into)
{
    const int exact = has_child(tracker, r->request.id);
    const size_t done = sonde_infer_done_count(tracker);
    const size_t running = sonde_infer_running(tracker, 0, NULL, 0);
    struct sonde_infer_request *run = sonde__calloc(running + 1, sizeof(*run));
    const struct sonde_infer_request **list = sonde__calloc(done + running + 1, sizeof(*list));
    struct profiler_joined joined = { 0 };
    int rc = run && list ? 0 : SONDE_ENOMEM;
    size_t count = 0;
    if (!rc) {
        sonde_infer_running(tracker, sonde_clock_s(CLOCK_REALTIME), run, running);
        for (size_t age = done; age-- > 0;) list[count++] = sonde_infer_done(tracker, age);
        for (size_t i = 0; i < running; i++) list[count++] = &run[i];
        if (!exact && r->request.source == SONDE_INFER_FRONT) {
            profiler_join(list, count, r, &joined);
        }
        join_spans(&joined, r, into);
    }
    for (size_t i = 0; !rc && i < count; i++) {
        rc = request_profile_add_request(list[i], r, exact, &joined, into);
    }
    sonde__free(list);
    sonde__free(run); /* what they point to is the model's */
    return rc;
}

/* A request to a route that is not measured is no inference request: it stands in for one. */
static int add_plain(const struct sonde_request_profile *r, struct sonde_profile *into)
{
    for (size_t i = 0; into->infer && i < into->infer->request_count; i++) {
        if (into->infer->requests[i].id == r->request.id) return 0;
    }
    return sonde_infer_run_add(into, &(struct sonde_infer_request){
        .id = r->request.id, .trace_hi = r->request.trace_hi, .trace_lo = r->request.trace_lo,
        .source = r->request.source, .flags = SONDE_INFER_PROFILE, .program = "", .model = "",
        .route = "", .backend = "", .error = "", .invalid = "",
        .arrived_ns = r->request.arrived_ns,
        .total_s = (double)(r->ended_ns - r->request.arrived_ns) * 1e-9 });
}

static int request_profile_add_context(struct sonde_profiler *p, struct sonde_request_profile *r,
                                       struct sonde_profile *into)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    int rc = profiler_spans(p, r->request.arrived_ns, into);
    sonde_rdlock(&m->lock);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(p->o.collector);
    if (!rc && tracker) rc = request_profile_add_requests(tracker, r, into);
    sonde_rwunlock(&m->lock);
    return rc ? rc : add_plain(r, into);
}

/* ---- A profile of its own -------------------------------------------------------------------- */

struct request_profile_copy {
    struct sonde_profile_copy copy;
    const struct sonde_profiler_request *request;
};

/* Whether it is of the request's trace; a sonde_profile_copy_wanted. */
static int request_profile_span_wanted(void *arg, uint32_t i)
{
    const struct request_profile_copy *c = arg;
    const struct sonde_profile_span *s = &c->copy.from->spans[i];
    return s->trace_hi == c->request->trace_hi && s->trace_lo == c->request->trace_lo;
}

static int request_profile_copy_requests(struct sonde_profile *to, const struct sonde_profile *from,
                                         const struct sonde_profiler_request *r)
{
    const struct sonde_infer_run *run = from->infer;
    int rc = 0;
    for (size_t i = 0; !rc && i < run->request_count; i++) {
        if (same_trace(&run->requests[i], r)) rc = sonde_infer_run_add(to, &run->requests[i]);
    }
    return rc;
}

/* Parts stay behind: weights have been divided by them, and must not be again. */
static int request_profile_copy(struct sonde_profile *to, const struct sonde_profile *from,
                                const struct sonde_profiler_request *r)
{
    struct request_profile_copy c = { .request = r };
    int rc = sonde_profile_copy_init(&c.copy, to, from);
    if (!rc) rc = sonde_profile_copy_samples(&c.copy, NULL, NULL);
    if (!rc) rc = sonde_profile_copy_spans(&c.copy, request_profile_span_wanted, &c, 0);
    if (!rc) rc = request_profile_copy_requests(to, from, r);
    if (!rc) rc = sonde_profile_copy_facts(&c.copy, r->arrived_ns, 0);
    to->lost_records = from->lost_records;
    to->dropped_samples = from->dropped_samples;
    sonde_profile_copy_release(&c.copy);
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* all becomes what is of the request; what is not known is told. */
static int select_own(struct sonde_request_profile *r, struct sonde_profile *all)
{
    char id[24];
    struct sonde_err err = { "" };
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)r->request.id);
    const int had = all->samples_count != 0;
    const int rc = sonde_profile_select(all, &(struct sonde_select){ .request = id }, NULL, &err);
    if (rc != SONDE_ENOENT) return rc;
    all->samples_count = 0;
    if (had) {
        request_profile_note(
            r, "no sample is of this request: what serves it must say so, by sonde_request_begin "
               "and sonde_phase_begin with the traceparent it gets, or by spans of that trace");
    }
    return 0;
}

/* When the first that worked for it began to; its own arrival if that is not known. */
static uint64_t begun_ns(const struct sonde_request_profile *r, const struct sonde_profile *all)
{
    uint64_t first = 0;
    for (size_t i = 0; all->infer && i < all->infer->request_count; i++) {
        const struct sonde_infer_request *d = &all->infer->requests[i];
        if (!same_trace(d, &r->request) || d->id == r->request.id) continue;
        if (!first || d->arrived_ns < first) first = d->arrived_ns;
    }
    return first ? first : r->request.arrived_ns;
}

/* The front holds back what is profiled, so all of it is sampled though sampling begins later. */
static void tell_late(struct sonde_request_profile *r, const struct sonde_profile *all,
                      uint64_t sampled_ns)
{
    if (sampled_ns <= r->request.arrived_ns + LATE_NS) return;
    const uint64_t until = sampled_ns < r->ended_ns ? sampled_ns : r->ended_ns;
    const double ms = (double)(until - r->request.arrived_ns) * 1e-6;
    if (sampled_ns <= begun_ns(r, all)) {
        request_profile_note(
            r,
            "the front held the request back for %.0f ms, until sampling had begun; those that "
            "follow within half a minute need not wait",
            ms);
    } else {
        request_profile_note(
            r,
            "sampling began %.0f ms after the request: nothing was sampled before; those that "
            "follow within half a minute are sampled from their beginning",
            ms);
    }
}

static int request_profile_collect(struct sonde_profiler *p, struct sonde_request_profile *r,
                                   uint64_t sampled_ns, struct sonde_profile *all)
{
    int sampled = 0, heaps = 0;
    int rc = take_cpu(p, r->request.arrived_ns, all, &sampled);
    if (!rc) rc = profiler_heap_window(p, r->request.arrived_ns, r->ended_ns, all, &heaps);
    if (!rc) rc = request_profile_add_context(p, r, all);
    if (rc) return rc;
    if (!sampled) request_profile_note(r, "the CPU was not sampled: %s", p->requests.why.text);
    else tell_late(r, all, sampled_ns);
    if (!heaps) {
        request_profile_note(
            r, "allocations are not known: no heap is profiled; start the server with `sonde run`");
    }
    return select_own(r, all);
}

void request_profile_build(struct sonde_profiler *p, struct sonde_request_profile *r,
                           uint64_t sampled_ns)
{
    struct profiler_requests *q = &p->requests;
    struct sonde_profile *all = NULL, *own = NULL;
    int rc = sonde_profile_create(WINDOW_BYTES_MAX, &all);
    if (!rc) rc = sonde_profile_create(KEPT_BYTES_MAX, &own);
    if (!rc) rc = request_profile_collect(p, r, sampled_ns, all);
    if (!rc) rc = request_profile_copy(own, all, &r->request);
    if (!rc && !q->symbolizer) rc = sonde_symbolizer_create(&q->symbolizer);
    /* Without a child to read files in there are no names, but all else. */
    if (!rc) rc = sonde_symbolize(q->symbolizer, own) == SONDE_ENOMEM ? SONDE_ENOMEM : 0;
    sonde_profile_destroy(all);
    if (rc) {
        sonde_profile_destroy(own);
        return;
    }
    own->start_ns = r->request.arrived_ns;
    own->end_ns = r->ended_ns;
    r->profile = own;
}
