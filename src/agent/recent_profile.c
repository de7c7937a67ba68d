/* recent_profile.c - see recent_profile.h. */
#include "agent/recent_profile.h"


#include <math.h>

#include "agent/profiler_private.h"
#include "analyze/final_model.h"
#include "base/clock.h"
#include "model/track_ticks.h"
#include "profile/symbol/symbolize.h"
#include "sonde/sonde.h"
#include "store/history.h"

enum { PROCESSES_MAX = 16, RATE_HZ = 199 };
#define BYTES_MAX ((size_t)256 << 20)
#define LATE_S 0.3 /* spans and requests are known so long after they ended */

/* ---- Recording ------------------------------------------------------------------------------- */

struct recent_engines {
    struct sonde_cpu *cpu[PROCESSES_MAX];
    size_t count;
};

static void recent_engines_start(const struct sonde_agent *a, struct recent_engines *e)
{
    struct sonde_model *m = sonde_collector_model(a->collector);
    uint32_t pids[PROCESSES_MAX];
    size_t count = 0;
    sonde_rdlock(&m->lock);
    for (size_t i = 0; i < m->process_count && count < PROCESSES_MAX; i++) {
        const struct sonde_model_process *p = m->processes[i];
        if (p->state == SONDE_PROCESS_RUNNING && !p->elsewhere) pids[count++] = p->pid;
    }
    sonde_rwunlock(&m->lock);
    for (size_t i = 0; i < count; i++) {
        const struct sonde_cpu_options o = {
            .pid = pids[i], .rate_hz = RATE_HZ, .off_cpu = 1, .profile_bytes_max = BYTES_MAX / 4,
            .readers = sonde_collector_readers(a->collector),
        };
        struct sonde_err err = { "" };
        if (sonde_cpu_start(&o, &e->cpu[e->count], &err) == 0) e->count++;
    }
}

/* What they saw into p; engines are gone, also on failure. */
static int recent_engines_stop(struct recent_engines *e, struct sonde_profile *p)
{
    int rc = 0;
    for (size_t i = 0; i < e->count; i++) {
        struct sonde_profile *one = NULL;
        if (sonde_cpu_stop(e->cpu[i], &one) != 0) continue;
        if (!rc) rc = sonde_profile_merge(p, one);
        sonde_profile_destroy(one);
    }
    e->count = 0;
    return rc;
}

static int recent_record(const struct sonde_agent *a, const struct sonde_recent_profile_options *o,
                         struct sonde_profile *p, struct sonde_err *err)
{
    struct recent_engines e = { .count = 0 };
    if (sonde_profiler_has_cpu(a->profiler)) recent_engines_start(a, &e);
    int rc = profiler_pause(a->profiler, o->record_s, o->gone, o->client, err);
    const uint64_t end_ns = (uint64_t)(sonde_clock_s(CLOCK_REALTIME) * 1e9);
    const int merged = recent_engines_stop(&e, p);
    if (!rc) rc = merged;
    if (!rc) rc = profiler_pause(a->profiler, LATE_S, o->gone, o->client, err);
    p->end_ns = end_ns;
    return rc;
}

/* ---- What was -------------------------------------------------------------------------------- */

/* Without continuous profiling there are no samples, and that is all that is missing. */
static int recent_history(const struct sonde_agent *a, double from_s, double to_s,
                          struct sonde_profile *p)
{
    const struct sonde_history_query q = { .from_s = from_s, .to_s = to_s };
    const struct sonde_store_ops *ops;
    struct sonde_profile *samples = NULL;
    struct sonde_err err = { "" };
    if (!a->continuous) return 0;
    sonde_continuous_flush(a->continuous);
    struct sonde_store *store = sonde_continuous_store(a->continuous, &ops);
    if (!store || sonde_history_merge(ops, store, &q, &samples, &err) != 0) return 0;
    const int rc = sonde_profile_merge(p, samples);
    /* Only those with samples: the model has all. */
    p->spans_count = p->parts_count = p->attrs_count = 0;
    sonde_profile_destroy(samples);
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int recent_context(const struct sonde_agent *a, uint64_t from_ns, struct sonde_profile *p)
{
    struct sonde_model *m = sonde_collector_model(a->collector);
    struct sonde_infer_tracker *tracker = sonde_collector_tracker(a->collector);
    int rc = profiler_spans(a->profiler, from_ns, p);
    if (!rc) rc = profiler_requests(a->profiler, from_ns, p);
    sonde_rdlock(&m->lock);
    if (!rc && tracker) rc = sonde_infer_complete_run(tracker, p);
    if (!rc) rc = sonde_final_complete_run(m, p);
    if (!rc) sonde_model_track_since(m, (double)from_ns * 1e-9, p);
    sonde_rwunlock(&m->lock);
    return rc;
}

/* Heaps are looked at only where one is profiled anyway. */
static int recent_heap(const struct sonde_agent *a, struct sonde_profile *p)
{
    struct sonde_profile *heap = NULL;
    struct sonde_err err = { "" };
    if (sonde_profiler_heap(a->profiler, 0, 0, &heap, &err) != 0) return 0;
    /* Spans and requests are there already. */
    heap->spans_count = heap->parts_count = heap->attrs_count = 0;
    sonde_infer_run_destroy(heap->infer);
    heap->infer = NULL;
    const int rc = sonde_profile_merge(p, heap);
    sonde_profile_destroy(heap);
    return rc;
}

static int recent_name(struct sonde_profile *p)
{
    struct sonde_symbolizer *s;
    int rc = sonde_symbolizer_create(&s);
    if (rc) return rc;
    rc = sonde_symbolize(s, p);
    sonde_symbolizer_destroy(s);
    return rc == SONDE_EIO ? 0 : rc; /* no names, but all else */
}

int sonde_recent_profile(const struct sonde_agent *a, const struct sonde_recent_profile_options *o,
                         struct sonde_profile **out, struct sonde_err *err)
{
    struct sonde_profile *p;
    if (!a->collector || !a->profiler) {
        return sonde_err_set(err, SONDE_EOFF, "this agent captures no profiles");
    }
    int rc = sonde_profile_create(BYTES_MAX, &p);
    if (rc) return sonde_err_memory(err);
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    const int records = o->record_s > 0;
    const double from_s = records ? now_s : fmax(now_s - o->window_s, a->started_s);
    rc = records ? recent_record(a, o, p, err) : recent_history(a, from_s, now_s, p);
    const uint64_t from_ns = (uint64_t)(from_s * 1e9);
    const uint64_t end_ns = records ? p->end_ns : (uint64_t)(now_s * 1e9);
    if (!rc) rc = recent_context(a, from_ns, p);
    if (!rc) rc = recent_heap(a, p);
    if (!rc && records) rc = recent_name(p);
    if (rc) {
        sonde_profile_destroy(p);
        return rc == SONDE_ENOMEM ? sonde_err_memory(err) : rc;
    }
    p->start_ns = from_ns;
    p->end_ns = end_ns;
    *out = p;
    return 0;
}
