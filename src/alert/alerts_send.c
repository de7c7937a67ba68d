/* alerts_send.c - a receiver's thread: takes the oldest notification that its receiver has not
 * taken, sees to it that the state's file has it, and sends it. If that cannot be done now it waits
 * longer and longer before the next try, spread at random; the notifications behind it wait too, so
 * that a resolution never comes before what it resolves. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alert/alert_private.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "sonde/sonde.h"

#define RETRY_FIRST_S 0.5
#define RETRY_MAX_S 60.0
#define RETRY_AFTER_MAX_S 600.0
#define REFRESH_UNTIL 4 /* refreshes that may fail before an alert counts as over */
enum { REFRESH_BODY_MAX = 8 << 20 };

static int send_must_stop(void *arg)
{
    const struct alert_sender *s = arg;
    struct sonde_alerts *a = s->alerts;
    sonde_lock(&a->lock);
    const int stop = a->stopping && sonde_clock_s(CLOCK_MONOTONIC) >= a->stop_at_s;
    sonde_unlock(&a->lock);
    return stop;
}

/* ---- What came of a try ---------------------------------------------------------------------- */

static const struct alert_receiver *send_receiver(const struct alert_sender *s)
{
    return &s->alerts->receivers.at[s->at];
}

static void send_on_result(struct alert_sender *s, uint64_t seq, enum alert_result result,
                           const struct alert_try *t)
{
    struct sonde_alerts *a = s->alerts;
    const struct alert_receiver *r = send_receiver(s);
    sonde_lock(&a->lock);
    const int was_failing = s->failing;
    s->failing = result == ALERT_RESULT_RETRY;
    if (result == ALERT_RESULT_SENT) {
        s->counts.last_sent_s = sonde_clock_s(CLOCK_REALTIME);
        alerts_queue_done(a, s->at, seq, ALERT_SENT);
    } else {
        s->counts.last_failed_s = sonde_clock_s(CLOCK_REALTIME);
        snprintf(s->counts.last_error, sizeof(s->counts.last_error), "%s", t->text);
        if (result == ALERT_RESULT_REFUSED) alerts_queue_done(a, s->at, seq, ALERT_REFUSED);
        else s->counts.outcome[ALERT_FAILED]++;
    }
    sonde_unlock(&a->lock);
    if (result == ALERT_RESULT_REFUSED) {
        sonde_log(SONDE_LOG_ERROR, "alerts: %s (%s) refuses a notification, which is dropped: %s; "
                  "`sonde alerts test` tries it", r->name, r->shown, t->text);
    } else if (s->failing && !was_failing) {
        sonde_log(SONDE_LOG_WARN, "alerts: %s (%s): %s; trying again", r->name, r->shown, t->text);
    } else if (was_failing && !s->failing) {
        sonde_log(SONDE_LOG_WARN, "alerts: %s (%s) takes notifications again", r->name, r->shown);
    }
}

/* xorshift64*, 0 … 1: jitter needs no more. */
static double send_random(struct alert_sender *s)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return (double)((s->random * 2685821657736338717ull) >> 11) / 9007199254740992.0;
}

static double send_next_wait(struct alert_sender *s, const struct alert_try *t, double *wait_s)
{
    *wait_s = *wait_s > 0 ? *wait_s * 2 : RETRY_FIRST_S;
    if (*wait_s > RETRY_MAX_S) *wait_s = RETRY_MAX_S;
    const double wait = *wait_s * (0.5 + 0.5 * send_random(s));
    const double asked = t->retry_after_s < RETRY_AFTER_MAX_S ? t->retry_after_s
                                                              : RETRY_AFTER_MAX_S;
    return asked > wait ? asked : wait;
}

/* ---- Sending again to those that forget ------------------------------------------------------ */

static void send_refresh_put(const struct sonde_alerts *a, const struct alert_entry *e,
                             double until_s, struct sonde_buf *out)
{
    if (e->state != ALERT_FIRING || !e->told_firing || e->held) return;
    const struct alert_notice n = { .what = e->what, .firing = 1, .started_s = e->started_s,
                                    .fired_s = e->fired_s };
    alert_alertmanager_put(&n, &a->origin, until_s, out);
}

/* All that fire, in one POST. Failing is no matter: the next is soon. */
static void send_refresh(struct alert_sender *s, struct alert_try *t)
{
    struct sonde_alerts *a = s->alerts;
    const struct alert_receiver *r = send_receiver(s);
    const double until = sonde_clock_s(CLOCK_REALTIME) + REFRESH_UNTIL * r->ops->refresh_s;
    struct sonde_buf body;
    sonde_buf_init(&body, REFRESH_BODY_MAX);
    sonde_json_open(&body, '[');
    sonde_lock(&a->lock);
    for (size_t i = 0; i < a->table.count; i++) {
        send_refresh_put(a, a->table.at[i], until, &body);
    }
    sonde_unlock(&a->lock);
    sonde_json_close(&body, ']');
    if (body.len > 2 && alert_receiver_post(r, "", &body, t) == ALERT_RESULT_SENT) {
        sonde_lock(&a->lock);
        s->counts.refreshed++;
        sonde_unlock(&a->lock);
    }
    sonde_buf_release(&body);
    s->refresh_at_s = sonde_clock_s(CLOCK_MONOTONIC) + r->ops->refresh_s;
}

