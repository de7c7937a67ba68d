/* push_private.h - what the files of push/ share.
 *
 * Locks, in this order: dest.made_lock (who encodes), the model's, spans.lock, dest.lock, that of
 * the queue. None of them is held while something is sent. */
#ifndef SONDE_PUSH_PUSH_PRIVATE_H
#define SONDE_PUSH_PUSH_PRIVATE_H

#include "base/buf.h"
#include "base/lock.h"
#include "base/thread.h"
#include "push/post.h"
#include "push/push.h"
#include "push/queue.h"

struct push_dest;
struct push_sent;
struct push_spans;

/* What a destination makes of a model or a profile: batches, by push_emit. */
struct sonde_push_ops {
    const char *name;             /* push.NAME is its setting, destination="NAME" its label */
    const char *path;             /* where, if the URL has no path of its own; "" = as it is */
    const char *const *headers;   /* NULL-terminated */
    int (*open)(struct push_dest *d);   /* d->state; NULL = needs none */
    void (*close)(struct push_dest *d);
    /* All that can fail are memory and sizes. NULL = it does not take them. */
    int (*metrics)(struct push_dest *d, struct sonde_model *m); /* asserts the read lock */
    int (*traces)(struct push_dest *d, const struct push_spans *s);
    int (*profile)(struct push_dest *d, const struct sonde_profile *p, struct sonde_err *err);
    int (*log)(struct push_dest *d, const struct sonde_push_log *log);
    int (*pack)(const struct sonde_buf *raw, struct sonde_buf *out); /* NULL = as it is */
    int (*again)(long status);    /* 1 = a try with this answer may be repeated */
    /* Items that the answer to a success says it did not take, and why. NULL = it never says. */
    uint64_t (*rejected)(const char *body, size_t len, char *why, size_t why_size);
};

enum push_drop {
    PUSH_DROP_REFUSED,  /* the destination said that it never will take it */
    PUSH_DROP_SIZE,     /* the spool is full */
    PUSH_DROP_AGE,
    PUSH_DROP_DAMAGED,  /* found so in the spool */
    PUSH_DROP_SPOOL,    /* could not be written there */
    PUSH_DROP_MEMORY,
    PUSH_DROPS
};

/* Of one destination, since the start; under dest.lock. */
struct push_counts {
    uint64_t sent, sent_bytes, failed, rejected;
    uint64_t dropped[PUSH_DROPS]; /* the queue's own are added when shown */
    double last_sent_s;           /* unix time; 0 = never */
};

struct push_dest {
    const struct sonde_push_ops *ops;
    struct sonde_push *push;
    char url[PUSH_URL_MAX];       /* what paths are added to */
    char **headers;               /* all of them, NULL-terminated; owned */
    uint32_t signals;
    void *state;                  /* of ops */
    struct push_queue *queue;
    struct push_sent *sent;       /* of traces; NULL = nothing is noted */
    struct push_batch *made;      /* by push_emit, not packed yet; oldest first */
    struct push_batch **made_end;
    struct sonde_lock made_lock;    /* encoding: the feeder, and who hands over a profile */

    struct sonde_lock lock;
    struct sonde_cond wake;          /* something to send, or stopping */
    struct push_counts counts;
    int stopping;
    double stop_at_s;             /* monotonic: by then the sender ends */
    int failing, told_refused, told_rejected;
    struct sonde_thread thread;
    uint64_t random;              /* for jitter */
    struct sonde_model_series *series[16]; /* of its own figures; the feeder's */
};

struct push_label { const char *name, *value; };

/* Where all of it comes from. */
struct push_origin {
    char host[256];
    struct push_label labels[SONDE_PUSH_LABELS_MAX]; /* into label_text */
    size_t label_count;
    char *label_text;             /* owned */
};

/* A batch of raw bytes for d, which is taken (raw is empty then). target: path and query, added to
 * the destination's URL. Under d->made_lock. */
void push_emit(struct push_dest *d, uint32_t signal, const char *target, uint32_t items,
               struct sonde_buf *raw);

double push_clock_s(void); /* CLOCK_MONOTONIC */
double push_unix_s(void);

/* ---- http.c ---------------------------------------------------------------------------------- */

/* As push_http_send (post.h), of a batch. */
int push_http_post(void *curl, const struct push_dest *d, const struct push_batch *b,
                   double timeout_s, int (*stop)(void *arg), void *arg, struct push_answer *out);

/* ---- headers.c ------------------------------------------------------------------------------- */

/* "a=b,c=d" into o. */
int push_labels(struct push_origin *o, const char *text, struct sonde_err *err);

/* ---- sender.c -------------------------------------------------------------------------------- */

int push_sender_start(struct push_dest *d, struct sonde_err *err);
/* Senders of several destinations end at the same time: first stop, then join. */
void push_sender_stop(struct push_dest *d, double stop_at_s);
void push_sender_join(struct push_dest *d);

/* ---- push.c ---------------------------------------------------------------------------------- */

const struct push_origin *push_origin(const struct push_dest *d);
double push_timeout_s(const struct push_dest *d);
int push_wants_native(const struct push_dest *d);

/* ---- series.c: its own figures, in the model ------------------------------------------------- */

/* Asserts the write lock. */
void push_series_update(struct push_dest *d, struct sonde_model *m);

#endif
