/* calls.c - what is kept of each call, and which calls are not worth keeping.
 *
 * A call is one record, written when it returns; the parts of a batch and a text go before it, and
 * a forward pass has another one when it begins. Some
 * functions are called far more often than they tell anything: samplers that are made of samplers
 * call llama_sampler_apply for each, of which the outermost is enough; programs ask of every token
 * there is whether it ends generation, or for its text, when they start: of these only so many are
 * kept as sampling can need.
 *
 * Calls under way are remembered by thread to know what is inside what. One that was left by an
 * exception or longjmp is found out by its place: what is called later and lies higher on the stack
 * cannot be inside it. */
#include <errno.h>
#include <string.h>

#include "preload/llama/llama.h"
#include "preload/walk/walk.h"
#include "sonde/prefix.h"
#include "record/state.h"

#define OPEN_MAX 8u
#define TEXTS 64u                    /* calls about a token's text … */
#define TEXTS_EVERY_NS 10000000ull   /* … in so long */
#define TEXTS_A_TOKEN 4u             /* … and more when one was sampled */
#define ASK_EVERY_NS 500000000ull
#define TEXT_BYTES 40u

#define KNOWN_MAX 16u                /* models, and contexts, that are told of again */
#define KNOWN_NAME 80u
#define KNOWN_EVERY (SONDE__RING_RECS / 2) /* … once in so many records of a ring */

/* What was told when there was nobody to read it yet, or is written over by now. Written when
 * models and contexts are made and freed; whoever finds somebody else writing goes without. */
static struct {
    uint32_t writing;
    struct { uint64_t object; char name[KNOWN_NAME + 1]; } model[KNOWN_MAX];
    struct {
        uint64_t object, model, memory;
        const void *ring;    /* where it was last told, … */
        uint64_t at;         /* … as which record */
    } context[KNOWN_MAX];
} known;

static struct {
    uint32_t on;             /* calls are recorded */
    uint64_t asked_ticks;    /* when llama.cpp's own figures were last asked for */
    uint64_t memory[16];     /* contexts whose memory was told, by hash */
} llama;

static __thread struct {
    struct { uintptr_t frame; uint32_t fn; } open[OPEN_MAX];
    uint32_t depth;
    uint32_t inside;         /* we call the library ourselves */
    uint32_t texts;          /* calls about texts that may be kept */
    uint64_t texts_ticks;    /* when they were counted anew */
} tls __attribute__((tls_model("initial-exec")));

/* ---- Records --------------------------------------------------------------------------------- */

static int llama_hook_ready(void)
{
    const uint32_t state = SONDE__GATE();
    if (state == SONDE__GATE_OFF) return 0;
    return state == SONDE__GATE_ON && sonde__tls.ring ? 1 : sonde__span_begin_slow();
}

static uint64_t llama_hook_key_of(uint32_t fn, uint64_t begin, uint64_t object)
{
    return sonde__phase_id(begin, object, sonde__tls.tid, fn);
}

static void llama_hook_put_call(uint32_t fn, uint64_t begin, uint64_t end, uint64_t object,
                                uint64_t result, uint64_t a, uint64_t b, uint32_t parts)
{
    const struct sonde__span_rec r = {
        0, begin, end, object, result, a, b,
        (uint64_t)sonde__tls.tid << 32 | (uint64_t)fn << 24 | parts
    };
    sonde__ring_put(&r, SONDE__REC_LLAMA_CALL);
}

static void llama_hook_put_text(uint64_t key, const char *text)
{
    const size_t len = strnlen(text, 2 * TEXT_BYTES);
    for (size_t at = 0; at < len; at += TEXT_BYTES) {
        const size_t n = len - at < TEXT_BYTES ? len - at : TEXT_BYTES;
        struct sonde__span_rec r = { .start = key, .end = (uint64_t)at << 32 | n };
        memcpy(&r.trace_hi, text + at, n);
        sonde__ring_put(&r, SONDE__REC_LLAMA_TEXT);
    }
}

static int is_forward(uint32_t fn)
{
    return fn == SONDE__LLAMA_DECODE || fn == SONDE__LLAMA_ENCODE || fn == SONDE__LLAMA_PROCESS;
}

/* As what it is told. */
static uint32_t forward_of(const struct sonde__thunk *c)
{
    if (c->fn != SONDE__LLAMA_PROCESS) return c->fn;
    return sonde__thunk_int(c, 1) == 0 ? SONDE__LLAMA_ENCODE : SONDE__LLAMA_DECODE;
}

