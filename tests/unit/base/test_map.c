#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"

enum { KEYS = 4000, ROUNDS = 200000 };

/* Hashes from good to useless: the answers must be the same. */
static uint32_t good(uint32_t key) { return (uint32_t)sonde_hash_u64(key); }
static uint32_t few(uint32_t key) { return key % 7; }
static uint32_t high(uint32_t key) { return key << 24; }
static uint32_t last(uint32_t key) { return UINT32_MAX - key % 3; } /* clusters wrap around */
static uint32_t (*const hashes[])(uint32_t) = { good, few, high, last };

static uint32_t find_row(const struct sonde_map *m, const uint32_t *keys, uint32_t hash,
                         uint32_t key)
{
    uint32_t at = hash, row;
    while ((row = sonde_map_next(m, hash, &at))) {
        if (keys[row] == key) return row;
    }
    return 0;
}

/* Against an array that says which keys are in. */
static void rows_like_a_plain_one(void **state)
{
    (void)state;
    for (size_t h = 0; h < SONDE_COUNT(hashes); h++) {
        static uint32_t key_of[KEYS + 1], row_of[KEYS + 1];
        struct sonde_map m = { 0 };
        uint32_t count = 0;
        memset(row_of, 0, sizeof(row_of));
        srand(1);
        const uint32_t keys = hashes[h] == good ? KEYS : 200;
        for (uint32_t i = 0; i < (hashes[h] == good ? ROUNDS : ROUNDS / 10); i++) {
            const uint32_t key = (uint32_t)rand() % keys, hash = hashes[h](key);
            const uint32_t row = find_row(&m, key_of, hash, key);
            assert_int_equal(row, row_of[key]);
            if (!row) {
                assert_int_equal(sonde_map_reserve(&m), 0);
                key_of[++count] = key;
                sonde_map_put(&m, hash, count);
                row_of[key] = count;
            } else if (rand() % 2) { /* the last row fills the gap */
                sonde_map_remove(&m, hash, row);
                row_of[key] = 0;
                const uint32_t moved = key_of[count];
                if (row != count) {
                    sonde_map_renumber(&m, hashes[h](moved), count, row);
                    key_of[row] = moved;
                    row_of[moved] = row;
                }
                count--;
            }
            assert_int_equal(m.used, count);
        }
        assert_true(count > 0 && m.cap - m.cap / 4 >= m.used);
        sonde_map_clear(&m);
        for (uint32_t key = 0; key < keys; key++) {
            assert_int_equal(find_row(&m, key_of, hashes[h](key), key), 0);
        }
        sonde_map_release(&m);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

struct item { uint32_t key; int seen; };

static struct item *find_item(const struct sonde_pointer_map *m, uint32_t hash, uint32_t key)
{
    struct item *x;
    uint32_t at = hash;
    while ((x = sonde_pointer_map_next(m, hash, &at)) && x->key != key) continue;
    return x;
}

static void pointers_like_a_plain_one(void **state)
{
    (void)state;
    static struct item items[KEYS];
    for (size_t h = 0; h < SONDE_COUNT(hashes); h++) {
        static char in[KEYS];
        struct sonde_pointer_map m = { 0 };
        uint32_t count = 0;
        memset(in, 0, sizeof(in));
        for (uint32_t i = 0; i < KEYS; i++) items[i].key = i;
        const uint32_t keys = hashes[h] == good ? KEYS : 200;
        for (uint32_t i = 0; i < (hashes[h] == good ? ROUNDS : ROUNDS / 10); i++) {
            const uint32_t key = (uint32_t)rand() % keys, hash = hashes[h](key);
            struct item *x = find_item(&m, hash, key);
            assert_ptr_equal(x, in[key] ? &items[key] : NULL);
            if (!x) {
                assert_int_equal(sonde_pointer_map_reserve(&m), 0);
                sonde_pointer_map_put(&m, hash, &items[key]);
                in[key] = 1;
                count++;
            } else if (rand() % 2) {
                sonde_pointer_map_remove(&m, hash, x);
                in[key] = 0;
                count--;
            }
        }
        assert_int_equal(m.used, count);
        uint32_t at = 0, met = 0;
        for (uint32_t i = 0; i < KEYS; i++) items[i].seen = 0;
        for (struct item *x; (x = sonde_pointer_map_each(&m, &at)); met++) {
            assert_true(in[x->key]);
            assert_int_equal(x->seen++, 0);
        }
        assert_int_equal(met, count);
        sonde_pointer_map_clear(&m);
        at = 0;
        assert_null(sonde_pointer_map_each(&m, &at));
        sonde_pointer_map_release(&m);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void empty(void **state)
{
    (void)state;
    struct sonde_map m = { 0 };
    struct sonde_pointer_map p = { 0 };
    uint32_t at = 5;
    assert_int_equal(sonde_map_next(&m, 5, &at), 0);
    assert_null(sonde_pointer_map_next(&p, 5, &at));
    at = 0;
    assert_null(sonde_pointer_map_each(&p, &at));
    sonde_map_clear(&m);
    sonde_pointer_map_clear(&p);
    sonde_map_release(&m);
    sonde_pointer_map_release(&p);
}

static void no_memory(void **state)
{
    (void)state;
    struct sonde_map m = { 0 };
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_map_reserve(&m), SONDE_ENOMEM);
    assert_int_equal(m.cap, 0);
    uint32_t count = 0;
    for (;;) { /* up to where it has to grow */
        const size_t more = sonde_map_reserve_bytes(&m);
        assert_int_equal(more > 0, m.used == m.cap - m.cap / 4);
        if (more && m.cap) break;
        const uint32_t cap = m.cap;
        assert_int_equal(sonde_map_reserve(&m), 0);
        assert_int_equal((m.cap - cap) * sizeof(*m.slots), more);
        count++;
        sonde_map_put(&m, good(count), count);
    }
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_map_reserve(&m), SONDE_ENOMEM);
    assert_int_equal(m.used, count);
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t at = good(i);
        assert_int_equal(sonde_map_next(&m, good(i), &at), i);
    }
    sonde_map_release(&m);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_like_a_plain_one), cmocka_unit_test(pointers_like_a_plain_one),
        cmocka_unit_test(empty), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
