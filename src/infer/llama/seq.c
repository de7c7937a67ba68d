/* seq.c - sequences of a context, and the requests that they serve one after the other.
 *
 * Where one request ends and the next one begins nobody says; batches do. A part of a batch goes on
 * with the request of its sequence if it stands where the sequence ended and is either more of a
 * prompt, or one token after tokens came out, or several that are all to give logits (drafts of
 * speculative decoding). Everything else begins a new one; what is filled before its first position
 * is what it reuses. A sequence that is cut (llama_memory_seq_rm without an upper bound) before
 * each chunk of a prompt, or for drafts that were rejected, still ends where the next part
 * stands. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/llama/private.h"
#include "profile/infer.h"

#define RESET_NS 10000000000ull /* a request arrived when its sequence was cut, if not longer ago */
#define QUEUE_NS 60000000000ull /* what was lost this long ago may have been a request's arrival */

struct llama_seq *llama_seq_get(struct llama_context *k, int64_t seq)
{
    assert(k->seq);
    return seq >= 0 && seq < LLAMA_SEQS_MAX ? &k->seq[seq] : NULL;
}

/* ---- Begin and end --------------------------------------------------------------------------- */

/* It came before what is known, some of it or its arrival: a prompt that nobody was seen to make
 * where all others are, or the middle of one. */
static int began_before(const struct sonde_llama *llama, const struct llama_context *k,
                        const struct llama_seq *s, const struct sonde_llama_call *c, int64_t pos)
{
    if (!llama->known_ns || k->created_seen || c->begin_ns - llama->known_ns > QUEUE_NS) return 0;
    return llama->figures.seen[SONDE__LLAMA_TOKENIZE] || llama->figures.unused ||
           (pos > 0 && !s->id);
}

static void llama_seq_request_begin(struct sonde_llama *llama, struct llama_context *k,
                                    struct llama_seq *s, const struct sonde_llama_call *c,
                                    const struct sonde_llama_part *p, int64_t pos)
{
    struct llama_text t;
    const int complete = !p->outputs ? 0 : p->flags & SONDE_LLAMA_IMPLIED ? -1 : 1;
    const int known = llama_text_find(llama, (uint64_t)pos + p->tokens, p->tail, complete,
                                      c->begin_ns, 1, &t);
    const int cut = s->reset_ns && s->reset_ns <= c->begin_ns &&
                    c->begin_ns - s->reset_ns < RESET_NS;
    s->quiet = s->resumed = s->unknown = 0;
    s->pause_ns = 0;
    s->prefix = known ? t.prefix : 0;
    s->arrived_ns = known ? t.begin_ns : cut ? s->reset_ns : c->begin_ns;
    s->heard_ns = c->begin_ns;
    const int before = !known && began_before(llama, k, s, c, pos);
    /* Of nothing but what was written down, so that all who read it have the same. */
    s->id = llama_mix(llama_mix(c->stamp ? c->stamp : c->begin_ns) ^ llama_mix(c->object) ^
                      ((uint64_t)llama->pid << 32 | (uint32_t)p->seq));
    s->trace_hi = llama_mix(s->id);
    s->trace_lo = llama_mix(s->trace_hi + llama->pid);
    s->state = LLAMA_PROMPT;
    s->reused = p->flags & SONDE_LLAMA_SHARED ? pos + p->tokens : pos;
    s->prompt = known ? t.tokens : 0;
    s->tokens_out = 0;
    s->token = -1;
    s->prompt_done = s->prompt_told = s->sampled = 0;
    k->active++;

    struct sonde_infer_event e =
        llama_event(llama, SONDE_INFER_REQUEST, c->tid, s->arrived_ns, s->arrived_ns);
    e.id = s->id;
    e.model = llama_model_name(llama, k->model);
    e.request.incomplete = before != 0;
    e.request.trace_hi = s->trace_hi;
    e.request.trace_lo = s->trace_lo;
    llama_tell(llama, &e);
    if (!known) return;
    e = llama_event(llama, SONDE_INFER_PHASE, t.tid, t.begin_ns, t.end_ns);
    e.id = s->id;
    e.phase.kind = SONDE_PHASE_ENCODE;
    e.phase.tokens = t.tokens;
    llama_tell(llama, &e);
}

void llama_request_end(struct sonde_llama *llama, struct llama_context *k, struct llama_seq *s,
                       uint32_t outcome, const char *error)
{
    assert(s >= k->seq && s < k->seq + LLAMA_SEQS_MAX);
    if (s->state == LLAMA_NOTHING) return;
    struct sonde_infer_event e =
        llama_event(llama, SONDE_INFER_END, 0, s->arrived_ns, s->heard_ns);
    llama_batch_tell(llama, k); /* its own last batch goes before */
    if (s->prompt_done) llama_prompt_tell(llama, s);
    e.id = s->id;
    e.end.outcome = outcome;
    e.end.silent = s->quiet != 0;
    snprintf(e.end.error, sizeof(e.end.error), "%s", error);
    llama_tell(llama, &e);
    s->state = LLAMA_NOTHING;
    k->active--;
    if (!llama->ops->span || llama->quietly || s->resumed || outcome == SONDE_INFER_LOST) return;
    const struct sonde_model_span span = {
        .name = "request", .pid = llama->pid, .start_ns = s->arrived_ns,
        .duration_ns = s->heard_ns - s->arrived_ns, .trace_hi = s->trace_hi,
        .trace_lo = s->trace_lo, .id = s->id, .outcome = outcome,
    };
    llama->ops->span(llama->arg, &span);
}

