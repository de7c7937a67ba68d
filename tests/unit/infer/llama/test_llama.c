/* Calls of llama.cpp as servers make them, and what the tracker makes of them: which requests, when
 * they arrived, what of their prompts was reused, whose tokens came out when. */
#include "unit/infer/llama/llama_play.h"

/* ---- One request ----------------------------------------------------------------------------- */

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
    assert_true(r->id && (r->request.trace_hi | r->request.trace_lo));
    const struct sonde_infer_event *e = nth(SONDE_INFER_PROMPT, 0);
    assert_int_equal(e->prompt.count, 20);
    assert_int_equal(e->prompt.reused, 0);
    assert_int_equal(count(SONDE_INFER_TOKENS), 3);
    /* Out when the second chain was applied. */
    assert_int_equal(nth(SONDE_INFER_TOKENS, 0)->time_ns, first + 102 * MS);
    assert_int_equal(count(SONDE_INFER_BATCH), 3);
    e = nth(SONDE_INFER_BATCH, 0);
    assert_int_equal(e->batch.prompt, 20);
    assert_int_equal(e->batch.output, 0);
    assert_int_equal(e->begin_ns, first);
    assert_int_equal(e->time_ns, first + 100 * MS);
    e = nth(SONDE_INFER_PART, 1);
    assert_int_equal(e->id, r->id);
    assert_int_equal(e->part.prompt, 0);
    assert_int_equal(e->part.output, 1);
    assert_int_equal(e->part.all, 1);
    e = nth(SONDE_INFER_END, 0);
    assert_int_equal(e->end.outcome, SONDE_OK);
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
        if (seen[i].e.type != SONDE_INFER_PHASE || seen[i].e.phase.kind != SONDE_PHASE_ENCODE) {
            continue;
        }
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
    assert_int_equal(e->load.bytes, 1000);
    assert_int_equal(e->load.outcome, SONDE_OK);
    for (size_t i = 0; i < seen_count; i++) assert_string_equal(seen[i].model, "tiny-llama.Q4");
    assert_string_equal(nth(SONDE_INFER_MEMORY, 0)->memory.kind, "weights");
    assert_int_equal(nth(SONDE_INFER_MEMORY, 0)->memory.bytes, 1000);
    assert_string_equal(nth(SONDE_INFER_MEMORY, 1)->memory.kind, "kv");
    assert_int_equal(nth(SONDE_INFER_MEMORY, 1)->memory.bytes, 300);

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
    assert_string_equal(nth(SONDE_INFER_MEMORY, 2)->memory.kind, "compute");
    assert_int_equal(nth(SONDE_INFER_MEMORY, 2)->memory.bytes, 90);
    simple(SONDE__LLAMA_BUFFER_FREE, LOOP, 1, BUF + 2, 0, 0, 0, 0);
    simple(SONDE__LLAMA_CONTEXT_FREE, LOOP, 1, CTX, 0, 0, 0, 0);
    simple(SONDE__LLAMA_MODEL_FREE, LOOP, 1, MODEL, 0, 0, 0, 0);
    work();
    assert_int_equal(count(SONDE_INFER_MEMORY), 6);
    for (size_t i = 3; i < 6; i++) assert_int_equal(nth(SONDE_INFER_MEMORY, i)->memory.bytes, 0);
    assert_string_equal(nth(SONDE_INFER_MEMORY, 4)->memory.kind, "kv");
    assert_string_equal(nth(SONDE_INFER_MEMORY, 5)->memory.kind, "weights");
}

/* ---- Warm-up --------------------------------------------------------------------------------- */

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
    assert_int_equal(nth(SONDE_INFER_PROMPT, 0)->prompt.count, 3);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

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
        assert_int_equal(nth(SONDE_INFER_PROMPT, i)->prompt.count, want[i].tokens);
        assert_int_equal(nth(SONDE_INFER_PROMPT, i)->prompt.reused, want[i].reused);
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
    assert_int_equal(e->batch.requests, 2);
    assert_int_equal(e->batch.prompt, 6);
    assert_int_equal(e->batch.output, 1);
    e = nth(SONDE_INFER_PART, 2);
    assert_int_equal(e->id, b);
    assert_int_equal(e->part.prompt, 6);
    assert_int_equal(e->part.all, 7);
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
    assert_int_equal(nth(SONDE_INFER_BATCH, 1)->batch.output, 4);
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
    assert_int_equal(nth(SONDE_INFER_BATCH, 0)->batch.prompt, 9);
    assert_int_equal(nth(SONDE_INFER_PROMPT, 1)->prompt.reused, 9);
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
    assert_int_equal(nth(SONDE_INFER_PROMPT, 0)->prompt.count, 9);
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
    assert_int_equal(nth(SONDE_INFER_PROMPT, 0)->prompt.count, 33);
    assert_int_equal(count(SONDE_INFER_TOKENS), 1);
    assert_int_equal(nth(SONDE_INFER_BATCH, 2)->batch.prompt, 1);
    assert_int_equal(nth(SONDE_INFER_BATCH, 3)->batch.output, 1);
}

/* ---- Prompts --------------------------------------------------------------------------------- */

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

/* ---- A device that computes on --------------------------------------------------------------- */

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

/* ---- The check ------------------------------------------------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request), TEST(memory), TEST(warmup), TEST(small_prompt), TEST(prefix), TEST(two),
        TEST(sampler_sample), TEST(drafts), TEST(sampled_twice), TEST(shared),
        TEST(unseen_sampling), TEST(implied), TEST(arrivals), TEST(order), TEST(waiting),
        TEST(check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
