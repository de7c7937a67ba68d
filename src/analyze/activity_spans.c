/* activity_spans.c - percentiles of operations from their spans: an operation is a span of its name
 * (sonde_op_begin). */
#include <math.h>
#include <stdlib.h>

#include "analyze/activity.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

#define KNOWN_MIN 0.9 /* of the operations: with fewer, the percentiles are of chance */

/* The smallest value that at least q of all do not exceed. */
static double spans_rank(const double *sorted, size_t n, double q)
{
    const double at = ceil(q * (double)n);
    return sorted[at < 1 ? 0 : (size_t)at - 1];
}

static size_t spans_durations(const struct sonde_profile *p, uint32_t name, uint64_t from_ns,
                              uint64_t to_ns, double *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (s->name != name || s->end_ns < s->start_ns || s->end_ns <= from_ns ||
            (to_ns && s->end_ns > to_ns)) {
            continue;
        }
        out[n++] = (double)(s->end_ns - s->start_ns) * 1e-9;
    }
    return n;
}

int sonde_activity_of_spans(struct sonde_activity *a, const struct sonde_profile *p,
                            uint64_t from_ns, uint64_t to_ns)
{
    double *durations = sonde__alloc(((size_t)p->spans_count + 1) * sizeof(*durations));
    if (!durations) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < a->operation_count; i++) {
        struct sonde_activity_operation *o = &a->operations[i];
        const uint32_t name = isnan(o->p50_s) ? sonde_profile_find_string(p, o->operation) : 0;
        const size_t n = name ? spans_durations(p, name, from_ns, to_ns, durations) : 0;
        if (!n || (double)n < KNOWN_MIN * (double)o->count) continue;
        qsort(durations, n, sizeof(*durations), sonde_cmp_double);
        o->p50_s = spans_rank(durations, n, 0.5);
        o->p95_s = spans_rank(durations, n, 0.95);
        o->p99_s = spans_rank(durations, n, 0.99);
        o->max_s = durations[n - 1];
    }
    sonde__free(durations);
    return 0;
}
