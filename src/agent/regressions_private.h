/* regressions_private.h - what the files of regressions share. */
#ifndef SONDE_AGENT_REGRESSIONS_PRIVATE_H
#define SONDE_AGENT_REGRESSIONS_PRIVATE_H

#include "agent/regressions.h"
#include "analyze/cost.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/thread.h"

enum {
    REGRESSION_CHUNK = 360,        /* minutes that are read at once */
    REGRESSION_PROGRAMS = 32,
    REGRESSION_COSTS = 8,          /* programs whose functions are watched */
    REGRESSION_KNOWN_MAX = 4096,   /* reports of earlier lives */
    REGRESSION_TRACKED = 256,      /* facts that are followed */
};

/* ---- regression_series.c ---- */

/* One figure of one series, over all processes of its program. */
struct regression_series {
    char *key;                     /* program, name, labels, figure; owned */
    char program[64], figure[16], unit[24];
    char *subject;                 /* within key's block */
    int worse;                     /* 1 = upwards, -1 = downwards, 0 = not known */
    uint32_t pid;
    double sum[REGRESSION_CHUNK], weight[REGRESSION_CHUNK]; /* of the chunk that is read */
    double restarted_s;            /* in it; 0 = not */
    struct sonde_change_series *detector;
};

/* What ratios are made of. */
enum regression_role { REGRESSION_CPU, REGRESSION_TOKENS, REGRESSION_REQUESTS, REGRESSION_FAILED,
                       REGRESSION_ROLES };
struct regression_program {
    char name[64];
    double sum[REGRESSION_ROLES][REGRESSION_CHUNK];
    int any[REGRESSION_ROLES];
};

struct regression_cost { char program[64]; struct sonde_cost *cost; };

struct regression_known { double time_s; char subject[128]; };

struct regression_tracked { char program[64], kind[16], value[200]; };

struct sonde_regressions {
    struct sonde_regressions_options o;
    const struct sonde_store_ops *history_ops; /* of continuous profiles */
    struct sonde_store *history;   /* borrowed; NULL = there are none */
    char *series_globs, *settings; /* copies */
    struct sonde_lock lock;        /* of the list and the costs */
    struct sonde_cond wake;
    struct sonde_worker worker;
    struct sonde_regression *list; /* SONDE_REGRESSIONS_MAX, a ring */
    uint64_t listed;
    struct regression_cost costs[REGRESSION_COSTS];
    size_t cost_count;
    size_t watched, learning;      /* copies for who asks */
    /* The thread's own, or the scanner's. */
    struct regression_series *series;
    uint32_t series_count, series_cap;
    struct sonde_map by_key;
    struct regression_program programs[REGRESSION_PROGRAMS];
    size_t program_count;
    double chunk_from_s, read_to_s;
    size_t chunk_minutes;
    struct regression_known *known;
    size_t known_count, known_cap;
    struct regression_tracked tracked[REGRESSION_TRACKED];
    size_t tracked_count;
    double judged_s;               /* when functions were judged last */
};

/* What the store has in [from_s, from_s + minutes) to the detectors. */
int regression_series_read(struct sonde_regressions *r, double from_s, size_t minutes,
                           struct sonde_err *err);
/* From when to when the store has any of the watched series; range[0] > range[1] = never. */
int regression_series_range(struct sonde_regressions *r, double range[2], struct sonde_err *err);
void regression_series_release(struct sonde_regressions *r);

/* ---- regression_facts.c ---- */

/* What the store says of facts so far. */
void regression_facts_load(struct sonde_regressions *r);
/* Processes, kernel and settings as they are now; what is new is recorded. */
void regression_facts_look(struct sonde_regressions *r, double now_s);
/* Those near the change's time. */
void regression_facts_near(struct sonde_regressions *r, struct sonde_regression *g);

/* ---- regression_functions.c ---- */

/* Parts of the history from from_s on, to the table of each program. */
int regression_functions_load(struct sonde_regressions *r, double from_s, double to_s,
                              struct sonde_err *err);
void regression_functions_add(struct sonde_regressions *r, const struct sonde_profile *p);
void regression_functions_judge(struct sonde_regressions *r);
void regression_functions_release(struct sonde_regressions *r);

/* ---- regressions.c ---- */

/* A change: listed, written and reported, unless it was before. */
void regression_report(struct sonde_regressions *r, struct sonde_regression *g);

#endif
