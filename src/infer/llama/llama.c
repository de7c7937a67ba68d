/* llama.c - see llama.h: the order of calls, what each is handed to, and telling. */
#include "infer/llama/llama.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/llama/private.h"
#include "segment/segment.h"

#define PENDING_NS 200000000ull    /* a token that no other call of its thread follows is out */
#define SPAN_MAX_NS (365ull * 86400 * 1000000000) /* a call that took longer is none */

/* ---- Telling --------------------------------------------------------------------------------- */

uint64_t llama_mix(uint64_t v)
{
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
    return (v ^ (v >> 31)) | 1;
}

struct sonde_infer_event llama_event(const struct sonde_llama *llama, uint16_t type, uint32_t tid,
                                     uint64_t begin_ns, uint64_t end_ns)
{
    return (struct sonde_infer_event){ .type = type, .source = llama->source, .pid = llama->pid,
                                       .tid = tid, .begin_ns = begin_ns, .time_ns = end_ns,
                                       .model = "" };
}

void llama_tell(struct sonde_llama *llama, const struct sonde_infer_event *e)
{
    if (!llama->quietly) llama->ops->event(llama->arg, e);
}

void llama_span_parts(struct sonde_llama *llama, uint32_t kind, uint32_t tid, uint64_t begin_ns,
                      uint64_t end_ns, const struct llama_seq *of, struct sonde_model_part *parts,
                      uint32_t part_count)
{
    if (!llama->ops->span || llama->quietly) return;
    struct sonde_model_span span = {
        .name = sonde_phase_name(kind), .pid = llama->pid, .tid = tid, .start_ns = begin_ns,
        .duration_ns = end_ns - begin_ns, .id = sonde__phase_id(begin_ns, end_ns, tid, kind),
        .parts = parts, .part_count = part_count,
    };
    if (of) {
        span.trace_hi = of->trace_hi;
        span.trace_lo = of->trace_lo;
        span.parent = of->id;
    } else {
        span.trace_hi = llama_mix(span.id);
        span.trace_lo = llama_mix(span.trace_hi ^ llama->pid);
    }
    llama->ops->span(llama->arg, &span);
}

void llama_span(struct sonde_llama *llama, uint32_t kind, uint32_t tid, uint64_t begin_ns,
                uint64_t end_ns, const struct llama_seq *of)
{
    llama_span_parts(llama, kind, tid, begin_ns, end_ns, of, NULL, 0);
}

/* ---- Passes under way ------------------------------------------------------------------------ */

void sonde_llama_pass(struct sonde_llama *llama, uint32_t tid, uint64_t object, uint64_t begin_ns,
                      const struct sonde_llama_part *parts, uint32_t part_count)
{
    struct llama_pass *to = &llama->pass[0];
    if (!tid || !object || !begin_ns) return;
    for (uint32_t i = 0; i < LLAMA_PASSES_MAX; i++) {
        struct llama_pass *p = &llama->pass[i];
        if (p->tid == tid) {
            to = p;
            break;
        }
        if (p->begin_ns < to->begin_ns) to = p;
    }
    *to = (struct llama_pass){ .object = object, .begin_ns = begin_ns, .tid = tid,
                               .known = part_count != 0 };
    for (uint32_t i = 0; i < part_count; i++) {
        const uint32_t seq = (uint32_t)parts[i].seq;
        if (seq >= LLAMA_SEQS_MAX) continue;
        if (parts[i].outputs == parts[i].tokens) to->output[seq / 64] |= 1ull << (seq % 64);
        else to->prompt[seq / 64] |= 1ull << (seq % 64);
    }
}

static void pass_over(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    for (uint32_t i = 0; i < LLAMA_PASSES_MAX; i++) {
        struct llama_pass *p = &llama->pass[i];
        if (p->tid == c->tid && p->begin_ns <= c->begin_ns) *p = (struct llama_pass){ 0 };
    }
}

int llama_pass_has(const struct sonde_llama *llama, const struct llama_context *k, uint32_t seq,
                   uint64_t now_ns)
{
    int has = 0;
    for (uint32_t i = 0; i < LLAMA_PASSES_MAX; i++) {
        const struct llama_pass *p = &llama->pass[i];
        if (!p->tid || p->object != k->object ||
            (now_ns > p->begin_ns && now_ns - p->begin_ns > LLAMA_PASS_MAX_NS)) {
            continue;
        }
        const uint64_t in = p->output[seq / 64] |
                            (k->seq[seq].state == LLAMA_PROMPT ? p->prompt[seq / 64] : 0);
        if (p->known && in >> (seq % 64) & 1) return 1;
        if (!p->known) has = -1;
    }
    return has;
}

/* ---- Working out ----------------------------------------------------------------------------- */

/* Sampling goes on: the token that its thread samples is not out yet. */
static int samples_on(const struct llama_thread *t, const struct sonde_llama_call *c)
{
    switch (c->fn) {
    case SONDE__LLAMA_APPLY:
    case SONDE__LLAMA_SYNCHRONIZE:
    case SONDE__LLAMA_SAMPLE: return 1;
    case SONDE__LLAMA_LOGITS_ITH: return t->pending_row == (int64_t)c->arg[0];
    default: return 0;
    }
}

