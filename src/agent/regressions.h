/* regressions.h - watches what a store records for changes: of series (analyze/change.h) and, from
 * continuous profiling, of functions' costs (analyze/cost.h).
 *
 * A thread of low priority reads what the store has of the watched series, minute by minute and a
 * few minutes late, beginning with the last eight days; nothing is read twice. Series are known by
 * program, name and labels, not by process, so a restarted program continues its series: the
 * restart is told to the detector, which leaves out the warm-up. Where several processes of a
 * program have the same series, rates are added, gauges and percentiles averaged.
 *
 * What a change may come from is recorded as it happens: a program's build id, arguments and model,
 * the kernel, sonde's own version and settings become findings of kind "change", and those near the
 * time of a regression, and marks, are named with it. */
#ifndef SONDE_AGENT_REGRESSIONS_H
#define SONDE_AGENT_REGRESSIONS_H

#include "agent/marks.h"
#include "analyze/change.h"
#include "analyze/severity.h"
#include "base/buf.h"
#include "base/err.h"
#include "collect/collector.h"
#include "store/store.h"

#define SONDE_REGRESSION_KIND "regression"
#define SONDE_CHANGE_KIND "change"

enum { SONDE_REGRESSION_FACTS = 8, SONDE_REGRESSIONS_MAX = 500 };

#define SONDE_REGRESSION_VERDICTS(X)                                                           \
    X(WORSE, "worse")                                                                          \
    X(BETTER, "better")                                                                        \
    X(CHANGED, "changed") /* it is not known which way is worse: a load */                     \
    X(SHIFT, "shift")     /* a function: its cost came from others */
enum sonde_regression_verdict {
#define SONDE__X(id, name) SONDE_REGRESSION_##id,
    SONDE_REGRESSION_VERDICTS(SONDE__X)
#undef SONDE__X
};
const char *sonde_regression_verdict_name(enum sonde_regression_verdict v);

/* Something that changed near its time. */
struct sonde_regression_fact {
    double time_s;
    char kind[16];             /* "build_id", "arguments", "model", "kernel", "version", "settings",
                                  "mark", "restart" */
    char text[240];
};

struct sonde_regression {
    uint64_t id;               /* of the agent's list, from 1 */
    int is_function;
    enum sonde_regression_verdict verdict;
    enum sonde_severity severity;
    char subject[256];         /* `name{labels}` of a series, or a function */
    char program[64];
    char figure[16];           /* "rate", "mean", "p50", "p95", "ratio", "share" */
    char unit[32];             /* of its values; "" = none */
    char caller[128], with[128]; /* function: who calls it most; shift: where the cost was */
    struct sonde_change change; /* times, effect, interval, state; n_eff NaN of a function */
    struct sonde_regression_fact facts[SONDE_REGRESSION_FACTS]; /* nearest first */
    size_t fact_count;
    char text[512];            /* one sentence */
};

struct sonde_regressions_options {
    const struct sonde_store_ops *ops;   /* all borrowed */
    struct sonde_store *store;
    int read_only;                       /* nothing is written to it */
    struct sonde_marks *marks;           /* NULL = none */
    struct sonde_collector *collector;   /* facts of processes; NULL = only those of the store */
    const char *series;                  /* globs a|b, besides the default ones; NULL = none */
    uint32_t series_max;                 /* 0 = 1000 */
    struct sonde_change_options change;
    int strip;                           /* arguments of programs are not recorded */
    const char *settings;                /* text whose change is a fact; NULL = none */
    /* A change that was not reported before, and again when it went away (state); on the thread
     * that looks, no lock held. NULL = nobody wants to know. */
    void (*on_regression)(const struct sonde_regression *r, void *arg);
    void *on_regression_arg;
};

struct sonde_regressions;

int sonde_regressions_create(const struct sonde_regressions_options *o,
                             struct sonde_regressions **out, struct sonde_err *err);
/* Where continuous profiles are, whose last two days (or all, for a scan) are read first. Before
 * start and scan. */
void sonde_regressions_use_history(struct sonde_regressions *r, const struct sonde_store_ops *ops,
                                   struct sonde_store *history);
int sonde_regressions_start(struct sonde_regressions *r, struct sonde_err *err);
/* Twice is fine, NULL too. */
void sonde_regressions_stop(struct sonde_regressions *r);
void sonde_regressions_destroy(struct sonde_regressions *r);

/* A minute of continuous profiling of one program; any thread. NULL is fine. */
void sonde_regressions_profile(struct sonde_regressions *r, const struct sonde_profile *p);

/* All that the store has in [from_s, to_s), at once: for a store that nothing writes to. 0 = open.
 * Not while the thread runs. */
int sonde_regressions_scan(struct sonde_regressions *r, double from_s, double to_s,
                           struct sonde_err *err);

/* Newest first, until row returns 1; borrowed. Any thread. */
void sonde_regressions_each(struct sonde_regressions *r,
                            int (*row)(const struct sonde_regression *g, void *arg), void *arg);

/* {"time","watched","learning","functions","regressions":[…]} of those not before from_s. Any
 * thread. */
void sonde_regressions_json(struct sonde_regressions *r, double from_s, size_t limit,
                            struct sonde_buf *out);

#endif
