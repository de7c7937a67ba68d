/* JSON that is read piece by piece: values of all kinds, and every way to be damaged. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/json_read.h"

static void test_values(void **state)
{
    (void)state;
    static const char text[] =
        " {\"a\" : [1, 2.6, -3, 18446744073709551615], \"s\":\"x\\u00e9\\n\\ud83d\\ude00\\ud800\", "
        "\"o\":{\"deep\":[[],{},[{\"k\":null}]]},\"t\":true,\"last\":7,} ";
    struct sonde_json_reader r;
    struct sonde_json_text key, s;
    struct sonde_buf buf;
    uint64_t v;
    double d;
    sonde_buf_init(&buf, 1000);
    sonde_json_reader_init(&r, text, sizeof(text) - 1);
    assert_int_equal(sonde_json_peek(&r), '{');
    assert_true(sonde_json_enter(&r, '{'));
    assert_true(sonde_json_member(&r, &key) && sonde_json_text_is(key, "a"));
    assert_true(sonde_json_enter(&r, '['));
    assert_true(sonde_json_element(&r) && sonde_json_number_u64(&r, &v) && v == 1);
    assert_true(sonde_json_element(&r) && sonde_json_number_u64(&r, &v) && v == 3);
    assert_true(sonde_json_element(&r) && sonde_json_number(&r, &d) && d < -2.9 && d > -3.1);
    assert_true(sonde_json_element(&r) && sonde_json_number_u64(&r, &v) && v == UINT64_MAX);
    assert_false(sonde_json_element(&r));
    assert_true(sonde_json_member(&r, &key) && sonde_json_string(&r, &buf, &s));
    assert_true(sonde_json_text_is(s, "x\xc3\xa9\n\xf0\x9f\x98\x80\xef\xbf\xbd"));
    assert_true(sonde_json_member(&r, &key));
    sonde_json_skip(&r);
    assert_true(sonde_json_member(&r, &key));
    assert_int_equal(sonde_json_peek(&r), 't');
    sonde_json_skip(&r);
    assert_true(sonde_json_member(&r, &key) && sonde_json_number_u64(&r, &v) && v == 7);
    assert_false(sonde_json_member(&r, &key));
    assert_true(sonde_json_at_end(&r));
    assert_null(r.error);
    sonde_buf_release(&buf);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_damaged(void **state)
{
    (void)state;
    static const struct { const char *text, *says; size_t line; } cases[] = {
        { "", "value", 1 },
        { "[1 2]", "comma", 1 },
        { "[\n1,\nx]", "value", 3 },
        { "{\"a\" 1}", "colon", 1 },
        { "{1:2}", "string", 1 },
        { "[1,\n\"abc", "does not end", 2 },
        { "[1", "comma", 1 },
        { "[1,", "too early", 1 },
        { "[,1]", "value", 1 },
        { "[1,,2]", "value", 1 },
        { "[1.2.3]", "not a number", 1 },
        { "[1e999]", "not a number", 1 },
        { "[tru]", "value", 1 },
        { "[}", "value", 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_json_reader r;
        sonde_json_reader_init(&r, cases[i].text, strlen(cases[i].text));
        sonde_json_skip(&r);
        if (!r.error || !strstr(r.error, cases[i].says)) {
            print_error("%s: %s\n", cases[i].text, r.error);
        }
        assert_non_null(r.error);
        assert_non_null(strstr(r.error, cases[i].says));
        assert_int_equal(sonde_json_line(&r), cases[i].line);
        assert_false(sonde_json_enter(&r, '['));
    }
    char deep[SONDE_JSON_DEPTH_MAX + 2];
    memset(deep, '[', sizeof(deep));
    struct sonde_json_reader r;
    sonde_json_reader_init(&r, deep, sizeof(deep));
    sonde_json_skip(&r);
    assert_string_equal(r.error, "nested too deeply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
