/* phase_share.h - phases around the forward passes that take much of the requests' working time:
 * one judgement for tokenizer, sampler and text. */
#ifndef SONDE_ANALYZE_FINDING_PHASE_SHARE_H
#define SONDE_ANALYZE_FINDING_PHASE_SHARE_H

#include "analyze/finding/rule.h"
#include "profile/infer.h"

/* A finding if the phase takes a tenth or more of the working time (all phases but the queue) of
 * the requests, a warning from a quarter on; NULL = there is none. advice is added to it. */
struct sonde_finding *finding_phase_share(struct finding_look *l, enum sonde_phase_kind kind,
                                          const char *does);

#endif
