/* check.c - the same figures that llama.cpp keeps of a context, from calls.
 *
 * It counts time from the begin of a batch until its results are waited for, batches that are not
 * waited for as one, and calls it evaluation when that was one token, and prompt evaluation when it
 * was more. So two sequences that decode in one batch are a prompt there; what we make of batches
 * (seq.c) is another matter. Here it is done their way, to see whether calls were missed. */
#include <stdio.h>

#include "infer/llama/private.h"

#define SHARE 0.01
#define SLACK_NS 20000000.0 /* a thread that is kept from running may be so between two clocks */

void llama_check_computed(struct llama_context *k, const struct sonde_llama_call *c)
{
    if (c->result < 0 || (int64_t)c->arg[0] <= 0 || c->arg[0] > LLAMA_TOKENS_MAX) return;
    if (!k->compute_ns) k->compute_ns = c->begin_ns;
    k->queued += c->arg[0];
}

void llama_check_waited(struct llama_context *k, uint64_t end_ns)
{
    if (!k->compute_ns) return;
    const uint64_t ns = end_ns > k->compute_ns ? end_ns - k->compute_ns : 0;
    if (k->queued == 1) {
        k->eval_ns += ns;
        k->eval_tokens++;
    } else {
        k->prompt_ns += ns;
        k->prompt_tokens += k->queued;
    }
    k->compute_ns = k->queued = 0;
}

void llama_check_reset(struct llama_context *k)
{
    k->eval_ns = k->eval_tokens = k->prompt_ns = k->prompt_tokens = 0;
    k->check = (struct sonde_llama_check){ 0 };
}

void llama_check_compare(struct llama_context *k, const struct sonde_llama_call *c)
{
    if (!k->created_seen) return; /* what went before is in theirs only */
    k->check = (struct sonde_llama_check){
        .contexts = 1,
        .theirs_prompt_ns = c->arg[0], .theirs_eval_ns = c->arg[1],
        .theirs_prompt_tokens = c->arg[2] >> 32, .theirs_eval_tokens = c->arg[2] & UINT32_MAX,
        .ours_prompt_ns = k->prompt_ns, .ours_eval_ns = k->eval_ns,
        .ours_prompt_tokens = k->prompt_tokens, .ours_eval_tokens = k->eval_tokens,
    };
}

void llama_check_add(struct sonde_llama_check *to, const struct sonde_llama_check *c)
{
    to->contexts += c->contexts;
    to->theirs_prompt_ns += c->theirs_prompt_ns;
    to->theirs_eval_ns += c->theirs_eval_ns;
    to->theirs_prompt_tokens += c->theirs_prompt_tokens;
    to->theirs_eval_tokens += c->theirs_eval_tokens;
    to->ours_prompt_ns += c->ours_prompt_ns;
    to->ours_eval_ns += c->ours_eval_ns;
    to->ours_prompt_tokens += c->ours_prompt_tokens;
    to->ours_eval_tokens += c->ours_eval_tokens;
}

static int times_agree(uint64_t theirs, uint64_t ours)
{
    const double apart = (double)theirs - (double)ours;
    return (apart < 0 ? -apart : apart) <= SHARE * (double)theirs + SLACK_NS;
}

/* One in a hundred does not matter, and a batch that was computed while they were asked is in one
 * of the two only. Some versions say 1 where it is 0, so that others can divide by it. */
static int tokens_agree(uint64_t theirs, uint64_t ours, uint64_t contexts)
{
    const uint64_t apart = theirs > ours ? theirs - ours : ours - theirs;
    return apart <= contexts || (double)apart <= SHARE * (double)theirs;
}

int sonde_llama_check_text(const struct sonde_llama_check *c, char *out, size_t size)
{
    if (!c->contexts) return 0;
    if (!tokens_agree(c->theirs_prompt_tokens, c->ours_prompt_tokens, c->contexts) ||
        !tokens_agree(c->theirs_eval_tokens, c->ours_eval_tokens, c->contexts)) {
        const uint64_t theirs = c->theirs_prompt_tokens + c->theirs_eval_tokens;
        const uint64_t ours = c->ours_prompt_tokens + c->ours_eval_tokens;
        snprintf(out, size, "llama.cpp counted %llu prompt and %llu generated tokens, its calls as "
                 "they were seen %llu and %llu: %s",
                 (unsigned long long)c->theirs_prompt_tokens,
                 (unsigned long long)c->theirs_eval_tokens,
                 (unsigned long long)c->ours_prompt_tokens,
                 (unsigned long long)c->ours_eval_tokens,
                 theirs > ours ? "calls were missed, so figures of requests are too low"
                               : "more than it computed, so figures of requests are too high");
        return 1;
    }
    const int prompt = !times_agree(c->theirs_prompt_ns, c->ours_prompt_ns);
    if (!prompt && times_agree(c->theirs_eval_ns, c->ours_eval_ns)) return 0;
    snprintf(out, size, "llama.cpp measured %.1f ms of %s, its calls as they were seen %.1f ms: "
             "more than 1 %% apart", (double)(prompt ? c->theirs_prompt_ns : c->theirs_eval_ns) *
                                     1e-6, prompt ? "prompt evaluation" : "evaluation",
             (double)(prompt ? c->ours_prompt_ns : c->ours_eval_ns) * 1e-6);
    return 1;
}

int sonde_llama_lost_text(const struct sonde_llama_figures *f, char *out, size_t size)
{
    if (f->gaps) {
        snprintf(out, size, "calls of llama.cpp came faster than they could be read, %llu times: "
                 "requests that were under way are counted as lost", (unsigned long long)f->gaps);
    } else if (f->unknown) {
        snprintf(out, size, "%llu request%s began before what is known of its calls, and %s not "
                 "counted", (unsigned long long)f->unknown, f->unknown == 1 ? "" : "s",
                 f->unknown == 1 ? "is" : "are");
    }
    return f->gaps || f->unknown;
}
