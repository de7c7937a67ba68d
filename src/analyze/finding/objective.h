/* objective.h - requests that miss an objective (inference.slo_ttft_ms and others). */
#ifndef SONDE_ANALYZE_FINDING_OBJECTIVE_H
#define SONDE_ANALYZE_FINDING_OBJECTIVE_H

#include "analyze/finding/rule.h"
#include "profile/infer.h"

/* A finding if a twentieth of the requests or more are over the objective, critical from half of
 * them on; NULL = there is none. value: of one, NaN = it does not count. weight: of how many values
 * that is the mean; NULL = of one. */
struct sonde_finding *finding_objective(struct finding_look *l, double objective_s,
                                        const char *what,
                                        double (*value)(const struct sonde_infer_request *r),
                                        double (*weight)(const struct sonde_infer_request *r));

#endif
