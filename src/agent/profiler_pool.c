/* profiler_pool.c - the engines that captures share: see capture.h.
 *
 * A source is an engine and how far it has been read. Every few seconds all that is new goes to
 * each capture, and the engine forgets it; so an engine's memory is that of its stacks. A change of
 * rate starts the new engine before the old one ends, and cuts both at the same instant: nothing is
 * missed, and nothing counted twice. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "profile/thin.h"
#include "agent/profiler_private.h"
#include "sonde/sonde.h"

#define ENGINE_BYTES_MAX ((size_t)64 << 20)
#define ROUND_NS 1000000000u   /* between looks for processes that have come or gone */
#define DRAIN_ROUNDS 5u        /* of them between drains */
#define ROWS_MAX (1u << 20)    /* samples of a capture, until they are added up */
#define SLICES 64u             /* of its time, into which they are */

void profiler_pool_init(struct profiler_pool *q)
{
    sonde_cond_init(&q->wake);
    sonde_lock_init(&q->lock, SONDE_RANK_PROFILER_POOL);
    sonde_lock_init(&q->naming, SONDE_RANK_SYMBOLIZER);
}

/* ---- Samples to captures --------------------------------------------------------------------- */

static uint64_t profiler_pool_count_samples(const struct sonde_profile *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) n += p->samples[i].count;
    return n;
}

/* Ever longer slices, until half of the room is free or there is but one. */
static void profiler_pool_thin(struct sonde_capture *t)
{
    if (t->samples->samples_count < ROWS_MAX) return;
    const uint64_t all_ns = sonde_clock_ns(CLOCK_REALTIME) - t->from_ns;
    for (uint64_t slices = SLICES; slices >= 1; slices /= 2) {
        const uint64_t slice_ns = all_ns / slices + 1;
        if (slice_ns > t->slice_ns) t->slice_ns = slice_ns;
        sonde_profile_thin(t->samples, t->slice_ns);
        if (t->samples->samples_count <= ROWS_MAX / 2) return;
    }
}

/* What of part is t's, added to it. */
static void profiler_pool_give(struct sonde_capture *t, const struct sonde_profile *part)
{
    struct sonde_profile own = *part;
    own.samples = sonde__calloc(part->samples_count + 1u, sizeof(*own.samples));
    if (!own.samples) {
        t->dropped += profiler_pool_count_samples(part);
        return;
    }
    if (part->samples_count) {
        memcpy(own.samples, part->samples, part->samples_count * sizeof(*own.samples));
    }
    own.samples_count = sonde_samples_cut(own.samples, own.samples_count, t->from_ns, 0);
    if (own.start_ns < t->from_ns) own.start_ns = t->from_ns;
    const uint64_t wanted = profiler_pool_count_samples(&own),
                   before = profiler_pool_count_samples(t->samples);
    t->dropped += own.dropped_samples;
    own.dropped_samples = 0; /* here they are counted once, whether or not they could be added */
    if (sonde_profile_merge(t->samples, &own)) {
        t->dropped += wanted - (profiler_pool_count_samples(t->samples) - before);
        t->samples->dropped_samples = 0;
    }
    sonde__free(own.samples);
    profiler_pool_thin(t);
}

/* to_ns 0 = all; else what comes later is of the next source. */
static void profiler_pool_drain_source(struct profiler_pool *q, struct profiler_source *s,
                                       uint64_t to_ns)
{
    sonde_assert_held(&q->lock);
    struct sonde_profile *part;
    if (sonde_cpu_since(s->cpu, &s->cursor, s->pid != 0, &part) != 0) return;
    sonde_profile_cut(part, s->from_ns, to_ns);
    for (size_t i = 0; i < q->count; i++) {
        if (!q->captures[i]->o.no_cpu) profiler_pool_give(q->captures[i], part);
    }
    sonde_profile_destroy(part);
}

void profiler_pool_drain(struct sonde_profiler *p)
{
    sonde_assert_held(&p->pool.lock);
    for (size_t i = 0; i < p->pool.source_count; i++) {
        profiler_pool_drain_source(&p->pool, &p->pool.sources[i], 0);
    }
}

/* ---- Sources --------------------------------------------------------------------------------- */

/* With what it has seen until to_ns. */
static void remove_source(struct sonde_profiler *p, size_t i, uint64_t to_ns)
{
    sonde_assert_held(&p->pool.lock);
    struct profiler_pool *q = &p->pool;
    struct profiler_source *s = &q->sources[i];
    struct sonde_profile *unused = NULL;
    profiler_switch_leave(p, s);
    profiler_pool_drain_source(q, s, to_ns);
    if (!s->pid) profiler_cpu_give(p);
    else if (sonde_cpu_stop(s->cpu, &unused) == 0) sonde_profile_destroy(unused);
    q->sources[i] = q->sources[--q->source_count];
}

