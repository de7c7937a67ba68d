/* large_chunks.c - passes that compute prompts together with tokens of running requests take so
 * many tokens of the prompts that the others' tokens come late. */
#include <math.h>

#include "analyze/finding/prefill_delay.h"

static void large_chunks_look(struct finding_look *l)
{
    struct finding_prefill_delays d;
    finding_prefill_delays(l, &d);
    if (isnan(d.decode_s) || !(d.chunk < (double)d.shared.chunk_max)) return;
    struct sonde_finding *f = finding_prefill_add(l, &d, &d.shared);
    if (!f) return;
    finding_text(l, f,
                 "parts of prompts in shared passes cost %zu requests %.1f %% of the time between "
                 "their tokens: a pass takes %.1f ms without, and up to %.1f ms more with them "
                 "(%llu tokens)",
                 d.shared.requests, 100 * f->share, 1e3 * d.decode_s, 1e3 * d.shared.longest_s,
                 (unsigned long long)d.shared.chunk_max);
    finding_advise(l, f,
                   "take at most %.0f tokens of prompts into a pass (llama-server: --batch-size "
                   "%.0f; vLLM: --max-num-batched-tokens %.0f): it then takes twice one without",
                   d.chunk, d.chunk, d.chunk);
}

extern const struct finding_rule finding_rule_large_chunks;
const struct finding_rule finding_rule_large_chunks = {
    .kind = "large_chunks",
    .title = "Parts of prompts are too large",
    .summary = "requests lose a tenth or more of the time between their tokens to parts of prompts "
               "in shared passes; a warning from a quarter on",
    .explains = "low_throughput prefill_interference",
    .look = large_chunks_look,
};
