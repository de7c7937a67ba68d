/* Calls of llama.cpp as servers make them, and what the tracker makes of them: which requests, when
 * they arrived, what of their prompts was reused, whose tokens came out when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "collect/llama.h"

enum { PID = 7, HTTP = 100, LOOP = 101 };
enum { MODEL = 0x1000, CTX = 0x2000, MEM = 0x3000, VOCAB = 0x4000, SMPL = 0x5000, BUF = 0x6000 };
#define BASE 1000000000000ull
#define MS 1000000ull
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- What was told --------------------------------------------------------------------------- */

enum { SEEN_MAX = 4096 };
struct seen { struct sonde_infer_event e; char model[160]; };
static struct seen seen[SEEN_MAX];
static struct { char name[16]; struct sonde_model_span s; } spans[SEEN_MAX];
static size_t seen_count, span_count;

static void on_event(void *arg, const struct sonde_infer_event *e)
{
    (void)arg;
    assert_true(e->begin_ns && e->begin_ns <= e->time_ns);
    assert_true(e->type < SONDE_INFER_EVENT_TYPES && e->source == SONDE_INFER_HOOK);
    assert_true(sonde__utf8_valid(e->model, strlen(e->model)));
    assert_int_equal(e->pid, PID);
    struct seen *s = &seen[seen_count++ % SEEN_MAX];
    s->e = *e;
    snprintf(s->model, sizeof(s->model), "%s", e->model);
}

static void on_span(void *arg, const struct sonde_model_span *span)
{
    (void)arg;
    assert_true(span->id && span->name[0] && span->outcome <= SONDE_TIMEOUT);
    snprintf(spans[span_count % SEEN_MAX].name, 16, "%s", span->name);
    spans[span_count++ % SEEN_MAX].s = *span;
}

static const struct sonde_llama_ops ops = { on_event, on_span };

static size_t count(uint16_t type)
{
    size_t n = 0;
    for (size_t i = 0; i < seen_count; i++) n += seen[i].e.type == type;
    return n;
}

static const struct sonde_infer_event *nth(uint16_t type, size_t n)
{
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type == type && n-- == 0) return &seen[i].e;
    }
    fail_msg("there is no event %zu of type %u", n, type);
    return NULL;
}

static uint64_t tokens_of(uint64_t id)
{
    uint64_t n = 0;
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type == SONDE_INFER_TOKENS && seen[i].e.id == id) n += seen[i].e.tokens;
    }
    return n;
}

static size_t spans_named(const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < span_count; i++) n += !strcmp(spans[i].name, name);
    return n;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static struct sonde_llama *x;
static uint64_t now; /* ms */
static size_t tracked_count;

static int setup(void **state)
{
    (void)state;
    seen_count = span_count = tracked_count = 0;
    now = 0;
    x = sonde_llama_create(PID, SONDE_INFER_HOOK, &ops, NULL);
    return x ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sonde_llama_destroy(x);
    x = NULL;
    return sonde__alloc_live() == 0 ? 0 : -1;
}

/* All that was tracked, to be tracked again. */
enum { TRACKED_MAX = 1024 };
static struct { struct sonde_llama_call c; struct sonde_llama_part parts[4]; } tracked[TRACKED_MAX];

static void track(const struct sonde_llama_call *c)
{
    if (tracked_count < TRACKED_MAX && c->part_count <= 4 && (c->parts || !c->part_count)) {
        tracked[tracked_count].c = *c;
        for (uint32_t i = 0; i < c->part_count; i++) tracked[tracked_count].parts[i] = c->parts[i];
        tracked_count++;
    }
    sonde_llama_track(x, c);
}

static void track_again(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        tracked[i].c.parts = tracked[i].parts;
        sonde_llama_track(x, &tracked[i].c);
    }
}

static struct sonde_llama_call call(uint16_t fn, uint32_t tid, uint64_t ms, uint64_t object)
{
    struct sonde_llama_call c = { .fn = fn, .tid = tid, .begin_ns = BASE + now * MS,
                                  .end_ns = BASE + (now + ms) * MS, .object = object, .text = "" };
    c.stamp = c.begin_ns;
    c.end_stamp = c.end_ns;
    now += ms;
    return c;
}

static void simple(uint16_t fn, uint32_t tid, uint64_t ms, uint64_t object, uint64_t a, uint64_t b,
                   uint64_t d, int64_t result)
{
    struct sonde_llama_call c = call(fn, tid, ms, object);
    c.arg[0] = a;
    c.arg[1] = b;
    c.arg[2] = d;
    c.result = result;
    track(&c);
}

static void tokenize(uint32_t tid, int32_t n, int32_t last)
{
    simple(SONDE__LLAMA_TOKENIZE, tid, 2, VOCAB, 50, 4096, SONDE__LLAMA_TAIL(5, last), n);
}

static void decode(const struct sonde_llama_part *parts, uint32_t n, uint64_t ms)
{
    struct sonde_llama_call c = call(SONDE__LLAMA_DECODE, LOOP, ms, CTX);
    for (uint32_t i = 0; i < n; i++) {
        if (!(parts[i].flags & SONDE_LLAMA_SHARED)) c.arg[0] += parts[i].tokens;
    }
    c.parts = parts;
    c.part_count = n;
    track(&c);
}

static struct sonde_llama_part part(int32_t seq, int32_t pos, uint32_t row, uint32_t tokens,
                                    uint32_t outputs, int32_t last)
{
    return (struct sonde_llama_part){ .seq = seq, .pos = pos, .row = row, .tokens = tokens,
                                      .outputs = outputs,
                                      .tail = SONDE__LLAMA_TAIL(tokens > 1 ? 5 : -1, last) };
}

static void decode_one(int32_t seq, int32_t pos, uint32_t tokens, uint32_t outputs, int32_t last,
                       uint64_t ms)
{
    const struct sonde_llama_part p = part(seq, pos, 0, tokens, outputs, last);
    decode(&p, 1, ms);
}

static void seq_rm(int32_t seq, int32_t p0, int32_t p1)
{
    simple(SONDE__LLAMA_SEQ_RM, LOOP, 1, MEM, (uint64_t)(int64_t)seq, (uint64_t)(int64_t)p0,
           (uint64_t)(int64_t)p1, 0xf00ff01); /* a bool: the register has more */
}

