#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"

static void lengths(void **state)
{
    (void)state;
    static const int seven[7] = { 0 };
    static const char *const names[] = { "a", "b", "c" };
    struct { char text[40]; } s;
    static uint8_t as_constant[SONDE_COUNT(seven)];
    assert_int_equal(SONDE_COUNT(seven), 7);
    assert_int_equal(SONDE_COUNT(names), 3);
    assert_int_equal(SONDE_COUNT(s.text), 40);
    assert_int_equal(sizeof(as_constant), 7);
    _Static_assert(SONDE__IS_POINTER((const char *)0), "what must not compile is noticed");
}

static void adds(void **state)
{
    (void)state;
    struct { uint64_t *at; uint32_t count, cap; } small = { 0 };
    struct { struct { char x[24]; } *at; size_t count, cap; } large = { 0 };
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t *one = SONDE_ARRAY_ADD(small.at, small.count, small.cap);
        assert_non_null(one);
        *one = i;
        assert_non_null(SONDE_ARRAY_ADD(large.at, large.count, large.cap));
        large.at[i].x[23] = (char)i;
    }
    assert_int_equal(small.count, 10000);
    assert_true(small.cap >= 10000 && small.cap < 20000);
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(small.at[i], i);
        assert_int_equal(large.at[i].x[23], (char)i);
    }
    sonde__free(small.at);
    sonde__free(large.at);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Whatever the type of the cap: it never wraps, and what does not fit is refused. */
static void limits(void **state)
{
    (void)state;
    uint8_t *bytes = NULL, cap8 = 0;
    for (unsigned n = 1; n <= 255; n++) assert_int_equal(SONDE_ARRAY_RESERVE(bytes, cap8, n), 0);
    assert_int_equal(cap8, 255);
    assert_int_equal(SONDE_ARRAY_RESERVE(bytes, cap8, 256u), SONDE_ENOMEM);
    assert_int_equal(cap8, 255);
    const uint8_t full = 255;
    assert_int_equal(SONDE_ARRAY_ROOM(bytes, full, cap8), SONDE_ENOMEM);
    sonde__free(bytes);

    static const struct { size_t needed, max; int rc; size_t cap; } cases[] = {
        { 0, 0, 0, 0 },
        { 1, 0, SONDE_EFULL, 0 },
        { 1, 1, 0, 1 },
        { 1, 10, 0, 10 },
        { 1, 1000, 0, 16 },
        { 17, 1000, 0, 17 },
        { 1001, 1000, SONDE_EFULL, 0 },
        { SIZE_MAX, SIZE_MAX, SONDE_ENOMEM, 0 },
        { SIZE_MAX / 2, SIZE_MAX, SONDE_ENOMEM, 0 },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        uint64_t *items = NULL;
        size_t cap = 0;
        const int rc = SONDE_ARRAY_RESERVE_MAX(items, cap, cases[i].needed, cases[i].max);
        if (rc != cases[i].rc || cap != cases[i].cap) {
            fail_msg("case %zu: rc %d, cap %zu", i, rc, cap);
        }
        assert_int_equal(items != NULL, cap != 0);
        sonde__free(items);
    }
    uint32_t *items = NULL, cap = 0, count = 0;
    while (!SONDE_ARRAY_ROOM_MAX(items, count, cap, 100)) count++;
    assert_int_equal(count, 100);
    assert_int_equal(cap, 100);
    sonde__free(items);
}

static void evaluated_once(void **state)
{
    (void)state;
    int *items = NULL;
    size_t cap = 0, n = 1;
    assert_int_equal(SONDE_ARRAY_RESERVE(items, cap, n++), 0);
    assert_int_equal(n, 2);
    sonde__free(items);
}

static void no_memory(void **state)
{
    (void)state;
    struct { int *at; uint32_t count, cap; } a = { 0 };
    sonde__alloc_fail_nth(1);
    assert_null(SONDE_ARRAY_ADD(a.at, a.count, a.cap));
    assert_null(a.at);
    assert_int_equal(a.count + a.cap, 0);
    while (a.count < 16) *SONDE_ARRAY_ADD(a.at, a.count, a.cap) = 7;
    int *before = a.at;
    sonde__alloc_fail_nth(1);
    assert_int_equal(SONDE_ARRAY_ROOM(a.at, a.count, a.cap), SONDE_ENOMEM);
    assert_ptr_equal(a.at, before);
    assert_int_equal(a.cap, 16);
    assert_int_equal(a.at[15], 7);
    assert_non_null(SONDE_ARRAY_ADD(a.at, a.count, a.cap));
    assert_int_equal(a.at[15], 7);
    sonde__free(a.at);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),        cmocka_unit_test(adds),      cmocka_unit_test(limits),
        cmocka_unit_test(evaluated_once), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
