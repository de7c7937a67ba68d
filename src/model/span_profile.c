/* span_profile.c - spans of the model as those of a profile, which samples are joined with. */
#include "model/model.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

int sonde_model_span_add_to(const struct sonde_model_span *span, struct sonde_profile *p)
{
    const struct sonde_profile_span s = {
        .start_ns = span->start_ns,
        .end_ns = span->start_ns + span->duration_ns,
        .trace_hi = span->trace_hi,
        .trace_lo = span->trace_lo,
        .id = span->id,
        .parent = span->parent,
        /* A request is of no thread, nor is a wait in a queue. */
        .thread = sonde_profile_thread(p, span->pid, span->tid, span->tid ? NULL : "requests"),
        .name = sonde_profile_cstring(p, span->name),
        .outcome = span->outcome,
    };
    if (!s.thread || (!s.name && span->name[0]) || sonde_profile_add_span(p, &s)) {
        return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < span->part_count; i++) {
        const struct sonde_profile_part part = {
            .request = span->parts[i].request, .span = p->spans_count - 1,
            .tokens_in = span->parts[i].tokens_in, .tokens_out = span->parts[i].tokens_out };
        if (sonde_profile_add_part(p, &part)) return SONDE_ENOMEM;
    }
    return 0;
}