/* It was not finished, as far as seen, but its sequence is used for something else. */
static void request_over(struct sonde_llama *llama, struct llama_context *k, struct llama_seq *s)
{
    llama_request_end(llama, k, s, s->tokens_out || s->prompt_done ? SONDE_OK : SONDE_CANCELLED,
                      "");
}

/* ---- Parts of batches ------------------------------------------------------------------------ */

static int another_token(const struct llama_seq *s, const struct sonde_llama_part *p)
{
    const uint32_t token = (uint32_t)p->tail;
    return s->token >= 0 && token != UINT32_MAX && (int64_t)token != s->token;
}

/* If its batch does not say which tokens give logits, more than one token before any was sampled is
 * more of the prompt. */
static int of_prompt(const struct llama_seq *s, const struct sonde_llama_part *p)
{
    return !s->prompt_done || (p->tokens > 1 && !s->tokens_out);
}

/* It was taken to have ended, and this is its next token: at its place, of a sequence that nobody
 * touched since. A prompt that is reused and computed on has more than one, or is cut first. */
static int goes_on_after_all(const struct llama_seq *s, const struct sonde_llama_part *p,
                             int64_t pos)
{
    return s->state == LLAMA_NOTHING && s->quiet && !s->reset_ns && s->tokens_out &&
           p->tokens == 1 && p->outputs == 1 && pos == s->length && !another_token(s, p);
}

static int begins_anew(const struct llama_seq *s, const struct sonde_llama_part *p, int64_t pos)
{
    const int goes_on = pos == s->length;
    if (s->state == LLAMA_NOTHING) return 1;
    if (of_prompt(s, p)) return !goes_on;
    if (p->tokens > 1) return p->outputs < p->tokens || !goes_on;
    if (!s->reset_ns) return 0; /* positions move when the context is shifted */
    if (s->token >= 0 && (uint32_t)p->tail != UINT32_MAX) return another_token(s, p);
    return !goes_on;
}

/* A request that began before anybody looked: nothing is known of it but this. */
static int from_before(const struct llama_context *k, const struct llama_seq *s,
                       const struct sonde_llama_part *p, int64_t pos)
{
    return !k->created_seen && s->state == LLAMA_NOTHING && p->tokens == 1 && p->outputs &&
           !s->reset_ns && (s->length == pos || !s->length) && (pos > 0 || p->pos < 0);
}

void llama_prompt_tell(struct sonde_llama *llama, struct llama_seq *s)
{
    if (s->prompt_told) return;
    if (!s->prompt_done) s->prompt = s->length; /* sampled from in the middle: that was all of it */
    if (s->prompt < s->reused) s->prompt = s->reused;
    s->prompt_done = 1;
    struct sonde_infer_event e =
        llama_event(llama, SONDE_INFER_PROMPT, 0, s->prompt_ns, s->prompt_ns);
    e.id = s->id;
    e.prompt.count = (uint64_t)s->prompt;
    e.prompt.reused = (uint64_t)s->reused;
    e.prompt.prefix = s->prefix;
    llama_tell(llama, &e);
    s->prompt_told = 1;
}

/* A token is computed on that nobody was seen to sample: it came out some time before. */
static void unseen_token(struct sonde_llama *llama, struct llama_seq *s,
                         const struct sonde_llama_call *c)
{
    struct sonde_infer_event e =
        llama_event(llama, SONDE_INFER_TOKENS, c->tid, c->begin_ns, c->begin_ns);
    llama_prompt_tell(llama, s);
    e.id = s->id;
    e.tokens.count = 1;
    llama_tell(llama, &e);
    s->tokens_out++;
    s->state = LLAMA_GENERATING;
}