/* It may take long: the agent would not know why nothing is heard of those in it. Batches that we
 * have followed can be told now. Others are the program's memory, which may be read when the
 * library has found that they make sense. */
static void put_pass(struct sonde__thunk *c)
{
    const uint64_t context = sonde__thunk_arg(c, 0);
    const uint32_t fn = forward_of(c);
    uint32_t dropped = 0, parts = 0;
    if (c->fn == SONDE__LLAMA_PROCESS) {
        parts = sonde__llama_made_parts(sonde__thunk_arg(c, 2),
                                        llama_hook_key_of(fn, c->begin, context), &dropped);
    }
    c->kept[0] = parts;
    c->kept[1] = dropped;
    const struct sonde__span_rec r = { .start = c->begin, .trace_hi = context,
                                       .name_tid = (uint64_t)sonde__tls.tid << 32 |
                                                   (uint64_t)fn << 24 | (dropped ? 0 : parts) };
    sonde__ring_put(&r, SONDE__REC_LLAMA_PASS);
}

/* ---- What is told again ---------------------------------------------------------------------- */

static int known_lock(void) { return !__atomic_exchange_n(&known.writing, 1, __ATOMIC_ACQUIRE); }
static void known_unlock(void) { __atomic_store_n(&known.writing, 0, __ATOMIC_RELEASE); }

static void known_model(uint64_t object, const char *name)
{
    uint32_t at = 0;
    if (!object || !known_lock()) return;
    for (uint32_t i = KNOWN_MAX; i-- > 0;) {
        if (!known.model[i].object) at = i;
    }
    known.model[at].object = object;
    const size_t len = strnlen(name, KNOWN_NAME);
    memcpy(known.model[at].name, name, len);
    known.model[at].name[len] = '\0';
    known_unlock();
}

static void known_context(uint64_t object, uint64_t model)
{
    uint32_t at = 0;
    if (!object || !known_lock()) return;
    for (uint32_t i = KNOWN_MAX; i-- > 0;) {
        if (!known.context[i].object) at = i;
    }
    memset(&known.context[at], 0, sizeof(known.context[at]));
    known.context[at].object = object;
    known.context[at].model = model;
    known_unlock();
}

static void known_memory(uint64_t context, uint64_t memory)
{
    if (!known_lock()) return;
    for (uint32_t i = 0; i < KNOWN_MAX; i++) {
        if (known.context[i].object == context) known.context[i].memory = memory;
    }
    known_unlock();
}

static void known_free(uint64_t object)
{
    if (!object || !known_lock()) return;
    for (uint32_t i = 0; i < KNOWN_MAX; i++) {
        if (known.context[i].object == object) known.context[i].object = 0;
        if (known.model[i].object == object) known.model[i].object = 0;
    }
    known_unlock();
}

static void llama_hook_put_known(uint32_t at)
{
    const uint64_t now = sonde_ticks(), context = known.context[at].object;
    struct sonde__span_rec r = { .start = now, .trace_hi = context,
                                 .trace_lo = known.context[at].model,
                                 .id = known.context[at].memory,
                                 .name_tid = (uint64_t)sonde__tls.tid << 32 };
    for (uint32_t i = 0; i < KNOWN_MAX; i++) {
        if (known.model[i].object != known.context[at].model) continue;
        llama_hook_put_text(llama_hook_key_of(0, now, context), known.model[i].name);
        break;
    }
    sonde__ring_put(&r, SONDE__REC_LLAMA_KNOWN);
}

/* A reader that comes now finds it in the ring that it reads batches of this context in. */
static void known_again(uint64_t context)
{
    const struct sonde__ring *ring = sonde__tls.ring;
    if (!ring || !known_lock()) return;
    const uint64_t reserve = __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < KNOWN_MAX; i++) {
        if (known.context[i].object != context) continue;
        if (known.context[i].ring == ring && reserve - known.context[i].at < KNOWN_EVERY) break;
        known.context[i].ring = ring;
        known.context[i].at = reserve;
        llama_hook_put_known(i);
        break;
    }
    known_unlock();
}

/* ---- Asking the library ---------------------------------------------------------------------- */

static uint64_t buffer_bytes(const struct sonde__thunk *c, uint64_t buffer)
{
    size_t (*size)(uint64_t) =
        (size_t(*)(uint64_t))sonde__llama_use(SONDE__LLAMA_USE_BUFFER_SIZE, c->fn, c->caller);
    if (!size || !buffer) return 0;
    tls.inside++;
    const size_t n = size(buffer);
    tls.inside--;
    return n;
}

