/* finding.h - from figures to causes: what is wrong with a program, how sure that is, what proves
 * it, what to do about it, and what that would gain.
 *
 * A rule (rule.h) looks at everything that is known of a time: profiles on and off the CPU, heap,
 * spans, requests, and series of the host and its processes. Three principles:
 *
 *   - None on too little data. A rule that cannot know says so in `notes`, with what would help.
 *   - One cause is one finding. What a cause explains (threads that wait because there are too
 *     many of them) stands under it as a symptom, not beside it.
 *   - The CPU's time goes somewhere in every program that works: where it goes is worth knowing
 *     (info), what is wasted is worth acting on (warning), what stands still is urgent (critical).
 *
 * Findings are ordered by severity, then by impact: the share of the program's time, memory or
 * throughput that is at stake. */
#ifndef SONDE_ANALYZE_FINDING_FINDING_H
#define SONDE_ANALYZE_FINDING_FINDING_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/severity.h"
#include "base/err.h"
#include "profile/profile.h"

/* What proves a finding. Numbers are in answers by name: append only. */
#define SONDE_EVIDENCE_TYPES(X)                                                                \
    X(FUNCTION, "function")  /* samples in it: subject, file, line */                          \
    X(SERIES, "series")      /* subject is its family, labels which of it */                   \
    X(REQUEST, "request")    /* subject is its id */                                           \
    X(SPAN, "span")          /* subject is its name */                                         \
    X(THREAD, "thread")      /* subject is its name */                                         \
    X(SITE, "site")          /* a place that allocates: subject, file, line */

enum sonde_evidence_type {
#define SONDE__X(id, name) SONDE_EVIDENCE_##id,
    SONDE_EVIDENCE_TYPES(SONDE__X)
#undef SONDE__X
};
const char *sonde_evidence_type_name(enum sonde_evidence_type t); /* "function" */

struct sonde_evidence {
    enum sonde_evidence_type type;
    char *subject;              /* never NULL */
    char *labels;               /* of a series; "" = none */
    char *file;                 /* "" = unknown */
    uint32_t line;              /* 0 = unknown */
    double value;               /* NaN = none */
    const char *unit;           /* static: "seconds", "ratio", "bytes", "per second", …; "" = a
                                   number */
    const char *what;           /* static: what the value is of: "CPU time", "time blocked" */
};

enum { SONDE_EVIDENCE_MAX = 12 };

struct sonde_finding {
    const char *kind;           /* static: the rule's */
    const char *title;          /* static: "Lock contention" */
    enum sonde_severity severity;
    double impact;              /* 0 … 1: the share of the program's time (memory, throughput) that
                                   is at stake */
    double confidence;          /* 0 … 1 */
    char *subject;              /* a function, a span, a model, a device; "" = the program */
    char *file;                 /* "" = unknown */
    uint32_t line;              /* 0 = unknown */
    double share;               /* 0 … 1, of what the text says; NaN = it is not about a share */
    double seconds;             /* NaN = it is not about time */
    double bytes;               /* NaN = it is not about memory */
    double count;               /* of calls or requests; NaN = not known */
    double avg_s;               /* of a call; NaN = not known */
    double gain;                /* 0 … 1: of `gain_of`, what the advice would save at most; NaN =
                                   it cannot be computed */
    const char *gain_of;        /* static: "CPU time", "latency"; "" = gain is NaN */
    uint64_t since_ns, until_ns; /* unix time; until 0 = it goes on */
    char *text;                 /* one sentence with the number */
    char *advice;               /* what to change, and to what; "" = nothing can be said */
    struct sonde_evidence evidence[SONDE_EVIDENCE_MAX];
    uint32_t evidence_count;
    const char *explains;       /* static: kinds that are symptoms of this one, besides those
                                   of its rule; NULL = none */
    uint32_t cause;             /* the finding that explains this one: its row + 1; 0 = none */
};

enum { SONDE_FINDING_NOTES_MAX = 16 };

struct sonde_findings {
    struct sonde_finding *rows; /* causes first, the weightiest first; then symptoms */
    size_t count, cap;
    size_t causes;              /* rows before this one explain themselves */
    char *notes[SONDE_FINDING_NOTES_MAX]; /* what could not be judged, and what would help */
    size_t note_count;
    size_t muted;               /* findings that the user does not want to see */
};

struct sonde_finding_options {
    double seconds_min;         /* times that are shorter in all are no findings; 0 = 0.01 */
    double share_min;           /* nor functions and spans with smaller shares; 0 = 0.05 */
    size_t limit;               /* of each kind; 0 = 20 */
    const char *muted;          /* "KIND" or "KIND:GLOB of its subject", separated by commas; NULL =
                                   none is */
    double slo_ttft_s, slo_itl_s, slo_total_s; /* objectives, if the profile has none; 0 = none */
};

/* Everything that rules find in p, whose locations are symbolized. 0 or SONDE_ENOMEM. Nothing
 * found is an empty list. */
int sonde_findings_look(const struct sonde_profile *p, const struct sonde_finding_options *o,
                        struct sonde_findings **out);
void sonde_findings_destroy(struct sonde_findings *f); /* NULL is fine */

/* The kinds there are, in the order of their rules: NULL from the last on. title and summary may be
 * NULL. */
const char *sonde_finding_kind(size_t i, const char **title, const char **summary);
int sonde_finding_kind_known(const char *kind);

/* 1 if one of the patterns (options.muted) stands for it. */
int sonde_finding_is_muted(const char *muted, const char *kind, const char *subject);
/* 0, or SONDE_EINVAL and which pattern is none: there is no such kind. */
int sonde_finding_mute_check(const char *muted, struct sonde_err *err);

#endif
