/* compare.h - two runs, or two sets of runs, figure by figure: before, after, the change with its
 * 95 % interval, and whether that is a change or noise.
 *
 * What is compared is cut into parts (stats.h): with two or more runs on both sides each run is
 * one; else every run is cut into sub-windows of equal length. Sub-windows know how much a
 * program's figures vary while it runs, not how much they do from one start to the next, or with
 * what else the machine does: repeated runs, taken in turns, know both.
 *
 * A figure is called changed if
 *   - its p-value, raised for the number of figures that were looked at (Benjamini and Hochberg),
 *     is at most 0.025. Functions are one family, all else is the other, so that two runs of the
 *     same program are called different in at most 5 % of comparisons;
 *   - and the change is at least 1 % of what it was; that of a function also 0.2 % of the whole,
 *     that of memory in a single run 5 %.
 *
 * A figure that is not called changed is called not different only if its interval leaves out that
 * it changed by half or more. Otherwise it is not known: nothing was seen, and nothing could have
 * been.
 *
 * Rejected: a test for each sample or request (they are not independent, and a long recording makes
 * any nothing significant); and resampling for percentiles, which with 16 parts gives intervals
 * that are too short. */
#ifndef SONDE_ANALYZE_COMPARE_H
#define SONDE_ANALYZE_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/stats.h"
#include "base/err.h"
#include "profile/profile.h"

#define SONDE_COMPARE_LEVEL 0.025       /* of each of the two families */
#define SONDE_COMPARE_EFFECT 0.01       /* smallest relative change of interest */
#define SONDE_COMPARE_EFFECT_SINGLE 0.05 /* of memory in a single run */
#define SONDE_COMPARE_VAGUE 0.5         /* an interval that holds this change says nothing */
#define SONDE_COMPARE_WEIGHT 0.002      /* of a function: of the whole */
#define SONDE_COMPARE_PARTS 16u         /* sub-windows of a single run */
#define SONDE_COMPARE_RUNS_MAX 1000u

/* What functions, CPU and blocked time are divided by. */
#define SONDE_COMPARE_BASES(X)                                                                 \
    X(AUTO, "auto") X(SHARE, "share") X(SECOND, "second") X(REQUEST, "request") X(RUN, "run")
enum sonde_compare_basis {
#define SONDE__X(id, name) SONDE_BASIS_##id,
    SONDE_COMPARE_BASES(SONDE__X)
#undef SONDE__X
};
int sonde_compare_basis_find(const char *name); /* or -1 */
const char *sonde_compare_basis_name(enum sonde_compare_basis b);

struct sonde_compare_run {
    const struct sonde_profile *profile;
    struct sonde_profile_filter filter;  /* kind is that of options; times are this run's */
};

struct sonde_compare_measure;

struct sonde_compare_options {
    int kind;                        /* of functions; -1 = the first kind there is before */
    enum sonde_compare_basis basis;  /* AUTO: request if both have any (requests of inference, or
                                        spans that the filter names), else share; memory: run */
    int lend;                        /* a side of one run borrows how much runs differ from the
                                        other, if that has several (sonde_estimate_lend) */
    int consecutive;                 /* runs of a side were recorded one after the other, in that
                                        order, and not in turns (sonde_estimate_runs) */
    /* Figures that a decision depends on: a family of their own, tested at `level`, so that the
     * number of all the others does not make it harder to see a change in these. NULL = none. */
    int (*watched)(const struct sonde_compare_measure *f, const void *arg);
    const void *watched_arg;
    double level;
};

enum sonde_compare_measure_group {
    SONDE_MEASURE_REQUESTS, SONDE_MEASURE_PHASES, SONDE_MEASURE_SPANS, SONDE_MEASURE_RUN,
    SONDE_MEASURE_MEMORY, SONDE_MEASURE_FUNCTIONS,
};
const char *sonde_compare_measure_group_name(enum sonde_compare_measure_group g); /* "requests" … */

