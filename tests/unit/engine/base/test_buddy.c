#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/buddy.h"

enum { UNIT = 64 };

static struct buddy *pool_create(uint64_t capacity)
{
    struct buddy *b = NULL;
    struct fail why;
    if (buddy_create("test", capacity, UNIT, &b, &why)) fail_msg("%s", why.text);
    return b;
}

static uint64_t random_next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

static uint64_t block_bytes(uint64_t asked)
{
    uint64_t bytes = UNIT;
    while (bytes < asked) bytes *= 2;
    return bytes;
}

static void test_refused(void **state)
{
    (void)state;
    static const struct { uint64_t capacity; uint32_t unit; } cases[] = {
        { 1 << 20, 0 }, { 1 << 20, 32 }, { 1 << 20, 96 }, { 63, 64 }, { 0, 64 },
        { UINT64_MAX, 64 }, { (uint64_t)1 << 39, 64 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buddy *b = NULL;
        struct fail why = { "" };
        assert_int_equal(buddy_create("test", cases[i].capacity, cases[i].unit, &b, &why), -1);
        assert_null(b);
        assert_non_null(strstr(why.text, "test: "));
    }
    buddy_destroy(NULL);
}

/* A block of all, split down to a unit, and one again. */
static void test_split_and_join(void **state)
{
    (void)state;
    struct buddy *b = pool_create(1 << 16);
    struct buddy_stats s;
    void *all = buddy_alloc(b, 1 << 16);
    assert_non_null(all);
    assert_null(buddy_alloc(b, 1));
    buddy_free(b, all);

    char *unit = buddy_alloc(b, 1);
    buddy_stats(b, &s);
    assert_int_equal(s.free_block_bytes, 1 << 15);
    assert_int_equal(s.used_bytes, UNIT);
    assert_int_equal(s.asked_bytes, 1);
    char *next = buddy_alloc(b, UNIT);
    assert_ptr_equal(next, unit + UNIT);
    assert_null(buddy_alloc(b, (1 << 15) + 1));
    buddy_free(b, unit);
    buddy_free(b, next);
    buddy_free(b, NULL);
    buddy_stats(b, &s);
    assert_int_equal(s.free_block_bytes, 1 << 16);
    assert_int_equal(s.used_bytes, 0);
    assert_int_equal(s.asked_bytes, 0);
    assert_int_equal(s.used_bytes_max, 1 << 16);
    assert_int_equal(s.allocations, 3);
    assert_int_equal(s.frees, 3);
    assert_int_equal(s.failures, 2);
    buddy_destroy(b);
}

/* What is not a power of two is handed out to the last unit, and no block reaches beyond it. */
static void test_any_capacity(void **state)
{
    (void)state;
    for (uint64_t units = 1; units < 70; units++) {
        struct buddy *b = pool_create(units * UNIT + UNIT - 1);
        struct buddy_stats s, before;
        buddy_stats(b, &before);
        assert_int_equal(before.capacity_bytes, units * UNIT);
        void *blocks[70];
        for (uint64_t i = 0; i < units; i++) {
            blocks[i] = buddy_alloc(b, UNIT);
            assert_non_null(blocks[i]);
            memset(blocks[i], (int)i, UNIT);
        }
        assert_null(buddy_alloc(b, 0));
        for (uint64_t i = 0; i < units; i++) assert_int_equal(*(char *)blocks[i], (char)i);
        for (uint64_t i = 0; i < units; i++) buddy_free(b, blocks[(i + units / 2) % units]);
        buddy_stats(b, &s);
        assert_int_equal(s.free_block_bytes, before.free_block_bytes);
        assert_int_equal(s.used_bytes, 0);
        buddy_destroy(b);
    }
}

/* Random requests, compared with a list of what is handed out. */
static void test_model(void **state)
{
    (void)state;
    enum { LIVE = 200, CAPACITY = 3 << 18 };
    struct buddy *b = pool_create(CAPACITY);
    struct { unsigned char *at; uint64_t asked, block; unsigned char mark; } live[LIVE];
    size_t count = 0;
    uint64_t x = 42, asked = 0, used = 0, allocations = 0, frees = 0, failures = 0, used_max = 0;
    struct buddy_stats s;
    for (int step = 0; step < 20000; step++) {
        const uint64_t bytes = random_next(&x) % ((uint64_t)64 << random_next(&x) % 12);
        if (count < LIVE && random_next(&x) % 2) {
            buddy_stats(b, &s);
            unsigned char *at = buddy_alloc(b, bytes);
            /* Just what it said it could do. */
            assert_int_equal(at != NULL, block_bytes(bytes) <= s.free_block_bytes);
            if (!at) {
                failures++;
                continue;
            }
            assert_int_equal((uintptr_t)at % 64, 0);
            for (size_t i = 0; i < count; i++) {
                assert_true(at + block_bytes(bytes) <= live[i].at ||
                            at >= live[i].at + live[i].block);
            }
            live[count].at = at;
            live[count].asked = bytes;
            live[count].block = block_bytes(bytes);
            live[count].mark = (unsigned char)random_next(&x);
            memset(at, live[count].mark, live[count].block);
            used += live[count].block;
            asked += bytes;
            count++;
            allocations++;
            if (used > used_max) used_max = used;
        } else if (count) {
            const size_t i = random_next(&x) % count;
            for (uint64_t k = 0; k < live[i].block; k++) {
                assert_int_equal(live[i].at[k], live[i].mark);
            }
            buddy_free(b, live[i].at);
            used -= live[i].block;
            asked -= live[i].asked;
            live[i] = live[--count];
            frees++;
        }
        buddy_stats(b, &s);
        assert_int_equal(s.used_bytes, used);
        assert_int_equal(s.asked_bytes, asked);
        assert_int_equal(s.used_bytes_max, used_max);
        assert_true(s.allocations == allocations && s.frees == frees && s.failures == failures);
        assert_true(s.free_block_bytes <= CAPACITY - used);
    }
    assert_true(failures > 0);
    while (count) buddy_free(b, live[--count].at);
    buddy_stats(b, &s);
    assert_int_equal(s.free_block_bytes, 2 << 18);
    buddy_destroy(b);
}

static void test_fragmentation(void **state)
{
    (void)state;
    struct buddy *b = pool_create(16 * UNIT);
    struct buddy_stats s;
    char *blocks[16];
    for (int i = 0; i < 16; i++) blocks[i] = buddy_alloc(b, UNIT / 2);
    buddy_stats(b, &s);
    assert_true(buddy_fragmentation_external(&s) == 0); /* nothing is free */
    assert_true(fabs(buddy_fragmentation_internal(&s) - 0.5) < 1e-9);
    for (int i = 0; i < 16; i += 2) buddy_free(b, blocks[i]);
    buddy_stats(b, &s);
    assert_true(fabs(buddy_fragmentation_external(&s) - 7.0 / 8) < 1e-9); /* 1 of 8 in one piece */
    for (int i = 1; i < 16; i += 2) buddy_free(b, blocks[i]);
    buddy_stats(b, &s);
    assert_true(buddy_fragmentation_external(&s) == 0);
    assert_true(buddy_fragmentation_internal(&s) == 0);
    buddy_destroy(b);
}

static void *thread_work(void *arg)
{
    struct buddy *b = arg;
    uint64_t x = (uintptr_t)&x | 1;
    unsigned char *held[16] = { NULL };
    uint64_t bytes[16] = { 0 };
    for (int i = 0; i < 4000; i++) {
        const size_t n = random_next(&x) % 16;
        if (held[n]) {
            if (held[n][0] != (unsigned char)n || held[n][bytes[n] - 1] != (unsigned char)n) {
                return b;
            }
            buddy_free(b, held[n]);
            held[n] = NULL;
            continue;
        }
        bytes[n] = random_next(&x) % 2000 + 1;
        held[n] = buddy_alloc(b, bytes[n]);
        if (held[n]) memset(held[n], (int)n, bytes[n]);
    }
    for (int n = 0; n < 16; n++) buddy_free(b, held[n]);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct buddy *b = pool_create(1 << 16);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_work, b), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    struct buddy_stats s;
    buddy_stats(b, &s);
    assert_int_equal(s.allocations, s.frees);
    assert_int_equal(s.free_block_bytes, 1 << 16);
    buddy_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_split_and_join),
        cmocka_unit_test(test_any_capacity),  cmocka_unit_test(test_model),
        cmocka_unit_test(test_fragmentation), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
