/* receiver_webhook.c - an alert as one JSON object: what sonde's own webhook posts, and what a
 * command reads. docs/alerts.md has its members. */
#include "alert/receiver.h"

#include "base/json.h"
#include "sonde/sonde.h"

void alert_webhook_body(const struct alert_notice *n, const struct alert_origin *o,
                        struct sonde_buf *out)
{
    char link[600];
    sonde_json_open(out, '{');
    sonde_json_str(out, "id", n->id);
    sonde_json_str(out, "state", alert_notice_state(n));
    sonde_json_str(out, "kind", n->what.kind);
    sonde_json_str(out, "severity",
                   sonde_severity_name((enum sonde_severity)n->what.severity));
    sonde_json_str(out, "summary", n->what.summary);
    sonde_json_num(out, "value", n->what.value);
    sonde_json_key_open(out, "labels", '{');
    for (size_t i = 0; i < n->what.labels.count; i++) {
        sonde_json_str(out, n->what.labels.at[i].name, n->what.labels.at[i].value);
    }
    sonde_json_close(out, '}');
    sonde_json_time(out, "started", n->started_s);
    sonde_json_time(out, "fired", n->fired_s);
    sonde_json_time(out, "resolved", n->ended_s);
    sonde_json_time(out, "time", n->made_s);
    sonde_json_str(out, "host", o->host[0] ? o->host : NULL);
    sonde_json_str(out, "link", alert_notice_link(n, o, link, sizeof(link)) ? link : NULL);
    sonde_json_str(out, "agent", "sonde/" SONDE_VERSION);
    sonde_json_close(out, '}');
}

extern const struct alert_receiver_ops alert_receiver_webhook;
const struct alert_receiver_ops alert_receiver_webhook = {
    .name = "webhook", .path = "", .posts = 1, .body = alert_webhook_body,
};
