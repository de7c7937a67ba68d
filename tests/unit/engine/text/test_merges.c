#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "text/merges.h"
#include "text/symbols.h"

static void test_symbols(void **state)
{
    (void)state;
    struct symbols s;
    assert_int_equal(symbols_init(&s, 4), 0);
    char key[32];
    for (uint32_t i = 0; i < 5000; i++) { /* grows, in slots, keys and pool */
        memset(key, 0, sizeof(key));
        memcpy(key, &i, 4);
        if (i == 100) assert_int_equal(symbols_skip(&s), 100);
        else assert_int_equal(symbols_add(&s, key, 4 + i % 16), i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        memset(key, 0, sizeof(key));
        memcpy(key, &i, 4);
        assert_int_equal(symbols_find(&s, key, 4 + i % 16), i == 100 ? SYMBOL_NONE : i);
        assert_int_equal(symbols_find(&s, key, 5 + i % 16), SYMBOL_NONE);
    }
    size_t bytes;
    assert_int_equal(symbols_add(&s, "again", 5), symbols_add(&s, "again", 5));
    assert_memory_equal(symbols_key(&s, 5000, &bytes), "again", 5);
    assert_int_equal(bytes, 5);
    symbols_release(&s);
}

/* The same by looking for the best pair again and again. */
static size_t slow_merge(const struct merges *m, uint32_t *symbols, size_t count)
{
    for (;;) {
        const struct merge_pair *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const struct merge_pair *p = merges_find(m, symbols[i], symbols[i + 1]);
            if (p && (!best || p->rank < best->rank)) {
                best = p;
                at = i;
            }
        }
        if (!best) return count;
        symbols[at] = best->merged;
        memmove(symbols + at + 1, symbols + at + 2, (count - at - 2) * sizeof(*symbols));
        count--;
    }
}

/* A few symbols and random pairs of them, which may lead anywhere: ties, chains, cycles of
 * lengths. */
static void test_random(void **state)
{
    (void)state;
    srand(7);
    struct merge_work w = { 0 };
    for (int round = 0; round < 3000; round++) {
        struct merges m;
        assert_int_equal(merges_init(&m, 4), 0);
        for (int i = 0; i < 40; i++) {
            const struct merge_pair p = { (uint32_t)rand() % 8, (uint32_t)rand() % 8,
                                          (uint32_t)rand() % 12, (uint32_t)rand() % 8 };
            assert_int_equal(merges_add(&m, &p), 0);
        }
        uint32_t slow[64];
        const size_t count = 1 + (size_t)rand() % 60;
        assert_int_equal(merge_work_reserve(&w, count), 0);
        for (size_t i = 0; i < count; i++) {
            slow[i] = (uint32_t)rand() % 9;
            if (slow[i] == 8) slow[i] = SYMBOL_NONE;
            w.nodes[i].symbol = slow[i];
            w.nodes[i].bytes = 1;
        }
        w.count = count;
        w.merged = 0;
        merges_apply(&m, &w);
        const size_t left = slow_merge(&m, slow, count);
        size_t n = 0;
        for (int32_t i = 0; i >= 0; i = w.nodes[i].next) {
            assert_true(n < left);
            assert_int_equal(w.nodes[i].symbol, slow[n++]);
        }
        assert_int_equal(n, left);
        assert_int_equal(w.merged, count - left);
        merges_release(&m);
    }
    merge_work_release(&w);
}

static void test_first_pair_stays(void **state)
{
    (void)state;
    struct merges m;
    assert_int_equal(merges_init(&m, 1), 0);
    assert_int_equal(merges_add(&m, &(struct merge_pair){ 1, 2, 5, 3 }), 0);
    assert_int_equal(merges_add(&m, &(struct merge_pair){ 1, 2, 4, 9 }), 0);
    assert_int_equal(merges_find(&m, 1, 2)->merged, 3);
    assert_null(merges_find(&m, 2, 1));
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(merges_add(&m, &(struct merge_pair){ i, i + 7, i, i }), 0);
    }
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(merges_find(&m, i, i + 7)->rank, i);
    merges_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols), cmocka_unit_test(test_random),
        cmocka_unit_test(test_first_pair_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
