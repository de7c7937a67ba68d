/* How prompts begin: signatures, and what earlier prompts share with a request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sonde/prefix.h"
#include "unit/infer/infer_play.h"

/* Tokens of which the first `shared` are those of every other. */
static uint64_t signature(size_t shared, int32_t own, size_t count)
{
    int32_t tokens[1000];
    for (size_t i = 0; i < count; i++) tokens[i] = i < shared ? (int32_t)(7 * i) : own + (int32_t)i;
    return sonde_prefix_signature(tokens, count);
}

static void what_two_share(void **state)
{
    static const struct { size_t shared, count, at_least; } cases[] = {
        { 0, 1000, 0 }, { 31, 1000, 0 }, { 32, 1000, 32 }, { 95, 1000, 32 }, { 96, 1000, 96 },
        { 300, 1000, 256 }, { 767, 1000, 256 }, { 768, 1000, 768 }, { 300, 300, 256 },
        { 20, 20, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t a = signature(cases[i].shared, 100000, cases[i].count);
        const uint64_t b = signature(cases[i].shared, 200000, cases[i].count);
        assert_int_equal(sonde_prefix_shared(a, b), cases[i].at_least);
    }
    assert_int_equal(sonde_prefix_signature(NULL, 0), 0);
}

/* Of 100,000 pairs that share nothing, one in 65,536 seems to. */
static void by_chance(void **state)
{
    (void)state;
    int seem = 0;
    for (int32_t i = 0; i < 100000; i++) {
        seem += sonde_prefix_shared(signature(0, i * 1000 + 1, 40),
                                    signature(0, -i * 1000 - 500, 40)) > 0;
    }
    assert_true(seem < 12);
}

static void ask(struct play *g, uint64_t id, double ms, uint64_t prefix)
{
    play_request(g, id, ms);
    play_event(g, &(struct sonde_infer_event){
        .type = SONDE_INFER_PROMPT, .id = id, .time_ns = MS(ms + 1),
        .prompt = { .count = 500, .prefix = prefix } });
    play_end(g, id, ms + 10, SONDE_OK, "");
}

static const struct sonde_infer_request *request(const struct play *g, uint64_t id)
{
    for (size_t i = 0; i < sonde_infer_done_count(g->tracker); i++) {
        const struct sonde_infer_request *r = sonde_infer_done(g->tracker, i);
        if (r->id == id) return r;
    }
    return NULL;
}

static void requests_that_begin_alike(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    ask(&g, 1, 0, signature(300, 100000, 500));
    ask(&g, 2, 20, signature(300, 200000, 500));
    ask(&g, 3, 40, signature(0, 300000, 500));
    ask(&g, 4, 60, 0);
    /* By the attribute of sonde_request_prefix(). */
    play_request(&g, 5, 80);
    play_event(&g, &(struct sonde_infer_event){
        .type = SONDE_INFER_ATTR, .id = 5, .time_ns = MS(81),
        .attr = { .key = "sonde.prefix", .type = SONDE__ATTR_INT,
                  .value.i = (int64_t)signature(100, 400000, 500) } });
    play_end(&g, 5, 90, SONDE_OK, "");
    play_until(&g, 1000);
    assert_true(request(&g, 1)->prefix_known && request(&g, 1)->tokens_shared == 0);
    assert_int_equal(request(&g, 2)->tokens_shared, 256);
    assert_int_equal(request(&g, 3)->tokens_shared, 0);
    assert_int_equal(request(&g, 4)->prefix_known, 0);
    assert_int_equal(request(&g, 5)->tokens_shared, 96);
    assert_int_equal(request(&g, 5)->attr_count, 0);
    play_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_two_share), cmocka_unit_test(by_chance),
        cmocka_unit_test(requests_that_begin_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
