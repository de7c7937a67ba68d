/* profiler.c - see profiler.h. */
#include "serve/profiler_private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "analyze/inference.h"
#include "base/alloc.h"
#include "base/log.h"
#include "sonde/sonde.h"

enum { ENGINES_MAX = PROFILER_PROCESSES_MAX };
#define PROFILE_BYTES_MAX ((size_t)256 << 20)
#define SPANS_BYTES_MAX ((size_t)64 << 20) /* some million spans; the rest is not joined */
#define SETTLE_S 0.2 /* until what ended in that time is drained */

int sonde_profiler_create(const struct sonde_profiler_options *options,
                          struct sonde_profiler **out)
{
    struct sonde_profiler *p = sonde__calloc(1, sizeof(*p));
    if (!p) return SONDE_ENOMEM;
    p->o = *options;
    if (!(p->o.rate_hz > 0)) p->o.rate_hz = 99;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&p->lock, NULL);
    profiler_heap_init(&p->heap);
    profiler_requests_init(&p->requests);
    *out = p;
    return 0;
}

void sonde_profiler_destroy(struct sonde_profiler *p)
{
    if (!p) return;
    profiler_requests_release(p);
    sonde_symbolizer_destroy(p->symbolizer);
    profiler_heap_release(&p->heap);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    sonde__free(p);
}

