/* alerts.c - see alert.h: life, looking at the model, being told, muting, trying. */
#include <assert.h>
#include <errno.h>
#include <math.h>
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

#define AGE_DEFAULT_S 86400.0
#define TIMEOUT_DEFAULT_S 10.0
#define GRACE_S 60.0       /* after a start, series that fired may not be there yet */
#define ORPHAN_S 3600.0    /* what was told to an agent before, and nobody speaks of any more */
#define TABLE_SAVE_S 5.0   /* between writes of what only changes the list */
#define BURN_SAVE_S 60.0

/* ---- Life ------------------------------------------------------------------------------------ */

static int alerts_open_parts(struct sonde_alerts *a, const struct sonde_alerts_options *o,
                             struct sonde_err *err)
{
    const struct alert_rule_defaults d = { o->for_s, o->keep_s };
    int rc = alert_receivers_open(&a->receivers, o, err);
    if (!rc) rc = alert_rules_parse(&a->rules, o->rules, &d, err);
    if (!rc && o->shipped) rc = alert_rules_ship(&a->rules, o->shipped, &d, err);
    if (!rc) rc = alert_mutes_parse(&a->mutes, o->mutes, a->opened_s, err);
    if (!rc && o->slo_target > 0 && !(o->slo_target < 1)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "alerts.slo_target is not below 1");
    }
    if (!rc && o->state) rc = alerts_file_open(a, o->state, err);
    return rc;
}

static void alerts_init(struct sonde_alerts *a, const struct sonde_alerts_options *o)
{
    char host[sizeof(a->origin.host)] = "";
    sonde_lock_init(&a->lock, SONDE_RANK_ALERTS);
    sonde_lock_init(&a->file_lock, SONDE_RANK_ALERTS_FILE);
    sonde_cond_init(&a->wake);
    a->end = &a->first;
    a->state_lock_fd = -1;
    a->model = o->model;
    a->severity_min = o->severity_min;
    a->timeout_s = o->timeout_s > 0 ? o->timeout_s : TIMEOUT_DEFAULT_S;
    a->repeat_s = o->repeat_s;
    a->age_s = o->age_s > 0 ? o->age_s : AGE_DEFAULT_S;
    a->interval_s = o->interval_s > 0 ? o->interval_s : 1;
    a->opened_s = sonde_clock_s(CLOCK_REALTIME);
    a->burn.target = o->slo_target;
    a->burn.requests_min = o->slo_requests_min;
    if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
    a->table.salt = sonde_fnv64_text(0, host);
    if (!o->strip) alert_text_copy(a->origin.host, sizeof(a->origin.host), host);
    if (o->url) alert_text_copy(a->origin.url, sizeof(a->origin.url), o->url);
    for (size_t i = 0; i < SONDE_ALERT_RECEIVERS_MAX; i++) {
        a->sender[i].alerts = a;
        a->sender[i].at = i;
    }
}

int sonde_alerts_create(const struct sonde_alerts_options *o, struct sonde_alerts **out,
                        struct sonde_err *err)
{
    assert(o && out);
    struct sonde_alerts *a = sonde__calloc(1, sizeof(*a));
    if (!a) return sonde_err_memory(err);
    alerts_init(a, o);
    const int rc = alerts_open_parts(a, o, err);
    if (rc) sonde_alerts_destroy(a);
    else *out = a;
    return rc;
}

void sonde_alerts_destroy(struct sonde_alerts *a)
{
    if (!a) return;
    sonde_alerts_stop(a, 0);
    alerts_queue_clear(a);
    alerts_file_close(a);
    alert_table_release(&a->table);
    alert_mutes_release(&a->mutes);
    alert_rules_release(&a->rules);
    alert_burn_release(&a->burn);
    alert_receivers_release(&a->receivers);
    sonde_cond_destroy(&a->wake);
    sonde_lock_destroy(&a->lock);
    sonde_lock_destroy(&a->file_lock);
    sonde__free(a);
}

/* ---- Advancing ------------------------------------------------------------------------------- */

struct alerts_moment {
    struct sonde_alerts *alerts;
    double now_s;
    struct tm local;
};

