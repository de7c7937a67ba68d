/* tokenizer.c - turning text into tokens takes much of the work on requests. What to do about it
 * follows from what the tokenizer tells of itself (analyze/engine.h), where it does. */
#include "analyze/engine.h"
#include "analyze/finding/phase_share.h"

static void tokenizer_advise(struct finding_look *l, struct sonde_finding *f)
{
    const struct sonde_final *run = l->p->final;
    struct sonde_engine *e = NULL;
    int rc = run ? sonde_engine_build(run->series, run->count, &e) : 0;
    if (rc) l->rc = rc;
    if (e && e->tokenizer_count && e->tokenizers[0].advice_count) {
        finding_advise(l, f, "%s", e->tokenizers[0].advice[0].text);
    } else {
        finding_advise(l, f,
                       "keep the tokens of texts that come again (system prompts, earlier turns of "
                       "a chat), and encode on another thread than the one that computes: at %.3f "
                       "ms per text it holds up every request behind it",
                       1e3 * f->avg_s);
    }
    sonde_engine_destroy(e);
}

static void tokenizer_look(struct finding_look *l)
{
    struct sonde_finding *f =
        finding_phase_share(l, SONDE_PHASE_ENCODE, "turning text into tokens");
    if (f) tokenizer_advise(l, f);
}

extern const struct finding_rule finding_rule_tokenizer;
const struct finding_rule finding_rule_tokenizer = {
    .kind = "tokenizer",
    .title = "Tokenizer share",
    .summary = "encoding takes a tenth or more of the work on requests; a warning from a quarter "
               "on",
    .explains = "slow_first_token",
    .look = tokenizer_look,
};
