/* alerts_json.c - alerts, receivers, rules and mutes as /api/alerts shows them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alert/alert_private.h"
#include "base/clock.h"
#include "base/json.h"

static void json_labels(const struct alert_labels *l, struct sonde_buf *out)
{
    sonde_json_key_open(out, "labels", '{');
    for (size_t i = 0; i < l->count; i++) sonde_json_str(out, l->at[i].name, l->at[i].value);
    sonde_json_close(out, '}');
}

/* When the state that it is in began. */
static double json_since(const struct alert_entry *e)
{
    return e->state == ALERT_RESOLVED ? e->resolved_s
           : e->state == ALERT_FIRING ? e->fired_s : e->started_s;
}

static void json_notifications(const struct sonde_alerts *a, const struct alert_entry *e,
                               struct sonde_buf *out)
{
    sonde_json_key_open(out, "notifications", '[');
    for (size_t i = 0; i < a->receivers.count; i++) {
        const struct alert_last *l = &e->last[i];
        if (l->outcome == ALERT_NONE) continue;
        const struct alert_counts *c = &a->sender[i].counts;
        const int bad = l->outcome == ALERT_REFUSED ||
                        (l->outcome == ALERT_QUEUED && c->last_failed_s > l->time_s);
        sonde_json_open(out, '{');
        sonde_json_str(out, "receiver", a->receivers.at[i].name);
        sonde_json_str(out, "state", l->firing ? "firing" : "resolved");
        sonde_json_str(out, "outcome", alert_outcome_name(l->outcome));
        sonde_json_time(out, "time", l->time_s);
        sonde_json_str(out, "error", bad ? c->last_error : NULL);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void json_alert(const struct sonde_alerts *a, const struct alert_entry *e,
                       struct sonde_buf *out)
{
    char id[24];
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)e->what.hash);
    sonde_json_open(out, '{');
    sonde_json_str(out, "id", id);
    sonde_json_str(out, "kind", e->what.kind);
    sonde_json_str(out, "state", alert_state_name(e->state));
    sonde_json_str(out, "severity", sonde_severity_name((enum sonde_severity)e->what.severity));
    sonde_json_str(out, "summary", e->what.summary);
    sonde_json_num(out, "value", e->what.value);
    json_labels(&e->what.labels, out);
    sonde_json_str(out, "source", alert_source_name(e->source));
    sonde_json_time(out, "since", json_since(e));
    sonde_json_time(out, "started", e->started_s);
    sonde_json_time(out, "fired", e->fired_s);
    sonde_json_time(out, "resolved", e->resolved_s);
    sonde_json_num(out, "for_seconds", e->for_s);
    sonde_json_bool(out, "muted", e->muted_by != 0);
    sonde_json_u64_or_null(out, "muted_by", e->muted_by);
    sonde_json_str(out, "held", e->held == ALERT_HELD_MUTED ? "muted"
                                : e->held == ALERT_HELD_SEVERITY ? "severity" : NULL);
    sonde_json_str(out, "link", e->what.link[0] ? e->what.link : NULL);
    json_notifications(a, e, out);
    sonde_json_close(out, '}');
}

/* Firing first, then pending, then resolved; the most severe of each first, then the newest. */
static void json_alerts(const struct sonde_alerts *a, struct sonde_buf *out)
{
    static const uint32_t order[] = { ALERT_FIRING, ALERT_PENDING, ALERT_RESOLVED };
    sonde_json_key_open(out, "alerts", '[');
    for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
        for (int severity = SONDE_SEVERITY_CRITICAL; severity >= 0; severity--) {
            for (size_t i = a->table.count; i-- > 0;) {
                const struct alert_entry *e = a->table.at[i];
                if (e->state == order[k] && e->what.severity == (uint32_t)severity) {
                    json_alert(a, e, out);
                }
            }
        }
    }
    sonde_json_close(out, ']');
}

