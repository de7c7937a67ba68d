/* own_cost_private.h - what the files of the measuring of own cost share. */
#ifndef SONDE_AGENT_OWN_COST_PRIVATE_H
#define SONDE_AGENT_OWN_COST_PRIVATE_H

#include "agent/own_cost_control.h"
#include "analyze/own_cost.h"
#include "base/lock.h"
#include "base/thread.h"

enum { OWN_COST_FIGURES_MAX = 12 };

/* What the program had done at a tick, in all. */
struct own_cost_reading {
    double time_s;             /* CLOCK_MONOTONIC; of windows, what it was between two */
    double cpu_s;              /* NaN = not known */
    uint64_t processes;        /* changes when they do */
    size_t work_count;
    struct sonde_own_cost_work works[SONDE_OWN_COST_WORKS_MAX];
    struct sonde_own_cost_done done[SONDE_OWN_COST_WORKS_MAX];
};

/* How to switch: the profiler, or a test. */
struct own_cost_switch {
    int (*turn)(void *arg, int off, struct sonde_err *err); /* as sonde_profiler_switch */
    void (*look)(void *arg, struct sonde_sampling *out);
    void *arg;
};

enum own_cost_phase {
    OWN_COST_GAP,
    OWN_COST_GUARD_FIRST,
    OWN_COST_FIRST,
    OWN_COST_GUARD_SECOND,
    OWN_COST_SECOND,
};

/* When to switch, and what came of it: one thread's. */
struct own_cost_plan {
    struct sonde_own_cost_settings settings;
    struct own_cost_switch to;
    uint64_t random;
    enum own_cost_phase phase;
    double until_s;            /* of the phase: the first tick after it ends it */
    double off_since_s;        /* 0 = sampling is on */
    double began_s;            /* of everything: the first tick */
    double off_s;              /* without samples, in all */
    int off_first;             /* of this pair */
    uint64_t changes, processes; /* of engines, and which processes, when the pair began */
    double rate_hz;            /* that pairs are of; 0 = there are none */
    double rate_other_s;       /* since when it is another; 0 = it is not */
    struct own_cost_reading before; /* at the beginning of the window */
    struct own_cost_reading next;   /* where the caller may keep the one it hands over */
    struct sonde_own_cost_window first;
    uint64_t dropped;          /* pairs */
    char reason[256];          /* why nothing is compared now; "" = something is */
    struct sonde_own_cost cost;
    struct sonde_own_cost_figure figures[OWN_COST_FIGURES_MAX];
    size_t figure_count;
    int has_headline;          /* the first figure speaks for all */
};

int own_cost_plan_init(struct own_cost_plan *p, const struct sonde_own_cost_settings *s,
                       const struct own_cost_switch *to);
void own_cost_plan_release(struct own_cost_plan *p);
/* After a tick. 1 = a pair was added, and figures have changed. */
int own_cost_plan_step(struct own_cost_plan *p, const struct own_cost_reading *r);
/* Sampling is on from now on. */
void own_cost_plan_stop(struct own_cost_plan *p, double now_s);

/* ---- own_cost_read.c ---- */
/* Under the model's lock. work: the name of a series, or "". */
void own_cost_read(const struct sonde_model *m, const char *work, struct own_cost_reading *out);

struct own_cost_direct {
    double ratio, sample_s;    /* NaN = not known … */
    char why[256];             /* … and why not */
};

struct own_cost_series;

struct sonde_own_cost_control {
    struct sonde_own_cost_options o;
    struct sonde_lock lock;    /* of what follows, but what the thread alone has */
    struct sonde_cond wake;
    struct sonde_worker worker;
    struct own_cost_reading reading; /* of the last tick */
    int is_new;                /* nobody has looked at it */
    double due_s;              /* CLOCK_MONOTONIC: earlier ticks need not be read */
    struct own_cost_plan shown; /* a copy of figures and such, for others; its pairs are not */
    struct own_cost_direct direct;

    /* The thread's own. */
    struct own_cost_plan plan;
    struct own_cost_series *series;
};

/* ---- own_cost_json.c ---- */
void own_cost_show(struct sonde_own_cost_control *c); /* series of the model; no lock held */
void own_cost_series_free(struct own_cost_series *s);

/* In words. lock held. */
void own_cost_text(const struct sonde_own_cost_control *c, char *out, size_t size);

#endif
