/* Texts and lines of code objects: as CPython itself reads them, and of any bytes at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/utf8.h"
#include "profile/python_code.h"

/* co_linetable of Python 3.11, and the lines that co_positions() says, of
 *     def f(a):
 *         b = a + 1
 *         for i in range(3):
 *             b += (i
 *                   * 2)
 *
 *
 *         return b */
static const unsigned char table[] = {
    0x80, 0x00, 0xd8, 0x08, 0x09, 0x88, 0x41, 0x89, 0x05, 0x80, 0x41, 0xdd, 0x0d, 0x12, 0x90, 0x31,
    0x89, 0x58, 0x8c, 0x58, 0xf0, 0x00, 0x02, 0x05, 0x13, 0xf0, 0x00, 0x02, 0x05, 0x13, 0x88, 0x01,
    0xd8, 0x08, 0x09, 0x88, 0x61, 0xd8, 0x10, 0x11, 0xf1, 0x03, 0x01, 0x0f, 0x12, 0xf1, 0x00, 0x01,
    0x09, 0x13, 0x88, 0x01, 0x88, 0x01, 0xf0, 0x08, 0x00, 0x0c, 0x0d, 0x80, 0x48,
};
static const uint32_t truth[] = { 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
                                  3, 3, 3, 3, 3, 3, 4, 4, 5, 4, 4, 4, 4, 4, 4, 8, 8 };

static void lines_are_cpythons(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SONDE_COUNT(truth); i++) {
        assert_int_equal(sonde_python_line((const char *)table, sizeof(table), 1, i), truth[i]);
        assert_int_equal(sonde_python_line((const char *)table, sizeof(table), 100, i),
                         truth[i] + 99);
    }
    assert_int_equal(sonde_python_line((const char *)table, sizeof(table), 1, 34), 0);
    assert_int_equal(sonde_python_line(NULL, 0, 1, 0), 0);
}

/* A copy that was cut, or is of something else: no line, or a wrong one, but no more than that. */
static void any_bytes_are_a_table(void **state)
{
    unsigned seed = 1;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        const uint32_t len = (uint32_t)(rand_r(&seed) % 40);
        char *bytes = malloc(len ? len : 1); /* of its very size, for AddressSanitizer to see */
        assert_non_null(bytes);
        for (uint32_t i = 0; i < len; i++) bytes[i] = (char)rand_r(&seed);
        const uint32_t line = sonde_python_line(bytes, len, (uint32_t)(round % 100), 20);
        assert_true(line <= INT32_MAX);
        free(bytes);
    }
    for (uint32_t cut = 0; cut < sizeof(table); cut++) {
        (void)sonde_python_line((const char *)table, cut, 1, 33);
    }
}

static void texts_become_utf8(void **state)
{
    char out[64];
    static const uint16_t wide[] = { 'f', 0x20ac, 0xd800 };
    static const uint32_t wider[] = { 'g', 0x1f40d, 0x110000 };
    (void)state;
    sonde_python_text(out, sizeof(out), "Work.heavy", 10, 1);
    assert_string_equal(out, "Work.heavy");
    sonde_python_text(out, sizeof(out), "na\xefve\n", 6, 1);
    assert_string_equal(out, "na\xc3\xafve\xef\xbf\xbd");
    sonde_python_text(out, sizeof(out), (const char *)wide, sizeof(wide), 2);
    assert_string_equal(out, "f\xe2\x82\xac\xef\xbf\xbd");
    sonde_python_text(out, sizeof(out), (const char *)wider, sizeof(wider), 4);
    assert_string_equal(out, "g\xf0\x9f\x90\x8d\xef\xbf\xbd");
    sonde_python_text(out, 8, "more than there is room for", 27, 1);
    assert_string_equal(out, "more");
    sonde_python_text(out, sizeof(out), NULL, 0, 1);
    assert_string_equal(out, "");
}

static void any_bytes_are_a_text(void **state)
{
    unsigned seed = 2;
    char bytes[64], out[300];
    static const uint32_t kinds[] = { 1, 2, 4 };
    (void)state;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (char)rand_r(&seed);
        sonde_python_text(out, sizeof(out), bytes, (uint32_t)(rand_r(&seed) % 65),
                          kinds[round % 3]);
        assert_true(sonde__utf8_valid(out, strlen(out)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_cpythons),
        cmocka_unit_test(any_bytes_are_a_table),
        cmocka_unit_test(texts_become_utf8),
        cmocka_unit_test(any_bytes_are_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