static void json_receivers(const struct sonde_alerts *a, struct sonde_buf *out)
{
    sonde_json_key_open(out, "receivers", '[');
    for (size_t i = 0; i < a->receivers.count; i++) {
        const struct alert_counts *c = &a->sender[i].counts;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", a->receivers.at[i].name);
        sonde_json_str(out, "kind", a->receivers.at[i].ops->name);
        sonde_json_str(out, "to", a->receivers.at[i].shown);
        sonde_json_u64(out, "queued", alerts_queue_count(a, i));
        sonde_json_u64(out, "sent", c->outcome[ALERT_SENT]);
        sonde_json_u64(out, "failed", c->outcome[ALERT_FAILED]);
        sonde_json_u64(out, "refused", c->outcome[ALERT_REFUSED]);
        sonde_json_u64(out, "dropped", c->outcome[ALERT_DROPPED]);
        sonde_json_time(out, "last_sent", c->last_sent_s);
        sonde_json_time(out, "last_failed", c->last_failed_s);
        sonde_json_str(out, "last_error", c->last_error[0] ? c->last_error : NULL);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void json_rules(const struct sonde_alerts *a, struct sonde_buf *out)
{
    sonde_json_key_open(out, "rules", '[');
    for (size_t i = 0; i < a->rules.count; i++) {
        const struct alert_rule *r = &a->rules.at[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", r->name);
        sonde_json_str(out, "series", r->of.series);
        json_labels(&r->of.labels, out);
        sonde_json_str(out, "per", r->per.series);
        sonde_json_str(out, "function", alert_function_name(r->function));
        sonde_json_num(out, "window_seconds", r->window_s);
        sonde_json_num(out, "above", r->above);
        sonde_json_num(out, "below", r->below);
        sonde_json_num(out, "clear", r->clear);
        sonde_json_num(out, "for_seconds", r->for_s);
        sonde_json_num(out, "keep_seconds", r->keep_s);
        sonde_json_str(out, "severity", sonde_severity_name(r->severity));
        sonde_json_bool(out, "shipped", r->shipped);
        sonde_json_u64(out, "values", r->matched);
        sonde_json_num(out, "value", r->value);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void json_mutes(const struct sonde_alerts *a, double now_s, struct sonde_buf *out)
{
    const time_t t = (time_t)now_s;
    struct tm local;
    if (!localtime_r(&t, &local)) memset(&local, 0, sizeof(local));
    sonde_json_key_open(out, "mutes", '[');
    for (size_t i = 0; i < a->mutes.count; i++) {
        const struct alert_mute *m = &a->mutes.at[i];
        sonde_json_open(out, '{');
        sonde_json_u64(out, "id", m->id);
        json_labels(&m->labels, out);
        sonde_json_time(out, "from", m->from_s);
        sonde_json_time(out, "to", m->to_s);
        sonde_json_str(out, "weekly", m->hour_count ? m->weekly : NULL);
        sonde_json_str(out, "comment", m->comment[0] ? m->comment : NULL);
        sonde_json_bool(out, "active", alert_mute_now(m, now_s, &local));
        sonde_json_bool(out, "settings", (int)m->fixed);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

void sonde_alerts_json(struct sonde_alerts *a, struct sonde_buf *out)
{
    const double now = sonde_clock_s(CLOCK_REALTIME);
    uint64_t count[3] = { 0 }, muted = 0;
    sonde_lock(&a->lock);
    for (size_t i = 0; i < a->table.count; i++) {
        const struct alert_entry *e = a->table.at[i];
        if (e->state == ALERT_FIRING && e->muted_by) muted++;
        else count[e->state]++;
    }
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", now);
    sonde_json_u64(out, "firing", count[ALERT_FIRING]);
    sonde_json_u64(out, "firing_muted", muted);
    sonde_json_u64(out, "pending", count[ALERT_PENDING]);
    json_alerts(a, out);
    json_receivers(a, out);
    json_rules(a, out);
    json_mutes(a, now, out);
    sonde_unlock(&a->lock);
    sonde_json_close(out, '}');
}
