/* leak.c - places whose memory grows without slowing down (growth.h is the judge), one finding for
 * each. A warning from 1 % of what is in use on, critical from 10 % on. */
#include <math.h>
#include <stdio.h>

#include "analyze/finding/heap_place.h"
#include "analyze/finding/rule.h"
#include "profile/heap.h"

#define WARNING_SHARE 0.01
#define CRITICAL_SHARE 0.10
#define MIB 1048576.0

static void leak_time(double seconds, char out[64])
{
    if (seconds < 180) snprintf(out, 64, "%.0f seconds", seconds);
    else if (seconds < 3 * 3600) snprintf(out, 64, "%.0f minutes", seconds / 60);
    else if (seconds < 3 * 86400) snprintf(out, 64, "%.0f hours", seconds / 3600);
    else snprintf(out, 64, "%.0f days", seconds / 86400);
}

static void leak_add(struct finding_look *l, const struct sonde_heap_site *s,
                     const struct finding_heap_place *place)
{
    const struct heap_frame *frame = &place->frame;
    const struct heap_frame *caller = place->has_caller ? &place->caller : NULL;
    const struct sonde_heap *h = l->p->heap;
    const double bytes = s->live_bytes.value;
    const double share = h->live_bytes.value > 0 ? fmin(bytes / h->live_bytes.value, 1) : 0;
    const enum sonde_severity severity = share >= CRITICAL_SHARE  ? SONDE_SEVERITY_CRITICAL
                                         : share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING
                                                                  : SONDE_SEVERITY_INFO;
    struct sonde_finding *f = finding_add(l, severity, share);
    finding_subject(l, f, heap_frame_name(frame), frame->file, frame->line);
    f->share = share;
    f->bytes = bytes;
    f->count = s->live_count.value;
    const int fast = s->slope >= MIB;
    const double unit = fast ? MIB : 1024;
    char when[64];
    leak_time(s->slope > 0 ? 1024 * MIB / s->slope : INFINITY, when);
    finding_text(l, f,
                 "%.200s allocated %.1f MiB that are still in use and grow by %.1f %s per second "
                 "(%.1f … %.1f) without slowing down",
                 heap_frame_name(frame), bytes / MIB, s->slope / unit, fast ? "MiB" : "KiB",
                 s->slope_low / unit, s->slope_high / unit);
    finding_advise(l, f,
                   "free what %.200s allocates%s%.200s; at this rate it takes another GiB in %s. "
                   "`sonde flamegraph --type leaked` shows who asks for it",
                   heap_frame_name(frame), caller ? " for " : "",
                   caller ? heap_frame_name(caller) : "", when);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_SITE, .subject = (char *)(uintptr_t)heap_frame_name(frame),
        .file = (char *)(uintptr_t)frame->file, .line = frame->line, .value = s->slope,
        .unit = "bytes per second", .what = "growth" });
}

static void leak_look(struct finding_look *l)
{
    const struct sonde_heap *h = l->p->heap;
    size_t found = 0;
    for (uint32_t i = 0; h && i < h->site_count && found < l->o.limit; i++) {
        struct finding_heap_place place;
        if (h->sites[i].verdict != SONDE_HEAP_LEAK) continue;
        if (!finding_heap_place(l->p, &h->sites[i], &place)) continue;
        found++;
        leak_add(l, &h->sites[i], &place);
    }
}

extern const struct finding_rule finding_rule_leak;
const struct finding_rule finding_rule_leak = {
    .kind = "leak",
    .title = "Memory leak",
    .summary = "memory of a place grows without slowing down",
    .look = leak_look,
};