/* As llama-server samples: two chains, then is it the end, then its text. */
static void sample_like_server(int32_t row, int32_t token, int end)
{
    simple(SONDE__LLAMA_LOGITS_ITH, LOOP, 0, CTX, (uint64_t)(int64_t)row, 0, 0, 1);
    simple(SONDE__LLAMA_APPLY, LOOP, 1, SMPL, 0, 0, 0, 0);
    simple(SONDE__LLAMA_APPLY, LOOP, 1, SMPL, 0, 0, 0, 0);
    simple(SONDE__LLAMA_PIECE, LOOP, 1, VOCAB, (uint64_t)token, 0, 0, 3);
    simple(SONDE__LLAMA_IS_EOG, LOOP, 1, VOCAB, (uint64_t)token, 0, 0, end);
}

static void start(void)
{
    struct sonde_llama_call c = call(SONDE__LLAMA_SET_USAGE, LOOP, 1, BUF);
    const uint64_t load_begin = c.begin_ns;
    now++;
    c.arg[0] = 1;
    c.arg[1] = 1000;
    track(&c);
    c = call(SONDE__LLAMA_MODEL_LOAD, LOOP, 50, 0);
    c.begin_ns = load_begin;
    c.result = MODEL;
    c.text = "/models/tiny-llama.Q4.gguf";
    track(&c);

    struct sonde_llama_call kv = call(SONDE__LLAMA_ALLOC_CTX, LOOP, 1, 0x77);
    kv.result = BUF + 1;
    kv.arg[1] = 300;
    kv.text = "cache_k_l0";
    track(&kv);
    c = call(SONDE__LLAMA_CONTEXT_NEW, LOOP, 20, MODEL);
    c.begin_ns = kv.begin_ns;
    c.result = CTX;
    track(&c);
    simple(SONDE__LLAMA_GET_MEMORY, LOOP, 0, CTX, 0, 0, 0, MEM);
}

/* Long enough for a token to be out, not for silence. */
static void work(void) { sonde_llama_drained(x, BASE + (now + 300) * MS); }
/* Nothing happens for a while, and the agent looks. */
static void pass_time(uint64_t ms)
{
    now += ms;
    sonde_llama_drained(x, BASE + now * MS);
}

/* ---- One request ------------------------------------------------------------------------------ */

static void test_request(void **state)
{
    (void)state;
    start();
    now += 10;
    const uint64_t arrived = BASE + now * MS;
    tokenize(HTTP, 20, 42);
    now += 30; /* the queue */
    seq_rm(0, 0, -1);
    const uint64_t first = BASE + now * MS;
    decode_one(0, 0, 20, 1, 42, 100);
    sample_like_server(-1, 7, 0);
    decode_one(0, 20, 1, 1, 7, 10);
    sample_like_server(-1, 8, 0);
    decode_one(0, 21, 1, 1, 8, 10);
    sample_like_server(-1, 2, 1);
    const uint64_t end = BASE + now * MS;
    work();

    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    const struct sonde_infer_event *r = nth(SONDE_INFER_REQUEST, 0);
    assert_int_equal(r->begin_ns, arrived);
    assert_true(r->id && (r->trace_hi | r->trace_lo));
    const struct sonde_infer_event *e = nth(SONDE_INFER_PROMPT, 0);
    assert_int_equal(e->tokens, 20);
    assert_int_equal(e->value, 0);
    assert_int_equal(count(SONDE_INFER_TOKENS), 3);
    /* Out when the second chain was applied. */
    assert_int_equal(nth(SONDE_INFER_TOKENS, 0)->time_ns, first + 102 * MS);
    assert_int_equal(count(SONDE_INFER_BATCH), 3);
    e = nth(SONDE_INFER_BATCH, 0);
    assert_int_equal(e->tokens, 20);
    assert_int_equal(e->tokens_out, 0);
    assert_int_equal(e->begin_ns, first);
    assert_int_equal(e->time_ns, first + 100 * MS);
    e = nth(SONDE_INFER_PART, 1);
    assert_int_equal(e->id, r->id);
    assert_int_equal(e->tokens, 0);
    assert_int_equal(e->tokens_out, 1);
    assert_int_equal(e->value, 1);
    e = nth(SONDE_INFER_END, 0);
    assert_int_equal(e->outcome, SONDE_OK);
    assert_int_equal(e->time_ns, end);
    assert_int_equal(count(SONDE_INFER_END), 1);
    assert_int_equal(spans_named("prefill"), 1);
    assert_int_equal(spans_named("decode"), 2);
    assert_int_equal(spans_named("sample"), 6);
    assert_int_equal(spans_named("detokenize"), 3);
    assert_int_equal(spans_named("encode"), 1);
    assert_int_equal(spans_named("request"), 1);

    size_t encode = 0;
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type != SONDE_INFER_PHASE || seen[i].e.kind != SONDE_PHASE_ENCODE) continue;
        encode++;
        assert_int_equal(seen[i].e.id, r->id);
        assert_int_equal(seen[i].e.begin_ns, arrived);
    }
    assert_int_equal(encode, 1);
}

static void test_memory(void **state)
{
    (void)state;
    start();
    work();
    const struct sonde_infer_event *e = nth(SONDE_INFER_LOAD, 0);
    assert_int_equal(e->value, 1000);
    assert_int_equal(e->outcome, SONDE_OK);
    for (size_t i = 0; i < seen_count; i++) assert_string_equal(seen[i].model, "tiny-llama.Q4");
    assert_string_equal(nth(SONDE_INFER_MEMORY, 0)->text, "weights");
    assert_int_equal(nth(SONDE_INFER_MEMORY, 0)->value, 1000);
    assert_string_equal(nth(SONDE_INFER_MEMORY, 1)->text, "kv");
    assert_int_equal(nth(SONDE_INFER_MEMORY, 1)->value, 300);

    /* A scheduler that reserves anew, inside a batch; the old buffer is gone by then. */
    simple(SONDE__LLAMA_SET_USAGE, LOOP, 0, BUF + 2, 2, 70, 0, 0);
    now++;
    decode_one(0, 0, 9, 1, 1, 5);
    work();
    assert_int_equal(count(SONDE_INFER_MEMORY), 2); /* made before the batch: whose is it? */
    struct sonde_llama_call c = call(SONDE__LLAMA_SET_USAGE, LOOP, 1, BUF + 2);
    c.arg[0] = 2;
    c.arg[1] = 90;
    track(&c);
    now--;
    decode_one(0, 9, 9, 1, 1, 5);
    work();
    assert_string_equal(nth(SONDE_INFER_MEMORY, 2)->text, "compute");
    assert_int_equal(nth(SONDE_INFER_MEMORY, 2)->value, 90);
    simple(SONDE__LLAMA_BUFFER_FREE, LOOP, 1, BUF + 2, 0, 0, 0, 0);
    simple(SONDE__LLAMA_CONTEXT_FREE, LOOP, 1, CTX, 0, 0, 0, 0);
    simple(SONDE__LLAMA_MODEL_FREE, LOOP, 1, MODEL, 0, 0, 0, 0);
    work();
    assert_int_equal(count(SONDE_INFER_MEMORY), 6);
    for (size_t i = 3; i < 6; i++) assert_int_equal(nth(SONDE_INFER_MEMORY, i)->value, 0);
    assert_string_equal(nth(SONDE_INFER_MEMORY, 4)->text, "kv");
    assert_string_equal(nth(SONDE_INFER_MEMORY, 5)->text, "weights");
}

