/* capture.c - see capture.h: what a capture gathers beside samples, and how it becomes a
 * profile. Samples come from profiler_pool.c. */
#include "agent/capture.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "analyze/final_model.h"
#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "model/track_ticks.h"
#include "profile/infer.h"
#include "profile/thin.h"
#include "agent/profiler_private.h"
#include "sonde/sonde.h"

#define SAMPLES_BYTES_MAX ((size_t)96 << 20)
#define SPANS_BYTES_MAX ((size_t)64 << 20)  /* some million spans; the rest is counted */
#define WHOLE_BYTES_MAX ((size_t)512 << 20) /* of the profile, with heaps and names */
#define SETTLE_S 0.2 /* until what ended in that time is drained */

/* ---- Spans and requests: what the model calls ------------------------------------------------ */

static void capture_on_span(const struct sonde_model_span *span, void *arg)
{
    struct sonde_capture *t = arg;
    if (sonde_model_span_add_to(span, t->spans)) t->dropped_spans++;
}

void captures_on_request(struct sonde_profiler *p, const struct sonde_infer_request *r)
{
    sonde_assert_held_write(&sonde_collector_model(p->o.collector)->lock);
    struct sonde_infer_request flat = *r; /* which timelines are kept is known at the end */
    flat.items = NULL;
    flat.item_count = 0;
    for (struct sonde_capture *t = p->pool.told; t; t = t->next_told) {
        t->was_told = 1;
        sonde_infer_run_add(t->spans, &flat); /* what does not fit is counted there */
    }
}

static void listen_begin(struct sonde_profiler *p, struct sonde_capture *t)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    t->listener = (struct sonde_model_listener){ .on_span = capture_on_span, .arg = t };
    sonde_wrlock(&m->lock);
    sonde_model_listen(m, &t->listener);
    t->next_told = p->pool.told;
    p->pool.told = t;
    sonde_rwunlock(&m->lock);
}

static void listen_end(struct sonde_profiler *p, struct sonde_capture *t)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    struct sonde_capture **at = &p->pool.told;
    sonde_wrlock(&m->lock);
    sonde_model_unlisten(m, &t->listener);
    while (*at && *at != t) at = &(*at)->next_told;
    assert(*at); /* listen_begin put it there */
    *at = t->next_told;
    sonde_rwunlock(&m->lock);
}

/* ---- The profile ----------------------------------------------------------------------------- */

/* Spans, requests, models of a time that is over or goes on. */
static int capture_add_context(struct sonde_profiler *p, struct sonde_capture *t,
                               struct sonde_profile *to)
{
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    sonde_rdlock(&m->lock);
    const int told = t->was_told;
    int rc = sonde_profile_merge(to, t->spans);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(p->o.collector);
    if (!rc && told && tracker) rc = sonde_infer_complete_run(tracker, to);
    if (!rc) rc = sonde_final_complete_run(m, to);
    if (!rc) sonde_model_track_since(m, (double)t->from_ns * 1e-9, to);
    sonde_rwunlock(&m->lock);
    /* Whoever does not tell of requests may still have a model that remembers them. */
    return rc || told ? rc : profiler_requests(p, t->from_ns, to);
}

static int capture_name(struct sonde_profiler *p, struct sonde_profile *profile)
{
    struct profiler_pool *q = &p->pool;
    sonde_lock(&q->naming);
    int rc = q->symbolizer ? 0 : sonde_symbolizer_create(&q->symbolizer);
    if (!rc) rc = sonde_symbolize(q->symbolizer, profile);
    sonde_unlock(&q->naming);
    /* Without a child to read files in there are no names, but all else. */
    return rc == SONDE_EIO ? 0 : rc;
}

/* profile has the samples, heap what is left of a heap that is gone. */
static int capture_complete(struct sonde_profiler *p, struct sonde_capture *t, uint64_t dropped,
                            const struct sonde_profile *heap, uint64_t to_ns,
                            struct sonde_profile *profile, struct sonde_err *err)
{
    profile->bytes_max = WHOLE_BYTES_MAX;
    sonde_profile_cut(profile, t->from_ns, to_ns);
    int rc = t->o.no_spans ? 0 : capture_add_context(p, t, profile);
    if (!rc && heap) rc = sonde_profile_merge(profile, heap);
    if (!rc && t->o.memory) rc = profiler_heap_add(p, t->from_ns, to_ns, profile);
    if (!rc) rc = capture_name(p, profile);
    profile->dropped_samples = dropped;
    profile->start_ns = t->from_ns;
    profile->end_ns = to_ns;
    if (!t->o.no_cpu && !(profile->rate_hz > 0)) profile->rate_hz = t->o.rate_hz; /* nothing ran */
    sonde_lock(&p->lock);
    if (p->annotate && !t->o.no_cpu) p->annotate(profile, p->annotate_arg);
    sonde_unlock(&p->lock);
    return rc ? sonde_err_set(err, rc, "no memory to put the profile together") : 0;
}

/* ---- From begin to end ----------------------------------------------------------------------- */

static void capture_destroy(struct sonde_capture *t)
{
    sonde_profile_destroy(t->samples);
    sonde_profile_destroy(t->spans);
    sonde_profile_destroy(t->heap);
    sonde__free(t);
}

