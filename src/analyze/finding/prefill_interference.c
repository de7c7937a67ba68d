/* prefill_interference.c - prompts of some requests are computed in passes of their own while the
 * tokens of others wait. */
#include <math.h>

#include "analyze/finding/prefill_delay.h"

static void prefill_look(struct finding_look *l)
{
    struct finding_prefill_delays d;
    finding_prefill_delays(l, &d);
    struct sonde_finding *f = isnan(d.decode_s) ? NULL : finding_prefill_add(l, &d, &d.apart);
    if (!f) return;
    finding_text(l, f,
                 "%zu requests waited %.1f %% of the time between their tokens for passes with "
                 "only prompts of others (%.3f s in all, %.1f ms for the longest)",
                 d.apart.requests, 100 * f->share, d.apart.delay_s, 1e3 * d.apart.longest_s);
    if (d.chunk >= 1 && d.chunk < (double)d.apart.chunk_max) {
        finding_advise(l, f,
                       "compute prompts together with the tokens of running requests, in parts of "
                       "at most %.0f tokens (the longest pass had %llu), so that a pass takes "
                       "twice one without (%.1f ms): llama-server --batch-size %.0f, vLLM "
                       "--enable-chunked-prefill --max-num-batched-tokens %.0f; or serve long "
                       "prompts elsewhere",
                       d.chunk, (unsigned long long)d.apart.chunk_max, 1e3 * d.decode_s, d.chunk,
                       d.chunk);
    } else {
        finding_advise(l, f,
                       "compute prompts together with the tokens of running requests, or serve "
                       "long prompts elsewhere: passes of %llu prompt tokens are short already",
                       (unsigned long long)d.apart.chunk_max);
    }
}

extern const struct finding_rule finding_rule_prefill_interference;
const struct finding_rule finding_rule_prefill_interference = {
    .kind = "prefill_interference",
    .title = "Prompts delay tokens of others",
    .summary = "requests lose a tenth or more of the time between their tokens to passes with only "
               "prompts of others; a warning from a quarter on",
    .explains = "low_throughput large_chunks",
    .look = prefill_look,
};