static const char *first_tensor(const struct sonde__thunk *c)
{
    void *(*first)(uint64_t) =
        (void *(*)(uint64_t))sonde__llama_use(SONDE__LLAMA_USE_FIRST_TENSOR, c->fn, c->caller);
    const char *(*name)(void *) =
        (const char *(*)(void *))sonde__llama_use(SONDE__LLAMA_USE_TENSOR_NAME, c->fn, c->caller);
    if (!first || !name) return "";
    tls.inside++;
    void *tensor = first(sonde__thunk_arg(c, 0));
    const char *text = tensor ? name(tensor) : NULL;
    tls.inside--;
    return text ? text : "";
}

/* As llama.h has it, and room for what may be appended. */
struct perf {
    double start_ms, load_ms, prompt_ms, eval_ms;
    int32_t prompt_tokens, eval_tokens;
    char more[208];
};

static uint64_t ms_ns(double ms) { return ms > 0 && ms < 1e12 ? (uint64_t)(ms * 1e6 + 0.5) : 0; }

static void put_perf(const struct sonde__thunk *c, uint64_t context)
{
    struct perf (*perf)(uint64_t) =
        (struct perf(*)(uint64_t))sonde__llama_use(SONDE__LLAMA_USE_PERF, c->fn, c->caller);
    if (!perf || !context || !llama_hook_ready()) return;
    tls.inside++;
    const struct perf p = perf(context);
    tls.inside--;
    const uint64_t now = sonde_ticks();
    const uint32_t prompt = p.prompt_tokens > 0 ? (uint32_t)p.prompt_tokens : 0;
    const uint32_t eval = p.eval_tokens > 0 ? (uint32_t)p.eval_tokens : 0;
    llama_hook_put_call(SONDE__LLAMA_PERF, now, now, context, (uint64_t)prompt << 32 | eval,
                        ms_ns(p.prompt_ms), ms_ns(p.eval_ms), 0);
}

/* ---- Before ---------------------------------------------------------------------------------- */

static int inside_sampling(const struct sonde__thunk *c)
{
    while (tls.depth && tls.open[tls.depth - 1].frame <= (uintptr_t)c) tls.depth--;
    for (uint32_t i = 0; i < tls.depth; i++) {
        if (tls.open[i].fn == SONDE__LLAMA_APPLY || tls.open[i].fn == SONDE__LLAMA_SAMPLE) return 1;
    }
    return 0;
}

static int text_wanted(uint64_t now)
{
    if (sonde_ticks_ns(now - tls.texts_ticks) > TEXTS_EVERY_NS) {
        tls.texts = TEXTS;
        tls.texts_ticks = now;
    }
    if (!tls.texts) return 0;
    tls.texts--;
    return 1;
}

/* Told once for each pair of a context and its memory, more or less. */
static int memory_known(uint64_t context, uint64_t memory)
{
    uint64_t *slot = &llama.memory[(context >> 4 ^ context >> 12) % 16];
    const uint64_t pair = context ^ (memory << 1 | memory >> 63);
    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == pair) return 1;
    __atomic_store_n(slot, pair, __ATOMIC_RELAXED);
    return 0;
}

static int llama_hook_wanted(struct sonde__thunk *c)
{
    const int sampling = inside_sampling(c); /* also forgets what was left without a return */
    switch (c->fn) {
    case SONDE__LLAMA_APPLY: return !sampling;
    case SONDE__LLAMA_PIECE:
    case SONDE__LLAMA_DETOKENIZE:
    case SONDE__LLAMA_IS_EOG: return !sampling && text_wanted(sonde_ticks());
    case SONDE__LLAMA_BUFFER_FREE:
        c->kept[0] = buffer_bytes(c, sonde__thunk_arg(c, 0));
        return c->kept[0] != 0;
    case SONDE__LLAMA_CONTEXT_FREE: put_perf(c, sonde__thunk_arg(c, 0)); return 1;
    case SONDE__LLAMA_PROCESS:
    case SONDE__LLAMA_DECODE: {
        const uint64_t now = sonde_ticks(), before = llama.asked_ticks;
        if (sonde_ticks_ns(now - before) > ASK_EVERY_NS) {
            __atomic_store_n(&llama.asked_ticks, now, __ATOMIC_RELAXED);
            put_perf(c, sonde__thunk_arg(c, 0));
        }
        return 1;
    }
    default: return 1;
    }
}

