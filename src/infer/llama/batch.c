/* batch.c - forward passes: who is in them, and when they were done.
 *
 * llama_decode may return while a device still computes; the time until somebody has waited for the
 * results is then part of the pass. So a batch is told when the next call of its context shows
 * that.
 *
 * Before a server takes requests it computes a token or two to warm up, and clears its memory.
 * Newer ones say so (llama_set_warmup). Of others the first small batches of a context, if no
 * prompt is known that they could be, are kept until it is clear which it was: the memory is
 * cleared, or somebody asks for their logits. */
#include <assert.h>
#include <string.h>

#include "infer/llama/private.h"

#define IDLE_NS 1000000000ull /* nobody waits for so long while nothing is computed */
#define WAIT_SHARE 20u /* waiting counts if it took more than a 20th of the call */

/* ---- Telling --------------------------------------------------------------------------------- */

static const struct llama_seq *llama_batch_seq_of(const struct llama_context *k, uint64_t id)
{
    for (uint32_t i = 0; i < LLAMA_SEQS_MAX; i++) {
        if (k->seq[i].state != LLAMA_NOTHING && k->seq[i].id == id) return &k->seq[i];
    }
    return NULL;
}

void llama_batch_tell(struct sonde_llama *llama, struct llama_context *k)
{
    struct llama_batch *b = &k->batch;
    struct sonde_model_part parts[SONDE_LLAMA_PARTS_MAX + 1];
    uint32_t part_count = 0;
    if (!b->waits) return;
    b->waits = 0;
    uint64_t in = b->prompt_tokens, out = b->output_tokens; /* of nobody yet */
    struct sonde_infer_event e =
        llama_event(llama, SONDE_INFER_PART, b->tid, b->begin_ns, b->end_ns);
    e.part.requests = b->requests;
    e.part.all = b->prompt_tokens + b->output_tokens;
    for (uint32_t i = 0; i < b->part_count; i++) {
        if (!b->parts[i].id || !(b->parts[i].prompt + b->parts[i].output)) continue;
        e.id = b->parts[i].id;
        e.part.prompt = b->parts[i].prompt;
        e.part.output = b->parts[i].output;
        parts[part_count++] = (struct sonde_model_part){ e.id, (uint32_t)e.part.prompt,
                                                         (uint32_t)e.part.output };
        assert(in >= e.part.prompt && out >= e.part.output);
        in -= e.part.prompt;
        out -= e.part.output;
        llama_tell(llama, &e);
    }
    if (in | out) {
        parts[part_count++] = (struct sonde_model_part){ 0, (uint32_t)in, (uint32_t)out };
    }
    const uint64_t only = b->requests == 1 ? e.id : 0;
    const uint32_t kind =
        b->prompt_tokens > b->output_tokens ? SONDE_PHASE_PREFILL : SONDE_PHASE_DECODE;
    e = llama_event(llama, SONDE_INFER_BATCH, b->tid, b->begin_ns, b->end_ns);
    e.model = llama_model_name(llama, k->model);
    e.batch.prompt = b->prompt_tokens;
    e.batch.output = b->output_tokens;
    e.batch.requests = b->requests;
    llama_tell(llama, &e);
    llama_span_parts(llama, kind, b->tid, b->begin_ns, b->end_ns,
                     only ? llama_batch_seq_of(k, only) : NULL, parts, part_count);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* A sequence may have several parts in a batch. */
static void batch_add(struct llama_batch *b, const struct llama_batch_part *part)
{
    assert(b->part_count < SONDE_LLAMA_PARTS_MAX);
    b->prompt_tokens += part->prompt;
    b->output_tokens += part->output;
    for (uint32_t i = 0; i < b->part_count && part->id; i++) {
        if (b->parts[i].id != part->id) continue;
        b->parts[i].prompt += part->prompt;
        b->parts[i].output += part->output;
        return;
    }
    b->parts[b->part_count++] = *part;
    b->requests++;
}

static void rows_set(struct llama_context *k, const struct sonde_llama_call *c)
{
    assert(c->part_count <= SONDE_LLAMA_PARTS_MAX);
    k->row_count = c->part_count;
    k->outputs = 0;
    memset(k->sampled, 0, sizeof(k->sampled));
    for (uint32_t i = 0; i < c->part_count; i++) {
        k->rows[i] = c->parts[i];
        if (!(c->parts[i].flags & SONDE_LLAMA_SHARED)) k->outputs += c->parts[i].outputs;
    }
}

static int part_ok(const struct sonde_llama_part *p)
{
    return p->tokens && p->tokens <= LLAMA_TOKENS_MAX && p->outputs <= p->tokens &&
           p->row <= LLAMA_TOKENS_MAX && p->pos >= -1;
}

static void llama_batch_failed(struct sonde_llama *llama, struct llama_context *k,
                               const struct sonde_llama_call *c)
{
    for (uint32_t i = 0; i < c->part_count; i++) {
        struct llama_seq *s = llama_seq_get(k, c->parts[i].seq);
        if (s) llama_request_end(llama, k, s, SONDE_ERROR, "decode_failed");
    }
    k->row_count = 0;
}

static void llama_batch_forward(struct sonde_llama *llama, struct llama_context *k,
                                const struct sonde_llama_call *c)
{
    struct llama_batch *b = &k->batch;
    struct llama_batch_part part;
    const uint64_t all = c->arg[0] <= LLAMA_TOKENS_MAX ? c->arg[0] : 0;
    llama_batch_tell(llama, k);
    if (c->begin_ns > llama->computed_ns && c->begin_ns - llama->computed_ns > IDLE_NS) {
        llama_texts_expire(llama, llama->computed_ns);
    }
    if (c->end_ns > llama->computed_ns) llama->computed_ns = c->end_ns;
    llama_seqs_absent(llama, k);
    rows_set(k, c);
    b->tid = c->tid;
    b->part_count = b->requests = 0;
    b->begin_ns = c->begin_ns;
    b->end_ns = c->end_ns;
    b->prompt_tokens = b->output_tokens = 0;
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct sonde_llama_part *p = &c->parts[i];
        struct llama_seq *s = llama_seq_get(k, p->seq);
        if (!s || !part_ok(p)) {
            llama->figures.dropped++;
            continue;
        }
        k->served = 1;
        llama_seq_part(llama, k, s, c, p, &part);
        if (p->flags & SONDE_LLAMA_SHARED) part.prompt = part.output = 0;
        batch_add(b, &part);
    }
    /* Parts beyond those that are kept are many and short: of sequences that generate. */
    if (c->parts_dropped && b->prompt_tokens + b->output_tokens < all) {
        b->output_tokens = all - b->prompt_tokens;
        b->requests += c->parts_dropped;
    }
    b->waits = b->prompt_tokens + b->output_tokens > 0;
    if (c->result < 0) llama_batch_failed(llama, k, c);
}

