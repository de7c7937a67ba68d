/* profiler.c - see profiler.h. */
#include "base/clock.h"
#include "agent/profiler_private.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define GONE_NS 500000000u /* how often it is asked whether somebody still waits */

int sonde_profiler_create(const struct sonde_profiler_options *options,
                          struct sonde_profiler **out)
{
    assert(options->collector && out);
    struct sonde_profiler *p = sonde__calloc(1, sizeof(*p));
    if (!p) return SONDE_ENOMEM;
    p->o = *options;
    if (!(p->o.rate_hz > 0)) p->o.rate_hz = 99;
    sonde_cond_init(&p->wake);
    sonde_lock_init(&p->lock, SONDE_RANK_PROFILER);
    profiler_heap_init(&p->heap);
    profiler_pool_init(&p->pool);
    profiler_requests_init(&p->requests);
    *out = p;
    return 0;
}

void sonde_profiler_destroy(struct sonde_profiler *p)
{
    if (!p) return;
    profiler_requests_release(p);
    profiler_pool_release(p);
    profiler_heap_release(&p->heap);
    sonde_cond_destroy(&p->wake);
    sonde_lock_destroy(&p->lock);
    sonde__free(p);
}

int sonde_profiler_has_cpu(const struct sonde_profiler *p) { return !p->o.no_cpu; }

void sonde_profiler_use(struct sonde_profiler *p, struct sonde_cpu *cpu)
{
    profiler_pool_use(p, cpu);
}

void sonde_profiler_cancel(struct sonde_profiler *p)
{
    sonde_lock(&p->lock);
    p->cancelled = 1;
    sonde_cond_broadcast(&p->wake);
    sonde_unlock(&p->lock);
    profiler_requests_stop(p);
    profiler_pool_stop(p);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

int profiler_pause(struct sonde_profiler *p, double seconds, int (*gone)(void *client),
                   void *client, struct sonde_err *err)
{
    const uint64_t end = sonde_clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    uint64_t now;
    int left = 0;
    sonde_lock(&p->lock);
    while (!p->cancelled && !left && (now = sonde_clock_ns(CLOCK_MONOTONIC)) < end) {
        const struct timespec t =
            sonde_clock_timespec(gone && end - now > GONE_NS ? now + GONE_NS : end);
        sonde_cond_timedwait(&p->wake, &p->lock, &t);
        left = gone && gone(client);
    }
    const int cancelled = p->cancelled;
    sonde_unlock(&p->lock);
    if (cancelled) return sonde_err_set(err, SONDE_EOFF, "the agent ends");
    return left ? sonde_err_set(err, SONDE_EOFF, "nobody waits for it any more") : 0;
}

/* ---- Sampling -------------------------------------------------------------------------------- */

struct sonde_cpu *profiler_cpu_take(struct sonde_profiler *p)
{
    sonde_lock(&p->lock);
    struct sonde_cpu *cpu = p->cpu;
    p->in_use += cpu != NULL;
    sonde_unlock(&p->lock);
    return cpu;
}

void profiler_cpu_give(struct sonde_profiler *p)
{
    sonde_lock(&p->lock);
    p->in_use--;
    sonde_cond_broadcast(&p->wake);
    sonde_unlock(&p->lock);
}

size_t profiler_processes(struct sonde_profiler *p, int ended, uint32_t *pids, size_t max)
{
    size_t count = 0;
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    sonde_rdlock(&m->lock);
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *process = m->processes[i];
        if (!ended && (process->state != SONDE_PROCESS_RUNNING || process->elsewhere)) continue;
        int known = 0;
        for (size_t k = 0; k < count; k++) known |= pids[k] == process->pid;
        if (!known && count < max) pids[count++] = process->pid;
    }
    sonde_rwunlock(&m->lock);
    return count;
}

int profiler_contains(const uint32_t *pids, size_t count, uint32_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == pid) return 1;
    }
    return 0;
}

/* ---- Spans and names ------------------------------------------------------------------------- */

static int profiler_add_requests(const struct sonde_infer_tracker *tracker, uint64_t from_ns,
                                 struct sonde_profile *profile)
{
    int rc = 0;
    for (size_t age = sonde_infer_done_count(tracker); !rc && age-- > 0;) {
        const struct sonde_infer_request *r = sonde_infer_done(tracker, age);
        if (r->arrived_ns + (uint64_t)(r->total_s * 1e9) < from_ns) continue;
        rc = sonde_infer_run_add(profile, r);
    }
    return rc ? rc : sonde_infer_complete_run(tracker, profile);
}

int profiler_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    int rc = 0;
    sonde_rdlock(&m->lock);
    const uint64_t count = m->span_next < m->spans_max ? m->span_next : m->spans_max;
    for (uint64_t i = 0; !rc && i < count; i++) {
        const struct sonde_model_span *s = &m->spans[(m->span_next - 1 - i) % m->spans_max];
        if (s->start_ns + s->duration_ns < from_ns) continue;
        rc = sonde_model_span_add_to(s, profile);
    }
    sonde_rwunlock(&m->lock);
    return rc;
}

int sonde_profiler_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile)
{
    return profiler_spans(p, from_ns, profile);
}

int profiler_requests(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(p->o.collector);
    int rc = 0;
    sonde_rdlock(&m->lock);
    if (tracker) rc = profiler_add_requests(tracker, from_ns, profile);
    sonde_rwunlock(&m->lock);
    return rc;
}

/* ---- Some seconds ---------------------------------------------------------------------------- */

int sonde_profiler_capture(struct sonde_profiler *p, double seconds, int (*gone)(void *client),
                           void *client, struct sonde_profile **out, struct sonde_err *err)
{
    const struct sonde_capture_options o = { 0 };
    struct sonde_capture *t;
    if (p->o.no_cpu) {
        return sonde_err_set(err, SONDE_ENOENT,
                             "the CPU is not sampled here: cpu.enabled is false");
    }
    int rc = sonde_profiler_begin(p, &o, &t, err);
    if (rc) return rc;
    rc = profiler_pause(p, seconds, gone, client, err);
    const int ended = sonde_profiler_end(p, t, rc ? NULL : out, rc ? NULL : err);
    return rc ? rc : ended;
}
