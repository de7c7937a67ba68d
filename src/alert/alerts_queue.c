/* alerts_queue.c - notifications that wait: one list, oldest first, each with a bit for every
 * receiver that has not taken it. So a notification is there once however many receivers there are,
 * and each takes them in order at its own pace. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "alert/alert_private.h"
#include "base/alloc.h"
#include "base/log.h"
#include "sonde/sonde.h"

int alert_notice_copy(struct alert_notice *out, const struct alert_notice *from)
{
    struct alert_subject what;
    const int rc = alert_subject_copy(&what, &from->what);
    if (rc) return rc;
    *out = *from;
    out->what = what;
    return 0;
}

void alert_notice_release(struct alert_notice *n) { alert_subject_release(&n->what); }

static void queued_destroy(struct alert_queued *q)
{
    alert_notice_release(&q->notice);
    sonde__free(q);
}

void alerts_queue_clear(struct sonde_alerts *a)
{
    while (a->first) {
        struct alert_queued *const q = a->first;
        a->first = q->next;
        queued_destroy(q);
    }
    a->end = &a->first;
    a->queued = 0;
}

static struct alert_entry *queue_entry_of(const struct sonde_alerts *a, uint64_t hash)
{
    for (size_t i = 0; i < a->table.count; i++) {
        if (a->table.at[i]->what.hash == hash) return a->table.at[i];
    }
    return NULL;
}

/* What became of q at receiver i, for the list of alerts and the counts. */
static void queue_note(struct sonde_alerts *a, size_t i, const struct alert_queued *q,
                       enum alert_outcome outcome)
{
    struct alert_entry *e = queue_entry_of(a, q->notice.what.hash);
    if (e) {
        e->last[i] = (struct alert_last){ (uint32_t)outcome, q->notice.firing,
                                          sonde_clock_s(CLOCK_REALTIME) };
    }
    if (outcome != ALERT_QUEUED) a->sender[i].counts.outcome[outcome]++;
}

/* q, which *link points to, is taken by all or dropped. */
static void queue_unlink(struct sonde_alerts *a, struct alert_queued **link)
{
    struct alert_queued *const q = *link;
    *link = q->next;
    if (!q->next) a->end = link;
    a->queued--;
    queued_destroy(q);
}

static void queue_drop(struct sonde_alerts *a, struct alert_queued **link, const char *why)
{
    struct alert_queued *const q = *link;
    for (size_t i = 0; i < a->receivers.count; i++) {
        if (!(q->left & 1u << i)) continue;
        queue_note(a, i, q, ALERT_DROPPED);
        sonde_log(SONDE_LOG_WARN, "alerts: notification %s for %s is dropped: %s", q->notice.id,
                  a->receivers.at[i].name, why);
    }
    a->version++;
    queue_unlink(a, link);
}

/* Stable: of the alert, its episode and the transition. */
static void queue_id(const struct alert_entry *e, int firing, char out[64])
{
    char again[16] = "";
    if (firing && e->repeats) snprintf(again, sizeof(again), "-%u", e->repeats + 1);
    snprintf(out, 64, "%016llx-%llx-%s%s", (unsigned long long)e->what.hash,
             (unsigned long long)(e->started_s * 1e3), firing ? "firing" : "resolved", again);
}

int alerts_queue_put(struct sonde_alerts *a, struct alert_entry *e, int firing, double now_s)
{
    sonde_assert_held(&a->lock);
    if (!a->receivers.count) return 0;
    struct alert_queued *q = sonde__calloc(1, sizeof(*q));
    if (!q || alert_subject_copy(&q->notice.what, &e->what) != 0) {
        sonde__free(q);
        return SONDE_ENOMEM;
    }
    struct alert_notice *const n = &q->notice;
    queue_id(e, firing, n->id);
    n->firing = (uint32_t)firing;
    n->started_s = e->started_s;
    n->fired_s = e->fired_s;
    n->ended_s = firing ? 0 : e->resolved_s;
    n->made_s = now_s;
    q->seq = ++a->last_seq;
    q->version = ++a->version;
    q->left = (uint32_t)((1ull << a->receivers.count) - 1);
    *a->end = q;
    a->end = &q->next;
    a->queued++;
    for (size_t i = 0; i < a->receivers.count; i++) queue_note(a, i, q, ALERT_QUEUED);
    if (a->queued > ALERT_QUEUE_MAX) queue_drop(a, &a->first, "too many wait");
    sonde_cond_broadcast(&a->wake);
    return 0;
}

