/* sender.c - a destination's thread: take the oldest batch, send it, and if that cannot be done now
 * wait longer and longer before the next try. Waiting is spread at random, so that the agents of a
 * fleet do not all come back at the same moment; a server's Retry-After is honoured. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "push/push_private.h"
#include "sonde/sonde.h"

#define WAIT_FIRST_S 0.5
#define WAIT_MAX_S 60.0
#define RETRY_AFTER_MAX_S 600.0
enum { ANSWER_MAX = 1 << 16 };

/* xorshift64*: jitter needs no more. */
static double random_part(struct push_dest *d)
{
    d->random ^= d->random >> 12;
    d->random ^= d->random << 25;
    d->random ^= d->random >> 27;
    return (double)((d->random * 2685821657736338717ull) >> 11) / 9007199254740992.0;
}

static int must_stop(void *arg)
{
    struct push_dest *d = arg;
    sonde_lock(&d->lock);
    const int stop = d->stopping && push_clock_s() >= d->stop_at_s;
    sonde_unlock(&d->lock);
    return stop;
}

/* ---- What came of a try ---------------------------------------------------------------------- */

static void on_sent(struct push_dest *d, const struct push_batch *b, const struct push_answer *a)
{
    assert(a->status >= 200 && a->status < 300);
    char why[160] = "";
    const uint64_t rejected =
        d->ops->rejected ? d->ops->rejected(a->body.data, a->body.len, why, sizeof(why)) : 0;
    sonde_lock(&d->lock);
    d->counts.sent++;
    d->counts.sent_bytes += b->body_len;
    d->counts.rejected += rejected;
    d->counts.last_sent_s = push_unix_s();
    const int tell = rejected && !d->told_rejected, again = d->failing;
    if (rejected) d->told_rejected = 1;
    d->failing = d->told_refused = 0;
    sonde_unlock(&d->lock);
    if (again)
        sonde_log(SONDE_LOG_WARN, "push: %s %s takes what is sent again", d->ops->name, d->url);
    if (tell) {
        sonde_log(SONDE_LOG_WARN,
                  "push: %s %s did not take %llu of what it was sent: %s (told once; "
                  "sonde_push_rejected_total counts)",
                  d->ops->name, d->url, (unsigned long long)rejected,
                  why[0] ? why : "it does not say why");
    }
}

static void on_refused(struct push_dest *d, const struct push_answer *a)
{
    sonde_lock(&d->lock);
    d->counts.dropped[PUSH_DROP_REFUSED]++;
    const int tell = !d->told_refused;
    d->told_refused = 1;
    d->failing = 0;
    sonde_unlock(&d->lock);
    if (tell) {
        sonde_log(SONDE_LOG_WARN, "push: %s %s refuses what it is sent, which is dropped: %s",
                  d->ops->name, d->url, a->text);
    }
}

static void on_failed(struct push_dest *d, const struct push_answer *a)
{
    struct push_queue_stats s;
    push_queue_stats(d->queue, &s);
    sonde_lock(&d->lock);
    d->counts.failed++;
    const int tell = !d->failing;
    d->failing = 1;
    sonde_unlock(&d->lock);
    if (tell) {
        sonde_log(SONDE_LOG_WARN,
                  "push: %s %s: %s; trying again, until then what is to be sent waits "
                  "%s",
                  d->ops->name, d->url, a->text, s.on_disk ? "on disk" : "in memory");
    }
}

/* How long to wait before the next try; *wait_s is the one before. */
static double next_wait(struct push_dest *d, const struct push_answer *a, double *wait_s)
{
    *wait_s = *wait_s > 0 ? *wait_s * 2 : WAIT_FIRST_S;
    if (*wait_s > WAIT_MAX_S) *wait_s = WAIT_MAX_S;
    assert(*wait_s >= WAIT_FIRST_S);
    const double wait = *wait_s * (0.5 + 0.5 * random_part(d));
    const double asked =
        a->retry_after_s < RETRY_AFTER_MAX_S ? a->retry_after_s : RETRY_AFTER_MAX_S;
    return asked > wait ? asked : wait;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* 1 = there is something to send and it is time; 0 = the end. */
static int wait_for_work(struct push_dest *d, double not_before_s)
{
    int go = 0, end = 0;
    sonde_lock(&d->lock);
    while (!go && !end) {
        const double now = push_clock_s();
        const int empty = push_queue_empty(d->queue), early = now < not_before_s;
        go = !empty && !early;
        end = d->stopping && (!go || now >= d->stop_at_s);
        if (go || end) break;
        if (empty) {
            sonde_cond_wait(&d->wake, &d->lock);
        } else {
            const struct timespec until = sonde_clock_timespec_s(not_before_s);
            sonde_cond_timedwait(&d->wake, &d->lock, &until);
        }
    }
    sonde_unlock(&d->lock);
    return go && !end;
}

static void *push_sender_run(void *arg)
{
    struct push_dest *d = arg;
    struct push_answer answer = { 0 };
    double wait_s = 0, not_before_s = 0;
    assert(d->queue && d->random);
    sonde_buf_init(&answer.body, ANSWER_MAX);
    void *curl = push_http_open();
    while (wait_for_work(d, not_before_s)) {
        const struct push_batch *b = curl ? push_queue_first(d->queue) : NULL;
        if (!b) { /* no memory: later there may be */
            if (!push_queue_empty(d->queue)) not_before_s = push_clock_s() + 1;
            if (!curl) curl = push_http_open();
            continue;
        }
        const int rc = push_http_post(curl, d, b, push_timeout_s(d), must_stop, d, &answer);
        if (rc || d->ops->again(answer.status)) {
            push_queue_keep(d->queue);
            if (must_stop(d)) break;
            on_failed(d, &answer);
            not_before_s = push_clock_s() + next_wait(d, &answer, &wait_s);
            continue;
        }
        if (answer.status >= 200 && answer.status < 300) on_sent(d, b, &answer);
        else on_refused(d, &answer);
        push_queue_done(d->queue);
        wait_s = not_before_s = 0;
    }
    push_http_close(curl);
    sonde_buf_release(&answer.body);
    return NULL;
}

int push_sender_start(struct push_dest *d, struct sonde_err *err)
{
    return sonde_thread_start(&d->thread, "sonde-push-send", push_sender_run, d, err);
}

void push_sender_stop(struct push_dest *d, double stop_at_s)
{
    sonde_lock(&d->lock);
    d->stopping = 1;
    d->stop_at_s = stop_at_s;
    sonde_cond_broadcast(&d->wake);
    sonde_unlock(&d->lock);
}

void push_sender_join(struct push_dest *d)
{
    assert(!d->thread.started || d->stopping);
    sonde_thread_join(&d->thread);
}
