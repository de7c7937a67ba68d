#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "text/tokenizer.h"

static const struct tokenizer_slow slow = { .bytes = 9000, .tokens = 3000, .ns = 60, .merges = 9 };

/* What is enough, and unremarkable. */
static const struct tokenizer_counts usual = {
    .encodes = 100, .bytes = 40000, .tokens = 10000, .ns = 1000, .lookups = 9000, .merges = 5000,
    .cache_hits = 9000, .cache_misses = 1000, .words_long = 10, .words_long_bytes = 300,
    .cache_slots = 16384, .cache_used = 1000,
};

static size_t advice(const struct tokenizer_counts *c, struct tokenizer_advice *out)
{
    return tokenizer_advice(c, &slow, 1, out);
}

static void test_nothing(void **state)
{
    (void)state;
    struct tokenizer_advice out[TOKENIZER_ADVICE_MAX];
    const struct tokenizer_counts none = { .cache_slots = 16384 };
    assert_int_equal(tokenizer_advice(&none, NULL, 0, out), 0);
    assert_int_equal(advice(&usual, out), 0);

    /* The worst of figures, of too few words to go by. */
    const struct tokenizer_counts few = {
        .encodes = 3, .bytes = 900, .tokens = 900, .ns = 60, .merges = 5000, .cache_misses = 400,
        .words_long = 20, .words_long_bytes = 800, .cache_slots = 16384, .cache_used = 400,
    };
    assert_int_equal(advice(&few, out), 0);
}

/* One sentence, with the numbers that it goes by. */
static void says(const struct tokenizer_counts *c, const char *a, const char *b)
{
    struct tokenizer_advice out[TOKENIZER_ADVICE_MAX];
    assert_int_equal(advice(c, out), 1);
    if (!strstr(out[0].text, a) || !strstr(out[0].text, b)) fail_msg("%s", out[0].text);
}

static void test_sentences(void **state)
{
    (void)state;
    struct tokenizer_counts c = usual;
    c.cache_hits = 6000;
    c.cache_misses = 4000;
    c.cache_used = 16000;
    says(&c, "60.0 % of 10000 words", "98 % of its 16384 slots");
    c.cache_used = 4000;
    says(&c, "The words hardly repeat: 60.0 % of 10000", "24 % is taken");

    c = usual;
    c.words_long = 100;
    c.words_long_bytes = 10000;
    says(&c, "25 % of the bytes are in 100 words", "(100 bytes on average)");

    c = usual;
    c.bytes = 20000;
    says(&c, "2.00 bytes per token", "10000 tokens");

    c = usual;
    c.merges = 35000;
    says(&c, "3.5 merges", "10000 tokens");

    c = usual;
    c.ns = 100;
    says(&c, "One input of 9000 bytes took 60 %", "all 100");
}

static void test_all_at_once(void **state)
{
    (void)state;
    struct tokenizer_advice out[TOKENIZER_ADVICE_MAX];
    const struct tokenizer_counts worst = {
        .encodes = UINT64_MAX, .bytes = UINT64_MAX, .tokens = UINT64_MAX, .ns = 60,
        .merges = UINT64_MAX, .cache_misses = UINT64_MAX / 4, .words_long = UINT64_MAX / 4,
        .words_long_bytes = UINT64_MAX, .cache_slots = 1, .cache_used = 1,
    };
    const size_t count = advice(&worst, out);
    assert_true(count >= 4 && count <= TOKENIZER_ADVICE_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(out[i].text[strlen(out[i].text) - 1], '.'); /* none is cut short */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