/* ---- Warm-up ---------------------------------------------------------------------------------- */

static void test_warmup(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    start();
    /* Not announced: a small batch, and all is cleared. Twice. */
    decode_one(0, 0, 2, 1, 2, 20);
    simple(SONDE__LLAMA_SYNCHRONIZE, LOOP, 1, CTX, 0, 0, 0, 0);
    simple(SONDE__LLAMA_CLEAR, LOOP, 1, MEM, 1, 0, 0, 0);
    simple(SONDE__LLAMA_PERF_RESET, LOOP, 1, CTX, 0, 0, 0, 0);
    decode_one(0, 0, 2, 1, 2, 20);
    seq_rm(0, 1, -1);
    simple(SONDE__LLAMA_CLEAR, LOOP, 1, MEM, 1, 0, 0, 0);
    /* Announced. */
    simple(SONDE__LLAMA_WARMUP, LOOP, 1, CTX, 1, 0, 0, 0);
    decode_one(0, 0, 512, 1, 2, 20);
    simple(SONDE__LLAMA_CLEAR, LOOP, 1, MEM, 1, 0, 0, 0);
    simple(SONDE__LLAMA_WARMUP, LOOP, 1, CTX, 0, 0, 0, 0);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST) + count(SONDE_INFER_BATCH), 0);
    sonde_llama_figures(x, &f);
    assert_int_equal(f.warmups, 3);

    /* A small prompt of somebody is none. */
    tokenize(LOOP, 2, 77);
    decode_one(0, 0, 2, 1, 77, 20);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_BATCH), 1);
}

/* A prompt as small as a warm-up, of which nothing is known before: its logits are asked for. */
static void test_small_prompt(void **state)
{
    (void)state;
    start();
    decode_one(0, 0, 3, 1, 4, 20);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 0);
    sample_like_server(-1, 9, 0);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_TOKENS), 1);
    assert_int_equal(nth(SONDE_INFER_PROMPT, 0)->tokens, 3);
}

/* ---- Sequences -------------------------------------------------------------------------------- */

/* A second turn reuses what the first left; chunks of a prompt are one request, whatever is cut
 * before each. */
static void test_prefix(void **state)
{
    (void)state;
    start();
    tokenize(HTTP, 30, 11);
    seq_rm(1, 0, -1);
    decode_one(1, 0, 16, 0, 10, 50);
    seq_rm(1, 16, -1);
    decode_one(1, 16, 14, 1, 11, 50);
    sample_like_server(13, 3, 1);
    tokenize(HTTP, 40, 12);
    seq_rm(1, 30, -1);
    decode_one(1, 30, 10, 1, 12, 50);
    sample_like_server(9, 3, 0);
    /* All of it but one token was there: it begins with a single token. */
    const uint64_t third = now;
    tokenize(HTTP, 35, 13);
    seq_rm(1, 34, -1);
    decode_one(1, 34, 1, 1, 13, 50);
    sample_like_server(0, 4, 0);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 3);
    assert_int_equal(count(SONDE_INFER_PROMPT), 3);
    static const struct { uint64_t tokens, reused; } want[] = { { 30, 0 }, { 40, 30 }, { 35, 34 } };
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(nth(SONDE_INFER_PROMPT, i)->tokens, want[i].tokens);
        assert_int_equal(nth(SONDE_INFER_PROMPT, i)->value, want[i].reused);
        assert_int_equal(tokens_of(nth(SONDE_INFER_REQUEST, i)->id), 1);
    }
    assert_int_equal(nth(SONDE_INFER_REQUEST, 2)->begin_ns, BASE + third * MS);
    assert_int_equal(count(SONDE_INFER_END), 2);
    sonde_llama_end(x);
    assert_int_equal(count(SONDE_INFER_END), 3);
}

/* Two in one batch, one of them still with its prompt. */
static void test_two(void **state)
{
    (void)state;
    start();
    tokenize(HTTP, 8, 21);
    tokenize(HTTP + 5, 6, 22);
    decode_one(0, 0, 8, 1, 21, 40);
    sample_like_server(7, 3, 0);
    const struct sonde_llama_part mixed[] = { part(0, 8, 0, 1, 1, 3), part(1, 0, 1, 6, 1, 22) };
    decode(mixed, 2, 70);
    sample_like_server(0, 4, 0);
    sample_like_server(6, 5, 0);
    const struct sonde_llama_part both[] = { part(0, 9, 0, 1, 1, 4), part(1, 6, 1, 1, 1, 5) };
    decode(both, 2, 20);
    sample_like_server(0, 6, 1);
    sample_like_server(1, 7, 1);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 2);
    const uint64_t a = nth(SONDE_INFER_REQUEST, 0)->id, b = nth(SONDE_INFER_REQUEST, 1)->id;
    assert_true(a != b);
    assert_int_equal(tokens_of(a), 3);
    assert_int_equal(tokens_of(b), 2);
    const struct sonde_infer_event *e = nth(SONDE_INFER_BATCH, 1);
    assert_int_equal(e->requests, 2);
    assert_int_equal(e->tokens, 6);
    assert_int_equal(e->tokens_out, 1);
    e = nth(SONDE_INFER_PART, 2);
    assert_int_equal(e->id, b);
    assert_int_equal(e->tokens, 6);
    assert_int_equal(e->value, 7);
    assert_int_equal(count(SONDE_INFER_END), 2);
}

