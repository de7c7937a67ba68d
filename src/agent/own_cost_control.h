/* own_cost_control.h - what sonde costs the program, measured while it runs: CPU sampling is
 * switched off and on in random short windows, and what the program gets done in both is compared
 * (analyze/own_cost.h says how, docs/own-cost.md what users see of it).
 *
 * Time goes in ticks of the collector, which reads all counters at once. A pair is
 *
 *     … gap ┆ guard │ first window ┆ guard │ second window ┆ gap …
 *
 * In one of the windows sampling is off, and a coin says in which. Guards are for what was under
 * way when it was switched: work that is counted a fifth of a second after it was done, and a
 * switch that took long. Gaps, in which sampling is on, are as long as it takes to keep the share
 * of time without samples as analyze/own_cost.h wants it, times a random factor, so that nothing
 * that the program does every minute is always in the same kind of window.
 *
 * A pair is dropped when processes come or go in it, when engines change, when somebody wants every
 * sample (which switches sampling on at once), or when a tick was late. All of it is forgotten when
 * the sampling rate changes for good.
 *
 * What is switched is CPU sampling by the perf engine. The timer engine and the heap profiler work
 * inside the program, to which the agent never writes: what they cost is in both kinds of windows,
 * and so not in the figure. */
#ifndef SONDE_AGENT_OWN_COST_CONTROL_H
#define SONDE_AGENT_OWN_COST_CONTROL_H

#include "agent/continuous.h"
#include "agent/profiler.h"
#include "base/buf.h"
#include "collect/collector.h"

struct sonde_own_cost_settings {
    double window_s;           /* length of a window */
    double off_ratio_max;      /* share of time without samples, once there is an interval */
    char work[128];            /* name of the series that counts the program's work; "" = whichever
                                * there are */
    uint64_t seed;             /* of the coin; 0 = random */
};

struct sonde_own_cost_options {
    struct sonde_collector *collector;   /* all borrowed */
    struct sonde_profiler *profiler;
    struct sonde_continuous *continuous; /* knows what a sample takes; NULL = nobody does */
    struct sonde_own_cost_settings settings;
};

struct sonde_own_cost_control;

int sonde_own_cost_create(const struct sonde_own_cost_options *o,
                          struct sonde_own_cost_control **out, struct sonde_err *err);
/* Sampling is on when it returns, and stays so. NULL is fine; twice too. Before profiler,
 * continuous profiling and collector are stopped. */
void sonde_own_cost_stop(struct sonde_own_cost_control *c);
void sonde_own_cost_destroy(struct sonde_own_cost_control *c); /* NULL is fine */

/* To be called after every tick of the model, under its write lock. NULL is fine. */
void sonde_own_cost_tick(struct sonde_model *m, struct sonde_own_cost_control *c);

/* An object, without a newline:
 * {"enabled","covers","state","reason","text","method","ratio","low","high","confidence","measure",
 *  "work","pairs","pairs_more","pairs_dropped","window_seconds","off_ratio","off_seconds",
 *  "rate_hz","estimate":{"ratio","sample_cost_seconds","reason"},
 *  "measures":[{"measure","work","ratio","low","high","pairs"}]}
 * docs/own-cost.md says what each is. c NULL: nothing is measured, and why. */
void sonde_own_cost_json(struct sonde_own_cost_control *c, struct sonde_buf *out);

/* What is known so far, as facts of a profile; arg is the control, NULL is fine. */
void sonde_own_cost_annotate(struct sonde_profile *p, void *arg);

#endif
