#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/array.h"
#include "base/varint.h"

static void there_and_back(void **state)
{
    (void)state;
    static const struct { uint64_t v; size_t bytes; } cases[] = {
        { 0, 1 }, { 1, 1 }, { 0x7f, 1 }, { 0x80, 2 }, { 0x3fff, 2 }, { 0x4000, 3 },
        { UINT32_MAX, 5 }, { INT64_MAX, 9 }, { (uint64_t)1 << 63, 10 }, { UINT64_MAX, 10 },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        unsigned char bytes[SONDE_VARINT_MAX + 1];
        memset(bytes, 0x55, sizeof(bytes));
        const unsigned char *end = sonde_varint_put(bytes, cases[i].v), *at = bytes;
        uint64_t got = 0;
        assert_int_equal(end - bytes, cases[i].bytes);
        assert_int_equal(sonde_varint_size(cases[i].v), cases[i].bytes);
        assert_int_equal(*end, 0x55);
        assert_int_equal(sonde_varint_get(&at, end, &got), 0);
        assert_ptr_equal(at, end);
        assert_true(got == cases[i].v);
        for (size_t cut = 0; cut < cases[i].bytes; cut++) { /* ends too early */
            at = bytes;
            assert_int_equal(sonde_varint_get(&at, bytes + cut, &got), -1);
        }
        assert_true(sonde_unzigzag(sonde_zigzag(cases[i].v)) == cases[i].v);
    }
}

static void too_long(void **state)
{
    (void)state;
    unsigned char bytes[SONDE_VARINT_MAX + 1];
    uint64_t got = 7;
    memset(bytes, 0xff, sizeof(bytes));
    const unsigned char *at = bytes;
    assert_int_equal(sonde_varint_get(&at, bytes + sizeof(bytes), &got), -1);
    bytes[9] = 2; /* bit 64 */
    at = bytes;
    assert_int_equal(sonde_varint_get(&at, bytes + sizeof(bytes), &got), -1);
    assert_int_equal(got, 7);
    bytes[9] = 1;
    at = bytes;
    assert_int_equal(sonde_varint_get(&at, bytes + sizeof(bytes), &got), 0);
    assert_true(got == UINT64_MAX && at == bytes + 10);
}

static void small_of_either_sign(void **state)
{
    (void)state;
    static const int64_t in_order[] = { 0, -1, 1, -2, 2, -3 };
    for (size_t i = 0; i < SONDE_COUNT(in_order); i++) {
        assert_int_equal(sonde_zigzag((uint64_t)in_order[i]), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back), cmocka_unit_test(too_long),
        cmocka_unit_test(small_of_either_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
