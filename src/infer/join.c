/* join.c - what the front knows of an engine's request and the engine does not say.
 *
 * Seen by its calls, llama.cpp's request ends in the same way whether it had said all or its client
 * went away: it is in no batch any more. The front knows who went away. So the engine's request
 * that it stands for, if that can be told, ends as cancelled too.
 *
 * Which one that is: in flight, arrived just behind the front's and nearer to it than to any other
 * of the front's, and with tokens that may be those the front has seen. If another would do about
 * as well, none is taken: a request that is wrongly called cancelled is worse than one too few. */
#include <string.h>

#include "infer/private.h"

#define EARLY_NS 5000000u  /* two clocks, and rounding */
#define NEAR_NS 20000000u  /* nearer together than that is as near */

static int by_calls(const struct infer_flight *f)
{
    return f->r.source == SONDE_INFER_HOOK || f->r.source == SONDE_INFER_PROBE;
}

static uint64_t infer_join_apart(const struct infer_flight *a, const struct infer_flight *b)
{
    return a->r.arrived_ns > b->r.arrived_ns ? a->r.arrived_ns - b->r.arrived_ns
                                             : b->r.arrived_ns - a->r.arrived_ns;
}

/* Pieces of a stream are tokens, or some of them at once; the engine may be ahead. */
static int tokens_fit(const struct infer_flight *front, const struct infer_flight *f)
{
    const uint64_t pieces = front->r.tokens_out, tokens = f->r.tokens_out;
    return !pieces || (pieces <= tokens + 2 && tokens <= 4 * pieces + 16);
}

/* Another request through the front is nearer to it. */
static int is_anothers(const struct sonde_infer_tracker *tracker, const struct infer_flight *front,
                       const struct infer_flight *f)
{
    for (const struct infer_flight *g = tracker->oldest; g; g = g->after) {
        if (g != front && g->r.source == SONDE_INFER_FRONT &&
            g->r.arrived_ns <= f->r.arrived_ns + EARLY_NS &&
            infer_join_apart(g, f) < infer_join_apart(front, f)) {
            return 1;
        }
    }
    return 0;
}

/* How far it is from the front's; UINT64_MAX: it cannot be that. */
static uint64_t infer_join_distance(const struct sonde_infer_tracker *tracker,
                                    const struct infer_flight *front, uint64_t end_ns,
                                    const struct infer_flight *f)
{
    if (!by_calls(f) || f->client_gone || f->r.flags & SONDE_INFER_INCOMPLETE ||
        f->r.arrived_ns + EARLY_NS < front->r.arrived_ns || f->r.arrived_ns > end_ns ||
        !tokens_fit(front, f) || is_anothers(tracker, front, f)) {
        return UINT64_MAX;
    }
    return infer_join_apart(front, f);
}

void infer_client_gone(struct sonde_infer_tracker *tracker, const struct infer_flight *front,
                       uint64_t end_ns)
{
    struct infer_flight *best = NULL;
    uint64_t nearest = UINT64_MAX, second = UINT64_MAX;
    for (struct infer_flight *f = tracker->oldest; f; f = f->after) {
        const uint64_t d = infer_join_distance(tracker, front, end_ns, f);
        if (d < nearest) {
            second = nearest;
            nearest = d;
            best = f;
        } else if (d < second) {
            second = d;
        }
    }
    if (best && (second == UINT64_MAX || second > 2 * nearest + NEAR_NS)) best->client_gone = 1;
}