/* ---- Calls that were lost -------------------------------------------------------------------- */

void sonde_llama_lost(struct sonde_llama *llama, uint64_t until_ns)
{
    if (until_ns <= llama->known_ns) return;
    llama->known_ns = until_ns;
    llama->lost = 1;
}

static void llama_give_up(struct sonde_llama *llama)
{
    int any = 0;
    llama->lost = 0;
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        struct llama_context *k = &llama->context[i];
        if (!k->object) continue;
        any |= k->active != 0;
        llama_batch_tell(llama, k);
        llama_held_drop(llama, k);
        llama_seqs_lose(llama, k);
        k->created_seen = k->warming = 0;
        k->row_count = 0;
        k->compute_ns = k->queued = 0;
        k->check = (struct sonde_llama_check){ 0 };
    }
    for (uint32_t i = 0; i < LLAMA_THREADS_MAX; i++) {
        llama->thread[i].pending_context = llama->thread[i].last_id = 0;
        llama->thread[i].apply_count = 0;
    }
    llama_texts_forget(llama);
    llama->figures.gaps += (uint64_t)any;
}

/* What models and contexts there are is not made wrong by calls that are missing. */
static int of_object(uint32_t fn)
{
    switch (fn) {
    case SONDE__LLAMA_GET_MEMORY:
    case SONDE__LLAMA_MODEL_LOAD:
    case SONDE__LLAMA_CONTEXT_NEW:
    case SONDE__LLAMA_CONTEXT_FREE:
    case SONDE__LLAMA_MODEL_FREE:
    case SONDE__LLAMA_SET_USAGE:
    case SONDE__LLAMA_ALLOC_CTX:
    case SONDE__LLAMA_BUFFER_FREE: return 1;
    default: return 0;
    }
}

/* ---- Calls that another has told of ---------------------------------------------------------- */

static void llama_age(struct sonde_llama *llama, uint64_t since_ns);

void sonde_llama_replay(struct sonde_llama *llama, uint64_t end_stamp, uint64_t until_ns)
{
    llama->replay_stamp = end_stamp;
    llama->replay_ns = until_ns;
}

uint64_t sonde_llama_told(const struct sonde_llama *llama) { return llama->told_stamp; }

static void replay_over(struct sonde_llama *llama)
{
    llama->quietly = 1;
    llama_age(llama, llama->replay_ns);
    llama->quietly = 0;
    llama->replay_stamp = 0;
}

/* ---- Each call ------------------------------------------------------------------------------- */

static void work_out(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    if (llama->lost) llama_give_up(llama);
    if (llama->replay_stamp && c->end_stamp > llama->replay_stamp) replay_over(llama);
    llama->quietly = llama->replay_stamp != 0;
    if (c->end_stamp > llama->told_stamp) llama->told_stamp = c->end_stamp;
    if (c->end_ns <= llama->known_ns && !of_object(c->fn)) {
        llama->figures.unused++;
        return;
    }
    if (c->end_ns < llama->now_ns) llama->figures.late++;
    else llama->now_ns = c->end_ns;
    llama->figures.seen[c->fn] += !llama->quietly;
    pass_over(llama, c);
    struct llama_thread *t = llama_thread_get(llama, c->tid);
    if (t->pending_context && !samples_on(t, c)) llama_pending_out(llama, t, c);
    switch (c->fn) {
    case SONDE__LLAMA_TOKENIZE:
        llama_text_add(llama, c);
        break;
    case SONDE__LLAMA_DECODE:
    case SONDE__LLAMA_ENCODE:
        llama_forward_call(llama, c);
        break;
    case SONDE__LLAMA_SYNCHRONIZE:
    case SONDE__LLAMA_LOGITS:
    case SONDE__LLAMA_LOGITS_ITH:
    case SONDE__LLAMA_EMBEDDINGS_ITH:
    case SONDE__LLAMA_EMBEDDINGS_SEQ:
    case SONDE__LLAMA_SAMPLE:
    case SONDE__LLAMA_APPLY:
    case SONDE__LLAMA_IS_EOG:
    case SONDE__LLAMA_PIECE:
    case SONDE__LLAMA_DETOKENIZE:
        llama_token_call(llama, c);
        break;
    case SONDE__LLAMA_SEQ_RM:
    case SONDE__LLAMA_CLEAR:
        llama_seq_call(llama, c);
        break;
    default:
        llama_object_call(llama, c);
        break;
    }
}

/* ---- The order of calls ---------------------------------------------------------------------- */

static void llama_release_one(struct sonde_llama *llama)
{
    struct llama_kept kept;
    sonde_timeq_take(&llama->waiting, &kept);
    llama->parts_waiting -= kept.c.part_count;
    work_out(llama, &kept.c);
    llama->quietly = 0;
    llama_kept_release(&kept);
}

