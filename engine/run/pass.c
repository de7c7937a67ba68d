/* pass.c - one forward pass: the next token of every answer first, then chunks of prompts.
 *
 * What is left of the pass after the answers' tokens is shared by the prompts that are not computed
 * yet, evenly, and what one does not need goes to the others, the oldest first: a long prompt does
 * not keep short ones that came later from their first token. */
#include <string.h>

#include "run/engine_private.h"

enum { PIECE_MAX = 256, KV_TELL_NS = 10000000 };

static int job_decodes(const struct engine_job *j)
{
    return j->produced && j->count - j->computed == 1;
}

/* Room in the KV cache for j's next token. 0 = j itself is not among those that run any more. */
static int job_reserve(struct engine *e, struct engine_job *j)
{
    while (kv_slot_reserve(e->kv, j->slot, j->computed + 1)) {
        const struct engine_job *youngest = e->running[e->running_count - 1];
        if (e->running_count == 1) {
            engine_running_end(e, j, ENGINE_FAILED, "kv_full", "the KV cache is full");
            return 0;
        }
        engine_running_put_back(e);
        if (youngest == j) return 0;
    }
    return 1;
}

/* How many tokens of each are in the pass. */
static void pass_share(struct engine *e)
{
    uint32_t left = e->o.batch_tokens, prompts = 0;
    for (uint32_t i = 0; i < e->running_count;) {
        struct engine_job *j = e->running[i];
        j->chunk = 0;
        if (job_decodes(j)) {
            if (!job_reserve(e, j)) continue;
            j->chunk = 1;
            left--;
        }
        i++;
    }
    /* Counted when nobody is put back any more. */
    for (uint32_t i = 0; i < e->running_count; i++) prompts += e->running[i]->chunk == 0;
    for (uint32_t i = 0; i < e->running_count; i++) {
        struct engine_job *j = e->running[i];
        if (j->chunk) continue;
        const uint32_t share = left / prompts, needs = j->count - j->computed;
        j->chunk = needs < share ? needs : share;
        left -= j->chunk;
        prompts--;
    }
    for (uint32_t i = 0; left && i < e->running_count; i++) {
        struct engine_job *j = e->running[i];
        const uint32_t more = j->count - j->computed - j->chunk;
        j->chunk += more < left ? more : left;
        left -= more < left ? more : left;
    }
}

/* The tokens of the pass, and how many there are. */
static uint32_t pass_tokens(struct engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->running_count; i++) {
        const struct engine_job *j = e->running[i];
        for (uint32_t k = 0; k < j->chunk; k++) {
            const uint32_t position = j->computed + k;
            e->batch[n++] = (struct forward_token){
                .token = j->tokens[position], .slot = j->slot, .position = position,
                .wants_logits = position + 1 == j->count };
        }
    }
    return n;
}

/* ---- Accounts ------------------------------------------------------------------------------- */

static void pass_log(struct engine *e, uint64_t begin, uint64_t end)
{
    size_t n = 1;
    if (!e->log) return;
    e->events[0] =
        (struct engine_event){ .kind = EVENT_BATCH, .begin = begin, .at = end, .a = e->batches };
    for (uint32_t i = 0; i < e->running_count; i++) {
        const struct engine_job *j = e->running[i];
        if (!j->chunk) continue;
        struct engine_event *m = &e->events[n++];
        *m = (struct engine_event){ .kind = EVENT_MEMBER, .at = end };
        if (job_decodes(j)) m->b = 1;
        else m->a = j->chunk;
        memcpy(m->request, j->name, sizeof(m->request));
    }
    event_log_put(e->log, e->events, n);
}

static void engine_pass_profile_add(const struct engine *e, const struct engine_job *j,
                                    uint64_t ticks, uint32_t tokens, uint32_t others)
{
    struct job_profile *p = j->profile;
    const uint64_t share = ticks * j->chunk / tokens;
    const size_t ops = (size_t)(p->out.layers + 1) * FORWARD_OPS;
    if (job_decodes(j)) p->decode_ticks += share;
    else p->prefill_ticks += share;
    p->passes_ticks += ticks;
    p->out.passes++;
    p->out.others += others;
    if (others > p->out.others_max) p->out.others_max = others;
    for (uint32_t layer = 0; layer <= p->out.layers; layer++) {
        for (uint32_t op = 0; op < FORWARD_OPS; op++) {
            const size_t at = (size_t)layer * FORWARD_OPS + op;
            uint64_t ns = 0, calls = 0;
            forward_times(e->forward, layer, (enum forward_op)op, &ns, &calls);
            p->ops[at] += ns;
            p->ops[ops + at] += calls;
        }
    }
}

static void operations_tell(const struct engine *e)
{
    for (uint32_t layer = 0; layer <= e->model->layers; layer++) {
        for (uint32_t op = 0; op < FORWARD_OPS; op++) {
            uint64_t ns = 0, calls = 0;
            forward_times(e->forward, layer, (enum forward_op)op, &ns, &calls);
            if (calls) sonde_hist_record(e->op_seconds[layer * FORWARD_OPS + op], ns);
        }
    }
}