/* ---- The thread ------------------------------------------------------------------------------ */

enum send_work { SEND_END, SEND_NOTICE, SEND_REFRESH };

/* Waits for something to do. A notice is copied, so that nobody needs the lock while it is sent. */
static enum send_work send_wait(struct alert_sender *s, double not_before_s,
                                struct alert_notice *notice, uint64_t *seq, uint64_t *version)
{
    struct sonde_alerts *a = s->alerts;
    const double refresh_s = send_receiver(s)->ops->refresh_s;
    enum send_work work = SEND_END;
    sonde_lock(&a->lock);
    for (;;) {
        const double now = sonde_clock_s(CLOCK_MONOTONIC);
        const struct alert_queued *q =
            alerts_queue_first(a, s->at, sonde_clock_s(CLOCK_REALTIME));
        const int early = now < not_before_s;
        if (a->stopping && (!q || early || now >= a->stop_at_s)) break;
        if (q && !early && alert_notice_copy(notice, &q->notice) == 0) {
            *seq = q->seq;
            *version = q->version;
            work = SEND_NOTICE;
            break;
        }
        if (!q && refresh_s > 0 && now >= s->refresh_at_s) {
            work = SEND_REFRESH;
            break;
        }
        double until_s = now + 3600;
        if (q) until_s = early ? not_before_s : now + 1; /* there was no memory */
        else if (refresh_s > 0) until_s = s->refresh_at_s;
        const struct timespec until = sonde_clock_timespec_s(until_s);
        sonde_cond_timedwait(&a->wake, &a->lock, &until);
    }
    sonde_unlock(&a->lock);
    return work;
}

static void *send_run(void *arg)
{
    struct alert_sender *s = arg;
    struct sonde_alerts *a = s->alerts;
    const struct alert_receiver *r = send_receiver(s);
    struct alert_try t = { .timeout_s = a->timeout_s, .stop = send_must_stop, .arg = s };
    double wait_s = 0, not_before_s = 0;
    uint64_t seq = 0, version = 0;
    struct alert_notice n;
    if (r->ops->posts) t.curl = push_http_open();
    for (enum send_work w; (w = send_wait(s, not_before_s, &n, &seq, &version)) != SEND_END;) {
        if (w == SEND_REFRESH) {
            send_refresh(s, &t);
            continue;
        }
        alerts_file_save(a, version);
        if (r->ops->posts && !t.curl) t.curl = push_http_open();
        enum alert_result result = ALERT_RESULT_RETRY;
        if (r->ops->posts && !t.curl) snprintf(t.text, sizeof(t.text), "out of memory");
        else result = alert_receiver_send(r, &n, &a->origin, &t);
        alert_notice_release(&n);
        if (result == ALERT_RESULT_RETRY && send_must_stop(s)) break; /* it was cut off by us */
        send_on_result(s, seq, result, &t);
        if (result == ALERT_RESULT_RETRY) {
            not_before_s = sonde_clock_s(CLOCK_MONOTONIC) + send_next_wait(s, &t, &wait_s);
            continue;
        }
        wait_s = not_before_s = 0;
        alerts_file_save_soon(a, s->at);
    }
    push_http_close(t.curl);
    return NULL;
}

int alerts_send_start(struct sonde_alerts *a, struct sonde_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < a->receivers.count && !rc; i++) {
        struct alert_sender *s = &a->sender[i];
        s->random = (sonde_fnv64_text(SONDE_FNV64_SEED, a->receivers.at[i].name) ^
                     sonde_clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 32) | 1;
        /* What fired before this agent began is told at once to who may have forgotten it. */
        s->refresh_at_s = 0;
        rc = sonde_thread_start(&s->thread, "sonde-alert", send_run, s, err);
    }
    return rc;
}

void alerts_send_stop(struct sonde_alerts *a, double flush_s)
{
    sonde_lock(&a->lock);
    a->stopping = 1;
    a->stop_at_s = sonde_clock_s(CLOCK_MONOTONIC) + flush_s;
    sonde_cond_broadcast(&a->wake);
    sonde_unlock(&a->lock);
    for (size_t i = 0; i < a->receivers.count; i++) sonde_thread_join(&a->sender[i].thread);
}
