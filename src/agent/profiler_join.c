/* profiler_join.c - which request of an engine is the one that a front passed on to it, where the
 * engine knows of no trace: llama.cpp, seen by hooks or probes.
 *
 * It lies within the front's in time, since the front has it first and last, and has its tokens, as
 * far as the front was told how many. Of several that fit, that one is taken whose begin and end
 * are nearest; whether another is about as near is told, since then it may be that. A client's
 * request that waits for one of its own kind to end is the usual case of that.
 *
 * Rejected: handing an id down in the request. The engine has no place for it that comes back. */
#include "infer/event.h"
#include "agent/profiler_private.h"

#define EARLY_NS 5000000u    /* two clocks, and rounding */
#define LATE_NS 100000000u   /* a thread may be kept from running before it is seen to have ended */
#define NEAR_NS 20000000u    /* nearer together than that is as near */

static uint64_t profiler_join_end_of(const struct sonde_infer_request *r)
{
    return r->arrived_ns + (uint64_t)(r->total_s * 1e9);
}

static uint64_t profiler_join_apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* How far its begin and end are from the front's; UINT64_MAX = it cannot be. One that is not known
 * to have ended is silent at most. */
static uint64_t profiler_join_distance(const struct sonde_infer_request *d,
                                       const struct sonde_request_profile *r,
                                       const struct sonde_infer_request *front)
{
    const int runs = (d->flags & SONDE_INFER_RUNNING) != 0;
    const uint64_t end_ns = runs ? r->ended_ns : profiler_join_end_of(d);
    if (d->source != SONDE_INFER_HOOK && d->source != SONDE_INFER_PROBE) return UINT64_MAX;
    if (d->arrived_ns + EARLY_NS < r->request.arrived_ns || end_ns > r->ended_ns + LATE_NS ||
        d->arrived_ns > r->ended_ns) {
        return UINT64_MAX;
    }
    if (front && front->tokens_in && d->tokens_in != front->tokens_in) return UINT64_MAX;
    if (front && front->tokens_out && d->tokens_out != front->tokens_out) return UINT64_MAX;
    return profiler_join_apart(d->arrived_ns, r->request.arrived_ns) +
           profiler_join_apart(end_ns, r->ended_ns);
}

void profiler_join(const struct sonde_infer_request *const *list, size_t count,
                   const struct sonde_request_profile *r, struct profiler_joined *out)
{
    const struct sonde_infer_request *front = NULL;
    uint64_t best = UINT64_MAX;
    *out = (struct profiler_joined){ 0 };
    for (size_t i = 0; i < count; i++) {
        if (list[i]->id == r->request.id && list[i]->source == r->request.source) front = list[i];
        /* It does know of traces. */
        else if (list[i]->trace_hi == r->request.trace_hi &&
                 list[i]->trace_lo == r->request.trace_lo) return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t d = profiler_join_distance(list[i], r, front);
        if (d >= best) continue;
        best = d;
        out->request = list[i];
    }
    for (size_t i = 0; i < count && out->request; i++) {
        const uint64_t d = profiler_join_distance(list[i], r, front);
        out->others += list[i] != out->request && d != UINT64_MAX && d <= 2 * best + NEAR_NS;
    }
}
