/* profiler_switch.c - engines that captures share, off and on: see profiler.h. */
#include "base/clock.h"
#include "base/log.h"
#include "agent/profiler_private.h"
#include "sonde/sonde.h"

/* A session, a request for some seconds, or profiles of single requests: all but what goes on
 * anyway. */
static int profiler_switch_wanted(struct sonde_profiler *p)
{
    sonde_assert_held(&p->pool.lock);
    struct profiler_requests *requests = &p->requests;
    for (size_t i = 0; i < p->pool.count; i++) {
        const struct sonde_capture_options *o = &p->pool.captures[i]->o;
        if (!o->no_cpu && !o->background) return 1;
    }
    sonde_lock(&requests->lock);
    const int some = requests->count > requests->done ||
                     requests->idle_ns > sonde_clock_ns(CLOCK_MONOTONIC);
    sonde_unlock(&requests->lock);
    return some;
}

static void profiler_switch_source(struct profiler_source *s, int off)
{
    struct sonde_err err = { "" };
    if (sonde_cpu_pause(s->cpu, off, &err) != 0) {
        sonde_log(SONDE_LOG_DEBUG, "sampling is not switched %s: %s", off ? "off" : "on", err.text);
    }
}

void profiler_switch_on(struct sonde_profiler *p)
{
    sonde_assert_held(&p->pool.lock);
    struct profiler_pool *q = &p->pool;
    q->changes++;
    if (!q->off) return;
    for (size_t i = 0; i < q->source_count; i++) profiler_switch_source(&q->sources[i], 0);
    q->off = 0;
}

void profiler_switch_leave(struct sonde_profiler *p, struct profiler_source *s)
{
    sonde_assert_held(&p->pool.lock);
    p->pool.changes++;
    if (p->pool.off && !s->pid) profiler_switch_source(s, 0); /* others go on with it */
}

void sonde_profiler_sampling(struct sonde_profiler *p, struct sonde_sampling *out)
{
    struct profiler_pool *q = &p->pool;
    *out = (struct sonde_sampling){ .processes = 0 };
    sonde_lock(&q->lock);
    out->processes = q->source_count;
    out->off = q->off;
    out->changes = q->changes;
    out->wanted = profiler_switch_wanted(p);
    if (q->source_count) {
        struct sonde_cpu_status status;
        sonde_cpu_status(q->sources[0].cpu, &status);
        out->rate_hz = status.rate_hz;
    }
    sonde_unlock(&q->lock);
}

int sonde_profiler_switch(struct sonde_profiler *p, int off, struct sonde_err *err)
{
    struct profiler_pool *q = &p->pool;
    int rc = 0;
    sonde_lock(&q->lock);
    if (off && !q->source_count) {
        rc = sonde_err_set(err, SONDE_EBUSY, "no process is sampled");
    } else if (off && profiler_switch_wanted(p)) {
        rc = sonde_err_set(err, SONDE_EBUSY, "a profile is being taken, for which every sample is "
                           "wanted");
    }
    size_t done = 0;
    for (; !rc && q->off != off && done < q->source_count; done++) {
        rc = sonde_cpu_pause(q->sources[done].cpu, off, err);
        if (rc) break;
    }
    if (rc && off) { /* all or none */
        while (done-- > 0) profiler_switch_source(&q->sources[done], 0);
    }
    if (!rc) q->off = off;
    sonde_unlock(&q->lock);
    return rc;
}

void sonde_profiler_annotate(struct sonde_profiler *p,
                             void (*annotate)(struct sonde_profile *profile, void *arg),
                             void *arg)
{
    sonde_lock(&p->lock);
    p->annotate = annotate;
    p->annotate_arg = arg;
    sonde_unlock(&p->lock);
}
