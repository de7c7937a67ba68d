/* leak.c - places whose memory grows without slowing down (growth.h is the judge), one finding for
 * each. A warning from 1 % of what is in use on, critical from 10 % on. */
#include <math.h>

#include "analyze/finding/rule.h"
#include "analyze/heap_site.h"
#include "profile/heap.h"

#define WARNING_SHARE 0.01
#define CRITICAL_SHARE 0.10
#define MIB 1048576.0

static void leak_add(struct finding_look *l, const struct sonde_heap_site *s,
                     const struct heap_frame *frame, const struct heap_frame *caller)
{
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
    finding_text(l, f,
                 "%.200s allocated %.1f MiB that are still in use and grow by %.1f KiB per second "
                 "(%.1f … %.1f) without slowing down",
                 heap_frame_name(frame), bytes / MIB, s->slope / 1024, s->slope_low / 1024,
                 s->slope_high / 1024);
    finding_advise(l, f,
                   "free what %.200s allocates%s%.200s; at this rate it takes another GiB in %.1f "
                   "hours. `sonde flamegraph --type leaked` shows who asks for it",
                   heap_frame_name(frame), caller ? " for " : "",
                   caller ? heap_frame_name(caller) : "",
                   s->slope > 0 ? 1024 * MIB / s->slope / 3600 : INFINITY);
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
        struct heap_frame frames[2];
        if (h->sites[i].verdict != SONDE_HEAP_LEAK) continue;
        const size_t n = heap_frames(l->p, h->sites[i].stack, frames, 2);
        if (!n) continue;
        found++;
        leak_add(l, &h->sites[i], &frames[0], n > 1 ? &frames[1] : NULL);
    }
}

extern const struct finding_rule finding_rule_leak;
const struct finding_rule finding_rule_leak = {
    .kind = "leak",
    .title = "Memory leak",
    .summary = "memory of a place grows without slowing down",
    .look = leak_look,
};
