#include "collect/uprobe/pair.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

enum {
    BUCKETS = 256,
    TEXTS = 64,            /* calls about texts of tokens that a thread may tell of in TEXTS_NS … */
    TEXTS_A_TOKEN = 4      /* … and more when one was sampled */
};
#define TEXTS_NS 10000000u

#define S32(n) { SONDE_UPROBE_I32, n }
#define U64(n) { SONDE_UPROBE_U64, n }
#define BOOL(n) { SONDE_UPROBE_BOOL, n }
#define READ { SONDE_UPROBE_MEMORY, 0 }
#define NO { SONDE_UPROBE_NONE, 0 }
#define R(kind) .returns = 1, .result = SONDE_UPROBE_##kind

/* Arguments by their numbers in llama.h and ggml-backend.h, the object being number 0. */
static const struct sonde_uprobe_rule rules[SONDE__LLAMA_COUNT] = {
    [SONDE__LLAMA_TOKENIZE] = { R(I32), .at_return = 1, .arg = { S32(2), S32(4), READ } },
    [SONDE__LLAMA_DETOKENIZE] = { R(I32), .arg = { S32(2), NO, NO } },
    [SONDE__LLAMA_PIECE] = { R(I32), .arg = { S32(1), NO, NO } },
    [SONDE__LLAMA_DECODE] = { R(I32), .at_entry = 1, .arg = { READ, NO, NO } },
    [SONDE__LLAMA_ENCODE] = { R(I32), .at_entry = 1, .arg = { READ, NO, NO } },
    [SONDE__LLAMA_SYNCHRONIZE] = { R(NONE) },
    [SONDE__LLAMA_LOGITS] = { R(U64) },
    [SONDE__LLAMA_LOGITS_ITH] = { R(U64), .arg = { S32(1), NO, NO } },
    [SONDE__LLAMA_EMBEDDINGS_ITH] = { R(U64), .arg = { S32(1), NO, NO } },
    [SONDE__LLAMA_EMBEDDINGS_SEQ] = { R(U64), .arg = { S32(1), NO, NO } },
    [SONDE__LLAMA_SAMPLE] = { R(I32), .arg = { U64(1), S32(2), NO } },
    [SONDE__LLAMA_APPLY] = { R(NONE) },
    [SONDE__LLAMA_IS_EOG] = { R(BOOL), .arg = { S32(1), NO, NO } },
    [SONDE__LLAMA_GET_MEMORY] = { R(U64) },
    [SONDE__LLAMA_SEQ_RM] = { R(BOOL), .arg = { S32(1), S32(2), S32(3) } },
    [SONDE__LLAMA_CLEAR] = { 0 },
    [SONDE__LLAMA_STATE_SET] = { R(U64), .arg = { U64(2), S32(3), NO } },
    [SONDE__LLAMA_WARMUP] = { .arg = { BOOL(1), NO, NO } },
    [SONDE__LLAMA_PERF_RESET] = { 0 },
    [SONDE__LLAMA_MODEL_LOAD] = { R(U64), .at_entry = 1 },
    [SONDE__LLAMA_CONTEXT_NEW] = { R(U64) },
    [SONDE__LLAMA_CONTEXT_FREE] = { 0 },
    [SONDE__LLAMA_MODEL_FREE] = { 0 },
    [SONDE__LLAMA_SET_USAGE] = { .at_entry = 1, .arg = { S32(1), READ, NO } },
    [SONDE__LLAMA_ALLOC_CTX] = { R(U64), .at_entry = 1, .at_return = 1, .arg = { NO, READ, NO } },
    [SONDE__LLAMA_BUFFER_FREE] = { 0 },
};

const struct sonde_uprobe_rule *sonde_uprobe_rule(uint32_t fn)
{
    /* PERF is asked by somebody in the process, and those behind it only make sense together: to
     * stop for each token of a prompt would cost more than to compute it. */
    return fn < SONDE__LLAMA_PERF ? &rules[fn] : NULL;
}

/* ---- Threads --------------------------------------------------------------------------------- */

struct open_call {
    struct sonde_uprobe_hit hit; /* owns its memory */
    int untold;                  /* it is followed, but tells nothing */
};

struct sonde_uprobe_thread {
    struct sonde_uprobe_thread *next;
    uint32_t tid, depth;
    uint32_t texts;              /* calls about a token's text that may be told … */
    uint64_t texts_ns;           /* … and since when */
    uint64_t last_ns;
    struct open_call open[SONDE_UPROBE_DEPTH_MAX];
};

int sonde_uprobe_pairs_init(struct sonde_uprobe_pairs *p,
                            void (*call)(void *arg, const struct sonde_llama_call *c), void *arg)
{
    assert(call);
    *p = (struct sonde_uprobe_pairs){ .call = call, .arg = arg };
    p->threads = sonde__calloc(BUCKETS, sizeof(*p->threads));
    return p->threads ? 0 : SONDE_ENOMEM;
}

