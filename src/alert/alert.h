/* alert.h - alerts: what is wrong, told to people once, and once more when it is over.
 *
 *     rules on series ---.
 *     SLO burn rates -----+--> table of alerts --> notifications --> one queue per receiver
 *     sonde_alerts_tell -'     pending, firing,    each with a       log, webhook, Slack,
 *     (findings, …)            resolved; muted     stable id         Alertmanager, command
 *
 * An alert is known by its kind and labels. Its condition must hold for a while before it fires,
 * and be gone for a while before it is resolved; each of the two transitions is one notification
 * for each receiver. State and notifications that wait are one file, replaced as a whole before
 * anything of it is sent: after a crash the next agent goes on where this one was. A notification
 * leaves the file when its receiver took it, so one that was sent just before a crash is sent once
 * more, with the same id, by which receivers can tell.
 *
 * Rejected: the spool of push (push/queue.h), one file for each notification: state and spool would
 * be two things that a crash can tear apart, and then a transition is lost or told twice under two
 * ids.
 *
 * Threads: one that looks at the model once per tick, under its read lock, and one per receiver, so
 * that one that is away does not hold up others. Nothing here blocks who tells.
 *
 * A kind of receiver = one .c file with a const struct alert_receiver_ops (receiver.h) + one row in
 * alert_list.h. */
#ifndef SONDE_ALERT_ALERT_H
#define SONDE_ALERT_ALERT_H

#include "analyze/severity.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/model.h"

struct sonde_alerts;

#define SONDE_ALERT_KIND_MAX 64      /* bytes */
#define SONDE_ALERT_LABELS_MAX 16    /* more are left out */
#define SONDE_ALERT_SUMMARY_MAX 500  /* longer texts are cut */
#define SONDE_ALERTS_MAX 1000        /* at a time; more are counted and left out */
#define SONDE_ALERT_RECEIVERS_MAX 16

/* ---- What others tell ------------------------------------------------------------------------ */

struct sonde_alert_event {
    const char *kind;            /* "lock_contention": letters, digits and _.:- */
    const char *key;             /* tells apart alerts of the same kind and labels; NULL = "" */
    enum sonde_severity severity;
    const struct sonde_label *labels;
    size_t label_count;
    const char *summary;         /* a sentence with the number */
    double value;                /* NAN = none */
    const char *link;            /* path on this agent that shows more; NULL = none */
    int firing;                  /* 1 = the condition holds, 0 = it does not (any more) */
    double time_s;               /* unix; 0 = now */
    double for_s;                /* it must hold so long before the alert fires; 0 = at once */
    double keep_s;               /* it must be gone so long before it is resolved; 0 = at once */
};

/* Copies e. May be told again and again: nothing happens unless something changes. Any thread,
 * also under the model's lock; never waits for a receiver or a disk. a NULL: nothing happens.
 * SONDE_EINVAL: no kind, or one that cannot be; SONDE_EFULL: there are SONDE_ALERTS_MAX of them;
 * SONDE_ENOMEM. */
int sonde_alerts_tell(struct sonde_alerts *a, const struct sonde_alert_event *e);

/* ---- Life ------------------------------------------------------------------------------------ */

/* Thresholds of the rules that are shipped; 0 = that rule is off. */
struct sonde_alert_shipped {
    double cpu_percent, memory_percent, disk_percent, error_ratio, cache_hit_ratio;
};

/* Texts are copied; JSON texts may be NULL or "" for none. */
struct sonde_alerts_options {
    struct sonde_model *model;   /* borrowed; NULL = only what is told */
    const char *webhook;         /* URL; "" = none */
    const char *webhook_form;    /* "generic", "slack", "alertmanager" */
    const char *webhook_headers; /* file with headers; "" = none */
    const char *command;         /* JSON array: program and arguments */
    const char *receivers;       /* JSON array of objects: more receivers (receiver.h) */
    const char *rules;           /* JSON array of objects (rule.h) */
    const char *mutes;           /* JSON array of objects (mute.h) */
    const char *token;           /* sent to webhooks of the setting above; NULL = none */
    int log;                     /* to the log, too */
    const struct sonde_alert_shipped *shipped; /* NULL = those rules are off */
    double for_s, keep_s;        /* of rules that do not say */
    enum sonde_severity severity_min; /* less is listed but not sent */
    double timeout_s;            /* for one try */
    double repeat_s;             /* 0 = each transition is told once */
    double age_s;                /* a notification that waited longer is dropped; 0 = a day */
    double interval_s;           /* between looks at the model; 0 = 1 */
    double slo_target;           /* share of requests that should meet their objectives; 0 = burn
                                    rates are not watched */
    double slo_requests_min;     /* fewer in the long window say nothing */
    const char *state;           /* file; NULL = in memory */
    const char *url;             /* of this agent as people reach it, for links; "" = not known */
    int strip;                   /* do not name the host */
};

/* Checks everything: SONDE_EINVAL and what is wrong where. No thread yet; nothing is sent. */
int sonde_alerts_create(const struct sonde_alerts_options *o, struct sonde_alerts **out,
                        struct sonde_err *err);
int sonde_alerts_start(struct sonde_alerts *a, struct sonde_err *err);
/* A last look at the model; then receivers have flush_s for what waits. The rest stays in the
 * state's file, or is lost and logged. Call it while the model is there. NULL is fine. */
void sonde_alerts_stop(struct sonde_alerts *a, double flush_s);
void sonde_alerts_destroy(struct sonde_alerts *a); /* NULL is fine; stops without flushing */

/* One look at the model and at all timers, at this unix time: for tests, and what the thread does.
 * Takes the model's lock. */
void sonde_alerts_step(struct sonde_alerts *a, double now_s);

/* ---- Looking and muting ---------------------------------------------------------------------- */

/* {"time", "firing", "pending", "alerts", "receivers", "rules", "mutes"} into out; any thread. */
void sonde_alerts_json(struct sonde_alerts *a, struct sonde_buf *out);
/* How many fire, are not muted and have at least this severity. */
size_t sonde_alerts_firing(struct sonde_alerts *a, enum sonde_severity min);

/* A JSON object (mute.h); *id names it from now on. SONDE_EINVAL and which member is wrong. */
int sonde_alerts_mute(struct sonde_alerts *a, const char *body, size_t len, uint64_t *id,
                      struct sonde_err *err);
/* SONDE_ENOENT: there is none; SONDE_EACCES: it is of the settings. */
int sonde_alerts_unmute(struct sonde_alerts *a, uint64_t id, struct sonde_err *err);

/* ---- Trying ---------------------------------------------------------------------------------- */

struct sonde_alerts_tried {
    char name[64], to[160];      /* receiver, and where to, without secrets */
    int ok;
    char text[512];              /* what came of it, and if it failed what to do */
};

/* A test notification through each receiver, now, on this thread, past queue and mutes; how many
 * there are. */
size_t sonde_alerts_test(struct sonde_alerts *a, struct sonde_alerts_tried *out, size_t max);
/* {"receivers": […], "ok"} */
void sonde_alerts_tried_json(const struct sonde_alerts_tried *tried, size_t count,
                             struct sonde_buf *out);

/* Whether each receiver can be reached, without sending: a connection, or that the program is
 * there. As test. */
size_t sonde_alerts_reach(struct sonde_alerts *a, struct sonde_alerts_tried *out, size_t max);

/* Rules there are, shipped ones included. */
size_t sonde_alerts_rules(const struct sonde_alerts *a);

#endif