static enum alert_held alerts_held(struct alert_entry *e, void *arg)
{
    const struct alerts_moment *m = arg;
    e->muted_by = alert_mutes_match(&m->alerts->mutes, &e->what, m->now_s, &m->local);
    if (e->muted_by) return ALERT_HELD_MUTED;
    return e->what.severity < (uint32_t)m->alerts->severity_min ? ALERT_HELD_SEVERITY
                                                                : ALERT_NOT_HELD;
}

static int alerts_due(struct alert_entry *e, int firing, void *arg)
{
    const struct alerts_moment *m = arg;
    return alerts_queue_put(m->alerts, e, firing, m->now_s);
}

static struct alert_advance alerts_advance_at(struct sonde_alerts *a, double now_s,
                                              struct alerts_moment *m)
{
    const time_t t = (time_t)now_s;
    *m = (struct alerts_moment){ .alerts = a, .now_s = now_s };
    if (!localtime_r(&t, &m->local)) memset(&m->local, 0, sizeof(m->local));
    return (struct alert_advance){ .now_s = now_s, .repeat_s = a->repeat_s, .held = alerts_held,
                                   .due = alerts_due, .arg = m };
}

int sonde_alerts_tell(struct sonde_alerts *a, const struct sonde_alert_event *from)
{
    if (!a) return 0;
    if (!alert_kind_ok(from->kind) || from->severity > SONDE_SEVERITY_CRITICAL) return SONDE_EINVAL;
    struct sonde_alert_event e = *from;
    struct alert_entry *entry = NULL;
    struct alerts_moment m;
    const double now = sonde_clock_s(CLOCK_REALTIME);
    if (!(e.time_s > 0)) e.time_s = now;
    sonde_lock(&a->lock);
    const struct alert_advance how = alerts_advance_at(a, now, &m);
    const int rc = alert_table_tell(&a->table, &e, ALERT_TOLD, a->round + 1, &entry);
    if (entry) alert_entry_advance(&a->table, entry, &how);
    sonde_unlock(&a->lock);
    return rc;
}

/* ---- Looking at the model -------------------------------------------------------------------- */

/* Alerts that their source did not speak of in this round: the series is gone, or the rule. */
static void alerts_clear_unseen(struct sonde_alerts *a, double now_s)
{
    for (size_t i = 0; i < a->table.count; i++) {
        struct alert_entry *e = a->table.at[i];
        if (!e->active || e->seen == a->round) continue;
        const double age = now_s - a->opened_s;
        const double grace = e->source == ALERT_TOLD ? ORPHAN_S : GRACE_S;
        if (e->source == ALERT_TOLD && e->seen) continue; /* its teller says when it is over */
        if (!e->seen && age < grace && !(e->source == ALERT_RULE &&
                                         !alert_rules_find(&a->rules, e->what.kind))) {
            continue;
        }
        alert_entry_clear(&a->table, e, now_s);
    }
}

/* 1 = there was a new tick. */
static int alerts_look(struct sonde_alerts *a, double now_s)
{
    struct sonde_model *m = a->model;
    if (!m) return 0;
    sonde_rdlock(&m->lock);
    const int fresh = m->tick != a->tick;
    if (fresh) {
        a->tick = m->tick;
        sonde_lock(&a->lock);
        a->round++;
        alert_rules_look(&a->rules, m, &a->table, a->round, now_s);
        alert_burn_look(&a->burn, m, &a->table, a->round, now_s);
        alerts_clear_unseen(a, now_s);
        sonde_unlock(&a->lock);
    }
    sonde_rwunlock(&m->lock);
    return fresh;
}

void sonde_alerts_step(struct sonde_alerts *a, double now_s)
{
    struct alerts_moment m;
    alerts_look(a, now_s);
    sonde_lock(&a->lock);
    const struct alert_advance how = alerts_advance_at(a, now_s, &m);
    if (alert_mutes_tidy(&a->mutes, now_s)) a->table.changed++;
    alert_table_advance(&a->table, &how);
    const double since = sonde_clock_s(CLOCK_MONOTONIC) - a->saved_at_s;
    const int waits = a->version != a->saved_version;
    const int save = waits || (a->table.changed != a->table_saved && since >= TABLE_SAVE_S) ||
                     (a->burn.group_count && since >= BURN_SAVE_S);
    if (save && !waits) a->version++;
    const uint64_t version = a->version;
    sonde_unlock(&a->lock);
    if (save) alerts_file_save(a, version);
}

