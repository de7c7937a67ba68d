/* alert_private.h - what the files of alerts as a whole share.
 *
 * Locks: file_lock (who writes the state's file), then lock (everything else). Neither is held
 * while something is sent; file_lock alone is held while the disk is used. */
#ifndef SONDE_ALERT_ALERT_PRIVATE_H
#define SONDE_ALERT_ALERT_PRIVATE_H

#include "alert/alert_table.h"
#include "alert/burn.h"
#include "alert/mute.h"
#include "alert/receiver.h"
#include "alert/rule.h"
#include "base/lock.h"
#include "base/thread.h"

enum { ALERT_QUEUE_MAX = 1000 }; /* notifications that wait; more: the oldest are dropped */

/* A notification that waits for at least one receiver. */
struct alert_queued {
    struct alert_queued *next;
    struct alert_notice notice;
    uint64_t seq;
    uint64_t version;            /* of the state that it is first in */
    uint32_t left;               /* bit i = receiver i has not taken it */
};

struct alert_counts {
    uint64_t outcome[ALERT_OUTCOMES]; /* SENT, FAILED (tries), REFUSED, DROPPED */
    uint64_t refreshed;
    double last_sent_s, last_failed_s; /* unix; 0 = never */
    char last_error[256];        /* of the last try that failed; "" = none did */
};

/* A receiver's thread. */
struct alert_sender {
    struct sonde_alerts *alerts;
    size_t at;                   /* of receivers */
    struct sonde_thread thread;
    struct alert_counts counts;  /* under lock */
    int failing;
    double refresh_at_s;         /* monotonic; the thread's own */
    uint64_t random;
    struct sonde_model_series *series[8]; /* alerts_series.c */
};

struct sonde_alerts {
    struct sonde_model *model;
    struct alert_origin origin;
    double timeout_s, repeat_s, age_s, interval_s;
    enum sonde_severity severity_min;
    struct alert_receivers receivers;
    struct alert_sender sender[SONDE_ALERT_RECEIVERS_MAX];

    struct sonde_lock lock;
    struct sonde_cond wake;      /* something to send, or stopping */
    struct alert_table table;
    struct alert_mutes mutes;
    struct alert_rules rules;
    struct alert_burn burn;
    struct alert_queued *first, **end;
    size_t queued;
    uint64_t last_seq, version, saved_version, table_saved;
    uint64_t round;              /* looks at the model */
    double opened_s;             /* unix */
    int ending;                  /* no more looks at the model */
    int stopping;                /* senders end when nothing waits, or at … */
    double stop_at_s;            /* … monotonic */

    struct sonde_lock file_lock;
    char *state;                 /* NULL = in memory */
    int state_lock_fd;
    int told_unsaved;
    double saved_at_s;           /* monotonic */

    struct sonde_thread thread;  /* looks at the model */
    uint64_t tick;
    struct sonde_model_series *series[8];
};

/* ---- alerts_queue.c (under lock) ------------------------------------------------------------- */

/* For all receivers. 0 or SONDE_ENOMEM. */
int alerts_queue_put(struct sonde_alerts *a, struct alert_entry *e, int firing, double now_s);
/* The first that receiver i has not taken; what waited too long is dropped first. NULL = none. */
struct alert_queued *alerts_queue_first(struct sonde_alerts *a, size_t i, double now_s);
/* Receiver i is done with seq. */
void alerts_queue_done(struct sonde_alerts *a, size_t i, uint64_t seq, enum alert_outcome outcome);
/* How many wait for receiver i. */
size_t alerts_queue_count(const struct sonde_alerts *a, size_t i);
void alerts_queue_clear(struct sonde_alerts *a);
int alert_notice_copy(struct alert_notice *out, const struct alert_notice *from);
void alert_notice_release(struct alert_notice *n);
/* Either way; receivers are known by their names. */
void alerts_queue_state(struct sonde_state *s, struct sonde_alerts *a);

/* ---- alerts_file.c --------------------------------------------------------------------------- */

/* Takes the file's lock and loads it. A file that cannot be used is logged, and not used. */
int alerts_file_open(struct sonde_alerts *a, const char *path, struct sonde_err *err);
/* Writes what is not written yet, at least up to version. No lock is held. */
void alerts_file_save(struct sonde_alerts *a, uint64_t version);
/* Receiver i took something. Not if more waits for it and the file was written a moment ago. */
void alerts_file_save_soon(struct sonde_alerts *a, size_t i);
void alerts_file_close(struct sonde_alerts *a);

/* ---- alerts_send.c --------------------------------------------------------------------------- */

int alerts_send_start(struct sonde_alerts *a, struct sonde_err *err);
void alerts_send_stop(struct sonde_alerts *a, double flush_s);

/* ---- alerts_series.c ------------------------------------------------------------------------- */

/* Takes the model's write lock. */
void alerts_series_update(struct sonde_alerts *a);

#endif