/* The caller's frame may end with its stack, a page further up. Where it cannot be read there are
 * no arguments. */
static uint64_t stack_bytes(uint64_t stack)
{
    const uint64_t next_page = (stack | (SONDE__PAGE - 1)) + 1;
    if (stack + SONDE__THUNK_STACK <= next_page || sonde__readable(next_page)) {
        return SONDE__THUNK_STACK;
    }
    return (next_page - stack) & ~7ull;
}

void *sonde__thunk_enter(struct sonde__thunk *c)
{
    const int error = errno;
    void *real = sonde__llama_real(c->fn, c->caller);
    if (SONDE__LIKELY(__atomic_load_n(&llama.on, __ATOMIC_RELAXED)) && !tls.inside &&
        llama_hook_ready() && llama_hook_wanted(c)) {
        c->stack_bytes = stack_bytes(c->stack);
        if (tls.depth < OPEN_MAX) {
            tls.open[tls.depth].frame = (uintptr_t)c;
            tls.open[tls.depth++].fn = c->fn;
        }
        c->watch = 1;
        if (is_forward(c->fn)) known_again(sonde__thunk_arg(c, 0));
        c->begin = sonde_ticks();
        if (is_forward(c->fn)) put_pass(c);
    }
    errno = error;
    return real;
}

/* ---- After ----------------------------------------------------------------------------------- */

static const char *llama_hook_base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

static uint64_t llama_hook_tail_of(const struct sonde__thunk *c)
{
    const int32_t *tokens = (const int32_t *)(uintptr_t)sonde__thunk_arg(c, 3);
    const int32_t n = (int32_t)c->result[0];
    if (!tokens || n <= 0 || n > sonde__thunk_int(c, 4)) return SONDE__LLAMA_TAIL_NONE;
    return SONDE__LLAMA_TAIL(n > 1 ? tokens[n - 2] : -1, tokens[n - 1]);
}

static uint64_t llama_hook_prefix_of(const struct sonde__thunk *c)
{
    const int32_t *tokens = (const int32_t *)(uintptr_t)sonde__thunk_arg(c, 3);
    const int32_t n = (int32_t)c->result[0];
    if (!tokens || n <= 0 || n > sonde__thunk_int(c, 4)) return 0;
    return sonde_prefix_signature(tokens, (size_t)n);
}

static void put_forward(const struct sonde__thunk *c, uint64_t end)
{
    const void *batch = sonde__thunk_struct(c);
    const uint64_t context = sonde__thunk_arg(c, 0);
    uint32_t dropped = 0, parts = 0;
    /* -1: llama.cpp found that there is something wrong with it. */
    if ((int32_t)c->result[0] != -1) {
        parts = sonde__llama_parts(batch, llama_hook_key_of(c->fn, c->begin, context), &dropped);
    }
    llama_hook_put_call(c->fn, c->begin, end, context, c->result[0],
                        (uint64_t)(int64_t)sonde__llama_batch_tokens(batch), dropped, parts);
}

/* Its parts were told when it began. Batches that nobody knows keep their tokens for themselves. */
static void llama_hook_put_process(const struct sonde__thunk *c, uint64_t end)
{
    const uint64_t context = sonde__thunk_arg(c, 0), batch = sonde__thunk_arg(c, 2);
    const int32_t tokens = sonde__llama_made_tokens(batch);
    const int wrong = (int32_t)c->result[0] == -1;
    llama_hook_put_call(forward_of(c), c->begin, end, context, c->result[0],
                        tokens > 0 ? (uint64_t)tokens : 0, wrong ? 0 : c->kept[1],
                        wrong ? 0 : (uint32_t)c->kept[0]);
}

static void put_load(const struct sonde__thunk *c, uint64_t end)
{
    const char *path = (const char *)(uintptr_t)sonde__thunk_arg(c, 0);
    llama_hook_put_text(llama_hook_key_of(c->fn, c->begin, 0), llama_hook_base_name(path));
    known_model(c->result[0], llama_hook_base_name(path));
    llama_hook_put_call(c->fn, c->begin, end, 0, c->result[0], 0, 0, 0);
}

static void put_buffer(const struct sonde__thunk *c, uint64_t end)
{
    const uint64_t context = sonde__thunk_arg(c, 0), buffer = c->result[0];
    const uint64_t bytes = buffer_bytes(c, buffer);
    if (!bytes) return;
    llama_hook_put_text(llama_hook_key_of(c->fn, c->begin, context), first_tensor(c));
    llama_hook_put_call(c->fn, c->begin, end, context, buffer, 0, bytes, 0);
}

