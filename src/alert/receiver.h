/* receiver.h - who is told: kinds of receivers, and one of each as the settings have it.
 *
 * A kind = one .c file with a const struct alert_receiver_ops + one row in alert_list.h. Besides
 * those of single settings (alerts.log, alerts.webhook, alerts.command) there is the setting
 * alerts.receivers for any number, as JSON:
 *
 *   {"kind": "webhook", "url": "https://HOST/…"}    or "url_file": "FILE" with the URL in it
 *   {"kind": "slack", "url_file": "/etc/sonde/slack"}
 *   {"kind": "alertmanager", "url": "http://HOST:9093", "headers": "FILE"}
 *   {"kind": "command", "command": ["/usr/local/bin/page", "--now"]}
 *
 * and "name", which is the label receiver="…" of its series; default: the kind, and a number where
 * there are several. */
#ifndef SONDE_ALERT_RECEIVER_H
#define SONDE_ALERT_RECEIVER_H

#include "alert/subject.h"
#include "push/post.h"

/* One transition of an alert, as it is sent. */
struct alert_notice {
    struct alert_subject what;
    char id[64];                 /* the same for every try, and for nothing else */
    uint32_t firing;
    double started_s;            /* the condition held from then on */
    double fired_s;
    double ended_s;              /* 0 = it still holds */
    double made_s;
};

/* What all notices have in common. */
struct alert_origin {
    char host[256];              /* "" = not told */
    char url[256];               /* links begin with it; "" = not known */
};

enum alert_result {
    ALERT_RESULT_SENT,
    ALERT_RESULT_RETRY,          /* not now */
    ALERT_RESULT_REFUSED,        /* never */
};

struct alert_receiver;

struct alert_try {
    double timeout_s;
    int (*stop)(void *arg);      /* 1 = give up; NULL = never */
    void *arg;
    void *curl;                  /* of those that post */
    double retry_after_s;        /* out: what the receiver asked for; 0 = nothing */
    char text[256];              /* out: for people */
};

struct alert_receiver_ops {
    const char *name;            /* the kind */
    const char *path;            /* of those that post: where, if the URL has none */
    int posts;                   /* it has a URL */
    double refresh_s;            /* firing alerts are sent again after so long, since it forgets;
                                    0 = it does not */
    /* The body of a POST, or what a command reads. */
    void (*body)(const struct alert_notice *n, const struct alert_origin *o, struct sonde_buf *out);
    /* NULL = posts body. */
    enum alert_result (*send)(const struct alert_receiver *r, const struct alert_notice *n,
                              const struct alert_origin *o, struct alert_try *t);
};

extern const struct alert_receiver_ops *const alert_receiver_kinds[]; /* NULL-terminated */

struct alert_receiver {
    const struct alert_receiver_ops *ops;
    char name[64];
    char shown[160];             /* where to, without what may be secret */
    char *url;                   /* owned, as the rest; NULL = none */
    char **headers;
    char **argv;                 /* NULL-terminated */
};

struct alert_receivers {
    struct alert_receiver at[SONDE_ALERT_RECEIVERS_MAX];
    size_t count;
};

/* As the options say. SONDE_EINVAL: which receiver and what is wrong. */
int alert_receivers_open(struct alert_receivers *r, const struct sonde_alerts_options *o,
                         struct sonde_err *err);
void alert_receivers_release(struct alert_receivers *r);

/* One try. Blocks for as long as t->timeout_s. */
enum alert_result alert_receiver_send(const struct alert_receiver *r, const struct alert_notice *n,
                                      const struct alert_origin *o, struct alert_try *t);
/* Of those that post: body as it is. */
enum alert_result alert_receiver_post(const struct alert_receiver *r, const char *id,
                                      const struct sonde_buf *body, struct alert_try *t);
/* Whether it can be reached, without sending. */
int alert_receiver_reach(const struct alert_receiver *r, double timeout_s, struct sonde_err *err);

/* ---- What receivers' files share ------------------------------------------------------------- */

/* "firing" or "resolved". */
const char *alert_notice_state(const struct alert_notice *n);
/* The link in full; 0 = there is none. */
int alert_notice_link(const struct alert_notice *n, const struct alert_origin *o, char *out,
                      size_t out_size);
/* An element of Alertmanager's array; until_s: when it counts as over if nothing more comes. */
void alert_alertmanager_put(const struct alert_notice *n, const struct alert_origin *o,
                            double until_s, struct sonde_buf *out);
/* The generic object, which the command reads too. */
void alert_webhook_body(const struct alert_notice *n, const struct alert_origin *o,
                        struct sonde_buf *out);

#endif
