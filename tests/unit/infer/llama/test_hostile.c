/* Calls of llama.cpp of which nothing can be relied on: any values, in any number, without
 * memory. */
#include "unit/infer/llama/llama_play.h"

/* ---- Whatever comes -------------------------------------------------------------------------- */

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
        snprintf(text, sizeof(text), "%s%c%c", draw(2) ? "cache_k" : "", (char)draw(256),
                 (char)draw(256));
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
                        seen[k].e.prompt.reused <= seen[k].e.prompt.count);
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
    const struct CMUnitTest tests[] = {
        TEST(hostile), TEST(bounds), TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