/* llama_sampler_sample tells context, row and token; what is applied inside is part of it. */
static void test_sampler_sample(void **state)
{
    (void)state;
    start();
    decode_one(0, 0, 9, 1, 1, 40);
    for (int32_t i = 0; i < 3; i++) {
        struct sonde_llama_call c = call(SONDE__LLAMA_LOGITS_ITH, LOOP, 1, CTX);
        const uint64_t begin = c.begin_ns;
        c.arg[0] = (uint64_t)-1;
        track(&c);
        simple(SONDE__LLAMA_APPLY, LOOP, 2, SMPL, 0, 0, 0, 0);
        c = call(SONDE__LLAMA_SAMPLE, LOOP, 1, SMPL);
        c.begin_ns = begin;
        c.arg[0] = CTX;
        c.arg[1] = (uint64_t)-1;
        c.result = 50 + i;
        track(&c);
        decode_one(0, 9 + i, 1, 1, 50 + i, 10);
    }
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_TOKENS), 3);
    assert_int_equal(spans_named("sample"), 3);
    assert_int_equal(nth(SONDE_INFER_TOKENS, 0)->time_ns, nth(SONDE_INFER_BATCH, 1)->begin_ns);
}

/* Drafts: several tokens that are all to give logits; the rejected are cut off again. */
static void test_drafts(void **state)
{
    (void)state;
    start();
    decode_one(0, 0, 9, 1, 1, 40);
    sample_like_server(-1, 2, 0);
    const struct sonde_llama_part draft = part(0, 9, 0, 4, 4, 6);
    decode(&draft, 1, 10);
    sample_like_server(0, 3, 0);
    sample_like_server(1, 4, 0);
    sample_like_server(2, 5, 0);
    seq_rm(0, 12, -1);
    decode_one(0, 12, 1, 1, 5, 10);
    sample_like_server(0, 7, 0);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_TOKENS), 5);
    assert_int_equal(nth(SONDE_INFER_BATCH, 1)->tokens_out, 4);
}

/* Asked again for the same row: a grammar did not like the token. */
static void test_sampled_twice(void **state)
{
    (void)state;
    start();
    decode_one(0, 0, 9, 1, 1, 40);
    simple(SONDE__LLAMA_LOGITS_ITH, LOOP, 0, CTX, 8, 0, 0, 1);
    simple(SONDE__LLAMA_APPLY, LOOP, 1, SMPL, 0, 0, 0, 0);
    simple(SONDE__LLAMA_LOGITS_ITH, LOOP, 0, CTX, 8, 0, 0, 1);
    simple(SONDE__LLAMA_APPLY, LOOP, 1, SMPL, 0, 0, 0, 0);
    simple(SONDE__LLAMA_PIECE, LOOP, 1, VOCAB, 3, 0, 0, 3);
    simple(SONDE__LLAMA_LOGITS_ITH, LOOP, 0, CTX, 8, 0, 0, 1);
    simple(SONDE__LLAMA_PIECE, LOOP, 1, VOCAB, 3, 0, 0, 3);
    work();
    assert_int_equal(count(SONDE_INFER_TOKENS), 1);
}

/* One prompt for several sequences. */
static void test_shared(void **state)
{
    (void)state;
    start();
    struct sonde_llama_part p[] = { part(0, 0, 0, 9, 1, 1), part(1, 0, 0, 9, 1, 1) };
    p[1].flags = SONDE_LLAMA_SHARED;
    decode(p, 2, 40);
    sample_like_server(8, 2, 0);
    sample_like_server(8, 3, 0);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 2);
    assert_int_equal(nth(SONDE_INFER_BATCH, 0)->tokens, 9);
    assert_int_equal(nth(SONDE_INFER_PROMPT, 1)->value, 9);
    assert_int_equal(tokens_of(nth(SONDE_INFER_REQUEST, 0)->id), 1);
    assert_int_equal(tokens_of(nth(SONDE_INFER_REQUEST, 1)->id), 1);
}

/* Nobody is seen to sample (a benchmark, a sampler on the device): tokens that are computed on. */
static void test_unseen_sampling(void **state)
{
    (void)state;
    start();
    decode_one(0, -1, 9, 1, 1, 40);
    for (int i = 0; i < 4; i++) decode_one(0, -1, 1, 1, 40 + i, 10);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_TOKENS), 4);
    assert_int_equal(nth(SONDE_INFER_PROMPT, 0)->tokens, 9);
}

/* Batches that do not say which tokens give logits, of a prompt that is longer than one of them. */
static void test_implied(void **state)
{
    (void)state;
    start();
    const uint64_t arrived = now;
    tokenize(HTTP, 33, 42);
    struct sonde_llama_part p = part(0, -1, 0, 16, 1, 8);
    p.flags = SONDE_LLAMA_IMPLIED;
    decode(&p, 1, 10);
    decode(&p, 1, 10);
    p.tokens = 1; /* the last of the prompt, not a token that came out */
    p.tail = SONDE__LLAMA_TAIL(-1, 42);
    decode(&p, 1, 10);
    sample_like_server(-1, 7, 0);
    p.tail = SONDE__LLAMA_TAIL(-1, 7);
    decode(&p, 1, 10);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(nth(SONDE_INFER_REQUEST, 0)->begin_ns, BASE + arrived * MS);
    assert_int_equal(nth(SONDE_INFER_PROMPT, 0)->tokens, 33);
    assert_int_equal(count(SONDE_INFER_TOKENS), 1);
    assert_int_equal(nth(SONDE_INFER_BATCH, 2)->tokens, 1);
    assert_int_equal(nth(SONDE_INFER_BATCH, 3)->tokens_out, 1);
}

/* ---- Silence ---------------------------------------------------------------------------------- */

/* A request of n tokens on seq, which ends as n_predict ends it: with no call. Returns its last
 * token's time. */
static uint64_t request_of(int32_t seq, int32_t prompt, int32_t n)
{
    seq_rm(seq, 0, -1);
    decode_one(seq, 0, (uint32_t)prompt, 1, 42, 30);
    for (int32_t i = 0;; i++) {
        sample_like_server(-1, 100 + i, 0);
        if (i == n - 1) break;
        decode_one(seq, prompt + i, 1, 1, 100 + i, 10);
    }
    return BASE + now * MS;
}

static void test_silence(void **state)
{
    (void)state;
    start();
    const uint64_t end = request_of(0, 20, 5);
    pass_time(500);
    assert_int_equal(count(SONDE_INFER_END), 0);
    pass_time(500); /* and nothing is computed: long before 2 s it has ended */
    assert_int_equal(count(SONDE_INFER_END), 1);
    const struct sonde_infer_event *e = nth(SONDE_INFER_END, 0);
    assert_int_equal(e->time_ns, end);
    assert_int_equal(e->outcome, SONDE_OK);
    assert_int_equal(e->value, 1);
    assert_int_equal(tokens_of(e->id), 5);
    pass_time(60000);
    simple(SONDE__LLAMA_CONTEXT_FREE, LOOP, 1, CTX, 0, 0, 0, 0);
    work();
    assert_int_equal(count(SONDE_INFER_END), 1); /* once */
    assert_int_equal(spans_named("request"), 1);
}

