/* doctor_alerts.c - alerts as `serve` and `run` would have them: are rules and mutes as they should
 * be, can receivers be reached. Nothing is sent: `sonde alerts test` does that. */
#include <string.h>

#include "cli/agent_options.h"
#include "cli/doctor.h"

#define ALERTS_REACH_S 3.0

static void doctor_alerts_receiver(struct sonde_doctor *d, const struct sonde_alerts_tried *t)
{
    if (t->ok) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s (%s) can be reached; `sonde alerts test` "
                         "sends something", t->name, t->to);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN, "is it running, and is the setting right? "
                         "Notifications wait until then", "%s (%s) cannot be reached: %s", t->name,
                         t->to, t->text);
    }
}

void sonde_doctor_alerts(struct sonde_doctor *d)
{
    struct sonde_alerts_tried tried[SONDE_ALERT_RECEIVERS_MAX];
    struct sonde_alerts_options o;
    struct sonde_alert_shipped shipped;
    char state[SONDE_CLI_SPOOL_MAX];
    struct sonde_alerts *a = NULL;
    struct sonde_err err = { "" };
    if (!sonde_cli_alerts(d->cli, &o, &shipped, state)) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "alerts are off (alerts.enabled)");
        return;
    }
    const int far = o.webhook[0] || strcmp(o.command, "[]") || strcmp(o.receivers, "[]");
    o.state = NULL; /* the agent's */
    o.log = 0;
    if (o.timeout_s > ALERTS_REACH_S) o.timeout_s = ALERTS_REACH_S;
    if (sonde_alerts_create(&o, &a, &err) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "correct it; `sonde help config` lists the settings",
                         "%s", err.text);
        return;
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%zu rules; %s", sonde_alerts_rules(a),
                     far ? "receivers:" : "nobody is told but the log: no alerts.webhook, "
                           "alerts.command, alerts.receivers");
    const size_t count = sonde_alerts_reach(a, tried, SONDE_ALERT_RECEIVERS_MAX);
    for (size_t i = 0; i < count; i++) doctor_alerts_receiver(d, &tried[i]);
    sonde_alerts_destroy(a);
}
