#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

static void test_set(void **state)
{
    (void)state;
    struct sonde_err e;
    assert_int_equal(sonde_err_set(&e, -5, "%s: %d", "what", 3), -5);
    assert_string_equal(e.text, "what: 3");
    assert_int_equal(sonde_err_set(NULL, -7, "nobody asks"), -7);
}

static void test_wrap_itself(void **state)
{
    (void)state;
    struct sonde_err e;
    sonde_err_set(&e, -1, "inner");
    sonde_err_set(&e, -1, "outer: %s", e.text);
    assert_string_equal(e.text, "outer: inner");
}

static void test_made_printable(void **state)
{
    (void)state;
    struct sonde_err e;
    sonde_err_set(&e, -1, "bad \xff name \033[2J\x7f\xc2\x9b, two\nlines, caf\xc3\xa9");
    assert_string_equal(e.text, "bad \xef\xbf\xbd name ?[2J??, two\nlines, caf\xc3\xa9");
}

/* At any length: the text ends in "..." if and only if it was cut, and is UTF-8. */
static void test_cut(void **state)
{
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        for (size_t chars = 100; chars < 200; chars++) {
            char in[1024];
            memset(in, 'x', sizeof(in));
            for (size_t i = 0; i < chars; i++) memcpy(in + shift + 4 * i, "\xf0\x9f\x98\x80", 4);
            const size_t len = (size_t)shift + 4 * chars;
            in[len] = 0;
            struct sonde_err e;
            sonde_err_set(&e, -1, "%s", in);
            const size_t got = strlen(e.text);
            assert_true(sonde__utf8_valid(e.text, got));
            if (len < sizeof(e.text)) {
                assert_string_equal(e.text, in);
            } else {
                assert_string_equal(e.text + got - 3, "...");
                assert_memory_equal(e.text, in, got - 3);
                assert_true(got > sizeof(e.text) - 8);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_wrap_itself),
        cmocka_unit_test(test_made_printable),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
