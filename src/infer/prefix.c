/* prefix.c - how many tokens of a prompt began an earlier one too (sonde/prefix.h): what a prefix
 * cache could have saved. The last prompts of all models are remembered, as many as a server may
 * have kept in its cache. */
#include "infer/private.h"

#include <string.h>

#include "sonde/prefix.h"

void infer_prefix(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint64_t signature)
{
    const char *model = f->r.model ? f->r.model : "";
    size_t shared = 0;
    if (!signature || f->r.prefix_known) return;
    for (uint32_t i = 0; i < INFER_PREFIXES; i++) {
        const struct infer_prefix *p = &tracker->prefixes[i];
        if (!p->signature || p->pid != f->r.pid || strcmp(p->model, model) != 0) continue;
        const size_t now = sonde_prefix_shared(p->signature, signature);
        if (now > shared) shared = now;
    }
    f->r.prefix_known = 1;
    f->r.tokens_shared = shared;
    tracker->prefixes[tracker->prefix_next++ % INFER_PREFIXES] =
        (struct infer_prefix){ .model = model, .pid = f->r.pid, .signature = signature };
}