static int alerts_sleep(struct sonde_alerts *a, double seconds)
{
    const struct timespec until =
        sonde_clock_timespec_s(sonde_clock_s(CLOCK_MONOTONIC) + seconds);
    int rc = 0;
    sonde_lock(&a->lock);
    while (!a->ending && rc != ETIMEDOUT) rc = sonde_cond_timedwait(&a->wake, &a->lock, &until);
    const int ending = a->ending;
    sonde_unlock(&a->lock);
    return ending;
}

static void *alerts_run(void *arg)
{
    struct sonde_alerts *a = arg;
    int ending = 0;
    while (!ending) {
        ending = alerts_sleep(a, a->interval_s);
        sonde_alerts_step(a, sonde_clock_s(CLOCK_REALTIME));
        alerts_series_update(a);
    }
    return NULL;
}

int sonde_alerts_start(struct sonde_alerts *a, struct sonde_err *err)
{
    assert(!a->thread.started && !a->ending);
    const int rc = alerts_send_start(a, err);
    return rc ? rc : sonde_thread_start(&a->thread, "sonde-alerts", alerts_run, a, err);
}

void sonde_alerts_stop(struct sonde_alerts *a, double flush_s)
{
    int started = a && a->thread.started;
    for (size_t i = 0; a && i < a->receivers.count; i++) started |= a->sender[i].thread.started;
    if (!started) return;
    sonde_lock(&a->lock);
    a->ending = 1;
    sonde_cond_broadcast(&a->wake);
    sonde_unlock(&a->lock);
    sonde_thread_join(&a->thread);
    alerts_send_stop(a, flush_s); /* only now: the last look may have had something to tell */
    sonde_lock(&a->lock);
    const uint64_t version = ++a->version;
    const size_t left = a->queued;
    const int kept = a->state != NULL, worth = a->table.count || left || a->mutes.count ||
                                               a->burn.group_count;
    sonde_unlock(&a->lock);
    if (worth) alerts_file_save(a, version);
    if (left && !kept) {
        sonde_log(SONDE_LOG_WARN, "alerts: %zu notifications were not sent and are lost: set "
                  "alerts.state to keep them", left);
    }
}

/* ---- Muting ---------------------------------------------------------------------------------- */

/* A mute, or its end, counts at once. */
static void alerts_after_mute(struct sonde_alerts *a, double now_s)
{
    struct alerts_moment m;
    const struct alert_advance how = alerts_advance_at(a, now_s, &m);
    alert_table_advance(&a->table, &how);
    a->version++;
}

int sonde_alerts_mute(struct sonde_alerts *a, const char *body, size_t len, uint64_t *id,
                      struct sonde_err *err)
{
    const double now = sonde_clock_s(CLOCK_REALTIME);
    sonde_lock(&a->lock);
    const int rc = alert_mutes_add(&a->mutes, body, len, now, id, err);
    if (!rc) alerts_after_mute(a, now);
    const uint64_t version = a->version;
    sonde_unlock(&a->lock);
    if (!rc) alerts_file_save(a, version);
    return rc;
}

int sonde_alerts_unmute(struct sonde_alerts *a, uint64_t id, struct sonde_err *err)
{
    sonde_lock(&a->lock);
    const int rc = alert_mutes_remove(&a->mutes, id, err);
    if (!rc) alerts_after_mute(a, sonde_clock_s(CLOCK_REALTIME));
    const uint64_t version = a->version;
    sonde_unlock(&a->lock);
    if (!rc) alerts_file_save(a, version);
    return rc;
}

size_t sonde_alerts_firing(struct sonde_alerts *a, enum sonde_severity min)
{
    size_t n = 0;
    if (!a) return 0;
    sonde_lock(&a->lock);
    for (size_t i = 0; i < a->table.count; i++) {
        const struct alert_entry *e = a->table.at[i];
        n += e->state == ALERT_FIRING && !e->muted_by && e->what.severity >= (uint32_t)min;
    }
    sonde_unlock(&a->lock);
    return n;
}