/* ---- Tokens --------------------------------------------------------------------------------- */

/* Choose, spell out, hand over; then it goes on or is at its end. */
static void job_next_token(struct engine *e, struct engine_job *j, const float *logits)
{
    struct sonde_phase phase;
    char piece[PIECE_MAX];
    const uint64_t sampling = sonde_ticks();
    sonde_phase_begin_at(&phase, &j->r.sonde, SONDE_PHASE_SAMPLE, sampling);
    const int32_t token = sampler_choose(&j->sampler, e->scratch, logits, e->model->vocab);
    const uint64_t sampled = sonde_ticks();
    sonde_phase_end_at(&phase, 1, sampled);

    sonde_phase_begin_at(&phase, &j->r.sonde, SONDE_PHASE_DETOKENIZE, sampled);
    const int end = tokenizer_is_end(e->tokenizer, token) && !j->r.ignore_end;
    size_t bytes = end ? 0 : tokenizer_piece(e->tokenizer, token, 0, piece, sizeof(piece));
    if (bytes > sizeof(piece)) bytes = sizeof(piece);
    const uint64_t out = sonde_ticks();
    sonde_phase_end_at(&phase, 1, out);
    sonde_request_tokens_at(&j->r.sonde, 1, out);

    j->tokens[j->count++] = token;
    j->produced++;
    j->last = out;
    if (j->profile) {
        j->profile->sample_ticks += sampled - sampling;
        j->profile->detokenize_ticks += out - sampled;
    }
    engine_job_event(e, j, EVENT_SAMPLE, sampling, sampled, 0, 0);
    engine_job_event(e, j, EVENT_DETOKENIZE, sampled, out, 0, 0);
    engine_job_event(e, j, EVENT_TOKEN, 0, out, j->produced, 0);
    pthread_mutex_lock(&e->lock);
    e->counts.tokens_out++;
    pthread_mutex_unlock(&e->lock);

    const int enough = j->r.on_token(j->r.context, token, piece, bytes);
    if (end || enough) engine_running_end(e, j, ENGINE_STOP, NULL, "");
    else if (j->produced >= j->tokens_max) engine_running_end(e, j, ENGINE_LENGTH, NULL, "");
}

/* What was computed is in the cache; whoever has all of it there gets a token. Those that end leave
 * `running`. */
static void pass_deliver(struct engine *e, const float *logits, uint64_t end)
{
    for (uint32_t i = 0; i < e->running_count;) {
        struct engine_job *j = e->running[i];
        if (j->chunk) {
            kv_slot_append(e->kv, j->slot, j->tokens + j->computed, j->chunk);
            j->computed += j->chunk;
            j->chunk = 0;
            if (j->computed == j->count) {
                if (!j->prompt_done) j->prompt_done = end;
                job_next_token(e, j, logits);
                logits += e->model->vocab;
            }
        }
        if (i < e->running_count && e->running[i] == j) i++;
    }
}

void engine_pass_run(struct engine *e)
{
    struct sonde_batch batch;
    uint32_t members = 0, profiled = 0;
    const float *logits = NULL;
    pass_share(e);
    const uint32_t tokens = pass_tokens(e);
    if (!tokens) return;
    for (uint32_t i = 0; i < e->running_count; i++) {
        const struct engine_job *j = e->running[i];
        members += j->chunk != 0;
        profiled += j->chunk && j->profile;
    }
    const int timed = profiled || e->op_seconds;
    if (timed) forward_times_enable(e->forward, 1);

    const uint64_t begin = sonde_ticks();
    sonde_batch_begin_at(&batch, begin);
    for (uint32_t i = 0; i < e->running_count; i++) {
        const struct engine_job *j = e->running[i];
        const int decodes = job_decodes(j);
        if (j->chunk) sonde_batch_add(&batch, &j->r.sonde, decodes ? 0 : j->chunk, decodes ? 1 : 0);
    }
    forward_run(e->forward, e->batch, tokens, &logits);
    const uint64_t end = sonde_ticks();
    sonde_batch_end_at(&batch, end);
    e->batches++;

    pass_log(e, begin, end);
    for (uint32_t i = 0; profiled && i < e->running_count; i++) {
        const struct engine_job *j = e->running[i];
        if (j->profile && j->chunk) engine_pass_profile_add(e, j, end - begin, tokens, members - 1);
    }
    if (e->op_seconds) operations_tell(e);
    if (timed) forward_times_enable(e->forward, 0);
    pass_deliver(e, logits, end);
    /* Of passes that follow each other closely every one would tell nearly the same. */
    if (e->running_count && e->kv_at && sonde_ticks_ns(end - e->kv_at) < KV_TELL_NS) return;
    uint64_t used, total;
    kv_cells(e->kv, &used, &total);
    sonde_model_kv(e->name, used, total);
    e->kv_at = end;
}
