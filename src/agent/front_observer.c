/* front_observer.c - the front as a part of the agent. What it sees of a request goes to what
 * measures it and, for a request that asks for a profile of its own, to the profiler: they meet
 * here, on the front's thread, token by token. Of two servers that are compared, how requests ended
 * goes to arms.h too; what is mirrored goes there alone, since no client asked for it. */
#include <assert.h>

#include "agent/agent_private.h"
#include "agent/profiler_request.h"
#include "sonde/sonde.h"

static void agent_front_event(void *arg, enum sonde_front_event event,
                              struct sonde_front_request *r)
{
    const struct sonde_agent *a = arg;
    const struct sonde_front_observer *measures = &a->life->measures;
    if (event == SONDE_FRONT_ENDED && r->arm) sonde_arms_ended(a->arms, r);
    if (r->copy) return;
    if (event == SONDE_FRONT_ARRIVED && r->profile && a->profiler) {
        sonde_profiler_request_begin(a->profiler, &(struct sonde_profiler_request){
            .id = r->span, .trace_hi = r->trace_hi, .trace_lo = r->trace_lo,
            .source = SONDE_INFER_FRONT, .arrived_ns = r->arrived_unix_ns }, r->profile_id);
    }
    measures->event(measures->arg, event, r);
    if (event == SONDE_FRONT_ENDED && r->profile_id[0]) {
        sonde_profiler_request_end(a->profiler, r->span,
                                   r->arrived_unix_ns + (r->ended_ns - r->arrived_ns), 0);
    }
}

static void agent_front_tick(void *arg, const struct sonde_front_state *state)
{
    const struct sonde_agent *a = arg;
    const struct sonde_front_observer *measures = &a->life->measures;
    measures->tick(measures->arg, state);
    if (a->arms) sonde_arms_tick(a->arms, state);
}

static int agent_front_ready(void *arg, const struct sonde_front_request *r)
{
    const struct sonde_agent *a = arg;
    return !r->profile_id[0] || sonde_profiler_request_ready(a->profiler, r->span);
}

int sonde_agent_front(struct sonde_agent *a, const struct sonde_front_options *options,
                      const struct sonde_arms_settings *compared, struct sonde_err *err)
{
    assert(a->collector && !a->life->front);
    struct sonde_agent_life *l = a->life;
    struct sonde_model *model = sonde_collector_model(a->collector);
    int rc = sonde_front_metrics_create(model, sonde_collector_tracker(a->collector),
                                        &l->front_metrics);
    if (!rc && options->ab.mode) rc = sonde_arms_create(compared, options, model, &a->arms);
    if (rc) return sonde_err_set(err, SONDE_ENOMEM, "cannot start the front: out of memory");
    struct sonde_front_options o = *options;
    l->measures = sonde_front_metrics_observer(l->front_metrics);
    o.observer = (struct sonde_front_observer){ .event = agent_front_event,
                                                .tick = agent_front_tick,
                                                .ready = agent_front_ready, .arg = a };
    return sonde_front_start(&o, &l->front, err);
}

void agent_front_stop(struct sonde_agent *a)
{
    sonde_front_stop(a->life->front);
    a->life->front = NULL;
}

void agent_front_release(struct sonde_agent *a)
{
    assert(!a->life->front);
    sonde_front_metrics_destroy(a->life->front_metrics);
    a->life->front_metrics = NULL;
    sonde_arms_destroy(a->arms);
    a->arms = NULL;
}