size_t sonde_alerts_rules(const struct sonde_alerts *a) { return a->rules.count; }

/* ---- Trying ---------------------------------------------------------------------------------- */

static const char *alerts_advice(const struct alert_receiver *r, enum alert_result result,
                                 const char *text)
{
    if (result == ALERT_RESULT_SENT) return "";
    if (!r->ops->posts) return "; run the program by hand with the JSON on its standard input";
    if (result == ALERT_RESULT_REFUSED) {
        return strstr(text, "HTTP 401") || strstr(text, "HTTP 403")
                   ? "; is the token in the headers' file (or SONDE_WEBHOOK_TOKEN) right?"
                   : "; are the URL's path and the form (generic, slack, alertmanager) right?";
    }
    return "; does it run, and is the URL right? `curl` from this machine shows more";
}

static void alerts_try(struct sonde_alerts *a, const struct alert_receiver *r,
                       struct sonde_alerts_tried *out)
{
    const double now = sonde_clock_s(CLOCK_REALTIME);
    struct alert_try t = { .timeout_s = a->timeout_s,
                           .curl = r->ops->posts ? push_http_open() : NULL };
    struct alert_notice n = { .what = { .kind = "sonde_test", .severity = SONDE_SEVERITY_INFO,
                                        .value = 1, .link = "/profiling/dashboard" },
                              .firing = 1, .started_s = now, .fired_s = now, .made_s = now };
    snprintf(n.id, sizeof(n.id), "test-%llx", (unsigned long long)(now * 1e6));
    alert_text_copy(n.what.summary, sizeof(n.what.summary),
                    "Test of `sonde alerts test`: notifications arrive here");
    enum alert_result result = ALERT_RESULT_RETRY;
    if (r->ops->posts && !t.curl) snprintf(t.text, sizeof(t.text), "out of memory");
    else result = alert_receiver_send(r, &n, &a->origin, &t);
    push_http_close(t.curl);
    out->ok = result == ALERT_RESULT_SENT;
    snprintf(out->text, sizeof(out->text), "%s%s", t.text, alerts_advice(r, result, t.text));
}

static void alerts_tried_name(const struct alert_receiver *r, struct sonde_alerts_tried *out)
{
    *out = (struct sonde_alerts_tried){ 0 };
    snprintf(out->name, sizeof(out->name), "%s", r->name);
    snprintf(out->to, sizeof(out->to), "%s", r->shown);
}

size_t sonde_alerts_test(struct sonde_alerts *a, struct sonde_alerts_tried *out, size_t max)
{
    const size_t count = a->receivers.count < max ? a->receivers.count : max;
    for (size_t i = 0; i < count; i++) {
        alerts_tried_name(&a->receivers.at[i], &out[i]);
        alerts_try(a, &a->receivers.at[i], &out[i]);
    }
    return count;
}

size_t sonde_alerts_reach(struct sonde_alerts *a, struct sonde_alerts_tried *out, size_t max)
{
    const size_t count = a->receivers.count < max ? a->receivers.count : max;
    for (size_t i = 0; i < count; i++) {
        struct sonde_err err = { "" };
        alerts_tried_name(&a->receivers.at[i], &out[i]);
        out[i].ok = alert_receiver_reach(&a->receivers.at[i], a->timeout_s, &err) == 0;
        snprintf(out[i].text, sizeof(out[i].text), "%s", err.text);
    }
    return count;
}

void sonde_alerts_tried_json(const struct sonde_alerts_tried *tried, size_t count,
                             struct sonde_buf *out)
{
    int ok = 1;
    sonde_json_open(out, '{');
    sonde_json_key_open(out, "receivers", '[');
    for (size_t i = 0; i < count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", tried[i].name);
        sonde_json_str(out, "to", tried[i].to);
        sonde_json_bool(out, "ok", tried[i].ok);
        sonde_json_str(out, "text", tried[i].text);
        sonde_json_close(out, '}');
        ok = ok && tried[i].ok;
    }
    sonde_json_close(out, ']');
    sonde_json_bool(out, "ok", ok);
    sonde_json_close(out, '}');
}