static void remove_sources(struct sonde_profiler *p)
{
    while (p->pool.source_count) remove_source(p, p->pool.source_count - 1, 0);
}

static double wanted_hz(const struct profiler_pool *q)
{
    sonde_assert_held(&q->lock);
    double rate = 0;
    for (size_t i = 0; i < q->count; i++) {
        const struct sonde_capture_options *o = &q->captures[i]->o;
        if (!o->no_cpu && o->rate_hz > rate) rate = o->rate_hz;
    }
    return rate;
}

/* 1: it is used, as it is fast enough. It may be slower by rounding. */
static int use_running(struct sonde_profiler *p, double rate)
{
    sonde_assert_held(&p->pool.lock);
    struct profiler_pool *q = &p->pool;
    struct sonde_cpu_status status;
    for (size_t i = 0; i < q->source_count; i++) {
        if (q->sources[i].pid) continue;
        sonde_cpu_status(q->sources[i].cpu, &status);
        if (status.rate_hz * 1.01 >= rate) return 1;
        remove_source(p, i, 0);
        return 0;
    }
    struct sonde_cpu *cpu = profiler_cpu_take(p);
    if (!cpu) return 0;
    sonde_cpu_status(cpu, &status);
    if (status.rate_hz * 1.01 < rate) {
        profiler_cpu_give(p);
        return 0;
    }
    const uint64_t now = sonde_clock_ns(CLOCK_REALTIME);
    for (size_t i = q->source_count; i-- > 0;) remove_source(p, i, now);
    struct profiler_source *s = &q->sources[q->source_count++];
    *s = (struct profiler_source){ .cpu = cpu, .from_ns = now };
    sonde_cpu_since(cpu, &s->cursor, 0, NULL); /* what it saw before is not wanted */
    profiler_switch_on(p);
    return 1;
}

/* An engine for a process, in place of the one at `old` (or source_count: there is none). */
static void start_source(struct sonde_profiler *p, uint32_t pid, size_t old)
{
    sonde_assert_held(&p->pool.lock);
    struct profiler_pool *q = &p->pool;
    const struct sonde_cpu_options o = { .pid = pid, .rate_hz = q->rate_hz,
                                         .depth_max = p->o.depth_max, .dir = p->o.dir,
                                         .readers = sonde_collector_readers(p->o.collector),
                                         .profile_bytes_max = ENGINE_BYTES_MAX };
    struct sonde_cpu *cpu;
    if (old == q->source_count && old == PROFILER_PROCESSES_MAX) return;
    const int rc = sonde_cpu_start(&o, &cpu, &q->why);
    if (rc) {
        q->why_rc = rc;
        sonde_log(SONDE_LOG_INFO, "process %u is not sampled: %s", pid, q->why.text);
        if (old == q->source_count && q->refused_count < PROFILER_PROCESSES_MAX) {
            q->refused[q->refused_count++] = pid;
        }
        return;
    }
    const uint64_t now = sonde_clock_ns(CLOCK_REALTIME);
    if (old < q->source_count) remove_source(p, old, now);
    q->sources[q->source_count++] =
        (struct profiler_source){ .pid = pid, .cpu = cpu, .from_ns = now };
    profiler_switch_on(p);
}

static size_t find_source(const struct profiler_pool *q, uint32_t pid)
{
    sonde_assert_held(&q->lock);
    size_t i = 0;
    while (i < q->source_count && q->sources[i].pid != pid) i++;
    return i;
}

