/* token.c - tokens that come out.
 *
 * llama_sampler_sample says it all: context, row and token. Servers do without it: they ask for the
 * logits of a row, apply samplers to a copy (llama_sampler_apply, which knows neither row nor
 * context), and what came out shows when they ask whether it ends generation, or for its text. So a
 * thread that asked for logits is about to sample, and the token is out when the last sampler was
 * applied, or, without any, when the thread goes on. Asking again for the same row of the same
 * batch (a token that a grammar refused) is no other token. */
#include <string.h>

#include "infer/llama/private.h"

/* ---- Threads --------------------------------------------------------------------------------- */

struct llama_thread *llama_thread_get(struct sonde_llama *llama, uint32_t tid)
{
    struct llama_thread *t = &llama->thread[0];
    for (uint32_t i = 0; i < LLAMA_THREADS_MAX; i++) {
        if (llama->thread[i].tid == tid) {
            t = &llama->thread[i];
            t->used = llama->figures.calls;
            return t;
        }
        if (llama->thread[i].used < t->used) t = &llama->thread[i];
    }
    if (t->pending_context) llama_pending_out(llama, t, NULL);
    *t = (struct llama_thread){ .tid = tid, .used = llama->figures.calls };
    return t;
}

/* Whose token the thread sampled last, if that has not ended. */
static struct llama_seq *llama_token_last_of(struct sonde_llama *llama,
                                             const struct llama_thread *t, struct llama_context **k)
{
    if (!t->last_id) return NULL;
    *k = llama_context_serial(llama, t->last_context);
    struct llama_seq *s = *k ? llama_seq_get(*k, t->last_seq) : NULL;
    return s && s->state != LLAMA_NOTHING && s->id == t->last_id ? s : NULL;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The part that a row is in; below 0 counts from the last output. */
static const struct sonde_llama_part *llama_token_part_of(const struct llama_context *k,
                                                          int64_t row)
{
    if (row >= 0) {
        for (uint32_t i = 0; i < k->row_count; i++) {
            const struct sonde_llama_part *p = &k->rows[i];
            if ((uint64_t)row >= p->row && (uint64_t)row - p->row < p->tokens) return p;
        }
        return NULL;
    }
    int64_t left = -row;
    for (uint32_t i = k->row_count; i-- > 0;) {
        const struct sonde_llama_part *p = &k->rows[i];
        if (p->flags & SONDE_LLAMA_SHARED) continue;
        if (left <= (int64_t)p->outputs) return p;
        left -= p->outputs;
    }
    return NULL;
}

/* 1 = it was sampled before. */
static int row_take(struct llama_context *k, int64_t row)
{
    const int64_t at = row >= 0 ? row : (int64_t)k->outputs + row;
    if (at < 0 || at >= (int64_t)LLAMA_ROWS) return 0;
    uint64_t *word = &k->sampled[at / 64];
    const uint64_t bit = 1ull << (at % 64);
    const int before = (*word & bit) != 0;
    *word |= bit;
    return before;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* A row that several sequences share is sampled once for each of them, one after the other. */
static int64_t shared_seq(const struct llama_context *k, const struct sonde_llama_part *p)
{
    for (uint32_t i = (uint32_t)(p - k->rows) + 1; i < k->row_count; i++) {
        const struct sonde_llama_part *q = &k->rows[i];
        if (!(q->flags & SONDE_LLAMA_SHARED) || q->row != p->row) break;
        const struct llama_seq *s = q->seq >= 0 && q->seq < LLAMA_SEQS_MAX ? &k->seq[q->seq] : NULL;
        if (s && s->state == LLAMA_PROMPT && !s->sampled) return q->seq;
    }
    return -1;
}

static void llama_token_out(struct sonde_llama *llama, struct llama_context *k,
                            struct llama_thread *t, int64_t row, uint64_t time_ns, int64_t token)
{
    const struct sonde_llama_part *p = llama_token_part_of(k, row);
    if (!p) return;
    int64_t seq = p->seq;
    if (row_take(k, row)) {
        seq = shared_seq(k, p);
        if (seq < 0) return;
    }
    struct llama_seq *s = llama_seq_get(k, seq);
    if (!s || s->state == LLAMA_NOTHING) return;
    t->last_context = k->serial;
    t->last_id = s->id;
    t->last_seq = seq;
    llama_prompt_tell(llama, s);
    s->state = LLAMA_GENERATING;
    s->token = token;
    s->sampled = 1;
    s->tokens_out++;
    if (time_ns > s->heard_ns) s->heard_ns = time_ns;
    struct sonde_infer_event e = llama_event(llama, SONDE_INFER_TOKENS, t->tid, time_ns, time_ns);
    e.id = s->id;
    e.tokens.count = 1;
    llama_tell(llama, &e);
}

/* A phase of a request, or of nobody's. */
static void llama_token_phase(struct sonde_llama *llama, uint32_t tid, uint32_t kind,
                              uint64_t begin_ns, uint64_t end_ns, struct llama_seq *s)
{
    llama_span(llama, kind, tid, begin_ns, end_ns, s);
    if (!s) return;
    struct sonde_infer_event e = llama_event(llama, SONDE_INFER_PHASE, tid, begin_ns, end_ns);
    e.id = s->id;
    e.phase.kind = kind;
    e.phase.tokens = 1;
    llama_tell(llama, &e);
    if (end_ns > s->heard_ns) s->heard_ns = end_ns;
}

/* The sequence that the thread is sampling for. */
static struct llama_seq *pending_seq(struct sonde_llama *llama, const struct llama_thread *t)
{
    struct llama_context *k = llama_context_serial(llama, t->pending_context);
    const struct sonde_llama_part *p = k ? llama_token_part_of(k, t->pending_row) : NULL;
    struct llama_seq *s = p ? llama_seq_get(k, p->seq) : NULL;
    return s && s->state != LLAMA_NOTHING ? s : NULL;
}

void llama_pending_out(struct sonde_llama *llama, struct llama_thread *t,
                       const struct sonde_llama_call *next)
{
    struct llama_context *k = llama_context_serial(llama, t->pending_context);
    struct llama_seq *s = pending_seq(llama, t);
    uint64_t time_ns = t->pending_ns;
    for (uint32_t i = 0; i < t->apply_count; i++) {
        llama_token_phase(llama, t->tid, SONDE_PHASE_SAMPLE, t->apply[i].begin_ns,
                          t->apply[i].end_ns, s);
    }
    if (!t->apply_count && next && next->begin_ns > time_ns &&
        (next->fn == SONDE__LLAMA_IS_EOG || next->fn == SONDE__LLAMA_PIECE)) {
        time_ns = next->begin_ns;
    }
    t->pending_context = 0;
    t->apply_count = 0;
    if (k) llama_token_out(llama, k, t, t->pending_row, time_ns, -1);
}

void llama_pending_age(struct sonde_llama *llama, uint64_t before_ns)
{
    for (uint32_t i = 0; i < LLAMA_THREADS_MAX; i++) {
        struct llama_thread *t = &llama->thread[i];
        if (t->pending_context && t->pending_ns < before_ns) llama_pending_out(llama, t, NULL);
    }
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void on_logits(struct sonde_llama *llama, struct llama_context *k, struct llama_thread *t,
                      const struct sonde_llama_call *c, int64_t row)
{
    llama_batch_waited(llama, k, c);
    if (t->pending_context == k->serial && t->pending_row == row) return;
    if (t->pending_context) llama_pending_out(llama, t, c);
    t->pending_context = k->serial;
    t->pending_row = row;
    t->apply_count = 0;
    t->pending_ns = c->end_ns;
}

static void llama_token_on_sample(struct sonde_llama *llama, struct llama_thread *t,
                                  const struct sonde_llama_call *c)
{
    struct llama_context *k = llama_context_get(llama, c->arg[0]);
    if (!k) return;
    const int64_t row = (int32_t)c->arg[1];
    if (k->held_count) llama_held_work(llama, k);
    llama_batch_tell(llama, k);
    t->pending_context = k->serial;
    t->pending_row = row;
    t->apply_count = 0; /* what was applied inside is part of it */
    struct llama_seq *s = pending_seq(llama, t);
    t->pending_context = 0;
    llama_token_phase(llama, t->tid, SONDE_PHASE_SAMPLE, c->begin_ns, c->end_ns, s);
    llama_token_out(llama, k, t, row, c->end_ns, c->result >= 0 ? c->result : -1);
}

static void on_apply(struct sonde_llama *llama, struct llama_thread *t,
                     const struct sonde_llama_call *c)
{
    if (!t->pending_context) {
        llama_token_phase(llama, t->tid, SONDE_PHASE_SAMPLE, c->begin_ns, c->end_ns, NULL);
        return;
    }
    t->pending_ns = c->end_ns;
    if (t->apply_count < LLAMA_APPLIES) {
        t->apply[t->apply_count].begin_ns = c->begin_ns;
        t->apply[t->apply_count++].end_ns = c->end_ns;
    } else {
        t->apply[LLAMA_APPLIES - 1].end_ns = c->end_ns;
    }
}

static void on_text(struct sonde_llama *llama, struct llama_thread *t,
                    const struct sonde_llama_call *c)
{
    struct llama_context *k = NULL;
    struct llama_seq *s = llama_token_last_of(llama, t, &k);
    const int64_t token = (int32_t)c->arg[0];
    if (s && c->fn != SONDE__LLAMA_DETOKENIZE && token >= 0) {
        if (s->token < 0) s->token = token;
        if (s->token != token) s = NULL; /* of something else */
    }
    if (c->fn != SONDE__LLAMA_IS_EOG) {
        llama_token_phase(llama, t->tid, SONDE_PHASE_DETOKENIZE, c->begin_ns, c->end_ns, s);
        return;
    }
    if (!s) return;
    if (c->end_ns > s->heard_ns) s->heard_ns = c->end_ns;
    if (!c->result) return;
    llama_request_end(llama, k, s, SONDE_OK, "");
    t->last_id = 0;
}

void llama_token_call(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    struct llama_thread *t = llama_thread_get(llama, c->tid);
    struct llama_context *k;
    switch (c->fn) {
    case SONDE__LLAMA_SAMPLE: llama_token_on_sample(llama, t, c); return;
    case SONDE__LLAMA_APPLY: on_apply(llama, t, c); return;
    case SONDE__LLAMA_IS_EOG:
    case SONDE__LLAMA_PIECE:
    case SONDE__LLAMA_DETOKENIZE: on_text(llama, t, c); return;
    default: break;
    }
    k = llama_context_find(llama, c->object);
    if (!k) return;
    const int logits = c->fn == SONDE__LLAMA_LOGITS_ITH || c->fn == SONDE__LLAMA_LOGITS;
    if (k->held_count && logits) llama_held_work(llama, k);
    if (c->fn == SONDE__LLAMA_LOGITS_ITH) {
        on_logits(llama, k, t, c, (int32_t)c->arg[0]);
    } else if (c->fn == SONDE__LLAMA_LOGITS && k->outputs == 1) {
        on_logits(llama, k, t, c, -1);
    } else {
        llama_batch_waited(llama, k, c);
    }
}