/* It was only paused: the same request goes on, and ends again where that was. */
static void test_silence_goes_on(void **state)
{
    (void)state;
    start();
    request_of(0, 20, 5);
    pass_time(3000);
    assert_int_equal(count(SONDE_INFER_END), 1);
    decode_one(0, 24, 1, 1, 104, 10);
    sample_like_server(-1, 105, 0);
    const uint64_t end = BASE + now * MS;
    pass_time(3000); /* it is known to pause by now */
    assert_int_equal(count(SONDE_INFER_END), 1);
    pass_time(7000);
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_END), 2);
    assert_int_equal(nth(SONDE_INFER_END, 1)->id, nth(SONDE_INFER_END, 0)->id);
    assert_int_equal(nth(SONDE_INFER_END, 1)->time_ns, end);
    assert_int_equal(tokens_of(nth(SONDE_INFER_END, 0)->id), 6);
    assert_int_equal(spans_named("request"), 1);

    /* What is cut, or stands elsewhere, or is another token, is another request. */
    seq_rm(0, 25, -1);
    decode_one(0, 25, 1, 1, 105, 10);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 2);
    pass_time(40000);
    decode_one(0, 27, 1, 1, 9, 10);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 3);
    sample_like_server(-1, 10, 0);
    pass_time(40000);
    decode_one(0, 28, 1, 1, 11, 10);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 4);
}

/* A pass that takes long is no silence of those who may be in it. Who is not in the next two ended. */
static void test_silence_in_a_pass(void **state)
{
    (void)state;
    start();
    const uint64_t end = request_of(0, 20, 5);
    request_of(1, 20, 1); /* a batch without it */
    sonde_llama_pass(x, LOOP, CTX, BASE + now * MS, NULL, 0);
    sonde_llama_drained(x, BASE + (now + 4900) * MS);
    assert_int_equal(count(SONDE_INFER_END), 0);
    decode_one(1, 20, 1, 1, 100, 5000);
    sample_like_server(-1, 101, 0);
    sonde_llama_pass(x, LOOP, CTX, BASE + now * MS, NULL, 0);
    sonde_llama_drained(x, BASE + (now + 100) * MS);
    assert_int_equal(count(SONDE_INFER_END), 1);
    assert_int_equal(nth(SONDE_INFER_END, 0)->time_ns, end);
    /* Left by an exception: the thread does something else. */
    now += 200;
    simple(SONDE__LLAMA_SYNCHRONIZE, LOOP, 1, CTX, 0, 0, 0, 0);
    pass_time(900);
    assert_int_equal(count(SONDE_INFER_END), 2);
}

/* Who is not in a pass whose parts are known has ended, however long that takes. */
static void test_silence_beside_a_pass(void **state)
{
    (void)state;
    start();
    const uint64_t end = request_of(0, 20, 5);
    request_of(1, 20, 1);
    const struct sonde_llama_part p = part(1, 20, 0, 1, 1, 100);
    sonde_llama_pass(x, LOOP, CTX, BASE + now * MS, &p, 1);
    sonde_llama_drained(x, BASE + (now + 900) * MS);
    assert_int_equal(count(SONDE_INFER_END), 1);
    assert_int_equal(nth(SONDE_INFER_END, 0)->time_ns, end);
    sonde_llama_drained(x, BASE + (now + 90000) * MS);
    assert_int_equal(count(SONDE_INFER_END), 1);
    const struct sonde_llama_part next = part(1, 0, 0, 30, 1, 100); /* its slot is used again */
    sonde_llama_pass(x, LOOP, CTX, BASE + now * MS, &next, 1);
    sonde_llama_drained(x, BASE + (now + 1000) * MS);
    assert_int_equal(count(SONDE_INFER_END), 2);
}

/* Gone while its prompt was computed. */
static void test_silence_of_a_prompt(void **state)
{
    (void)state;
    start();
    tokenize(HTTP, 200, 7);
    decode_one(0, 0, 100, 0, 9, 50);
    pass_time(1000);
    assert_int_equal(count(SONDE_INFER_END), 1);
    assert_int_equal(nth(SONDE_INFER_END, 0)->outcome, SONDE_CANCELLED);
}

/* ---- Calls that were lost ---------------------------------------------------------------------- */

/* A second reader: the ring of the loop has wrapped, that of a connection has not. */
static void test_ring_wrapped(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    char text[240];
    tokenize(HTTP, 20, 42); /* of requests whose batches are lost */
    tokenize(HTTP, 20, 42);
    now += 60000;
    sonde_llama_known(x, CTX, MEM, MODEL, "/models/tiny-llama.Q4.gguf");
    sonde_llama_lost(x, BASE + now * MS);
    now++;
    decode_one(3, 500, 1, 1, 2, 40); /* in the middle of one */
    sample_like_server(0, 3, 0);
    tokenize(HTTP, 20, 42);
    const uint64_t arrived = BASE + (now - 2) * MS;
    seq_rm(0, 0, -1);
    decode_one(0, 0, 20, 1, 42, 40);
    sample_like_server(-1, 7, 0);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(nth(SONDE_INFER_REQUEST, 0)->begin_ns, arrived);
    assert_int_equal(nth(SONDE_INFER_REQUEST, 0)->value, 0);
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type == SONDE_INFER_REQUEST) assert_string_equal(seen[i].model, "tiny-llama.Q4");
    }
    sonde_llama_figures(x, &f);
    assert_int_equal(f.unused, 2);
    assert_int_equal(f.unknown, 1);
    assert_int_equal(f.gaps, 0);
    assert_int_equal(sonde_llama_lost_text(&f, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "1 request began before"));

    /* One that has no prompt of its own arrived at a time that is not known. */
    seq_rm(1, 0, -1);
    decode_one(1, 0, 20, 1, 42, 40);
    work();
    assert_int_equal(nth(SONDE_INFER_REQUEST, 1)->value, 1);
    now += 120000; /* that is long ago by now */
    seq_rm(2, 0, -1);
    decode_one(2, 0, 20, 1, 42, 40);
    work();
    assert_int_equal(nth(SONDE_INFER_REQUEST, 2)->value, 0);
}

