/* receiver_alertmanager.c - POST /api/v2/alerts of Prometheus' Alertmanager.
 *
 * Alertmanager keeps no alerts beyond its own end, and considers one resolved when its endsAt has
 * come. So, as Prometheus does it, alerts that fire are sent again once per minute with an endsAt
 * a few minutes ahead: an Alertmanager that was restarted knows them again, and those of an agent
 * that is gone end. People are told by Alertmanager, which groups and does not repeat; to it, an
 * alert is the same as long as its labels are. */
#include "alert/receiver.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

#define REFRESH_S 60.0
#define UNTIL_S (4 * REFRESH_S)

/* A label's name is [a-zA-Z_][a-zA-Z0-9_]*; ours come from others' metrics, too. */
static void alertmanager_name(const char *name, char *out, size_t out_size)
{
    size_t n = 0;
    if (isdigit((unsigned char)name[0])) out[n++] = '_';
    for (; *name && n + 1 < out_size; name++) {
        out[n++] = isalnum((unsigned char)*name) ? *name : '_';
    }
    out[n] = '\0';
}

static int alertmanager_taken(const char *name)
{
    return !strcmp(name, "alertname") || !strcmp(name, "severity") || !strcmp(name, "instance") ||
           !strcmp(name, "job");
}

static void alertmanager_labels(const struct alert_notice *n, const struct alert_origin *o,
                                struct sonde_buf *out)
{
    sonde_json_key_open(out, "labels", '{');
    sonde_json_str(out, "alertname", n->what.kind);
    sonde_json_str(out, "severity", sonde_severity_name((enum sonde_severity)n->what.severity));
    sonde_json_str(out, "job", "sonde");
    if (o->host[0]) sonde_json_str(out, "instance", o->host);
    for (size_t i = 0; i < n->what.labels.count; i++) {
        char name[128], own[160];
        const char *value = n->what.labels.at[i].value;
        alertmanager_name(n->what.labels.at[i].name, name, sizeof(name));
        snprintf(own, sizeof(own), "%s%s", alertmanager_taken(name) ? "exported_" : "", name);
        if (*name && *value) sonde_json_str(out, own, value); /* empty is the same as absent */
    }
    sonde_json_close(out, '}');
}

void alert_alertmanager_put(const struct alert_notice *n, const struct alert_origin *o,
                            double until_s, struct sonde_buf *out)
{
    char text[32], link[600], value[40];
    sonde_json_open(out, '{');
    alertmanager_labels(n, o, out);
    sonde_json_key_open(out, "annotations", '{');
    sonde_json_str(out, "summary", n->what.summary);
    sonde_json_str(out, "id", n->id);
    snprintf(value, sizeof(value), "%.9g", n->what.value);
    if (n->what.value == n->what.value) sonde_json_str(out, "value", value);
    sonde_json_close(out, '}');
    alert_time_text(n->started_s, text);
    sonde_json_str(out, "startsAt", text);
    alert_time_text(n->firing ? until_s : n->ended_s, text);
    sonde_json_str(out, "endsAt", text);
    if (alert_notice_link(n, o, link, sizeof(link))) sonde_json_str(out, "generatorURL", link);
    sonde_json_close(out, '}');
}

static void alertmanager_body(const struct alert_notice *n, const struct alert_origin *o,
                              struct sonde_buf *out)
{
    sonde_json_open(out, '[');
    /* From now on: it may have waited for longer than that. */
    alert_alertmanager_put(n, o, sonde_clock_s(CLOCK_REALTIME) + UNTIL_S, out);
    sonde_json_close(out, ']');
}

extern const struct alert_receiver_ops alert_receiver_alertmanager;
const struct alert_receiver_ops alert_receiver_alertmanager = {
    .name = "alertmanager", .path = "/api/v2/alerts", .posts = 1, .refresh_s = REFRESH_S,
    .body = alertmanager_body,
};
