/* sampler.c - choosing tokens takes much of the work on requests. */
#include "analyze/finding/phase_share.h"

static void sampler_look(struct finding_look *l)
{
    struct sonde_finding *f = finding_phase_share(l, SONDE_PHASE_SAMPLE, "choosing tokens");
    if (!f) return;
    finding_advise(l, f,
                   "cut the candidates before they are sorted and normalised (top-k 40 first; "
                   "fewer samplers in the chain; no grammar where the model keeps to it), or "
                   "sample on other threads than the one that computes: %.3f ms per token now",
                   1e3 * f->avg_s);
}

extern const struct finding_rule finding_rule_sampler;
const struct finding_rule finding_rule_sampler = {
    .kind = "sampler",
    .title = "Sampler share",
    .summary = "sampling takes a tenth or more of the work on requests; a warning from a quarter "
               "on",
    .explains = "low_throughput",
    .look = sampler_look,
};