void sonde_profiler_use(struct sonde_profiler *p, struct sonde_cpu *cpu)
{
    pthread_mutex_lock(&p->lock);
    p->cpu = cpu;
    while (p->in_use) pthread_cond_wait(&p->wake, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void sonde_profiler_cancel(struct sonde_profiler *p)
{
    pthread_mutex_lock(&p->lock);
    p->cancelled = 1;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    profiler_requests_stop(p);
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 0, or SONDE_EOFF when cancelled. */
static int pause_for(struct sonde_profiler *p, double seconds, struct sonde_err *err)
{
    const uint64_t until = now_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    const struct timespec t = { .tv_sec = (time_t)(until / 1000000000u),
                                .tv_nsec = (long)(until % 1000000000u) };
    pthread_mutex_lock(&p->lock);
    while (!p->cancelled && pthread_cond_timedwait(&p->wake, &p->lock, &t) != ETIMEDOUT) {
    }
    const int cancelled = p->cancelled;
    pthread_mutex_unlock(&p->lock);
    return cancelled ? sonde_err_set(err, SONDE_EOFF, "the agent ends") : 0;
}

/* ---- Sampling --------------------------------------------------------------------------------- */

struct sonde_cpu *profiler_cpu_take(struct sonde_profiler *p)
{
    pthread_mutex_lock(&p->lock);
    struct sonde_cpu *cpu = p->cpu;
    p->in_use += cpu != NULL;
    pthread_mutex_unlock(&p->lock);
    return cpu;
}

void profiler_cpu_give(struct sonde_profiler *p)
{
    pthread_mutex_lock(&p->lock);
    p->in_use--;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

/* From the engine that runs anyway. 1 = there is none. */
static int take_running(struct sonde_profiler *p, double seconds, struct sonde_profile **out,
                        struct sonde_err *err)
{
    pthread_mutex_lock(&p->lock);
    const int have = p->cpu != NULL;
    pthread_mutex_unlock(&p->lock);
    if (!have) return 1;
    const uint64_t from_ns = now_ns(CLOCK_REALTIME);
    int rc = pause_for(p, seconds, err);
    if (rc) return rc;
    struct sonde_cpu *cpu = profiler_cpu_take(p);
    if (!cpu) return sonde_err_set(err, SONDE_ENOENT, "the process has ended");
    rc = sonde_cpu_snapshot(cpu, from_ns, out);
    profiler_cpu_give(p);
    return rc ? sonde_err_set(err, rc, "no memory to copy the profile") : 0;
}

size_t profiler_processes(struct sonde_profiler *p, int ended, uint32_t *pids, size_t max)
{
    size_t count = 0;
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    pthread_rwlock_rdlock(&m->lock);
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *process = m->processes[i];
        if (!ended && process->state != SONDE_PROCESS_RUNNING) continue;
        int known = 0;
        for (size_t k = 0; k < count; k++) known |= pids[k] == process->pid;
        if (!known && count < max) pids[count++] = process->pid;
    }
    pthread_rwlock_unlock(&m->lock);
    return count;
}

/* One after the other into *out; the profile of the first is the start. */
static int stop_all(struct sonde_cpu **engines, size_t count, struct sonde_profile **out,
                    struct sonde_err *err)
{
    struct sonde_profile *all = NULL;
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        struct sonde_profile *one = NULL;
        const int stopped = sonde_cpu_stop(engines[i], &one);
        if (!rc) rc = stopped;
        if (!all) {
            all = one;
        } else if (one) {
            if (!rc) rc = sonde_profile_merge(all, one);
            sonde_profile_destroy(one);
        }
    }
    if (rc) {
        sonde_profile_destroy(all);
        return sonde_err_set(err, rc, "no memory to put the profile together");
    }
    *out = all;
    return 0;
}

/* New engines, one a process. A process that cannot be sampled does not keep the others back. */
static int take_new(struct sonde_profiler *p, double seconds, struct sonde_profile **out,
                    struct sonde_err *err)
{
    uint32_t pids[ENGINES_MAX];
    struct sonde_cpu *engines[ENGINES_MAX];
    const size_t found = profiler_processes(p, 0, pids, ENGINES_MAX);
    size_t count = 0;
    int rc = 0;
    if (!found) {
        return sonde_err_set(err, SONDE_ENOENT, "there is no process to sample: none records now");
    }
    for (size_t i = 0; i < found; i++) {
        const struct sonde_cpu_options o = { .pid = pids[i], .rate_hz = p->o.rate_hz,
                                             .depth_max = p->o.depth_max, .dir = p->o.dir,
                                             .profile_bytes_max = PROFILE_BYTES_MAX };
        rc = sonde_cpu_start(&o, &engines[count], err);
        if (!rc) count++;
        else sonde_log(SONDE_LOG_INFO, "process %u is not sampled: %s", pids[i], err->text);
    }
    if (!count) return rc;
    rc = pause_for(p, seconds, err);
    struct sonde_profile *all = NULL;
    const int stopped = stop_all(engines, count, &all, rc ? NULL : err);
    if (!rc) rc = stopped;
    if (rc) sonde_profile_destroy(all);
    else *out = all;
    return rc;
}

/* ---- Spans and names -------------------------------------------------------------------------- */

static int add_requests(const struct sonde_infer *x, uint64_t from_ns,
                        struct sonde_profile *profile)
{
    int rc = 0;
    for (size_t age = sonde_infer_done_count(x); !rc && age-- > 0;) {
        const struct sonde_infer_request *r = sonde_infer_done(x, age);
        if (r->arrived_ns + (uint64_t)(r->total_s * 1e9) < from_ns) continue;
        rc = sonde_infer_run_add(profile, r);
    }
    return rc ? rc : sonde_infer_complete_run(x, profile);
}

int profiler_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    int rc = 0;
    pthread_rwlock_rdlock(&m->lock);
    const uint64_t count = m->span_next < m->spans_max ? m->span_next : m->spans_max;
    for (uint64_t i = 0; !rc && i < count; i++) {
        const struct sonde_model_span *s = &m->spans[(m->span_next - 1 - i) % m->spans_max];
        if (s->start_ns + s->duration_ns < from_ns) continue;
        rc = sonde_model_span_add_to(s, profile);
    }
    pthread_rwlock_unlock(&m->lock);
    return rc;
}

int profiler_requests(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    int rc = 0;
    pthread_rwlock_rdlock(&m->lock);
    if (sonde_infer_of(m)) rc = add_requests(sonde_infer_of(m), from_ns, profile);
    pthread_rwlock_unlock(&m->lock);
    return rc;
}

/* What does not fit is not there. */
static void on_span(const struct sonde_model_span *span, void *arg)
{
    sonde_model_span_add_to(span, arg);
}

static int complete(struct sonde_profiler *p, uint64_t from_ns, const struct sonde_profile *spans,
                    struct sonde_profile *profile, struct sonde_err *err)
{
    profile->bytes_max += spans->bytes_max;
    int rc = sonde_profile_merge(profile, spans);
    if (!rc) rc = profiler_requests(p, from_ns, profile);
    if (!rc && !p->symbolizer) rc = sonde_symbolizer_create(&p->symbolizer);
    if (!rc) rc = sonde_symbolize(p->symbolizer, profile);
    return rc ? sonde_err_set(err, rc, "no memory to name what was sampled") : 0;
}

/* Samples and all spans that end meanwhile: as many as there are, while the model keeps the newest
 * only. */
static int take(struct sonde_profiler *p, double seconds, struct sonde_profile *spans,
                struct sonde_profile **out, struct sonde_err *err)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    struct sonde_model_listener listener = { .on_span = on_span, .arg = spans };
    pthread_rwlock_wrlock(&m->lock);
    sonde_model_listen(m, &listener);
    pthread_rwlock_unlock(&m->lock);
    int rc = take_running(p, seconds, out, err);
    if (rc == 1) rc = take_new(p, seconds, out, err);
    if (!rc) rc = pause_for(p, SETTLE_S, err);
    pthread_rwlock_wrlock(&m->lock);
    sonde_model_unlisten(m, &listener);
    pthread_rwlock_unlock(&m->lock);
    return rc;
}

int sonde_profiler_take(struct sonde_profiler *p, double seconds, struct sonde_profile **out,
                        struct sonde_err *err)
{
    pthread_mutex_lock(&p->lock);
    const int busy = p->busy;
    p->busy = 1;
    pthread_mutex_unlock(&p->lock);
    if (busy) return sonde_err_set(err, SONDE_EBUSY, "another profile is being taken: try later");

    struct sonde_profile *profile = NULL, *spans = NULL;
    const uint64_t from_ns = now_ns(CLOCK_REALTIME);
    int rc = sonde_profile_create(SPANS_BYTES_MAX, &spans);
    if (rc) sonde_err_set(err, rc, "no memory for a profile");
    else rc = take(p, seconds, spans, &profile, err);
    if (!rc) rc = complete(p, from_ns, spans, profile, err);
    sonde_profile_destroy(spans);
    pthread_mutex_lock(&p->lock);
    p->busy = 0;
    pthread_mutex_unlock(&p->lock);
    if (rc) {
        sonde_profile_destroy(profile);
        return rc;
    }
    *out = profile;
    return 0;
}