int llama_keep(struct llama_kept *to, const struct sonde_llama_call *c)
{
    assert(c->parts || !c->part_count);
    *to = (struct llama_kept){ .c = *c };
    to->c.parts = NULL;
    to->c.text = "";
    if (c->part_count) {
        to->parts = sonde__alloc(c->part_count * sizeof(*to->parts));
        if (!to->parts) return SONDE_ENOMEM;
        memcpy(to->parts, c->parts, c->part_count * sizeof(*to->parts));
        to->c.parts = to->parts;
    }
    if (c->text && c->text[0]) {
        to->text = sonde__strdup(c->text);
        if (to->text) to->c.text = to->text;
    }
    return 0;
}

void llama_kept_release(struct llama_kept *kept)
{
    sonde__free(kept->parts);
    sonde__free(kept->text);
    memset(kept, 0, sizeof(*kept));
}

static int makes_sense(const struct sonde_llama_call *c)
{
    return c->fn < SONDE__LLAMA_COUNT && c->tid != 0 && c->begin_ns != 0 &&
           c->end_ns >= c->begin_ns && c->end_ns - c->begin_ns < SPAN_MAX_NS &&
           c->part_count <= SONDE_LLAMA_PARTS_MAX && (!c->part_count || c->parts);
}

/* Registers hold more than a function returns. */
static int64_t result_of(const struct sonde_llama_call *c)
{
    switch (c->fn) {
    case SONDE__LLAMA_TOKENIZE:
    case SONDE__LLAMA_DETOKENIZE:
    case SONDE__LLAMA_PIECE:
    case SONDE__LLAMA_DECODE:
    case SONDE__LLAMA_ENCODE:
    case SONDE__LLAMA_SAMPLE: return (int32_t)c->result;
    case SONDE__LLAMA_IS_EOG:
    case SONDE__LLAMA_SEQ_RM: return (c->result & 0xff) != 0;
    default: return c->result;
    }
}

void sonde_llama_track(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    struct llama_kept kept;
    llama->figures.calls++;
    if (!makes_sense(c)) {
        llama->figures.dropped++;
        return;
    }
    while (llama->waiting.count && llama->parts_waiting + c->part_count > LLAMA_PARTS_WAIT_MAX) {
        llama_release_one(llama);
    }
    if (llama_keep(&kept, c) != 0) {
        llama->figures.dropped++;
        return;
    }
    kept.c.result = result_of(c);
    while (sonde_timeq_put(&llama->waiting, c->end_ns, &kept) != 0) {
        if (!llama->waiting.count) { /* no memory at all */
            llama_kept_release(&kept);
            llama->figures.dropped++;
            return;
        }
        llama_release_one(llama);
    }
    llama->parts_waiting += c->part_count;
}

/* What nothing was heard of for a while is out, told or over. */
static void llama_age(struct sonde_llama *llama, uint64_t since_ns)
{
    llama_pending_age(llama, since_ns > PENDING_NS ? since_ns - PENDING_NS : 0);
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        struct llama_context *k = &llama->context[i];
        if (!k->object) continue;
        if (k->batch.waits && k->batch.end_ns + PENDING_NS < since_ns) llama_batch_tell(llama, k);
        if (k->active) llama_seqs_age(llama, k, since_ns);
    }
}

void sonde_llama_drained(struct sonde_llama *llama, uint64_t since_ns)
{
    if (llama->lost) llama_give_up(llama);
    while (llama->waiting.count && sonde_timeq_first(&llama->waiting) < since_ns) {
        llama_release_one(llama);
    }
    if (llama->replay_stamp && since_ns > llama->replay_ns) replay_over(llama);
    llama_age(llama, since_ns);
}

void sonde_llama_end(struct sonde_llama *llama)
{
    memset(llama->pass, 0, sizeof(llama->pass));
    sonde_llama_drained(llama, UINT64_MAX);
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        if (llama->context[i].object) llama_context_release(llama, &llama->context[i]);
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

struct sonde_llama *sonde_llama_create(uint32_t pid, uint16_t source,
                                       const struct sonde_llama_ops *ops, void *arg)
{
    assert(ops);
    struct sonde_llama *llama = sonde__calloc(1, sizeof(*llama));
    if (!llama) return NULL;
    llama->pid = pid;
    llama->source = source;
    llama->ops = ops;
    llama->arg = arg;
    sonde_timeq_init(&llama->waiting, sizeof(struct llama_kept), LLAMA_WAITING_MAX);
    return llama;
}

void sonde_llama_destroy(struct sonde_llama *llama)
{
    if (!llama) return;
    while (llama->waiting.count) {
        struct llama_kept kept;
        sonde_timeq_take(&llama->waiting, &kept);
        llama_kept_release(&kept);
    }
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        struct llama_context *k = &llama->context[i];
        for (uint32_t j = 0; j < k->held_count; j++) llama_kept_release(&k->held[j]);
        sonde__free(k->seq);
        sonde__free(k->rows);
        sonde__free(k->batch.parts);
    }
    sonde_timeq_release(&llama->waiting);
    sonde__free(llama);
}

void sonde_llama_figures(const struct sonde_llama *llama, struct sonde_llama_figures *out)
{
    *out = llama->figures;
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        if (llama->context[i].object) llama_check_add(&out->check, &llama->context[i].check);
    }
}
