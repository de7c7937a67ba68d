/* period.c - see period.h. */
#include "serve/api/period.h"

#include "agent/continuous.h"
#include "base/clock.h"
#include "profile/infer.h"

#define RECENT_S 120.0 /* flush_seconds is less than that */

/* Objectives are those of the agent: a store has none. */
static void period_objectives(const struct sonde_agent *a, struct sonde_profile *p)
{
    struct sonde_infer_tracker *tracker =
        a->collector ? sonde_collector_tracker(a->collector) : NULL;
    if (!tracker || !p->infer) return;
    const struct sonde_infer_options *o = sonde_infer_options(tracker);
    p->infer->slo_ttft_s = o->slo_ttft_s;
    p->infer->slo_itl_s = o->slo_itl_s;
    p->infer->slo_total_s = o->slo_total_s;
}

void sonde_api_period_flush(const struct sonde_http_request *r,
                            const struct sonde_history_query *q)
{
    const double recent_s = sonde_clock_s(CLOCK_REALTIME) - RECENT_S;
    if (r->agent->continuous && (!(q->to_s > 0) || q->to_s > recent_s)) {
        sonde_continuous_flush(r->agent->continuous);
    }
}

int sonde_api_period(const struct sonde_http_request *r, const struct sonde_history_query *q,
                     struct sonde_profile **out, struct sonde_err *err)
{
    const struct sonde_agent *a = r->agent;
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    struct sonde_period_source from = { .ops = a->store_ops, .store = sonde_http_history(r) };
    from.profile_ops = from.ops;
    from.profiles = from.store;
    if (a->continuous) from.profiles = sonde_continuous_store(a->continuous, &from.profile_ops);
    sonde_api_period_flush(r, q);
    const int rc = sonde_period_profile(&from, q, now_s, out, err);
    if (!rc) period_objectives(a, *out);
    return rc;
}
