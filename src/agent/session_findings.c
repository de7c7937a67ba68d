/* session_findings.c - see session_findings.h. */
#include "agent/session_findings.h"

#include <math.h>
#include <stdio.h>

#include "analyze/bottleneck.h"
#include "base/log.h"

enum { EACH_MAX = 5 }; /* of a kind */

void sonde_session_findings(const struct sonde_store_ops *ops, struct sonde_store *s,
                            const char *name, const struct sonde_profile *p, double seconds_min)
{
    const struct sonde_bottleneck_options o = { .limit = EACH_MAX, .seconds_min = seconds_min };
    struct sonde_findings *found;
    if (!ops->finding_put || sonde_bottlenecks(p, &o, &found) != 0) return;
    for (size_t i = 0; i < found->count; i++) {
        const struct sonde_finding *f = &found->rows[i];
        char text[512];
        snprintf(text, sizeof(text), "%s: %s", name, f->text);
        const struct sonde_store_finding row = {
            .time_s = (double)p->end_ns * 1e-9, .kind = sonde_finding_kind_name(f->kind),
            .subject = f->subject, .severity = f->severity,
            .value = isnan(f->seconds) ? f->bytes : f->seconds,
            .unit = isnan(f->seconds) ? "bytes" : "seconds", .text = text,
        };
        struct sonde_err err = { "" };
        uint64_t id;
        if (ops->finding_put(s, &row, &id, &err) != 0) {
            sonde_log(SONDE_LOG_WARN, "findings of '%s' are not kept: %s", name, err.text);
            break;
        }
    }
    sonde_findings_destroy(found);
}