enum sonde_verdict {
    SONDE_VERDICT_UNKNOWN,   /* no interval, or one so wide that it says nothing */
    SONDE_VERDICT_SAME,      /* not different: noise, or too small to matter */
    SONDE_VERDICT_FASTER, SONDE_VERDICT_SLOWER, /* times and rates */
    SONDE_VERDICT_LESS, SONDE_VERDICT_MORE,     /* amounts and shares */
    SONDE_VERDICT_DIFFERENT, /* of a comparison: shares have moved, which is neither */
};
const char *sonde_verdict_name(enum sonde_verdict v); /* "not different", "faster" … */

struct sonde_compare_measure {
    enum sonde_compare_measure_group group;
    const char *measure;     /* static: "p95", as --fail-on calls it */
    const char *title;       /* static: "request time p95" */
    const char *unit;        /* static: seconds, bytes, ratio, per second, bytes per second */
    const char *subject;     /* of a span, phase or function its name; else "" */
    int better;              /* -1: less is, 1: more is, 0: neither */
    int amount;              /* has become less or more, not faster or slower */
    double before, after;
    struct sonde_estimate estimate[2]; /* of before and after */
    struct sonde_difference d; /* p is as tested, adjusted below */
    int watched;             /* by the options */
    double level;            /* up to this, the adjusted p is a change */
    double adjusted;         /* p, raised for all that were looked at; NaN = no interval */
    double weight;           /* sorts figures of a group: time in spans, of functions */
    uint32_t function;       /* of a function its row in functions[]; else 0 */
    enum sonde_verdict verdict;
};

/* What is known of a function of either side; [0] is before, [1] after. */
struct sonde_compare_function {
    const char *name, *module, *file;  /* as struct sonde_flat has them: after's, if it is there */
    uint32_t line;
    uint64_t self[2], total[2];        /* weights of all samples; of a recursive one once a stack */
    const struct sonde_compare_measure *self_measure, *total_measure; /* NULL: it is not known
                                          whether that has changed */
};

struct sonde_comparison {
    struct sonde_compare_measure *figures; /* by group, in the order they are shown */
    size_t count, cap;
    int by_runs;             /* parts are runs; else sub-windows */
    int lent;                /* one side is a single run, which borrowed its spread */
    size_t watched;          /* figures that are, and have an interval */
    size_t runs[2], parts[2];
    uint64_t requests[2];    /* what basis "request" counts */
    enum sonde_compare_basis basis; /* as resolved */
    int kind;                /* of functions */
    int timed;               /* sub-windows could be made */
    double whole[2];         /* of functions: all of their kind, on the basis */
    struct sonde_compare_function *functions; /* in no order; NULL: a side has no samples */
    size_t function_count;
    uint64_t weights[2];     /* of all samples */
    enum sonde_verdict verdict;
    size_t headline;         /* figure that the verdict is of; count = none */
    int requests_unknown;    /* there are requests, but too few to say whether they changed */
    struct sonde_compare_texts *texts; /* private: subjects */
};

/* Both sides have at least one run; they are borrowed for the call. SONDE_EINVAL: a basis that
 * these runs do not have, or a filter that contradicts itself. SONDE_EFULL: too many runs.
 * SONDE_ENOENT and why: no sample passes. SONDE_ENOMEM. */
int sonde_compare(const struct sonde_compare_run *before, size_t before_count,
                  const struct sonde_compare_run *after, size_t after_count,
                  const struct sonde_compare_options *o, struct sonde_comparison **out,
                  struct sonde_err *err);
void sonde_comparison_destroy(struct sonde_comparison *c);

/* 1 if it has changed: neither noise nor unknown. */
static inline int sonde_compare_measure_changed(const struct sonde_compare_measure *f)
{
    return f->verdict > SONDE_VERDICT_SAME;
}

#endif
