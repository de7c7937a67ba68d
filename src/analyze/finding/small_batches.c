/* small_batches.c - passes that serve one request though several are being served: each of them
 * then waits for the others' passes, where one pass could have served all.
 *
 * Requests that wait in the queue do not count: those are queueing.c's. What counts is whoever has
 * had its first pass and not its last. */
#include <math.h>

#include "analyze/finding/batches.h"
#include "analyze/finding/rule.h"

enum { PASSES_MIN = 20 };
#define ACTIVE_MIN 2.0    /* requests that are being served at once, on average */
#define WARNING_RATIO 2.0 /* times as many are served as are in a pass */

struct small_sums {
    double in_pass, active, seconds; /* the first two weighted by the length of the pass */
    size_t passes;
};

/* Requests that have had their first pass, and not their last, at a time. */
static double small_active_at(const struct finding_batches *b, uint64_t ns)
{
    double n = 0;
    for (size_t i = 0; i < b->served_count; i++) {
        n += b->served[i].first_ns <= ns && ns < b->served[i].last_ns;
    }
    return n;
}

/* At most so many passes are looked at, evenly spread: each looks at all requests. */
enum { PASSES_LOOKED_MAX = 500 };

static void small_sum(const struct finding_batches *b, struct small_sums *s)
{
    const size_t step = b->count / PASSES_LOOKED_MAX + 1;
    *s = (struct small_sums){ 0 };
    for (size_t i = 0; i < b->count; i += step) {
        const struct finding_pass *pass = &b->rows[i];
        const double length = finding_pass_s(pass);
        if (pass->tokens_in) continue; /* a prompt fills a pass by itself */
        s->passes++;
        s->seconds += length;
        s->in_pass += (double)pass->requests * length;
        s->active += small_active_at(b, pass->start_ns) * length;
    }
    if (s->seconds > 0) {
        s->in_pass /= s->seconds;
        s->active /= s->seconds;
    }
}

static void small_judge(struct finding_look *l, const struct finding_batches *b)
{
    struct small_sums s;
    small_sum(b, &s);
    if (s.passes < PASSES_MIN || s.active < ACTIVE_MIN || s.active < WARNING_RATIO * s.in_pass) {
        return;
    }
    struct sonde_finding *f =
        finding_add(l, SONDE_SEVERITY_WARNING, 1 - s.in_pass / s.active);
    finding_subject(l, f, "batches", "", 0);
    f->share = s.in_pass / s.active;
    f->seconds = s.seconds;
    f->count = (double)s.passes;
    f->avg_s = s.seconds / (double)s.passes;
    f->gain = 1 - s.in_pass / s.active;
    f->gain_of = "time between tokens";
    finding_text(l, f,
                 "a pass serves %.1f requests on average while %.1f are being served: each waits "
                 "for the passes of the others",
                 s.in_pass, s.active);
    finding_advise(l, f,
                   "put the next token of all %.0f requests into one pass (llama-server: "
                   "--cont-batching and --parallel %.0f); where weights are read from memory, a "
                   "pass for %.0f takes hardly longer than one for %.0f (%.2f ms)",
                   ceil(s.active), ceil(s.active), ceil(s.active), fmax(1, round(s.in_pass)),
                   1e3 * f->avg_s);
    finding_prove_series(l, f, &(struct finding_series){ .family = "sonde_infer_requests_running" },
                         "", "requests running");
}

static void small_look(struct finding_look *l)
{
    struct finding_batches b;
    if (!l->p->parts_count) return;
    l->rc = finding_batches_init(&b, l->p);
    if (!l->rc && b.count) small_judge(l, &b);
    finding_batches_release(&b);
}

extern const struct finding_rule finding_rule_small_batches;
const struct finding_rule finding_rule_small_batches = {
    .kind = "small_batches",
    .title = "Batches are too small",
    .summary = "passes serve half or fewer of the requests that are being served",
    .explains = "queueing low_throughput slow_first_token",
    .look = small_look,
};
