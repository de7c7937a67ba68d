/* alert_table.h - alerts by key, and what state they are in. Pure: time is handed in, nothing is
 * sent here; who advances the table is handed each notification that is due.
 *
 *              holds for for_s            gone for keep_s
 *   (none) --> PENDING --------> FIRING ----------------> RESOLVED --> (none), after a day
 *     ^           |                ^                          |
 *     '- is gone -'                '------- holds again ------'  a new episode, unless the
 *                                                                resolution was never told
 *
 * What is told: FIRING once and, if that was told, RESOLVED once. An alert that is held back (it is
 * muted, or not severe enough) is told when it is no longer held back, if it still fires. */
#ifndef SONDE_ALERT_ALERT_TABLE_H
#define SONDE_ALERT_ALERT_TABLE_H

#include "alert/subject.h"

enum alert_state { ALERT_PENDING, ALERT_FIRING, ALERT_RESOLVED };
const char *alert_state_name(uint32_t state); /* "pending" … */

enum alert_source { ALERT_TOLD, ALERT_RULE, ALERT_SLO };
const char *alert_source_name(uint32_t source); /* "told", "rule", "slo" */

enum alert_held { ALERT_NOT_HELD, ALERT_HELD_MUTED, ALERT_HELD_SEVERITY };

/* What came of the last notification of an alert at one receiver. */
enum alert_outcome { ALERT_NONE, ALERT_QUEUED, ALERT_SENT, ALERT_FAILED, ALERT_REFUSED,
                     ALERT_DROPPED, ALERT_OUTCOMES };
const char *alert_outcome_name(uint32_t outcome);

struct alert_last {
    uint32_t outcome;            /* enum alert_outcome */
    uint32_t firing;             /* which transition it was of */
    double time_s;
};

struct alert_entry {
    struct alert_subject what;
    char *key;                   /* owned; kind, key and labels */
    uint32_t source, state;
    uint32_t active;             /* the condition holds, as far as is known */
    double since_s;              /* active has been so since */
    double started_s;            /* of the episode: when the condition began to hold */
    double fired_s, resolved_s;  /* 0 = not yet */
    double for_s, keep_s;
    uint32_t told_firing, told_resolved; /* a notification was made */
    uint32_t repeats;
    double told_s;               /* when the last one was made */
    uint32_t severity_told;      /* severity is that of the episode's notification since */
    uint64_t seen;               /* round in which its source last told; 0 = not in this agent */
    uint32_t held;               /* enum alert_held, as of the last advance */
    uint64_t muted_by;           /* id of the mute; 0 = none */
    struct alert_last last[SONDE_ALERT_RECEIVERS_MAX];
};

struct alert_table {
    struct alert_entry **at;     /* in the order they were first told; owned */
    size_t count, cap;
    uint64_t full;               /* told and not taken for lack of room */
    uint64_t changed;            /* grows with what is worth saving */
    uint64_t salt;               /* of the host, for hashes */
};

void alert_table_release(struct alert_table *t);

/* source and round: of who tells. *out (may be NULL) is the alert, NULL = there is none, as when
 * what is over never was. 0, SONDE_EFULL or SONDE_ENOMEM. e->time_s is set. */
int alert_table_tell(struct alert_table *t, const struct sonde_alert_event *e,
                     enum alert_source source, uint64_t round, struct alert_entry **out);

/* NULL = none of that key is there. */
struct alert_entry *alert_table_find(const struct alert_table *t, const char *key);

/* The condition of e no longer holds, as of now. */
void alert_entry_clear(struct alert_table *t, struct alert_entry *e, double now_s);

struct alert_advance {
    double now_s;
    double repeat_s;             /* 0 = never */
    /* Why e must not be told now; may set e->muted_by. */
    enum alert_held (*held)(struct alert_entry *e, void *arg);
    /* A notification is due. 0, or it is due again next time. */
    int (*due)(struct alert_entry *e, int firing, void *arg);
    void *arg;
};

/* Timers and transitions of all alerts. */
void alert_table_advance(struct alert_table *t, const struct alert_advance *how);
void alert_entry_advance(struct alert_table *t, struct alert_entry *e,
                         const struct alert_advance *how);

/* Either way. Loaded alerts are added to those that are there. */
void alert_table_state(struct sonde_state *s, struct alert_table *t);

#endif
