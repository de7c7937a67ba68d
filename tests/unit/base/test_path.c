#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cmp.h"
#include "base/path.h"

static void base_names(void **state)
{
    (void)state;
    static const struct { const char *path, *base; } cases[] = {
        { "", "" },                            { "a", "a" },                 { "/a", "a" },
        { "/usr/lib/libc.so.6", "libc.so.6" }, { "a/b", "b" },               { "./a", "a" },
        { "/", "/" },                          { "/usr/lib/", "/usr/lib/" }, { "a//b", "b" },
        { "[vdso]", "[vdso]" },                { "a/", "a/" },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        assert_string_equal(sonde_path_base(cases[i].path), cases[i].base);
    }
}

static void beginnings_and_ends(void **state)
{
    (void)state;
    static const struct { const char *s, *part; int begins, ends; } cases[] = {
        { "", "", 1, 1 },
        { "a", "", 1, 1 },
        { "", "a", 0, 0 },
        { "model.gguf", ".gguf", 0, 1 },
        { "model.gguf", "model", 1, 0 },
        { ".gguf", ".gguf", 1, 1 },
        { "gguf", ".gguf", 0, 0 },
        { "abab", "ab", 1, 1 },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        assert_int_equal(sonde_has_prefix(cases[i].s, cases[i].part), cases[i].begins);
        assert_int_equal(sonde_has_suffix(cases[i].s, cases[i].part), cases[i].ends);
    }
    assert_int_equal(sonde_has_suffix(NULL, ""), 0);
    assert_int_equal(sonde_has_suffix_len("file.svg;more", 8, ".svg"), 1);
    assert_int_equal(sonde_has_suffix_len("file.svg;more", 9, ".svg"), 0);
}

static void orders(void **state)
{
    (void)state;
    uint64_t u64[] = { 5, UINT64_MAX, 0, 1ull << 63, 5 };
    uint32_t u32[] = { 7, UINT32_MAX, 0, 1u << 31 };
    int ints[] = { 3, INT32_MIN, INT32_MAX, -1 };
    double d[] = { 1.5, NAN, -INFINITY, INFINITY, 0, NAN, -2 };
    const char *text[] = { "b", "a", "", "\xc3\xa9", "B" };
    qsort(u64, SONDE_COUNT(u64), sizeof(u64[0]), sonde_cmp_u64);
    qsort(u32, SONDE_COUNT(u32), sizeof(u32[0]), sonde_cmp_u32);
    qsort(ints, SONDE_COUNT(ints), sizeof(ints[0]), sonde_cmp_int);
    qsort(d, SONDE_COUNT(d), sizeof(d[0]), sonde_cmp_double);
    qsort(text, SONDE_COUNT(text), sizeof(text[0]), sonde_cmp_text);
    for (size_t i = 1; i < SONDE_COUNT(u64); i++) assert_true(u64[i - 1] <= u64[i]);
    for (size_t i = 1; i < SONDE_COUNT(u32); i++) assert_true(u32[i - 1] < u32[i]);
    for (size_t i = 1; i < SONDE_COUNT(ints); i++) assert_true(ints[i - 1] < ints[i]);
    for (size_t i = 1; i < 5; i++) assert_true(d[i - 1] < d[i]);
    assert_true(isnan(d[5]) && isnan(d[6]));
    for (size_t i = 1; i < SONDE_COUNT(text); i++) assert_true(strcmp(text[i - 1], text[i]) < 0);
    assert_int_equal(sonde_cmp_u64(&u64[4], &u64[0]), 1);
    assert_int_equal(SONDE_CMP(2, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_names), cmocka_unit_test(beginnings_and_ends),
        cmocka_unit_test(orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