static uint64_t llama_hook_pair(int32_t a, int32_t b)
{
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

static void put_return(const struct sonde__thunk *c, uint64_t end)
{
    const uint64_t object = sonde__thunk_arg(c, 0);
    uint64_t a = 0, b = 0;
    switch (c->fn) {
    case SONDE__LLAMA_DECODE:
    case SONDE__LLAMA_ENCODE: put_forward(c, end); return;
    case SONDE__LLAMA_PROCESS: llama_hook_put_process(c, end); return;
    case SONDE__LLAMA_BATCH_FREE:
    case SONDE__LLAMA_BATCH_CLEAR:
    case SONDE__LLAMA_BATCH_ADD:
    case SONDE__LLAMA_BATCH_TOKEN:
    case SONDE__LLAMA_BATCH_EMBD:
    case SONDE__LLAMA_BATCH_SEQ:
    case SONDE__LLAMA_BATCH_POS:
    case SONDE__LLAMA_BATCH_LOGITS:
    case SONDE__LLAMA_BATCH_OUTPUT: sonde__llama_made_call(c); return;
    case SONDE__LLAMA_MODEL_LOAD: put_load(c, end); return;
    case SONDE__LLAMA_ALLOC_CTX: put_buffer(c, end); return;
    case SONDE__LLAMA_GET_MEMORY:
        if (memory_known(object, c->result[0])) return;
        known_memory(object, c->result[0]);
        break;
    case SONDE__LLAMA_CONTEXT_NEW: known_context(c->result[0], object); break;
    case SONDE__LLAMA_CONTEXT_FREE:
    case SONDE__LLAMA_MODEL_FREE: known_free(object); break;
    case SONDE__LLAMA_TOKENIZE:
        a = llama_hook_pair(sonde__thunk_int(c, 2), sonde__thunk_int(c, 4));
        /* Instead of the object: whose vocabulary it was matters to nobody. */
        llama_hook_put_call(c->fn, c->begin, end, llama_hook_prefix_of(c), c->result[0], a,
                            llama_hook_tail_of(c), 0);
        return;
    case SONDE__LLAMA_DETOKENIZE: a = (uint64_t)(int64_t)sonde__thunk_int(c, 2); break;
    case SONDE__LLAMA_SAMPLE:
        a = sonde__thunk_arg(c, 1);
        b = (uint64_t)(int64_t)sonde__thunk_int(c, 2);
        break;
    case SONDE__LLAMA_SEQ_RM:
        a = (uint64_t)(int64_t)sonde__thunk_int(c, 1);
        b = llama_hook_pair(sonde__thunk_int(c, 2), sonde__thunk_int(c, 3));
        break;
    case SONDE__LLAMA_STATE_SET:
        a = sonde__thunk_arg(c, 2);
        b = (uint64_t)(int64_t)sonde__thunk_int(c, 3);
        break;
    case SONDE__LLAMA_SET_USAGE:
        a = (uint32_t)sonde__thunk_arg(c, 1);
        b = buffer_bytes(c, object);
        if (!b) return;
        break;
    case SONDE__LLAMA_WARMUP: a = sonde__thunk_arg(c, 1) & 0xff; break;
    default: a = (uint64_t)(int64_t)sonde__thunk_int(c, 1); break;
    }
    llama_hook_put_call(c->fn, c->begin, end, object, c->result[0], a, b, 0);
}

void sonde__thunk_leave(struct sonde__thunk *c)
{
    const uint64_t end = sonde_ticks();
    const int error = errno;
    for (uint32_t i = tls.depth; i-- > 0;) {
        if (tls.open[i].frame != (uintptr_t)c) continue;
        tls.depth = i;
        break;
    }
    if (c->fn == SONDE__LLAMA_LOGITS_ITH || c->fn == SONDE__LLAMA_SAMPLE) {
        tls.texts = tls.texts < TEXTS ? tls.texts + TEXTS_A_TOKEN : TEXTS;
    }
    if (llama_hook_ready()) put_return(c, end);
    errno = error;
}

void sonde__llama_start(void) { __atomic_store_n(&llama.on, 1, __ATOMIC_RELAXED); }

void sonde__llama_stop(void) { __atomic_store_n(&llama.on, 0, __ATOMIC_RELAXED); }