static void uprobe_pair_pop(struct sonde_uprobe_thread *t)
{
    assert(t->depth > 0);
    sonde__free(t->open[--t->depth].hit.memory);
}

static void uprobe_pair_forget(struct sonde_uprobe_pairs *p, struct sonde_uprobe_thread **at)
{
    assert(p->thread_count);
    struct sonde_uprobe_thread *t = *at;
    *at = t->next;
    p->thread_count--;
    while (t->depth) uprobe_pair_pop(t);
    sonde__free(t);
}

void sonde_uprobe_pairs_release(struct sonde_uprobe_pairs *p)
{
    for (uint32_t i = 0; p->threads && i < BUCKETS; i++) {
        while (p->threads[i]) uprobe_pair_forget(p, &p->threads[i]);
    }
    sonde__free(p->threads);
    p->threads = NULL;
}

static void forget_oldest(struct sonde_uprobe_pairs *p)
{
    struct sonde_uprobe_thread **oldest = NULL;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (struct sonde_uprobe_thread **at = &p->threads[i]; *at; at = &(*at)->next) {
            if (!oldest || (*at)->last_ns < (*oldest)->last_ns) oldest = at;
        }
    }
    p->unpaired += (*oldest)->depth;
    uprobe_pair_forget(p, oldest);
}

