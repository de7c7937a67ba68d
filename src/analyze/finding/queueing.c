/* queueing.c - requests that wait for work on them to begin, since more arrive than can be served.
 *
 * Waiting alone is not a fault: arrivals by chance meet now and then, and a queue that is short is
 * how a server is kept busy. It is a warning from a quarter of the requests' time on, and critical
 * from half of it. How many would have to be served at once follows from Little's law: arrivals per
 * second times the time that work on one takes. */
#include <math.h>

#include "analyze/finding/rule.h"
#include "profile/infer.h"

enum { REQUESTS_MIN = 10 };
#define WARNING_SHARE 0.25
#define CRITICAL_SHARE 0.50

struct queue_sums {
    double waited_s, total_s, first_s, last_s, busy_until_s;
    double half_waited[2], half_count[2]; /* of those that arrived in each half of the time */
    size_t count;
    const struct sonde_infer_request *longest;
};

static int queue_counts(const struct sonde_infer_request *r)
{
    return !*r->invalid && r->total_s > 0 && !(r->flags & SONDE_INFER_INCOMPLETE);
}

static void queue_sum(const struct sonde_infer_run *run, struct queue_sums *q)
{
    *q = (struct queue_sums){ .first_s = INFINITY };
    for (size_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (!queue_counts(r)) continue;
        const double at = (double)r->arrived_ns * 1e-9;
        q->first_s = fmin(q->first_s, at);
        q->last_s = fmax(q->last_s, at);
        q->busy_until_s = fmax(q->busy_until_s, at + r->total_s);
    }
    const double middle = (q->first_s + q->last_s) / 2;
    for (size_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (!queue_counts(r)) continue;
        const double waited = sonde_infer_queue_s(r);
        const int half = (double)r->arrived_ns * 1e-9 > middle;
        q->waited_s += waited;
        q->total_s += r->total_s;
        q->half_waited[half] += waited;
        q->half_count[half]++;
        q->count++;
        if (!q->longest || waited > sonde_infer_queue_s(q->longest)) q->longest = r;
    }
}

/* What was served at once, on average while there was work, and what would have to be. */
static void queue_advise(struct finding_look *l, struct sonde_finding *f,
                         const struct queue_sums *q)
{
    const double span = q->last_s - q->first_s, busy = q->busy_until_s - q->first_s;
    const double work = (q->total_s - q->waited_s) / (double)q->count;
    if (!(span > 0) || !(busy > 0) || q->count < 2) return;
    const double arrivals = (double)(q->count - 1) / span;
    const double at_once = (q->total_s - q->waited_s) / busy, needed = arrivals * work;
    const double first = q->half_waited[0] / fmax(1, q->half_count[0]);
    const double second = q->half_waited[1] / fmax(1, q->half_count[1]);
    const int grows = second > 1.5 * first;
    if (needed > 1.05 * at_once) {
        finding_advise(l, f,
                       "%.2f requests arrive per second and work on one takes %.3f s, so %.1f have "
                       "to be served at once; %.1f are. Serve %.0f at once (llama-server: "
                       "--parallel %.0f, with --ctx-size raised alike), add a server, or turn "
                       "requests away sooner%s",
                       arrivals, work, needed, at_once, ceil(needed), ceil(needed),
                       grows ? "; waiting grows, it does not settle by itself" : "");
    } else {
        finding_advise(l, f,
                       "capacity is enough on average (%.1f served at once, %.1f needed) but "
                       "arrivals come in bursts: serve %.0f at once, or spread the bursts%s",
                       at_once, needed, ceil(at_once) + 1,
                       grows ? "; waiting grows" : "");
    }
}

static void queue_look(struct finding_look *l)
{
    const struct sonde_infer_run *run = l->p->infer;
    struct queue_sums q;
    if (!run) return;
    queue_sum(run, &q);
    const double share = q.total_s > 0 ? q.waited_s / q.total_s : 0;
    if (q.count < REQUESTS_MIN || share < l->o.share_min || q.waited_s < l->o.seconds_min) return;
    const enum sonde_severity severity = share >= CRITICAL_SHARE  ? SONDE_SEVERITY_CRITICAL
                                         : share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING
                                                                  : SONDE_SEVERITY_INFO;
    struct sonde_finding *f = finding_add(l, severity, share);
    finding_subject(l, f, "requests", "", 0);
    f->share = share;
    f->seconds = q.waited_s;
    f->count = (double)q.count;
    f->avg_s = q.waited_s / (double)q.count;
    f->gain = share;
    f->gain_of = "latency";
    finding_text(l, f,
                 "%zu requests waited %.1f ms on average before work on them began, %.1f %% of "
                 "their time",
                 q.count, 1e3 * f->avg_s, 100 * share);
    queue_advise(l, f, &q);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_REQUEST, .subject = (char *)(uintptr_t)q.longest->own_id,
        .value = sonde_infer_queue_s(q.longest), .unit = "seconds", .what = "longest wait" });
    finding_prove_series(l, f, &(struct finding_series){ .family = "sonde_infer_requests_waiting" },
                         "", "requests waiting");
}

extern const struct finding_rule finding_rule_queueing;
const struct finding_rule finding_rule_queueing = {
    .kind = "queueing",
    .title = "Requests queue",
    .summary = "requests spend a quarter of their time or more waiting for work to begin",
    .explains = "slow_first_token low_throughput",
    .look = queue_look,
};
