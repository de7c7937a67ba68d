/* prefix_reuse.c - prompts begin alike, and what was computed for the earlier ones is not used
 * again. How prompts begin is known of llama.cpp (hooks) and of engines that tell
 * (sonde_request_prefix). */
#include <math.h>

#include "analyze/finding/rule.h"
#include "profile/infer.h"

enum { REQUESTS_MIN = 5 };
#define INFO_SHARE 0.10
#define WARNING_SHARE 0.25

struct prefix_sums {
    double tokens, shared, reused, lost; /* of prompts whose beginning is known */
    double prefill_s, total_s;
    size_t requests;
    const struct sonde_infer_request *worst;
};

static void prefix_sum(const struct sonde_infer_run *run, struct prefix_sums *s)
{
    double worst_lost = -INFINITY;
    *s = (struct prefix_sums){ 0 };
    for (uint32_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (*r->invalid || !r->prefix_known || !r->tokens_in) continue;
        const double shared = fmin((double)r->tokens_shared, (double)r->tokens_in);
        s->requests++;
        s->tokens += (double)r->tokens_in;
        s->shared += shared;
        s->reused += (double)r->tokens_reused;
        s->lost += fmax(0, shared - (double)r->tokens_reused);
        s->prefill_s += r->phase_s[SONDE_PHASE_PREFILL];
        s->total_s += r->total_s;
        if (shared - (double)r->tokens_reused > worst_lost) {
            worst_lost = shared - (double)r->tokens_reused;
            s->worst = r;
        }
    }
}

static void prefix_look(struct finding_look *l)
{
    struct prefix_sums s;
    if (!l->p->infer) return;
    prefix_sum(l->p->infer, &s);
    const double share = s.tokens > 0 ? s.lost / s.tokens : 0;
    if (s.requests < REQUESTS_MIN || share < INFO_SHARE) return;
    const double computed = fmax(1, s.tokens - s.reused);
    const double gain = s.total_s > 0 ? s.prefill_s * fmin(1, s.lost / computed) / s.total_s : NAN;
    struct sonde_finding *f = finding_add(
        l, share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, "prompts", "", 0);
    f->share = share;
    f->count = (double)s.requests;
    f->seconds = s.prefill_s * fmin(1, s.lost / computed);
    if (!isnan(gain)) {
        f->gain = fmin(1, gain);
        f->gain_of = "latency";
    }
    finding_text(l, f,
                 "at least %.0f %% of the prompt tokens of %zu requests stood at the beginning of "
                 "an earlier prompt, but %.0f %% were reused: %.0f tokens were computed again "
                 "(%.3f s)",
                 100 * s.shared / s.tokens, s.requests, 100 * s.reused / s.tokens, s.lost,
                 f->seconds);
    finding_advise(l, f,
                   "keep the KV cache of common beginnings: llama-server \"cache_prompt\": true "
                   "and --cache-reuse 256, requests that begin alike to one slot (id_slot, or "
                   "--slot-prompt-similarity 0.5), more slots than conversations; vLLM "
                   "--enable-prefix-caching");
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_REQUEST, .subject = (char *)(uintptr_t)s.worst->own_id,
        .value = (double)s.worst->tokens_shared, .unit = "tokens",
        .what = "shared with an earlier prompt" });
    finding_prove_series(l, f, &(struct finding_series){ .family = "sonde_infer_prefix_hit_ratio" },
                         "ratio", "prompt tokens reused");
}

extern const struct finding_rule finding_rule_prefix_reuse;
const struct finding_rule finding_rule_prefix_reuse = {
    .kind = "prefix_reuse",
    .title = "Prompts begin alike, and nothing is reused",
    .summary = "a tenth or more of the prompt tokens began an earlier prompt too and were computed "
               "again; a warning from a quarter on",
    .explains = "slow_first_token large_chunks prefill_interference",
    .look = prefix_look,
};