static struct sonde_uprobe_thread *uprobe_pair_thread_of(struct sonde_uprobe_pairs *p, uint32_t tid,
                                                         int add)
{
    struct sonde_uprobe_thread **list = &p->threads[tid % BUCKETS], *t = *list;
    while (t && t->tid != tid) t = t->next;
    if (t || !add) return t;
    if (p->thread_count >= SONDE_UPROBE_THREADS_MAX) forget_oldest(p);
    t = sonde__calloc(1, sizeof(*t));
    if (!t) return NULL;
    t->tid = tid;
    t->texts = TEXTS;
    t->next = *list;
    *list = t;
    p->thread_count++;
    return t;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static int64_t uprobe_pair_value_of(uint8_t kind, uint64_t word)
{
    switch (kind) {
    case SONDE_UPROBE_I32: return (int32_t)(uint32_t)word;
    case SONDE_UPROBE_U64: return (int64_t)word;
    case SONDE_UPROBE_BOOL: return (word & 0xff) != 0;
    default: return 0;
    }
}

/* What was read at the return is the caller's by then, and may be gone; but it is only taken when
 * it is of this call. */
static uint64_t read_value(const struct sonde_uprobe_hit *entry, const struct sonde_uprobe_hit *end)
{
    switch (entry->fn) {
    case SONDE__LLAMA_DECODE:
    case SONDE__LLAMA_ENCODE: return (uint64_t)(int64_t)entry->batch_tokens;
    case SONDE__LLAMA_TOKENIZE:
        return end->memory && end->memory->from == entry->arg[3] ? end->memory->value
                                                                 : SONDE__LLAMA_TAIL_NONE;
    case SONDE__LLAMA_ALLOC_CTX: return end->memory ? end->memory->value : 0;
    default: return entry->memory ? entry->memory->value : 0;
    }
}

/* end: of the return, or the entry itself. */
static void uprobe_pair_tell(struct sonde_uprobe_pairs *p, const struct sonde_uprobe_hit *entry,
                             const struct sonde_uprobe_hit *end)
{
    const struct sonde_uprobe_rule *rule = &rules[entry->fn];
    const struct sonde_uprobe_memory *m = entry->memory;
    struct sonde_llama_call c = {
        .fn = entry->fn,
        .tid = entry->tid,
        .begin_ns = entry->time_ns + p->unix_ns,
        .stamp = entry->time_ns,
        .end_ns = (end->time_ns > entry->time_ns ? end->time_ns : entry->time_ns) + p->unix_ns,
        .object = entry->fn == SONDE__LLAMA_MODEL_LOAD ? 0 : entry->arg[0],
        .result = end->is_return ? uprobe_pair_value_of(rule->result, end->arg[0]) : 0,
        .text = m ? m->text : "",
    };
    for (size_t i = 0; i < 3; i++) {
        const uint8_t kind = rule->arg[i].kind;
        c.arg[i] = kind == SONDE_UPROBE_MEMORY
                       ? read_value(entry, end)
                       : (uint64_t)uprobe_pair_value_of(kind, entry->arg[rule->arg[i].reg]);
    }
    if (entry->fn == SONDE__LLAMA_DECODE || entry->fn == SONDE__LLAMA_ENCODE) {
        /* Read after the return it would be the next batch's, or none's. And -1: llama.cpp found
         * that something is wrong with it. */
        if (m && m->read_ns < end->time_ns && c.result != -1) {
            c.part_count = m->part_count;
            c.parts_dropped = m->parts_dropped;
            c.parts = m->parts;
        } else if (c.result != -1) {
            p->late++;
        }
    }
    /* Nothing that is kept, or nothing is known of it. */
    if ((c.fn == SONDE__LLAMA_SET_USAGE || c.fn == SONDE__LLAMA_ALLOC_CTX) && !c.arg[1]) return;
    p->calls++;
    p->call(p->arg, &c);
}

/* Calls that cannot be open any more when sp is where it is. One at the very same place may be:
 * a function that ended with a jump to another one, whose return address is not its caller's then,
 * but the kernel's. */
static void uprobe_pair_give_up(struct sonde_uprobe_pairs *p, struct sonde_uprobe_thread *t,
                                const struct sonde_uprobe_hit *h)
{
    while (t->depth) {
        const struct sonde_uprobe_hit *top = &t->open[t->depth - 1].hit;
        if (top->sp > h->sp || (top->sp == h->sp && top->back != h->back)) break;
        p->unpaired++;
        uprobe_pair_pop(t);
    }
}

static int is_sampling(const struct sonde_uprobe_thread *t)
{
    for (uint32_t i = 0; i < t->depth; i++) {
        const uint16_t fn = t->open[i].hit.fn;
        if (fn == SONDE__LLAMA_APPLY || fn == SONDE__LLAMA_SAMPLE) return 1;
    }
    return 0;
}

/* Samplers are made of samplers, of which the outermost is enough. And programs ask of every token
 * there is whether it ends generation, or for its text, when they start: of these only so many are
 * told as sampling can need. */
static int is_untold(struct sonde_uprobe_thread *t, const struct sonde_uprobe_hit *h)
{
    switch (h->fn) {
    case SONDE__LLAMA_LOGITS_ITH:
    case SONDE__LLAMA_SAMPLE:
        t->texts = t->texts < TEXTS ? t->texts + TEXTS_A_TOKEN : TEXTS;
        return 0;
    case SONDE__LLAMA_APPLY: return is_sampling(t);
    case SONDE__LLAMA_PIECE:
    case SONDE__LLAMA_DETOKENIZE:
    case SONDE__LLAMA_IS_EOG:
        if (h->time_ns - t->texts_ns > TEXTS_NS) {
            t->texts = TEXTS;
            t->texts_ns = h->time_ns;
        }
        if (!t->texts || is_sampling(t)) return 1;
        t->texts--;
        return 0;
    default: return 0;
    }
}

/* 1: h's memory is the open call's now. */
static int take_entry(struct sonde_uprobe_pairs *p, struct sonde_uprobe_thread *t,
                      const struct sonde_uprobe_hit *h)
{
    if (t) uprobe_pair_give_up(p, t, h);
    if (!rules[h->fn].returns) {
        uprobe_pair_tell(p, h, h);
        return 0;
    }
    if (!t || t->depth == SONDE_UPROBE_DEPTH_MAX) {
        p->unpaired++;
        return 0;
    }
    if (p->pass && (h->fn == SONDE__LLAMA_DECODE || h->fn == SONDE__LLAMA_ENCODE)) {
        p->pass(p->arg, h->tid, h->arg[0], h->time_ns + p->unix_ns);
    }
    const int untold = is_untold(t, h);
    t->open[t->depth++] = (struct open_call){ *h, untold };
    return 1;
}

static void take_return(struct sonde_uprobe_pairs *p, struct sonde_uprobe_thread *t,
                        const struct sonde_uprobe_hit *h)
{
    uint32_t i = t ? t->depth : 0;
    while (i && (t->open[i - 1].hit.fn != h->fn ||
                 t->open[i - 1].hit.sp + SONDE__ARCH_CALL_BYTES != h->sp)) i--;
    if (!i) {
        p->unpaired++;
        return;
    }
    for (; t->depth > i; p->unpaired++) uprobe_pair_pop(t);
    if (!t->open[i - 1].untold) uprobe_pair_tell(p, &t->open[i - 1].hit, h);
    uprobe_pair_pop(t);
}

void sonde_uprobe_pairs_take(struct sonde_uprobe_pairs *p, const struct sonde_uprobe_hit *h)
{
    int kept = 0;
    if (sonde_uprobe_rule(h->fn)) {
        struct sonde_uprobe_thread *t =
            uprobe_pair_thread_of(p, h->tid, rules[h->fn].returns && !h->is_return);
        if (t) t->last_ns = h->time_ns;
        if (h->is_return) {
            take_return(p, t, h);
        } else {
            kept = take_entry(p, t, h);
        }
    }
    if (!kept) sonde__free(h->memory);
}
