/* llama_play.h - tests: calls of llama.cpp as servers make them, and what the tracker told of
 * them. */
#ifndef SONDE_TEST_INFER_LLAMA_LLAMA_PLAY_H
#define SONDE_TEST_INFER_LLAMA_LLAMA_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "infer/llama/llama.h"

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

static inline void on_event(void *arg, const struct sonde_infer_event *e)
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

static inline void on_span(void *arg, const struct sonde_model_span *span)
{
    (void)arg;
    assert_true(span->id && span->name[0] && span->outcome <= SONDE_TIMEOUT);
    snprintf(spans[span_count % SEEN_MAX].name, 16, "%s", span->name);
    spans[span_count++ % SEEN_MAX].s = *span;
}

static const struct sonde_llama_ops ops = { on_event, on_span };

static inline size_t count(uint16_t type)
{
    size_t n = 0;
    for (size_t i = 0; i < seen_count; i++) n += seen[i].e.type == type;
    return n;
}

static inline const struct sonde_infer_event *nth(uint16_t type, size_t n)
{
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type == type && n-- == 0) return &seen[i].e;
    }
    fail_msg("there is no event %zu of type %u", n, type);
    return NULL;
}

static inline uint64_t tokens_of(uint64_t id)
{
    uint64_t n = 0;
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type == SONDE_INFER_TOKENS && seen[i].e.id == id) n += seen[i].e.tokens.count;
    }
    return n;
}

static inline size_t spans_named(const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < span_count; i++) n += !strcmp(spans[i].name, name);
    return n;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static struct sonde_llama *x;
static uint64_t now; /* ms */
static size_t tracked_count;

static inline int setup(void **state)
{
    (void)state;
    seen_count = span_count = tracked_count = 0;
    now = 0;
    x = sonde_llama_create(PID, SONDE_INFER_HOOK, &ops, NULL);
    return x ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    sonde_llama_destroy(x);
    x = NULL;
    return sonde__alloc_live() == 0 ? 0 : -1;
}

/* All that was tracked, to be tracked again. */
enum { TRACKED_MAX = 1024 };
static struct { struct sonde_llama_call c; struct sonde_llama_part parts[4]; } tracked[TRACKED_MAX];

static inline void track(const struct sonde_llama_call *c)
{
    if (tracked_count < TRACKED_MAX && c->part_count <= 4 && (c->parts || !c->part_count)) {
        tracked[tracked_count].c = *c;
        for (uint32_t i = 0; i < c->part_count; i++) tracked[tracked_count].parts[i] = c->parts[i];
        tracked_count++;
    }
    sonde_llama_track(x, c);
}

static inline void track_again(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        tracked[i].c.parts = tracked[i].parts;
        sonde_llama_track(x, &tracked[i].c);
    }
}

static inline struct sonde_llama_call call(uint16_t fn, uint32_t tid, uint64_t ms, uint64_t object)
{
    struct sonde_llama_call c = { .fn = fn, .tid = tid, .begin_ns = BASE + now * MS,
                                  .end_ns = BASE + (now + ms) * MS, .object = object, .text = "" };
    c.stamp = c.begin_ns;
    c.end_stamp = c.end_ns;
    now += ms;
    return c;
}

static inline void simple(uint16_t fn, uint32_t tid, uint64_t ms, uint64_t object, uint64_t a,
                          uint64_t b, uint64_t d, int64_t result)
{
    struct sonde_llama_call c = call(fn, tid, ms, object);
    c.arg[0] = a;
    c.arg[1] = b;
    c.arg[2] = d;
    c.result = result;
    track(&c);
}

static inline void tokenize(uint32_t tid, int32_t n, int32_t last)
{
    simple(SONDE__LLAMA_TOKENIZE, tid, 2, VOCAB, 50, 4096, SONDE__LLAMA_TAIL(5, last), n);
}

static inline void decode(const struct sonde_llama_part *parts, uint32_t n, uint64_t ms)
{
    struct sonde_llama_call c = call(SONDE__LLAMA_DECODE, LOOP, ms, CTX);
    for (uint32_t i = 0; i < n; i++) {
        if (!(parts[i].flags & SONDE_LLAMA_SHARED)) c.arg[0] += parts[i].tokens;
    }
    c.parts = parts;
    c.part_count = n;
    track(&c);
}

static inline struct sonde_llama_part part(int32_t seq, int32_t pos, uint32_t row, uint32_t tokens,
                                           uint32_t outputs, int32_t last)
{
    return (struct sonde_llama_part){ .seq = seq, .pos = pos, .row = row, .tokens = tokens,
                                      .outputs = outputs,
                                      .tail = SONDE__LLAMA_TAIL(tokens > 1 ? 5 : -1, last) };
}

static inline void decode_one(int32_t seq, int32_t pos, uint32_t tokens, uint32_t outputs,
                              int32_t last, uint64_t ms)
{
    const struct sonde_llama_part p = part(seq, pos, 0, tokens, outputs, last);
    decode(&p, 1, ms);
}

static inline void seq_rm(int32_t seq, int32_t p0, int32_t p1)
{
    simple(SONDE__LLAMA_SEQ_RM, LOOP, 1, MEM, (uint64_t)(int64_t)seq, (uint64_t)(int64_t)p0,
           (uint64_t)(int64_t)p1, 0xf00ff01); /* a bool: the register has more */
}

/* As llama-server samples: two chains, then is it the end, then its text. */
static inline void sample_like_server(int32_t row, int32_t token, int end)
{
    simple(SONDE__LLAMA_LOGITS_ITH, LOOP, 0, CTX, (uint64_t)(int64_t)row, 0, 0, 1);
    simple(SONDE__LLAMA_APPLY, LOOP, 1, SMPL, 0, 0, 0, 0);
    simple(SONDE__LLAMA_APPLY, LOOP, 1, SMPL, 0, 0, 0, 0);
    simple(SONDE__LLAMA_PIECE, LOOP, 1, VOCAB, (uint64_t)token, 0, 0, 3);
    simple(SONDE__LLAMA_IS_EOG, LOOP, 1, VOCAB, (uint64_t)token, 0, 0, end);
}

static inline void start(void)
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
static inline void work(void) { sonde_llama_drained(x, BASE + (now + 300) * MS); }
/* Nothing happens for a while, and the agent looks. */
static inline void pass_time(uint64_t ms)
{
    now += ms;
    sonde_llama_drained(x, BASE + now * MS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

#endif