/* Engines for what is wanted, and an end to those of what is not. */
static void profiler_pool_settle(struct sonde_profiler *p)
{
    sonde_assert_held(&p->pool.lock);
    struct profiler_pool *q = &p->pool;
    const double rate = wanted_hz(q);
    uint32_t pids[PROFILER_PROCESSES_MAX];
    if (!(rate > 0)) {
        remove_sources(p);
        return;
    }
    if (use_running(p, rate)) return;
    const size_t count = profiler_processes(p, 0, pids, PROFILER_PROCESSES_MAX);
    for (size_t i = q->source_count; i-- > 0;) {
        if (!profiler_contains(pids, count, q->sources[i].pid)) remove_source(p, i, 0);
    }
    const int other_rate = q->source_count && q->rate_hz != rate;
    q->rate_hz = rate;
    for (size_t i = 0; i < count; i++) {
        const size_t at = find_source(q, pids[i]);
        const int known = at < q->source_count ||
                          profiler_contains(q->refused, q->refused_count, pids[i]);
        if (!known || (other_rate && at < q->source_count)) start_source(p, pids[i], at);
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void *profiler_pool_work(void *arg)
{
    struct sonde_profiler *p = arg;
    struct profiler_pool *q = &p->pool;
    sonde_lock(&q->lock);
    for (unsigned round = 1; !q->worker.stopping; round++) {
        const uint64_t until = sonde_clock_ns(CLOCK_MONOTONIC) + ROUND_NS;
        const struct timespec t = sonde_clock_timespec(until);
        if (!q->count) {
            sonde_cond_wait(&q->wake, &q->lock);
            continue;
        }
        if (sonde_cond_timedwait(&q->wake, &q->lock, &t) != ETIMEDOUT) continue;
        profiler_pool_settle(p);
        if (round % DRAIN_ROUNDS == 0) profiler_pool_drain(p);
    }
    sonde_unlock(&q->lock);
    return NULL;
}

static int profiler_pool_start_thread(struct sonde_profiler *p, struct sonde_err *err)
{
    sonde_assert_held(&p->pool.lock);
    struct sonde_worker *w = &p->pool.worker;
    if (w->stopping) return sonde_err_set(err, SONDE_EOFF, "the agent ends");
    if (sonde_worker_start(w, "sonde-captures", profiler_pool_work, p) == 0) return 0;
    return sonde_err_set(err, SONDE_ENOMEM, "cannot start a thread to sample with");
}

void profiler_pool_stop(struct sonde_profiler *p)
{
    struct profiler_pool *q = &p->pool;
    sonde_worker_stop(&q->worker, &q->lock, &q->wake);
}

void profiler_pool_release(struct sonde_profiler *p)
{
    struct profiler_pool *q = &p->pool;
    profiler_pool_stop(p);
    assert(!q->count); /* each capture was ended by its owner */
    sonde_lock(&q->lock);
    remove_sources(p);
    sonde_unlock(&q->lock);
    sonde_symbolizer_destroy(q->symbolizer);
    sonde_cond_destroy(&q->wake);
    sonde_lock_destroy(&q->lock);
    sonde_lock_destroy(&q->naming);
}

/* ---- Coming and going ------------------------------------------------------------------------ */

int profiler_pool_add(struct sonde_profiler *p, struct sonde_capture *t, struct sonde_err *err)
{
    struct profiler_pool *q = &p->pool;
    sonde_lock(&q->lock);
    int rc = profiler_pool_start_thread(p, err);
    if (!rc && q->count == SONDE_CAPTURES_MAX) {
        rc = sonde_err_set(err, SONDE_EBUSY, "%d profiles are being taken, which is the limit: try "
                           "again when one has ended", SONDE_CAPTURES_MAX);
    }
    if (rc) goto out;
    profiler_pool_drain(p);
    q->refused_count = 0;
    t->from_ns = UINT64_MAX; /* until it is sampled by what it asks for */
    q->captures[q->count++] = t;
    if (!t->o.no_cpu && !t->o.background) profiler_switch_on(p);
    q->why_rc = SONDE_ENOENT;
    sonde_err_set(&q->why, SONDE_ENOENT, "there is no process to sample: none records now");
    profiler_pool_settle(p);
    /* The model may not know yet that a process has ended: that there is none is the same. */
    if (!t->o.no_cpu && !q->source_count && !(t->o.wait && q->why_rc == SONDE_ENOENT)) {
        rc = sonde_err_set(err, q->why_rc, "%s", q->why.text);
        q->count--;
        profiler_pool_settle(p);
    }
    t->from_ns = sonde_clock_ns(CLOCK_REALTIME);
    sonde_cond_broadcast(&q->wake);
out:
    sonde_unlock(&q->lock);
    return rc;
}

void profiler_pool_remove(struct sonde_profiler *p, struct sonde_capture *t)
{
    struct profiler_pool *q = &p->pool;
    size_t i = 0;
    sonde_lock(&q->lock);
    profiler_pool_drain(p);
    while (i < q->count && q->captures[i] != t) i++;
    if (i < q->count) q->captures[i] = q->captures[--q->count];
    profiler_pool_settle(p);
    sonde_unlock(&q->lock);
}

void profiler_pool_use(struct sonde_profiler *p, struct sonde_cpu *cpu)
{
    struct profiler_pool *q = &p->pool;
    sonde_lock(&q->lock);
    for (size_t i = q->source_count; i-- > 0;) {
        if (!q->sources[i].pid) remove_source(p, i, 0);
    }
    sonde_lock(&p->lock);
    p->cpu = cpu;
    while (p->in_use) sonde_cond_wait(&p->wake, &p->lock);
    sonde_unlock(&p->lock);
    if (q->count) profiler_pool_settle(p);
    sonde_unlock(&q->lock);
}
