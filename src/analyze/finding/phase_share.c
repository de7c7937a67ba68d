/* phase_share.c - see phase_share.h. */
#include "analyze/finding/phase_share.h"

#include <math.h>

enum { REQUESTS_MIN = 5 };
#define INFO_SHARE 0.10
#define WARNING_SHARE 0.25
#define QUEUE_SHARE 0.50 /* without it twice as many could be served, and nobody would wait */

struct sonde_finding *finding_phase_share(struct finding_look *l, enum sonde_phase_kind kind,
                                          const char *does)
{
    const struct sonde_infer_run *run = l->p->infer;
    const struct sonde_infer_request *worst = NULL;
    double phase = 0, work = 0, count = 0;
    size_t requests = 0;
    for (uint32_t i = 0; run && i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (*r->invalid) continue;
        for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) {
            if (k != SONDE_PHASE_QUEUE) work += r->phase_s[k];
        }
        if (!r->phase_count[kind]) continue;
        phase += r->phase_s[kind];
        count += (double)r->phase_count[kind];
        requests++;
        if (!worst || r->phase_s[kind] > worst->phase_s[kind]) worst = r;
    }
    const double share = work > 0 ? phase / work : 0;
    if (requests < REQUESTS_MIN || share < INFO_SHARE || phase < l->o.seconds_min) return NULL;
    struct sonde_finding *f = finding_add(
        l, share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, sonde_phase_name(kind), "", 0);
    f->share = share;
    f->seconds = phase;
    f->count = count;
    f->avg_s = phase / count;
    f->gain = share;
    f->gain_of = "work on requests";
    if (share >= QUEUE_SHARE) f->explains = "queueing";
    finding_text(l, f,
                 "%s takes %.1f %% of the work on requests: %.3f of %.3f s, %.3f ms each time",
                 does, 100 * share, phase, work, 1e3 * f->avg_s);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_REQUEST, .subject = (char *)(uintptr_t)worst->own_id,
        .value = worst->phase_s[kind], .unit = "seconds", .what = sonde_phase_name(kind) });
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_SPAN, .subject = (char *)(uintptr_t)sonde_phase_name(kind),
        .value = phase, .unit = "seconds", .what = "time" });
    return f;
}
