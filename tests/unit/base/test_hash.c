#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

/* Values of the authors' test suite: files and colours depend on them. */
static void fnv_is_fnv(void **state)
{
    (void)state;
    static const struct { const char *text; uint32_t h32; uint64_t h64; } cases[] = {
        { "", 0x811c9dc5u, 0xcbf29ce484222325ull },
        { "a", 0xe40c292cu, 0xaf63dc4c8601ec8cull },
        { "b", 0xe70c2de5u, 0xaf63df4c8601f1a5ull },
        { "foo", 0xa9f37ed7u, 0xdcb27518fed9d577ull },
        { "foobar", 0xbf9cf968u, 0x85944171f73967e8ull },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        assert_int_equal(sonde_fnv32_text(SONDE_FNV32_SEED, cases[i].text), cases[i].h32);
        assert_true(sonde_fnv64_text(SONDE_FNV64_SEED, cases[i].text) == cases[i].h64);
    }
    /* In two pieces. */
    const uint64_t first = sonde_fnv64(SONDE_FNV64_SEED, "foo", 3);
    assert_true(sonde_fnv64(first, "bar", 3) == cases[4].h64);
    assert_int_equal(sonde_fnv32(sonde_fnv32(SONDE_FNV32_SEED, "foo", 3), "bar", 3), cases[4].h32);
}

static void until_is_bytes(void **state)
{
    (void)state;
    char text[64];
    for (size_t len = 0; len < 40; len++) {
        for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i % 26);
        size_t found = 99;
        assert_int_equal(sonde_hash_until(text, len, ';', &found), sonde_hash_bytes(text, len));
        assert_int_equal(found, len);
        text[len] = ';';
        assert_int_equal(sonde_hash_until(text, sizeof(text), ';', &found),
                         sonde_hash_bytes(text, len));
        assert_int_equal(found, len);
        text[len] = '\0';
        assert_int_equal(sonde_hash_text(text), sonde_hash_bytes(text, len));
    }
}

/* A chi-squared of keys that are alike, over 256 low bits: about 255 if they are as good as random,
 * with a standard deviation of 23. */
static double spread(uint32_t (*hash)(uint32_t))
{
    enum { KEYS = 1 << 16, BINS = 256 };
    static uint32_t bin[BINS];
    memset(bin, 0, sizeof(bin));
    for (uint32_t i = 0; i < KEYS; i++) bin[hash(i) % BINS]++;
    double sum = 0;
    for (size_t i = 0; i < BINS; i++) {
        const double d = (double)bin[i] - (double)KEYS / BINS;
        sum += d * d / ((double)KEYS / BINS);
    }
    return sum;
}

static uint32_t of_number(uint32_t i) { return (uint32_t)sonde_hash_u64(i); }
static uint32_t of_page(uint32_t i) { return (uint32_t)sonde_hash_u64((uint64_t)i << 12); }
static uint32_t of_fields(uint32_t i)
{
    return sonde_hash_end(sonde_hash_mix(sonde_hash_mix(0, 7), i));
}
static uint32_t of_block(uint32_t i) { return sonde_hash_pointer((void *)((uintptr_t)i * 64)); }

static uint32_t of_text(uint32_t i)
{
    char text[32];
    snprintf(text, sizeof(text), "function_%u", i);
    return sonde_hash_text(text);
}

static void tables_are_even(void **state)
{
    (void)state;
    static uint32_t (*const hashes[])(uint32_t) = { of_number, of_page, of_fields, of_block,
                                                    of_text };
    for (size_t i = 0; i < SONDE_COUNT(hashes); i++) {
        const double chi = spread(hashes[i]);
        if (chi > 400) fail_msg("hash %zu is uneven: %.0f", i, chi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fnv_is_fnv), cmocka_unit_test(until_is_bytes),
        cmocka_unit_test(tables_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
