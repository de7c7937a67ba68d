/* alerts_series.c - how alerting itself goes, as series of the agent. */
#include <string.h>

#include "alert/alert_private.h"

enum { SERIES_SENT, SERIES_FAILED, SERIES_REFUSED, SERIES_DROPPED, SERIES_QUEUE, SERIES_REFRESHED };

static const struct sonde_model_family_spec series_firing = {
    .name = "sonde_alerts_firing", .help = "Alerts that fire and are not muted, by severity.",
    .source = "sonde", .type = SONDE_GAUGE };
static const struct sonde_model_family_spec series_pending = {
    .name = "sonde_alerts_pending",
    .help = "Alerts whose condition holds, but not for long enough yet.",
    .source = "sonde", .type = SONDE_GAUGE };
static const struct sonde_model_family_spec series_muted = {
    .name = "sonde_alerts_muted", .help = "Alerts that fire and are muted.", .source = "sonde",
    .type = SONDE_GAUGE };
static const struct sonde_model_family_spec series_full = {
    .name = "sonde_alerts_dropped_total",
    .help = "Alerts that were left out because there are too many.", .source = "sonde",
    .type = SONDE_COUNTER };
static const struct sonde_model_family_spec series_notifications = {
    .name = "sonde_alert_notifications_total",
    .help = "Notifications by receiver and outcome: sent, refused, dropped; failed counts tries "
            "that are repeated, refreshed what Alertmanager was reminded of.",
    .source = "sonde", .type = SONDE_COUNTER };
static const struct sonde_model_family_spec series_queue = {
    .name = "sonde_alert_queue_notifications", .help = "Notifications that wait for a receiver.",
    .source = "sonde", .type = SONDE_GAUGE };

struct series_figures {
    double firing[3], pending, muted;
    uint64_t full;
    struct { uint64_t counter[SERIES_REFRESHED + 1]; double queue; } at[SONDE_ALERT_RECEIVERS_MAX];
};

static void series_gather(struct sonde_alerts *a, struct series_figures *f)
{
    memset(f, 0, sizeof(*f));
    sonde_lock(&a->lock);
    for (size_t i = 0; i < a->table.count; i++) {
        const struct alert_entry *e = a->table.at[i];
        if (e->state == ALERT_PENDING) f->pending++;
        else if (e->state == ALERT_FIRING && e->muted_by) f->muted++;
        else if (e->state == ALERT_FIRING) f->firing[e->what.severity]++;
    }
    f->full = a->table.full;
    for (size_t i = 0; i < a->receivers.count; i++) {
        const struct alert_counts *c = &a->sender[i].counts;
        f->at[i].counter[SERIES_SENT] = c->outcome[ALERT_SENT];
        f->at[i].counter[SERIES_FAILED] = c->outcome[ALERT_FAILED];
        f->at[i].counter[SERIES_REFUSED] = c->outcome[ALERT_REFUSED];
        f->at[i].counter[SERIES_DROPPED] = c->outcome[ALERT_DROPPED];
        f->at[i].counter[SERIES_REFRESHED] = c->refreshed;
        f->at[i].queue = (double)alerts_queue_count(a, i);
    }
    sonde_unlock(&a->lock);
}

static void alerts_series_set(struct sonde_model *m, struct sonde_model_series **at,
                              const struct sonde_model_family_spec *spec,
                              const struct sonde_label *labels, size_t count, uint64_t counter,
                              double gauge)
{
    if (!*at) *at = sonde_model_own_series(m, spec, NULL, labels, count);
    if (!*at) return;
    if (spec->type == SONDE_GAUGE) (*at)->gauge = gauge;
    else (*at)->counter = counter;
}

static void series_of_receiver(struct sonde_alerts *a, size_t i, const struct series_figures *f)
{
    static const char *const outcomes[] = { [SERIES_SENT] = "sent", [SERIES_FAILED] = "failed",
                                            [SERIES_REFUSED] = "refused",
                                            [SERIES_DROPPED] = "dropped",
                                            [SERIES_QUEUE] = NULL,
                                            [SERIES_REFRESHED] = "refreshed" };
    struct alert_sender *s = &a->sender[i];
    const int forgets = a->receivers.at[i].ops->refresh_s > 0;
    struct sonde_label labels[] = { { "receiver", a->receivers.at[i].name }, { "outcome", "" } };
    for (size_t k = 0; k < sizeof(outcomes) / sizeof(outcomes[0]); k++) {
        if (k == SERIES_QUEUE) {
            alerts_series_set(a->model, &s->series[k], &series_queue, labels, 1, 0, f->at[i].queue);
        } else if (k != SERIES_REFRESHED || forgets) {
            labels[1].value = outcomes[k];
            alerts_series_set(a->model, &s->series[k], &series_notifications, labels, 2,
                              f->at[i].counter[k], 0);
        }
    }
}

void alerts_series_update(struct sonde_alerts *a)
{
    struct series_figures f;
    if (!a->model) return;
    series_gather(a, &f);
    sonde_wrlock(&a->model->lock);
    for (size_t i = 0; i < 3; i++) {
        const struct sonde_label label = { "severity",
                                           sonde_severity_name((enum sonde_severity)i) };
        alerts_series_set(a->model, &a->series[i], &series_firing, &label, 1, 0, f.firing[i]);
    }
    alerts_series_set(a->model, &a->series[3], &series_pending, NULL, 0, 0, f.pending);
    alerts_series_set(a->model, &a->series[4], &series_muted, NULL, 0, 0, f.muted);
    alerts_series_set(a->model, &a->series[5], &series_full, NULL, 0, f.full, 0);
    for (size_t i = 0; i < a->receivers.count; i++) series_of_receiver(a, i, &f);
    sonde_rwunlock(&a->model->lock);
}
