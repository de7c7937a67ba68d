/* low_throughput.c - tokens come more slowly, or answers take longer, than the objectives allow. */
#include <math.h>

#include "analyze/finding/objective.h"

static double throughput_itl(const struct sonde_infer_request *r)
{
    return r->itl_count ? r->itl_s : NAN;
}

static double throughput_itl_count(const struct sonde_infer_request *r)
{
    return (double)r->itl_count;
}

static double throughput_total(const struct sonde_infer_request *r)
{
    return r->total_s > 0 && !(r->flags & SONDE_INFER_INCOMPLETE) ? r->total_s : NAN;
}

static void throughput_advise(struct finding_look *l, struct sonde_finding *f)
{
    const struct sonde_infer_run *run = l->p->infer;
    double decode = 0, between = 0, tokens = 0;
    for (uint32_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (*r->invalid || !r->itl_count) continue;
        decode += r->phase_s[SONDE_PHASE_DECODE];
        between += r->itl_s * (double)r->itl_count;
        tokens += (double)r->itl_count;
    }
    if (!(between > 0)) return;
    if (decode < 0.5 * between) {
        finding_advise(l, f,
                       "only %.0f %% of the time between tokens is computing for the request "
                       "itself: `sonde why --slowest 10%%` shows what it waits for",
                       100 * decode / between);
    } else {
        finding_advise(l, f,
                       "computing a token takes %.1f ms (%.0f %% of the time between tokens): a "
                       "smaller or further quantised model, as many threads as there are physical "
                       "cores, or a device",
                       1e3 * decode / tokens, 100 * decode / between);
    }
}

static void throughput_look(struct finding_look *l)
{
    const struct sonde_infer_run *run = l->p->infer;
    if (!run) return;
    struct sonde_finding *f = finding_objective(
        l, run->slo_itl_s > 0 ? run->slo_itl_s : l->o.slo_itl_s, "time between tokens",
        throughput_itl, throughput_itl_count);
    if (!f) {
        f = finding_objective(l, run->slo_total_s > 0 ? run->slo_total_s : l->o.slo_total_s,
                              "time from arrival to end", throughput_total, NULL);
    }
    if (f) throughput_advise(l, f);
}

extern const struct finding_rule finding_rule_low_throughput;
const struct finding_rule finding_rule_low_throughput = {
    .kind = "low_throughput",
    .title = "Tokens come slowly",
    .summary = "a twentieth of the requests or more miss the objective inference.slo_itl_ms or "
               "slo_total_ms; critical from half of them on",
    .look = throughput_look,
};
