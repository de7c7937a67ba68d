/* prefill_delay.h - what tokens of running requests lose to the prompts of others.
 *
 * Between its first token and its last a request waits for every pass that has tokens of another's
 * prompt in it: for the whole pass if it is not in it ("apart"), for what the pass takes longer
 * than one without prompts (the median of those) if it is ("shared"). The remedies differ: passes
 * apart want to be scheduled otherwise, shared ones want smaller parts of prompts. */
#ifndef SONDE_ANALYZE_FINDING_PREFILL_DELAY_H
#define SONDE_ANALYZE_FINDING_PREFILL_DELAY_H

#include "analyze/finding/batches.h"
#include "analyze/finding/rule.h"

struct finding_prefill_delay {
    double delay_s;                /* of all requests */
    double longest_s;              /* by one pass */
    uint64_t chunk_max;            /* tokens of prompts in that pass */
    size_t requests, passes;       /* that were delayed; delays */
    uint64_t worst;                /* the request that lost the most, and how much */
    double worst_s;
};

struct finding_prefill_delays {
    struct finding_prefill_delay apart, shared;
    double window_s;               /* from first to last token, of all requests */
    double decode_s;               /* a pass without prompts; NaN = not known, as all else then */
    double chunk;                  /* a part of a prompt that makes a pass take twice that; NaN =
                                      not known */
};

/* Sets l->rc when there is no memory. */
void finding_prefill_delays(struct finding_look *l, struct finding_prefill_delays *out);

/* A finding of one of the two, if its share of the window is a tenth or more, a warning from a
 * quarter on; else NULL. Text and advice are the rule's. */
struct sonde_finding *finding_prefill_add(struct finding_look *l,
                                          const struct finding_prefill_delays *d,
                                          const struct finding_prefill_delay *part);

#endif
