/* error_burst.c - requests, or spans that have no parent, that fail. A warning from a twentieth of
 * them on, critical from half of them: of the time in which they fail, since a burst of a minute
 * must not drown in an hour that went well. */
#include <math.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

enum { FAILED_MIN = 5, SLICES = 16 };
#define WARNING_SHARE 0.05
#define CRITICAL_SHARE 0.50

struct error_sums {
    double all, failed;
    double slice_all[SLICES], slice_failed[SLICES]; /* by when they ended */
};

static void error_count(const struct finding_look *l, struct error_sums *s, uint64_t at_ns,
                        int failed)
{
    const double length = (double)(l->p->end_ns - l->p->start_ns);
    const double at = (double)(int64_t)(at_ns - l->p->start_ns);
    const double slice = length > 0 ? fmin(SLICES - 1, fmax(0, floor(at / length * SLICES))) : 0;
    s->all++;
    s->failed += failed;
    s->slice_all[(size_t)slice]++;
    s->slice_failed[(size_t)slice] += failed;
}

/* The share of those that failed from the first slice to the last in which many did. */
static double error_burst_share(const struct error_sums *s, int *first, int *last)
{
    double all = 0, failed = 0;
    *first = *last = -1;
    for (int i = 0; i < SLICES; i++) {
        if (!(s->slice_failed[i] > 0) ||
            s->slice_failed[i] < WARNING_SHARE * s->slice_all[i]) {
            continue;
        }
        if (*first < 0) *first = i;
        *last = i;
    }
    for (int i = *first; *first >= 0 && i <= *last; i++) {
        all += s->slice_all[i];
        failed += s->slice_failed[i];
    }
    return all > 0 ? failed / all : 0;
}

static struct sonde_finding *error_add(struct finding_look *l, const struct error_sums *s)
{
    int first, last;
    const double share = error_burst_share(s, &first, &last);
    if (s->failed < FAILED_MIN || finding_share_low(s->failed, s->all) < 0.01 ||
        share < WARNING_SHARE) {
        return NULL;
    }
    struct sonde_finding *f = finding_add(
        l, share >= CRITICAL_SHARE ? SONDE_SEVERITY_CRITICAL : SONDE_SEVERITY_WARNING, share);
    const uint64_t slice_ns = (l->p->end_ns - l->p->start_ns) / SLICES;
    f->since_ns = l->p->start_ns + slice_ns * (uint64_t)first;
    f->until_ns = l->p->start_ns + slice_ns * (uint64_t)(last + 1);
    f->share = share;
    f->count = s->failed;
    return f;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* The error that most have, and how many. */
static const char *error_most(const struct sonde_infer_run *run, double *count)
{
    const char *most = "";
    *count = 0;
    for (uint32_t i = 0; i < run->request_count && i < 4096; i++) {
        double n = 0;
        const char *error = run->requests[i].error;
        if (!*error || !strcmp(error, most)) continue;
        for (uint32_t k = 0; k < run->request_count; k++) {
            n += !strcmp(run->requests[k].error, error);
        }
        if (n > *count) {
            *count = n;
            most = error;
        }
    }
    return most;
}

static int error_is_failure(const struct sonde_infer_request *r)
{
    return r->outcome == SONDE_ERROR || r->outcome == SONDE_TIMEOUT ||
           r->outcome == SONDE_INFER_LOST;
}

static void error_look_at_requests(struct finding_look *l)
{
    const struct sonde_infer_run *run = l->p->infer;
    const struct sonde_infer_request *example = NULL;
    struct error_sums s = { 0 };
    double count;
    for (uint32_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (r->flags & SONDE_INFER_RUNNING) continue;
        error_count(l, &s, r->arrived_ns + (uint64_t)(r->total_s * 1e9), error_is_failure(r));
        if (error_is_failure(r)) example = r;
    }
    struct sonde_finding *f = error_add(l, &s);
    if (!f) return;
    const char *most = error_most(run, &count);
    finding_subject(l, f, *most ? most : "requests", "", 0);
    finding_text(l, f,
                 "%.0f of %.0f requests failed (%.0f %% in the time in which they fail)%s%.100s",
                 s.failed, s.all, 100 * f->share, *most ? ", most with " : "", most);
    finding_advise(l, f,
                   "look at the requests that failed: `sonde requests --outcome error`; %.0f of "
                   "%.0f have the same error%s%.100s, so begin there",
                   count, s.failed, *most ? ", " : "", most);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_REQUEST, .subject = (char *)(uintptr_t)example->own_id,
        .value = example->total_s, .unit = "seconds", .what = "failed after" });
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static void error_look_at_spans(struct finding_look *l)
{
    const struct sonde_profile *p = l->p;
    struct error_sums s = { 0 };
    uint32_t name = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *n = &p->spans[i];
        if (n->parent) continue;
        const int failed = n->outcome == SONDE_ERROR || n->outcome == SONDE_TIMEOUT;
        error_count(l, &s, n->end_ns, failed);
        if (failed) name = n->name;
    }
    struct sonde_finding *f = error_add(l, &s);
    if (!f) return;
    const char *text = sonde_profile_str(p, name);
    finding_subject(l, f, text, "", 0);
    finding_text(l, f, "%.0f of %.0f operations failed (%.0f %% in the time in which they fail), "
                       "the last of them %.100s", s.failed, s.all, 100 * f->share, text);
    finding_advise(l, f, "look at what the spans that failed have in common: `sonde why --span "
                         "%.100s`", text);
    finding_prove(l, f, &(struct sonde_evidence){ .type = SONDE_EVIDENCE_SPAN,
                                                  .subject = (char *)(uintptr_t)text,
                                                  .value = s.failed, .what = "failed" });
}

static void error_look(struct finding_look *l)
{
    if (l->p->infer && l->p->infer->request_count) error_look_at_requests(l);
    else error_look_at_spans(l);
}

extern const struct finding_rule finding_rule_error_burst;
const struct finding_rule finding_rule_error_burst = {
    .kind = "error_burst",
    .title = "Errors",
    .summary = "a twentieth of the requests or more fail in some part of the time; critical from "
               "half of them on",
    .look = error_look,
};
