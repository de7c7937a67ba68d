/* arms_private.h - what the files of arms.h share.
 *
 *     front's thread:  ended ──▶ waiting ──▶ tick ──▶ series of the model
 *                                              └────▶ figures ──▶ JSON, in any thread
 *
 * waiting is the front's thread's alone, so that it never waits for who reads figures; figures are
 * under the lock, but for reading by the front's thread, which alone writes them. */
#ifndef SONDE_AGENT_ARMS_PRIVATE_H
#define SONDE_AGENT_ARMS_PRIVATE_H

#include "agent/arms.h"
#include "analyze/sequential.h"
#include "base/lock.h"

enum {
    ARMS = 2,             /* 0 = a */
    ARM_WAITING = 512,    /* requests between two ticks; more: wait for the locks */
    ARM_ERRORS = 16,      /* kinds that are told apart of each server; the rest is "other" */
};

struct arm_error {
    char name[SONDE_FRONT_ERROR_MAX + 1]; /* UTF-8 */
    uint64_t count;
};

struct arm_figures {
    uint64_t ok, failed, cancelled;
    uint64_t fell_back;          /* b: among failed */
    uint64_t tokens_out;
    struct arm_error errors[ARM_ERRORS + 1];
    size_t error_count;
    struct sonde_hist_value hist[SONDE_ARM_ERRORS]; /* buckets only */
};

struct arm_ended {               /* a request, until the next tick */
    int arm;
    enum { ARM_OK, ARM_FAILED, ARM_CANCELLED } outcome;
    int fell_back;
    uint64_t tokens_out;
    double value[SONDE_ARM_ERRORS]; /* NaN = it has none */
    double time_s;               /* CLOCK_MONOTONIC */
    char error[SONDE_FRONT_ERROR_MAX + 1];
};

struct arms_series;

struct sonde_arms {
    struct sonde_arms_settings settings;
    enum sonde_front_ab_mode mode;
    double share;
    char session[SONDE_FRONT_SESSION_MAX + 1];
    char url[ARMS][SONDE_FRONT_HOST_MAX + 8 + 256 + 8];
    struct sonde_model *model;
    struct arms_series *series;  /* arms_series.c's */

    struct arm_ended waiting[ARM_WAITING];
    size_t waiting_count;

    struct sonde_lock lock;      /* of what follows */
    double started_s;            /* Unix time */
    struct arm_figures figures[ARMS];
    struct sonde_sequential_arms measure[SONDE_ARM_MEASURE_COUNT];
    struct sonde_front_state state;
};

const char *arm_measure_key(enum sonde_arm_measure m);
const char *arm_measure_title(enum sonde_arm_measure m);
int arm_measure_better(enum sonde_arm_measure m);

/* ---- arms_series.c: under the model's write lock ---- */
struct arms_series *arms_series_create(void);
void arms_series_destroy(struct arms_series *s); /* NULL is fine */
/* The values of those that wait, and totals as figures and state have them. */
void arms_series_put(struct sonde_arms *arms, const struct sonde_front_state *state);

#endif
