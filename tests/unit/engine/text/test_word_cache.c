#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "text/word_cache.h"

static void test_keeps(void **state)
{
    (void)state;
    struct word_cache c;
    struct word_cache_key key;
    int32_t got[WORD_CACHE_TOKENS];
    assert_int_equal(word_cache_init(&c, 64), 0);
    assert_int_equal(word_cache_used(&c), 0);
    assert_true(word_cache_key("word", 4, &key));
    assert_int_equal(word_cache_get(&c, &key, got), -1);
    const int32_t tokens[] = { 7, -1, 9 };
    word_cache_put(&c, &key, tokens, 3);
    assert_int_equal(word_cache_get(&c, &key, got), 3);
    assert_memory_equal(got, tokens, sizeof(tokens));
    assert_int_equal(word_cache_used(&c), 1);

    /* A word and the same with a NUL behind it are two. */
    assert_true(word_cache_key("word\0", 5, &key));
    assert_int_equal(word_cache_get(&c, &key, got), -1);
    word_cache_put(&c, &key, tokens, 0); /* no tokens are an answer, too */
    assert_int_equal(word_cache_get(&c, &key, got), 0);
    word_cache_release(&c);
}

static void test_limits(void **state)
{
    (void)state;
    struct word_cache c;
    struct word_cache_key key;
    int32_t got[WORD_CACHE_TOKENS], nine[9] = { 0 };
    assert_int_equal(word_cache_init(&c, 2), 0);
    assert_true(word_cache_key("123456789012345678901234", 24, &key));
    assert_false(word_cache_key("1234567890123456789012345", 25, &key));
    assert_true(word_cache_key("many", 4, &key));
    word_cache_put(&c, &key, nine, 9);
    assert_int_equal(word_cache_get(&c, &key, got), -1);
    word_cache_put(&c, &key, nine, 8);
    assert_int_equal(word_cache_get(&c, &key, got), 8);

    /* More words than slots: what is found is right, and the last is there. */
    for (int32_t i = 0; i < 100; i++) {
        assert_true(word_cache_key((const char *)&i, 4, &key));
        word_cache_put(&c, &key, &i, 1);
        assert_int_equal(word_cache_get(&c, &key, got), 1);
        assert_int_equal(got[0], i);
    }
    assert_int_equal(word_cache_used(&c), 2);
    word_cache_release(&c);
}

enum { ROUNDS = 20000, WORDS = 64 };

/* Words that fight for few slots: a word is never answered with another one's tokens. */
static void *fight(void *cache)
{
    uint32_t wrong = 0, random = (uint32_t)(uintptr_t)&wrong;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        const int32_t word = (int32_t)(random >> 16) % WORDS;
        int32_t tokens[WORD_CACHE_TOKENS];
        struct word_cache_key key;
        word_cache_key((const char *)&word, 4, &key);
        const int count = word_cache_get(cache, &key, tokens);
        if (count >= 0) {
            wrong += count != word % 8 + 1;
            for (int k = 0; k < count; k++) wrong += tokens[k] != word * 100 + k;
        } else {
            for (int k = 0; k <= word % 8; k++) tokens[k] = word * 100 + k;
            word_cache_put(cache, &key, tokens, (size_t)(word % 8 + 1));
        }
    }
    return (void *)(uintptr_t)wrong;
}

static void test_threads(void **state)
{
    (void)state;
    struct word_cache c;
    pthread_t threads[4];
    assert_int_equal(word_cache_init(&c, 8), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, fight, &c), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    word_cache_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps), cmocka_unit_test(test_limits), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