void llama_seq_part(struct sonde_llama *llama, struct llama_context *k, struct llama_seq *s,
                    const struct sonde_llama_call *c, const struct sonde_llama_part *p,
                    struct llama_batch_part *out)
{
    const int64_t pos = p->pos >= 0 ? p->pos : s->length;
    *out = (struct llama_batch_part){ .output = p->tokens };
    if (from_before(k, s, p, pos)) {
        llama->figures.unknown += !s->unknown;
        s->unknown = 1;
        s->length = pos + 1;
        return;
    }
    if (goes_on_after_all(s, p, pos)) {
        s->state = LLAMA_GENERATING;
        s->quiet = 0;
        s->resumed = 1;
        k->active++;
    } else if (begins_anew(s, p, pos)) {
        request_over(llama, k, s);
        llama_seq_request_begin(llama, k, s, c, p, pos);
    }
    const int output = !of_prompt(s, p);
    if (output && !s->sampled && p->tokens == 1) unseen_token(llama, s, c);
    s->length = pos + p->tokens;
    /* While others are computed it does not pause. */
    if (s->absent <= 1 && c->begin_ns > s->heard_ns && c->begin_ns - s->heard_ns > s->pause_ns) {
        s->pause_ns = c->begin_ns - s->heard_ns;
    }
    s->reset_ns = 0;
    s->absent = 0;
    s->sampled = 0;
    s->heard_ns = c->end_ns;
    if (!output) {
        const int more = p->flags & SONDE_LLAMA_IMPLIED && s->length < s->prompt;
        s->prompt_ns = c->begin_ns;
        s->prompt_done = p->outputs && !more;
        if (s->prompt_done) s->prompt = s->length;
    }
    out->id = s->id;
    out->prompt = output ? 0 : p->tokens;
    out->output = output ? p->tokens : 0;
}

/* ---- All of a context ------------------------------------------------------------------------ */

void llama_seqs_lose(struct sonde_llama *llama, struct llama_context *k)
{
    for (uint32_t i = 0; k->seq && i < LLAMA_SEQS_MAX; i++) {
        llama_request_end(llama, k, &k->seq[i], SONDE_INFER_LOST, "calls_lost");
        k->seq[i] = (struct llama_seq){ .token = -1 };
    }
}

void llama_seqs_clear(struct sonde_llama *llama, struct llama_context *k)
{
    for (uint32_t i = 0; k->seq && i < LLAMA_SEQS_MAX; i++) {
        request_over(llama, k, &k->seq[i]);
        k->seq[i] = (struct llama_seq){ .token = -1 };
    }
}

/* A server computes on without a pause; a program that hands its tokens to somebody slow does not,
 * but does so all the time. */
static uint64_t quiet_ns(const struct llama_seq *s)
{
    return s->pause_ns < LLAMA_QUIET_MAX_NS - LLAMA_QUIET_NS ? LLAMA_QUIET_NS + s->pause_ns
                                                             : LLAMA_QUIET_MAX_NS;
}

void llama_seqs_age(struct sonde_llama *llama, struct llama_context *k, uint64_t now_ns)
{
    for (uint32_t i = 0; k->active && i < LLAMA_SEQS_MAX; i++) {
        struct llama_seq *s = &k->seq[i];
        if (s->state == LLAMA_NOTHING || s->heard_ns > now_ns ||
            now_ns - s->heard_ns < quiet_ns(s)) {
            continue;
        }
        const int has = llama_pass_has(llama, k, i, now_ns);
        if (has > 0 || (has < 0 && s->absent < LLAMA_ABSENT_QUIET)) continue;
        s->quiet = 1;
        request_over(llama, k, s);
    }
}

void llama_seqs_absent(struct sonde_llama *llama, struct llama_context *k)
{
    for (uint32_t i = 0; k->active && i < LLAMA_SEQS_MAX; i++) {
        struct llama_seq *s = &k->seq[i];
        if (s->state != LLAMA_NOTHING && s->absent++ >= LLAMA_ABSENT) request_over(llama, k, s);
    }
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void llama_seq_cut(struct sonde_llama *llama, struct llama_context *k, struct llama_seq *s,
                          const struct sonde_llama_call *c, int64_t p0, int64_t p1)
{
    if (p1 >= 0) { /* a hole that is closed by moving the rest: a context shift */
        if (p0 >= 0 && p1 > p0 && p1 <= s->length) s->length -= p1 - p0;
        return;
    }
    if (p0 <= 0) {
        request_over(llama, k, s);
        p0 = 0;
    }
    if (p0 < s->length) s->length = p0;
    s->reset_ns = c->end_ns;
}

void llama_seq_call(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    struct llama_context *k = llama_context_memory(llama, c->object);
    if (!k || (c->fn == SONDE__LLAMA_SEQ_RM && !c->result)) return;
    const int64_t seq = c->fn == SONDE__LLAMA_CLEAR ? -1 : (int32_t)c->arg[0];
    const int64_t p0 = c->fn == SONDE__LLAMA_CLEAR ? 0 : (int32_t)c->arg[1];
    const int64_t p1 = c->fn == SONDE__LLAMA_CLEAR ? -1 : (int32_t)c->arg[2];
    if (seq <= 0 && p0 <= 0 && p1 < 0) llama_held_drop(llama, k);
    for (int64_t i = seq < 0 ? 0 : seq; i < (seq < 0 ? LLAMA_SEQS_MAX : seq + 1); i++) {
        struct llama_seq *s = llama_seq_get(k, i);
        if (s) llama_seq_cut(llama, k, s, c, p0, p1);
    }
}
