/* receiver_log.c - alerts as lines of sonde's log. */
#include "alert/receiver.h"

#include <stdio.h>

#include "base/log.h"

static enum alert_result receiver_log_send(const struct alert_receiver *r,
                                           const struct alert_notice *n,
                                           const struct alert_origin *o, struct alert_try *t)
{
    (void)r, (void)o;
    const enum sonde_log_level level = n->firing && n->what.severity == SONDE_SEVERITY_CRITICAL
                                           ? SONDE_LOG_ERROR : SONDE_LOG_WARN;
    sonde_log(level, "alert %s (%s): %s [%s]", alert_notice_state(n),
              sonde_severity_name((enum sonde_severity)n->what.severity), n->what.summary, n->id);
    snprintf(t->text, sizeof(t->text), "logged");
    return ALERT_RESULT_SENT;
}

extern const struct alert_receiver_ops alert_receiver_log;
const struct alert_receiver_ops alert_receiver_log = { .name = "log", .path = "",
                                                       .send = receiver_log_send };
