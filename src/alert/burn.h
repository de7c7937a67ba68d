/* burn.h - how fast requests use up the share of them that may miss their objectives.
 *
 * With a target of 99 % one request of a hundred may miss. The burn rate is the share that does
 * miss, divided by the share that may: at 1 the budget lasts exactly as long as it is for, at 14.4
 * that of 30 days is gone in 50 hours. An alert needs two windows (Google's SRE workbook): the long
 * one says that it matters, the short one that it still goes on, so that the alert ends soon after
 * the trouble does.
 *
 *     fast  1 h and 5 min at 14.4   critical
 *     slow  6 h and 30 min at 6     warning; does not begin while fast fires
 *
 * Counts come from sonde_infer_slo_requests_total, by model, tick by tick, and are kept in slots of
 * 15 s for six hours, here and in the state's file: the model has a minute. Windows end with the
 * slot that is being filled, so each is up to a slot shorter than its name. */
#ifndef SONDE_ALERT_BURN_H
#define SONDE_ALERT_BURN_H

#include "alert/alert_table.h"

#define ALERT_BURN_KIND "slo_burn"
enum { ALERT_BURN_SLOT_S = 15, ALERT_BURN_SLOTS = 6 * 3600 / ALERT_BURN_SLOT_S,
       ALERT_BURN_GROUPS_MAX = 32 };

struct alert_burn_slot { uint32_t met, missed; };

struct alert_burn_group {
    char model[128];             /* "" = none is known */
    uint64_t slot;               /* unix time / ALERT_BURN_SLOT_S of the newest; 0 = none yet */
    struct alert_burn_slot *at;  /* ALERT_BURN_SLOTS, by number modulo that; owned */
};

struct alert_burn {
    double target, requests_min; /* target 0 = off */
    struct alert_burn_group group[ALERT_BURN_GROUPS_MAX];
    size_t group_count;
    uint64_t tick;               /* of the model, that was counted last; 0 = none */
};

void alert_burn_release(struct alert_burn *b);

/* Counts of a model at a time. Time that goes back counts as now. SONDE_EFULL: too many models;
 * SONDE_ENOMEM. */
int alert_burn_add(struct alert_burn *b, const char *model, double time_s, double met,
                   double missed);

/* Requests of the last window_s, up to now. */
struct alert_burn_sum { double met, missed; };
struct alert_burn_sum alert_burn_window(const struct alert_burn_group *g, double now_s,
                                        double window_s);
/* NAN without requests. */
double alert_burn_rate(const struct alert_burn_sum *sum, double target);

/* New ticks of m, then all windows, told to t. Under the model's lock for reading; m NULL = only
 * what was added. */
void alert_burn_look(struct alert_burn *b, const struct sonde_model *m, struct alert_table *t,
                     uint64_t round, double now_s);

void alert_burn_state(struct sonde_state *s, struct alert_burn *b);

#endif