int sonde_profiler_begin(struct sonde_profiler *p, const struct sonde_capture_options *o,
                         struct sonde_capture **out, struct sonde_err *err)
{
    struct sonde_capture *t = sonde__calloc(1, sizeof(*t));
    if (!t) return sonde_err_set(err, SONDE_ENOMEM, "no memory for a profile");
    t->o = *o;
    t->o.no_cpu |= p->o.no_cpu;
    if (!(t->o.rate_hz > 0)) t->o.rate_hz = p->o.rate_hz;
    int rc = sonde_profile_create(SAMPLES_BYTES_MAX, &t->samples);
    if (!rc) {
        rc = sonde_profile_create(o->spans_bytes_max ? o->spans_bytes_max : SPANS_BYTES_MAX,
                                  &t->spans);
    }
    if (rc) sonde_err_set(err, rc, "no memory for a profile");
    else rc = profiler_pool_add(p, t, err);
    if (rc) {
        capture_destroy(t);
        return rc;
    }
    if (t->o.memory) profiler_heap_watch(p);
    if (!t->o.no_spans) listen_begin(p, t);
    /* What goes on all the time is no reason to read GPUs more often. */
    t->gpu_burst = !o->background && !o->no_cpu;
    if (t->gpu_burst) sonde_collector_gpu_burst(p->o.collector, 1);
    *out = t;
    return 0;
}

int sonde_profiler_end(struct sonde_profiler *p, struct sonde_capture *t,
                       struct sonde_profile **out, struct sonde_err *err)
{
    const uint64_t to_ns = sonde_clock_ns(CLOCK_REALTIME);
    int rc = 0;
    if (out) profiler_pause(p, SETTLE_S, NULL, NULL, NULL); /* cut short, if the agent ends */
    profiler_pool_remove(p, t);
    if (!t->o.no_spans) listen_end(p, t);
    if (t->gpu_burst) sonde_collector_gpu_burst(p->o.collector, 0);
    if (out) {
        rc = capture_complete(p, t, t->dropped, t->heap, to_ns, t->samples, err);
        if (!rc) {
            *out = t->samples;
            t->samples = NULL;
        }
    }
    capture_destroy(t);
    return rc;
}

/* from does not change meanwhile. */
static int capture_copy_profile(const struct sonde_profile *from, struct sonde_profile **out)
{
    struct sonde_profile *copy = NULL;
    int rc = sonde_profile_create(WHOLE_BYTES_MAX, &copy);
    if (!rc) rc = sonde_profile_merge(copy, from);
    if (rc) sonde_profile_destroy(copy);
    else *out = copy;
    return rc;
}

int sonde_profiler_peek(struct sonde_profiler *p, struct sonde_capture *t,
                        struct sonde_profile **out, struct sonde_err *err)
{
    struct profiler_pool *q = &p->pool;
    struct sonde_profile *copy = NULL, *heap = NULL;
    const uint64_t to_ns = sonde_clock_ns(CLOCK_REALTIME);
    sonde_lock(&q->lock);
    profiler_pool_drain(p);
    const uint64_t dropped = t->dropped;
    int rc = capture_copy_profile(t->samples, &copy);
    if (!rc && t->heap) rc = capture_copy_profile(t->heap, &heap);
    sonde_unlock(&q->lock);
    if (rc) sonde_err_set(err, rc, "no memory to copy the profile");
    else rc = capture_complete(p, t, dropped, heap, to_ns, copy, err);
    sonde_profile_destroy(heap);
    if (rc) sonde_profile_destroy(copy);
    else *out = copy;
    return rc;
}

void captures_keep_heaps(struct sonde_profiler *p)
{
    struct profiler_pool *q = &p->pool;
    const uint64_t now = sonde_clock_ns(CLOCK_REALTIME);
    sonde_lock(&q->lock);
    for (size_t i = 0; i < q->count; i++) {
        struct sonde_capture *t = q->captures[i];
        if (!t->o.memory || t->heap || sonde_profile_create(WHOLE_BYTES_MAX, &t->heap)) continue;
        if (profiler_heap_add(p, t->from_ns, now, t->heap)) {
            sonde_profile_destroy(t->heap);
            t->heap = NULL;
        }
    }
    sonde_unlock(&q->lock);
}

void sonde_profiler_capture_status(struct sonde_profiler *p, struct sonde_capture *t,
                                   struct sonde_capture_status *out)
{
    struct profiler_pool *q = &p->pool;
    struct sonde_model *m = sonde_collector_model(p->o.collector);
    *out = (struct sonde_capture_status){ .since_ns = t->from_ns };
    sonde_lock(&q->lock);
    profiler_pool_drain(p);
    if (!t->o.no_cpu && q->source_count) {
        struct sonde_cpu_status cpu;
        sonde_cpu_status(q->sources[0].cpu, &cpu);
        out->rate_hz = cpu.rate_hz;
        out->processes = q->source_count;
        snprintf(out->note, sizeof(out->note), "%s", cpu.note);
    }
    if (q->refused_count) snprintf(out->note, sizeof(out->note), "%.255s", q->why.text);
    for (uint32_t i = 0; i < t->samples->samples_count; i++) {
        out->samples += t->samples->samples[i].count;
    }
    out->dropped_samples = t->dropped;
    out->slice_s = (double)t->slice_ns * 1e-9;
    out->bytes = t->samples->bytes;
    sonde_unlock(&q->lock);
    sonde_rdlock(&m->lock);
    const struct sonde_infer_run *run = t->spans->infer;
    out->spans = t->spans->spans_count;
    out->dropped_spans = t->dropped_spans;
    out->requests = run ? run->request_count : 0;
    out->dropped_requests = run ? run->dropped : 0;
    out->bytes += t->spans->bytes;
    sonde_rwunlock(&m->lock);
}
