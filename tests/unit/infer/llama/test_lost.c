/* Calls of llama.cpp that come late, or not at all: requests that fall silent, and calls that were
 * lost. */
#include "unit/infer/llama/llama_play.h"

/* ---- Silence --------------------------------------------------------------------------------- */

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
    assert_int_equal(e->end.outcome, SONDE_OK);
    assert_int_equal(e->end.silent, 1);
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

/* A pass that takes long is no silence of those who may be in it. Who is not in the next two
 * ended. */
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
    assert_int_equal(nth(SONDE_INFER_END, 0)->end.outcome, SONDE_CANCELLED);
}

/* ---- Calls that were lost -------------------------------------------------------------------- */

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
    assert_int_equal(nth(SONDE_INFER_REQUEST, 0)->request.incomplete, 0);
    for (size_t i = 0; i < seen_count; i++) {
        if (seen[i].e.type == SONDE_INFER_REQUEST) {
            assert_string_equal(seen[i].model, "tiny-llama.Q4");
        }
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
    assert_int_equal(nth(SONDE_INFER_REQUEST, 1)->request.incomplete, 1);
    now += 120000; /* that is long ago by now */
    seq_rm(2, 0, -1);
    decode_one(2, 0, 20, 1, 42, 40);
    work();
    assert_int_equal(nth(SONDE_INFER_REQUEST, 2)->request.incomplete, 0);
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
    assert_int_equal(nth(SONDE_INFER_END, 0)->end.outcome, SONDE_TIMEOUT + 1);
    assert_string_equal(nth(SONDE_INFER_END, 0)->end.error, "calls_lost");
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

/* Ids are the same for whoever reads the same calls, from wherever he begins and by whatever
 * clock. */
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
    assert_int_equal(nth(SONDE_INFER_BATCH, 0)->batch.output, 1);
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
    assert_int_equal(nth(SONDE_INFER_END, 0)->end.outcome, SONDE_CANCELLED);
    assert_int_equal(nth(SONDE_INFER_END, 1)->end.outcome, SONDE_ERROR);
    assert_string_equal(nth(SONDE_INFER_END, 1)->end.error, "decode_failed");
    assert_int_equal(nth(SONDE_INFER_END, 2)->end.outcome, SONDE_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(from_before), TEST(silence), TEST(silence_goes_on), TEST(silence_in_a_pass),
        TEST(silence_of_a_prompt), TEST(silence_beside_a_pass), TEST(ring_wrapped),
        TEST(lost_meanwhile), TEST(same_ids), TEST(replay), TEST(stale_prompt), TEST(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
