/* cache_growth.c - places whose memory grows ever more slowly: caches that fill. Nothing is lost,
 * but a cache without a bound is a leak that takes longer; so it is a warning where it is much of
 * the heap and still grows. */
#include <math.h>

#include "analyze/finding/heap_place.h"
#include "analyze/finding/rule.h"
#include "profile/heap.h"

#define WARNING_SHARE 0.25
#define WARNING_BYTES (4.0 * 1048576)
#define MIB 1048576.0

static void cache_growth_add(struct finding_look *l, const struct sonde_heap_site *s,
                             const struct heap_frame *frame)
{
    const struct sonde_heap *h = l->p->heap;
    const double bytes = s->live_bytes.value;
    const double share = h->live_bytes.value > 0 ? fmin(bytes / h->live_bytes.value, 1) : 0;
    const int much = share >= WARNING_SHARE && s->grown_bytes >= WARNING_BYTES && s->slope_low > 0;
    struct sonde_finding *f = finding_add(l, much ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO,
                                          share / 2);
    finding_subject(l, f, heap_frame_name(frame), frame->file, frame->line);
    f->share = share;
    f->bytes = bytes;
    f->count = s->live_count.value;
    finding_text(l, f,
                 "%.200s holds %.1f MiB (%.0f %% of the heap) and grows ever more slowly, by %.1f "
                 "KiB per second now: a cache that fills",
                 heap_frame_name(frame), bytes / MIB, 100 * share, s->slope / 1024);
    finding_advise(l, f,
                   "if %.200s is a cache, give it a bound: it has had %.1f MiB so far; if it is "
                   "not, look at what keeps its memory",
                   heap_frame_name(frame), fmax(bytes, s->peak_bytes) / MIB);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_SITE, .subject = (char *)(uintptr_t)heap_frame_name(frame),
        .file = (char *)(uintptr_t)frame->file, .line = frame->line, .value = s->slope,
        .unit = "bytes per second", .what = "growth" });
}

static void cache_growth_look(struct finding_look *l)
{
    const struct sonde_heap *h = l->p->heap;
    size_t found = 0;
    for (uint32_t i = 0; h && i < h->site_count && found < l->o.limit; i++) {
        struct finding_heap_place place;
        const struct sonde_heap_site *s = &h->sites[i];
        if (s->verdict != SONDE_HEAP_CACHE || !finding_heap_place(l->p, s, &place)) continue;
        if (s->live_bytes.value < l->o.share_min * h->live_bytes.value) continue;
        found++;
        cache_growth_add(l, s, &place.frame);
    }
}

extern const struct finding_rule finding_rule_cache_growth;
const struct finding_rule finding_rule_cache_growth = {
    .kind = "cache_growth",
    .title = "Cache growth",
    .summary = "memory of a place grows ever more slowly: a cache that fills",
    .look = cache_growth_look,
};