/* Too many at once: what was under way is lost, what comes after is as good as ever. */
static void test_lost_meanwhile(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    start();
    request_of(0, 20, 5);
    tokenize(HTTP, 20, 42);
    work();
    now += 100;
    sonde_llama_lost(x, BASE + now * MS);
    now++;
    decode_one(0, 25, 1, 1, 105, 10); /* more of it, but how much is missing? */
    sample_like_server(-1, 106, 0);
    work();
    assert_int_equal(count(SONDE_INFER_END), 1);
    assert_int_equal(nth(SONDE_INFER_END, 0)->outcome, SONDE_TIMEOUT + 1);
    assert_string_equal(nth(SONDE_INFER_END, 0)->text, "calls_lost");
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
    assert_int_equal(count(SONDE_INFER_TOKENS), 5);
    assert_int_equal(spans_named("request"), 0);
    tokenize(HTTP, 20, 42);
    const uint64_t arrived = BASE + (now - 2) * MS;
    request_of(1, 20, 3);
    work();
    assert_int_equal(nth(SONDE_INFER_REQUEST, 1)->begin_ns, arrived);
    assert_int_equal(tokens_of(nth(SONDE_INFER_REQUEST, 1)->id), 3);
    sonde_llama_figures(x, &f);
    assert_int_equal(f.gaps, 1);
    assert_int_equal(f.check.contexts, 0); /* nothing to compare any more */
}

/* Ids are the same for whoever reads the same calls, from wherever he begins and by whatever clock. */
static void test_same_ids(void **state)
{
    (void)state;
    uint64_t ids[2][2];
    for (int reader = 0; reader < 2; reader++) {
        seen_count = 0;
        now = 0;
        sonde_llama_destroy(x);
        x = sonde_llama_create(PID, SONDE_INFER_HOOK, &ops, NULL);
        for (int i = reader; i < 3; i++) {
            const struct sonde_llama_part p = part(1, 0, 0, 20, 1, 42);
            struct sonde_llama_call c = call(SONDE__LLAMA_DECODE, LOOP, 10, CTX);
            c.begin_ns += 1000u * (uint64_t)reader; /* clocks are not quite the same */
            c.stamp = 5000 + (uint64_t)i;
            c.arg[0] = 20;
            c.parts = &p;
            c.part_count = 1;
            track(&c);
        }
        work();
        for (int i = 0; i < 2; i++) {
            ids[reader][i] = nth(SONDE_INFER_REQUEST, (size_t)(1 - reader + i))->id;
        }
    }
    assert_int_equal(ids[0][0], ids[1][0]);
    assert_int_equal(ids[0][1], ids[1][1]);
    assert_true(ids[0][0] != ids[0][1]);
}

/* An agent ends anywhere and another goes on: together they tell what one would have. */
static void test_replay(void **state)
{
    (void)state;
    size_t whole[SONDE_INFER_EVENT_TYPES] = { 0 }, whole_spans;
    uint64_t ids[8];
    start();
    tokenize(HTTP, 20, 42);
    request_of(0, 20, 4);
    tokenize(HTTP, 33, 43);
    seq_rm(1, 0, -1);
    decode_one(1, 0, 16, 0, 42, 30);
    decode_one(1, 16, 17, 1, 43, 30);
    sample_like_server(-1, 7, 0);
    tokenize(HTTP, 20, 42);
    request_of(2, 20, 3);
    const uint64_t last = BASE + (now + 300) * MS;
    sonde_llama_drained(x, last);
    for (uint16_t t = 0; t < SONDE_INFER_EVENT_TYPES; t++) whole[t] = count(t);
    whole_spans = span_count;
    for (size_t i = 0; i < 3; i++) ids[i] = nth(SONDE_INFER_REQUEST, i)->id;
    const size_t all = tracked_count;
    for (size_t cut = 1; cut < all; cut++) {
        if (tracked[cut].c.end_stamp == tracked[cut - 1].c.end_stamp) continue;
        seen_count = span_count = 0;
        sonde_llama_destroy(x);
        x = sonde_llama_create(PID, SONDE_INFER_HOOK, &ops, NULL);
        track_again(0, cut);
        const uint64_t until = tracked[cut - 1].c.end_ns + 1;
        sonde_llama_drained(x, until);
        const uint64_t told = sonde_llama_told(x);
        assert_int_equal(told, tracked[cut - 1].c.end_stamp);
        sonde_llama_destroy(x);
        x = sonde_llama_create(PID, SONDE_INFER_HOOK, &ops, NULL);
        sonde_llama_replay(x, told, until);
        track_again(0, all);
        sonde_llama_drained(x, last);
        for (uint16_t t = 0; t < SONDE_INFER_EVENT_TYPES; t++) assert_int_equal(count(t), whole[t]);
        assert_int_equal(span_count, whole_spans);
        for (size_t i = 0; i < 3; i++) assert_int_equal(nth(SONDE_INFER_REQUEST, i)->id, ids[i]);
    }
}

/* A client that went away before its turn: the next one with the same prompt is not it. */
static void test_stale_prompt(void **state)
{
    (void)state;
    start();
    tokenize(HTTP, 20, 42);
    request_of(0, 20, 2);
    tokenize(HTTP, 20, 42);
    decode_one(0, 21, 1, 1, 101, 10);
    now += 30000;
    tokenize(HTTP, 20, 42);
    const uint64_t arrived = BASE + (now - 2) * MS;
    request_of(1, 20, 2);
    work();
    assert_int_equal(nth(SONDE_INFER_REQUEST, 1)->begin_ns, arrived);
}

/* A process that was met in the middle of a request. */
static void test_from_before(void **state)
{
    (void)state;
    decode_one(3, 500, 1, 1, 2, 40);
    sample_like_server(0, 3, 0);
    decode_one(3, 501, 1, 1, 3, 40);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 0);
    assert_int_equal(count(SONDE_INFER_TOKENS), 0);
    assert_int_equal(count(SONDE_INFER_BATCH), 2);
    assert_int_equal(nth(SONDE_INFER_BATCH, 0)->tokens_out, 1);
    decode_one(3, 0, 20, 1, 2, 40);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 1);
}

