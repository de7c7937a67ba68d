/* text_share.c - turning tokens into text takes much of the work on requests. */
#include "analyze/finding/phase_share.h"

static void text_share_look(struct finding_look *l)
{
    struct sonde_finding *f =
        finding_phase_share(l, SONDE_PHASE_DETOKENIZE, "turning tokens into text");
    if (!f) return;
    finding_advise(l, f,
                   "turn only the new token into text instead of the whole answer each time, keep "
                   "the pieces of the vocabulary, and do it on the thread that sends: %.3f ms "
                   "each time now",
                   1e3 * f->avg_s);
}

extern const struct finding_rule finding_rule_text_share;
const struct finding_rule finding_rule_text_share = {
    .kind = "text_share",
    .title = "Detokenizer share",
    .summary = "detokenizing takes a tenth or more of the work on requests; a warning from a "
               "quarter on",
    .explains = "low_throughput",
    .look = text_share_look,
};
