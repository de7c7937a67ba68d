/* span.c - spans that take much of the time of all spans themselves. Where time goes, not that it
 * is wasted: worth knowing. */
#include <stdlib.h>

#include "analyze/finding/rule.h"
#include "analyze/span_own.h"
#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

struct span_sum {
    uint32_t name;
    uint64_t own_ns, total_ns, count;
};

static int span_sum_compare(const void *x, const void *y)
{
    const struct span_sum *a = x, *b = y;
    return SONDE_CMP(b->own_ns, a->own_ns);
}

/* Spans of no thread are requests, whose phases are spans themselves. */
static double span_sum_all(const struct sonde_profile *p, const uint64_t *own_ns,
                           struct span_sum *rows)
{
    double all = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (!s->thread) continue;
        struct span_sum *row = &rows[s->name];
        row->name = s->name;
        row->own_ns += own_ns[i];
        row->total_ns += sonde_span_length(p, s);
        row->count++;
        all += (double)own_ns[i] * 1e-9;
    }
    return all;
}

static void span_add(struct finding_look *l, const struct span_sum *row, double all_s)
{
    const char *name = sonde_profile_str(l->p, row->name);
    const double own = (double)row->own_ns * 1e-9, avg =
        (double)row->total_ns * 1e-9 / (double)row->count;
    struct sonde_finding *f = finding_add(l, SONDE_SEVERITY_INFO, 0.5 * own / all_s);
    finding_subject(l, f, name, "", 0);
    f->share = own / all_s;
    f->seconds = own;
    f->count = (double)row->count;
    f->avg_s = avg;
    finding_text(l, f,
                 "%.200s takes %.3f s itself (%.1f %% of the time in spans): %llu times, %.3f ms "
                 "on average with what is inside",
                 name, own, 100 * own / all_s, (unsigned long long)row->count, avg * 1e3);
    finding_advise(l, f, "`sonde flamegraph --span %.200s` shows what it does, `sonde why --span "
                         "%.200s` what it waits for", name, name);
    finding_prove(l, f, &(struct sonde_evidence){ .type = SONDE_EVIDENCE_SPAN,
                                                  .subject = (char *)(uintptr_t)name, .value = own,
                                                  .unit = "seconds", .what = "own time" });
}

static void span_look(struct finding_look *l)
{
    const struct sonde_profile *p = l->p;
    uint64_t *own_ns = NULL;
    if (!p->spans_count) return;
    struct span_sum *rows = sonde__calloc(p->strings_count, sizeof(*rows));
    l->rc = rows ? sonde_span_own(p, &own_ns) : SONDE_ENOMEM;
    if (!l->rc) {
        const double all = span_sum_all(p, own_ns, rows);
        qsort(rows, p->strings_count, sizeof(*rows), span_sum_compare);
        for (uint32_t i = 0; i < p->strings_count && i < l->o.limit; i++) {
            const double own = (double)rows[i].own_ns * 1e-9;
            if (!rows[i].count || own < l->o.share_min * all || own < l->o.seconds_min) break;
            span_add(l, &rows[i], all);
        }
    }
    sonde__free(own_ns);
    sonde__free(rows);
}

extern const struct finding_rule finding_rule_span;
const struct finding_rule finding_rule_span = {
    .kind = "span",
    .title = "Time in spans",
    .summary = "a span takes 5 % or more of the time of all spans, without those inside it",
    .look = span_look,
};
