/* objective.c - see objective.h. */
#include "analyze/finding/objective.h"

#include <math.h>

enum { REQUESTS_LEAST = 3, REQUESTS_MIN = 10 };
#define WARNING_SHARE 0.05
#define CRITICAL_SHARE 0.50

struct sonde_finding *finding_objective(struct finding_look *l, double objective_s,
                                        const char *what,
                                        double (*value)(const struct sonde_infer_request *r),
                                        double (*weight)(const struct sonde_infer_request *r))
{
    const struct sonde_infer_run *run = l->p->infer;
    const struct sonde_infer_request *worst = NULL;
    double all = 0, missed = 0, over_s = 0, sum = 0;
    double seen = 0, seen_missed = 0; /* values that are behind them */
    for (uint32_t i = 0; run && objective_s > 0 && i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        const double v = *r->invalid ? NAN : value(r);
        if (isnan(v)) continue;
        const double values = weight ? weight(r) : 1;
        all++;
        seen += values;
        sum += v;
        if (v <= objective_s) continue;
        missed++;
        seen_missed += values;
        over_s += v - objective_s;
        if (!worst || v > value(worst)) worst = r;
    }
    /* Of few requests so many must miss it that half of all do for sure: four of four, or three
     * that had to wait for each of their tokens. */
    const int few = all < REQUESTS_MIN;
    if (all < REQUESTS_LEAST || (few ? finding_share_low(seen_missed, seen) < CRITICAL_SHARE
                                     : finding_share_low(missed, all) < WARNING_SHARE)) {
        return NULL;
    }
    const double share = missed / all;
    struct sonde_finding *f = finding_add(
        l, share >= CRITICAL_SHARE ? SONDE_SEVERITY_CRITICAL : SONDE_SEVERITY_WARNING, share);
    finding_subject(l, f, what, "", 0);
    f->share = share;
    f->seconds = over_s;
    f->count = missed;
    f->avg_s = sum / all;
    finding_text(l, f,
                 "%.0f of %.0f requests (%.0f %%) missed the objective for %s of %.1f ms; %.1f ms "
                 "on average",
                 missed, all, 100 * share, what, 1e3 * objective_s, 1e3 * sum / all);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_REQUEST, .subject = (char *)(uintptr_t)worst->own_id,
        .value = value(worst), .unit = "seconds", .what = what });
    return f;
}