/* ---- Warm-up --------------------------------------------------------------------------------- */

static int may_be_warmup(struct sonde_llama *llama, const struct llama_context *k,
                         const struct sonde_llama_call *c)
{
    struct llama_text t;
    if (k->served || !k->created_seen || c->part_count != 1 || c->result != 0 ||
        c->parts[0].tokens > LLAMA_WARMUP_TOKENS) {
        return 0;
    }
    return !llama_text_find(llama, c->parts[0].tokens, c->parts[0].tail, 1, c->begin_ns, 0, &t);
}

void llama_held_work(struct sonde_llama *llama, struct llama_context *k)
{
    const uint32_t count = k->held_count;
    k->held_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        llama_batch_forward(llama, k, &k->held[i].c);
        llama_kept_release(&k->held[i]);
    }
}

void llama_held_drop(struct sonde_llama *llama, struct llama_context *k)
{
    llama->figures.warmups += k->held_count;
    for (uint32_t i = 0; i < k->held_count; i++) llama_kept_release(&k->held[i]);
    k->held_count = 0;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void llama_forward_call(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    struct llama_context *k = llama_context_get(llama, c->object);
    if (!k) {
        llama->figures.dropped++;
        return;
    }
    llama_check_computed(k, c);
    llama_buffers_claim(llama, c, k->model, k->serial);
    if (c->result > 0) { /* there was no room for it: it is tried again with less */
        k->row_count = 0;
        return;
    }
    if (k->warming) {
        llama->figures.warmups++;
        k->row_count = 0;
        return;
    }
    if (may_be_warmup(llama, k, c)) {
        if (k->held_count < 2 && llama_keep(&k->held[k->held_count], c) == 0) {
            k->held_count++;
            return;
        }
    }
    if (k->held_count) llama_held_work(llama, k);
    llama_batch_forward(llama, k, c);
}

/* Somebody waits for results of k: how long the last batch took is known. */
void llama_batch_waited(struct sonde_llama *llama, struct llama_context *k,
                        const struct sonde_llama_call *c)
{
    struct llama_batch *b = &k->batch;
    llama_check_waited(k, c->end_ns);
    if (!b->waits) return;
    if (c->begin_ns >= b->end_ns &&
        (c->end_ns - c->begin_ns) > (b->end_ns - b->begin_ns) / WAIT_SHARE) {
        b->end_ns = c->end_ns;
    }
    llama_batch_tell(llama, k);
}
