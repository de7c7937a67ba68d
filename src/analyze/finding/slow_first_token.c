/* slow_first_token.c - first tokens come later than the objective allows. Which part of that time
 * is the largest decides what to do. */
#include <math.h>

#include "analyze/finding/objective.h"

static double first_token_value(const struct sonde_infer_request *r)
{
    return sonde_infer_has_ttft(r) ? r->ttft_s : NAN;
}

static void first_token_advise(struct finding_look *l, struct sonde_finding *f)
{
    const struct sonde_infer_run *run = l->p->infer;
    double queue = 0, encode = 0, prefill = 0, tokens = 0, reused = 0;
    for (uint32_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (*r->invalid || !sonde_infer_has_ttft(r)) continue;
        queue += sonde_infer_queue_s(r);
        encode += r->phase_s[SONDE_PHASE_ENCODE];
        prefill += r->phase_s[SONDE_PHASE_PREFILL];
        tokens += (double)r->tokens_in;
        reused += (double)r->tokens_reused;
    }
    if (queue > prefill && queue > encode) {
        finding_advise(l, f, "most of that time is waiting (%.3f s of all requests, prompts take "
                             "%.3f s): serve more requests at once, or add a server",
                       queue, prefill);
    } else if (prefill >= encode) {
        finding_advise(l, f,
                       "prompts take %.3f s of that time for %.0f tokens, %.0f %% of which were "
                       "reused: keep the KV cache of common beginnings, shorten prompts, or "
                       "compute them with more threads (llama-server: --threads-batch) or a device",
                       prefill, tokens, tokens > 0 ? 100 * reused / tokens : 0);
    } else {
        finding_advise(l, f, "turning text into tokens takes %.3f s of that time: keep tokens of "
                             "texts that come again", encode);
    }
}

static void first_token_look(struct finding_look *l)
{
    const struct sonde_infer_run *run = l->p->infer;
    const double objective = run && run->slo_ttft_s > 0 ? run->slo_ttft_s : l->o.slo_ttft_s;
    struct sonde_finding *f =
        finding_objective(l, objective, "time to first token", first_token_value, NULL);
    if (f) first_token_advise(l, f);
}

extern const struct finding_rule finding_rule_slow_first_token;
const struct finding_rule finding_rule_slow_first_token = {
    .kind = "slow_first_token",
    .title = "First tokens come late",
    .summary = "a twentieth of the requests or more miss the objective inference.slo_ttft_ms; "
               "critical from half of them on",
    .look = first_token_look,
};