static void test_ends(void **state)
{
    (void)state;
    start();
    /* Cancelled in the middle of its prompt; failed; and one that just stops. */
    decode_one(0, 0, 30, 0, 1, 10);
    seq_rm(0, 0, -1);
    struct sonde_llama_part p = part(1, 0, 0, 30, 1, 1);
    struct sonde_llama_call c = call(SONDE__LLAMA_DECODE, LOOP, 10, CTX);
    c.arg[0] = 30;
    c.parts = &p;
    c.part_count = 1;
    c.result = -3;
    track(&c);
    decode_one(2, 0, 30, 1, 1, 10);
    sample_like_server(-1, 7, 0);
    const uint64_t last = now;
    now += 40000;
    work();
    assert_int_equal(count(SONDE_INFER_END), 3);
    assert_int_equal(nth(SONDE_INFER_END, 0)->outcome, SONDE_CANCELLED);
    assert_int_equal(nth(SONDE_INFER_END, 1)->outcome, SONDE_ERROR);
    assert_string_equal(nth(SONDE_INFER_END, 1)->text, "decode_failed");
    assert_int_equal(nth(SONDE_INFER_END, 2)->outcome, SONDE_OK);
    assert_int_equal(nth(SONDE_INFER_END, 2)->time_ns, BASE + last * MS);

    /* No room in the cache: the same again with less is no failure. */
    c = call(SONDE__LLAMA_DECODE, LOOP, 10, CTX);
    p = part(4, 0, 0, 30, 1, 1);
    c.arg[0] = 30;
    c.parts = &p;
    c.part_count = 1;
    c.result = 1;
    track(&c);
    decode_one(4, 0, 15, 0, 1, 10);
    decode_one(4, 15, 15, 1, 1, 10);
    work();
    assert_int_equal(count(SONDE_INFER_REQUEST), 4);

    /* Others go on without it. */
    for (int i = 0; i < 12; i++) decode_one(5, -1, i ? 1 : 9, 1, 1, 10);
    work();
    assert_int_equal(count(SONDE_INFER_END), 4);
}

/* ---- Prompts ---------------------------------------------------------------------------------- */

static void test_arrivals(void **state)
{
    (void)state;
    start();
    tokenize(HTTP, 99, 1); /* of nobody */
    const uint64_t first = now;
    /* No room, so it is asked for again. */
    simple(SONDE__LLAMA_TOKENIZE, HTTP, 2, VOCAB, 50, 4, SONDE__LLAMA_TAIL_NONE, -25);
    tokenize(HTTP, 25, 31);
    const uint64_t second = now;
    tokenize(HTTP + 1, 25, 32); /* as long, with another end */
    const uint64_t third = now; /* in two pieces */
    tokenize(HTTP + 2, 10, 33);
    tokenize(HTTP + 2, 7, 34);
    const uint64_t fourth = now; /* longer than a batch */
    tokenize(HTTP + 3, 5000, 35);
    decode_one(1, 0, 25, 1, 32, 10);
    decode_one(0, 0, 25, 1, 31, 10);
    decode_one(2, 0, 17, 1, 34, 10);
    decode_one(3, 0, 2048, 0, 1, 10);
    const uint64_t cut = now + 1;
    seq_rm(4, 3, -1);
    now += 5;
    decode_one(4, 3, 50, 1, 9, 10);
    const uint64_t unknown = now;
    decode_one(5, 0, 51, 1, 9, 10);
    work();
    const uint64_t want[] = { second, first, third, fourth, cut, unknown };
    assert_int_equal(count(SONDE_INFER_REQUEST), COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(nth(SONDE_INFER_REQUEST, i)->begin_ns, BASE + want[i] * MS);
    }
}

/* Threads' rings are read one after the other. */
static void test_order(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    struct sonde_llama_call calls[3];
    start();
    calls[0] = call(SONDE__LLAMA_TOKENIZE, HTTP, 2, VOCAB);
    calls[0].result = 20;
    calls[0].arg[2] = SONDE__LLAMA_TAIL(5, 42);
    const struct sonde_llama_part p = part(0, 0, 0, 20, 1, 42);
    calls[1] = call(SONDE__LLAMA_DECODE, LOOP, 2, CTX);
    calls[1].arg[0] = 20;
    calls[1].parts = &p;
    calls[1].part_count = 1;
    sonde_llama_track(x, &calls[1]);
    sonde_llama_drained(x, calls[0].begin_ns);
    assert_int_equal(count(SONDE_INFER_REQUEST), 0);
    sonde_llama_track(x, &calls[0]);
    work();
    assert_int_equal(nth(SONDE_INFER_REQUEST, 0)->begin_ns, calls[0].begin_ns);
    sonde_llama_track(x, &calls[0]);
    work();
    sonde_llama_figures(x, &f);
    assert_int_equal(f.late, 1);
}

/* ---- A device that computes on ----------------------------------------------------------------- */

static void test_waiting(void **state)
{
    (void)state;
    start();
    decode_one(0, 0, 9, 1, 1, 2);
    const uint64_t begin = now - 2;
    now += 10;
    simple(SONDE__LLAMA_SYNCHRONIZE, LOOP, 30, CTX, 0, 0, 0, 0);
    work();
    assert_int_equal(nth(SONDE_INFER_BATCH, 0)->begin_ns, BASE + begin * MS);
    assert_int_equal(nth(SONDE_INFER_BATCH, 0)->time_ns, BASE + (begin + 42) * MS);
}

/* ---- The check --------------------------------------------------------------------------------- */

static void test_check(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    char text[240];
    start();
    decode_one(0, 0, 9, 1, 1, 100);
    sample_like_server(-1, 2, 0);
    simple(SONDE__LLAMA_PERF_RESET, LOOP, 0, CTX, 0, 0, 0, 0);
    decode_one(0, 9, 5, 5, 1, 300); /* two of them, waited for as one */
    decode_one(0, 14, 5, 5, 1, 200);
    sample_like_server(-1, 2, 0);
    for (int i = 0; i < 10; i++) {
        decode_one(0, 19 + i, 1, 1, 1, 100);
        sample_like_server(-1, 2, 0);
    }
    decode_one(0, 29, 1, 1, 1, 100); /* nobody waited */
    simple(SONDE__LLAMA_PERF, LOOP, 0, CTX, 500 * MS, 1000 * MS, 10ull << 32 | 10, 0);
    work();
    sonde_llama_figures(x, &f);
    assert_int_equal(f.check.contexts, 1);
    assert_int_equal(f.check.ours_prompt_ns, 500 * MS);
    assert_int_equal(f.check.ours_eval_ns, 1000 * MS);
    assert_int_equal(f.check.ours_prompt_tokens, 10);
    assert_int_equal(f.check.ours_eval_tokens, 10);
    assert_int_equal(sonde_llama_check_text(&f.check, text, sizeof(text)), 0);

    struct sonde_llama_check c = f.check;
    c.theirs_eval_ns = 1040 * MS;
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "1040.0 ms of evaluation"));
    c = f.check;
    c.theirs_eval_tokens += 2;
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "too low"));
    c = f.check;
    c.ours_eval_tokens += 2;
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "too high"));
    c = f.check; /* one token, or one in a hundred, is nothing to be told of */
    c.theirs_eval_tokens++;
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 0);
    c.theirs_prompt_tokens = 2000;
    c.ours_prompt_tokens = 1981;
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 0);
    c.ours_prompt_tokens = 1979;
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 1);
    c = (struct sonde_llama_check){ .contexts = 2, .theirs_eval_tokens = 2 };
    assert_int_equal(sonde_llama_check_text(&c, text, sizeof(text)), 0);

    simple(SONDE__LLAMA_CONTEXT_FREE, LOOP, 0, CTX, 0, 0, 0, 0);
    work();
    sonde_llama_figures(x, &f);
    assert_int_equal(f.check.contexts, 1);
    assert_int_equal(f.check.theirs_eval_ns, 1000 * MS);
}

