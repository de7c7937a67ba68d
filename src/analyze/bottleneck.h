/* bottleneck.h - what takes the most, ranked: functions by their own CPU time, where threads are
 * blocked, spans by their own time, waiting of requests, leaks. Figures only, no advice: each
 * finding says what was measured. */
#ifndef SONDE_ANALYZE_BOTTLENECK_H
#define SONDE_ANALYZE_BOTTLENECK_H

#include <stddef.h>

#include "analyze/severity.h"
#include "base/err.h"
#include "profile/profile.h"

/* Names are used in answers: append only. */
#define SONDE_FINDING_KINDS(X)                                                                 \
    X(FUNCTION, "function")  /* its own CPU time, of all CPU time */                           \
    X(BLOCKED, "blocked")    /* time blocked in it, of all blocked time */                     \
    X(SPAN, "span")          /* time in it and in no span inside, of that of all spans */      \
    X(QUEUE, "queue")        /* requests that wait, of their time */                           \
    X(LEAK, "leak")          /* bytes that a place has leaked, of all in use */

enum sonde_finding_kind {
#define SONDE__X(id, name) SONDE_FINDING_KIND_##id,
    SONDE_FINDING_KINDS(SONDE__X)
#undef SONDE__X
};
const char *sonde_finding_kind_name(enum sonde_finding_kind k);

/* By share: a warning from 25 % on; where requests wait, critical from 50 %. Where the CPU's time
 * goes is worth a look and never critical: it goes somewhere in every program that works. Leaks are
 * a warning from 1 % of what is in use, critical from 10 %. Names are those of findings in the
 * store. */

struct sonde_finding {
    enum sonde_finding_kind kind;
    enum sonde_severity severity;
    char *subject;           /* a function, a span, a model */
    char *file;              /* "" = unknown */
    uint32_t line;           /* 0 = unknown */
    double share;            /* 0 … 1, of what its kind says */
    double seconds;          /* NaN = it is not about time */
    double bytes;            /* NaN = it is not about memory */
    double count;            /* of calls, or requests; NaN = not known: samples count no calls */
    double avg_s;            /* of a call; NaN = not known */
    char text[320];          /* what was measured */
};

struct sonde_findings {
    struct sonde_finding *rows; /* the most severe first, then the largest share */
    size_t count, cap;
    char note[160];          /* why there is less than there might be; "" = nothing to say */
};

struct sonde_bottleneck_options {
    size_t limit;            /* of each kind; 0 = 20 */
    double share_min;        /* smaller shares are no findings; 0 = 0.05. Not of leaks */
    double seconds_min;      /* nor times that are shorter in all; 0 = 0.01 */
};

/* A function is one from SONDE_FINDING_KIND_SAMPLES samples of its own on, and as severe as the
 * lower end of the 95 % interval of its share is: two of six samples say nothing. Times of spans
 * are their own (span_own.h). 0 or SONDE_ENOMEM. Nothing found is an empty list. */
#define SONDE_FINDING_KIND_SAMPLES 10
int sonde_bottlenecks(const struct sonde_profile *p, const struct sonde_bottleneck_options *o,
                      struct sonde_findings **out);
void sonde_findings_destroy(struct sonde_findings *f); /* NULL is fine */

#endif