struct alert_queued *alerts_queue_first(struct sonde_alerts *a, size_t i, double now_s)
{
    sonde_assert_held(&a->lock);
    while (a->first && now_s - a->first->notice.made_s > a->age_s) {
        queue_drop(a, &a->first, "it waited for too long");
    }
    for (struct alert_queued *q = a->first; q; q = q->next) {
        if (q->left & 1u << i) return q;
    }
    return NULL;
}

void alerts_queue_done(struct sonde_alerts *a, size_t i, uint64_t seq, enum alert_outcome outcome)
{
    sonde_assert_held(&a->lock);
    for (struct alert_queued **link = &a->first; *link; link = &(*link)->next) {
        struct alert_queued *const q = *link;
        if (q->seq != seq) continue;
        queue_note(a, i, q, outcome);
        q->left &= ~(1u << i);
        a->version++;
        if (!q->left) queue_unlink(a, link);
        return;
    }
}

size_t alerts_queue_count(const struct sonde_alerts *a, size_t i)
{
    size_t n = 0;
    for (const struct alert_queued *q = a->first; q; q = q->next) n += (q->left & 1u << i) != 0;
    return n;
}

/* ---- Kept ------------------------------------------------------------------------------------ */

static void notice_state(struct sonde_state *s, struct alert_notice *n)
{
    alert_subject_state(s, &n->what);
    sonde_state_text(s, n->id, sizeof(n->id));
    sonde_state_u32(s, &n->firing);
    sonde_state_double(s, &n->started_s);
    sonde_state_double(s, &n->fired_s);
    sonde_state_double(s, &n->ended_s);
    sonde_state_double(s, &n->made_s);
    if (n->firing > 1 || !(n->made_s >= 0)) s->bad = 1;
}

/* Who was to be told then, and is there now: bit by bit. */
static uint32_t queue_left_now(const struct sonde_alerts *a, uint32_t left,
                               char names[SONDE_ALERT_RECEIVERS_MAX][64], size_t count)
{
    uint32_t now = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < a->receivers.count && left & 1u << i; k++) {
            if (!strcmp(a->receivers.at[k].name, names[i])) now |= 1u << k;
        }
    }
    return now;
}

static void queue_load_one(struct sonde_state *s, struct sonde_alerts *a,
                           char names[SONDE_ALERT_RECEIVERS_MAX][64], size_t count)
{
    struct alert_queued *q = sonde__calloc(1, sizeof(*q));
    uint32_t left = 0;
    if (!q) {
        s->bad = 1;
        return;
    }
    notice_state(s, &q->notice);
    sonde_state_u32(s, &left);
    q->left = s->bad ? 0 : queue_left_now(a, left, names, count);
    if (!q->left) {
        queued_destroy(q);
        return;
    }
    q->seq = ++a->last_seq;
    *a->end = q;
    a->end = &q->next;
    a->queued++;
    for (size_t i = 0; i < a->receivers.count; i++) {
        if (q->left & 1u << i) queue_note(a, i, q, ALERT_QUEUED);
    }
}

void alerts_queue_state(struct sonde_state *s, struct sonde_alerts *a)
{
    char names[SONDE_ALERT_RECEIVERS_MAX][64] = { "" };
    uint64_t receivers = a->receivers.count, count = a->queued;
    sonde_state_count(s, &receivers, SONDE_ALERT_RECEIVERS_MAX);
    for (uint64_t i = 0; i < receivers; i++) {
        if (!sonde_state_loading(s)) memcpy(names[i], a->receivers.at[i].name, sizeof(names[i]));
        sonde_state_text(s, names[i], sizeof(names[i]));
    }
    sonde_state_count(s, &count, ALERT_QUEUE_MAX + 1);
    if (sonde_state_loading(s)) {
        for (uint64_t i = 0; i < count && !s->bad; i++) queue_load_one(s, a, names, receivers);
        return;
    }
    for (struct alert_queued *q = a->first; q; q = q->next) {
        notice_state(s, &q->notice);
        sonde_state_u32(s, &q->left);
    }
}