/* ---- Whatever comes ----------------------------------------------------------------------------- */

static uint64_t rng = 88172645463325252ull;
static uint64_t draw(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % n;
}

static uint64_t odd_value(void)
{
    static const uint64_t odd[] = { 0, 1, 2, 7, UINT64_MAX, INT64_MAX, UINT32_MAX, INT32_MAX,
                                    0x80000000u, CTX, MODEL, MEM, BUF };
    return draw(3) ? odd[draw(COUNT(odd))] : draw(64);
}

/* Any calls with any values: every begun request ends once, nothing out of range comes out. */
static void test_hostile(void **state)
{
    (void)state;
    struct sonde_llama_part parts[SONDE_LLAMA_PARTS_MAX];
    struct sonde_llama_figures f;
    size_t begun = 0, ended = 0;
    char text[16];
    for (int i = 0; i < 60000; i++) {
        struct sonde_llama_call c = call((uint16_t)draw(SONDE__LLAMA_COUNT + 1),
                                         (uint32_t)(draw(9) ? LOOP + draw(3) : odd_value()),
                                         draw(3), odd_value());
        if (draw(3)) c.object = CTX + draw(3);
        for (int k = 0; k < 3; k++) c.arg[k] = odd_value();
        c.result = (int64_t)odd_value();
        if (!draw(20)) c.begin_ns = odd_value();
        if (!draw(20)) c.end_ns = odd_value();
        snprintf(text, sizeof(text), "%s%c%c", draw(2) ? "cache_k" : "", (char)draw(256), (char)draw(256));
        c.text = text;
        if (c.fn == SONDE__LLAMA_DECODE || c.fn == SONDE__LLAMA_ENCODE) {
            c.part_count = (uint32_t)draw(6);
            if (!draw(500)) c.part_count = SONDE_LLAMA_PARTS_MAX;
            if (!draw(500)) c.part_count = UINT32_MAX;
            c.parts = draw(100) ? parts : NULL;
            c.parts_dropped = (uint32_t)odd_value();
            for (uint32_t k = 0; k < c.part_count && k < SONDE_LLAMA_PARTS_MAX; k++) {
                parts[k] = (struct sonde_llama_part){
                    (int32_t)(draw(5) ? draw(8) : odd_value()), (int32_t)odd_value(),
                    (uint32_t)odd_value(), (uint32_t)odd_value(), (uint32_t)odd_value(),
                    (uint32_t)draw(2), odd_value() };
            }
        }
        track(&c);
        if (!draw(50)) sonde_llama_drained(x, draw(9) ? BASE + now * MS : odd_value());
        for (size_t k = 0; k < seen_count && k < SEEN_MAX; k++) {
            begun += seen[k].e.type == SONDE_INFER_REQUEST;
            ended += seen[k].e.type == SONDE_INFER_END;
            assert_true(seen[k].e.type != SONDE_INFER_PROMPT ||
                        seen[k].e.value <= seen[k].e.tokens);
        }
        assert_true(seen_count < SEEN_MAX);
        seen_count = span_count = 0;
    }
    sonde_llama_figures(x, &f);
    assert_true(f.dropped > 0 && f.calls == 60000);
    sonde_llama_end(x);
    begun += count(SONDE_INFER_REQUEST);
    ended += count(SONDE_INFER_END);
    assert_true(begun > 100);
    assert_int_equal(begun, ended);
}

/* More calls than are kept are worked out early, and the oldest context makes room. */
static void test_bounds(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    for (uint64_t i = 0; i < 70000; i++) {
        simple(SONDE__LLAMA_WARMUP, (uint32_t)(1 + i % 1000), 1, CTX + i, 1, 0, 0, 0);
        if (seen_count > SEEN_MAX / 2) seen_count = 0;
    }
    work();
    sonde_llama_figures(x, &f);
    assert_int_equal(f.calls, 70000);
    assert_int_equal(f.dropped, 0);
}

/* Each allocation fails once: calls are dropped, and that is counted. */
static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_llama_figures f;
    for (uint64_t n = 1; n < 40; n++) {
        sonde__alloc_fail_nth(n);
        start();
        tokenize(HTTP, 20, 42);
        decode_one(0, 0, 20, 1, 42, 10);
        sample_like_server(-1, 4, 1);
        simple(SONDE__LLAMA_CONTEXT_FREE, LOOP, 1, CTX, 0, 0, 0, 0);
        work();
        sonde__alloc_fail_nth(0);
        sonde_llama_figures(x, &f);
        assert_int_equal(count(SONDE_INFER_REQUEST), count(SONDE_INFER_END));
        seen_count = span_count = 0;
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(request), TEST(memory), TEST(warmup), TEST(small_prompt), TEST(prefix), TEST(two),
        TEST(sampler_sample), TEST(drafts), TEST(sampled_twice), TEST(shared),
        TEST(unseen_sampling), TEST(implied), TEST(from_before), TEST(silence),
        TEST(silence_goes_on), TEST(silence_in_a_pass), TEST(silence_of_a_prompt), TEST(silence_beside_a_pass), TEST(ring_wrapped),
        TEST(lost_meanwhile), TEST(same_ids), TEST(replay), TEST(stale_prompt), TEST(ends), TEST(arrivals), TEST(order),
        TEST(waiting), TEST(check), TEST(hostile), TEST(bounds), TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
