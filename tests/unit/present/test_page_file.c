/* The dashboard as one file: data comes back as it was, and cannot leave its place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "present/page_file.h"
#include "present/web.h"

#define BEGIN "<script type=\"application/json\" id=\"sonde-data\">"

static struct sonde_buf out;

static void write_file(const char *title, const char *json)
{
    struct sonde_page_file f = { .title = title,
                                 .source = title, .made_s = 1.5, .query = "from=1&to=2",
                                 .pages = (const char *const[]){ "cpu", "memory", NULL } };
    sonde_buf_init(&out, 1 << 24);
    sonde_buf_init(&f.answers, 1 << 20);
    sonde_page_file_add(&f, "/api/a?b=1", json, strlen(json));
    sonde_page_file_add(&f, "/api/c", "[1]\n", 4);
    assert_int_equal(sonde_page_file_write(&f, &out), 0);
    sonde_buf_release(&f.answers);
}

/* What a browser hands to the script: up to the first end of the element. */
static json_t *data_of(void)
{
    const char *from = strstr(out.data, BEGIN);
    assert_non_null(from);
    from += strlen(BEGIN);
    const char *to = strcasestr(from, "</script");
    json_error_t error;
    json_t *d = json_loadb(from, (size_t)(to - from), 0, &error);
    if (!d) fail_msg("%s", error.text);
    assert_null(memmem(from, (size_t)(to - from), "<", 1));
    return d;
}

/* Before our own script, which may have anything in it that does not end it. */
static size_t count_of(const char *text)
{
    const char *end = strstr(strstr(out.data, BEGIN), "</script>\n<script>");
    size_t n = 0;
    assert_non_null(end);
    end += strlen("</script>\n<script>");
    for (const char *p = out.data; (p = strcasestr(p, text)) != NULL && p < end; p++) n++;
    return n;
}

static void test_hostile(void **state)
{
    (void)state;
    static const struct { const char *json, *text; } cases[] = {
        { "\"plain\"", "plain" },
        { "\"</script><script>alert(1)</script>\"", "</script><script>alert(1)</script>" },
        { "\"<!--<script>\"", "<!--<script>" },
        { "\"\\\\\\\"]]>&amp;\"", "\\\"]]>&amp;" },
        { "\"a\xe2\x80\xa8" "b\xe2\x80\xa9" "c\"", "a\xe2\x80\xa8" "b\xe2\x80\xa9" "c" },
        { "\"\xe2\x80\xae" "gnp.exe\xe2\x81\xa6\"", "\xe2\x80\xae" "gnp.exe\xe2\x81\xa6" },
        { "\"\xf0\x9f\x94\xa5 \xe2\x82\xac \xd7\xa2\"", "\xf0\x9f\x94\xa5 \xe2\x82\xac \xd7\xa2" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_file(cases[i].text, cases[i].json);
        json_t *d = data_of();
        json_t *answers = json_object_get(d, "answers");
        assert_string_equal(json_string_value(json_object_get(answers, "/api/a?b=1")),
                            cases[i].text);
        assert_int_equal(json_array_size(json_object_get(answers, "/api/c")), 1);
        assert_string_equal(json_string_value(json_object_get(d, "title")), cases[i].text);
        assert_string_equal(json_string_value(json_object_get(d, "source")), cases[i].text);
        assert_string_equal(json_string_value(json_object_get(d, "query")), "from=1&to=2");
        assert_int_equal(json_integer_value(json_object_get(d, "version")), 1);
        assert_int_equal(json_array_size(json_object_get(d, "pages")), 2);
        assert_int_equal(count_of("<script"), 2);
        assert_int_equal(count_of("</script"), 1);
        assert_int_equal(count_of("<style"), 1);
        assert_int_equal(count_of("\xe2\x80\xae"), 0);
        assert_int_equal(count_of("\xe2\x80\xa8"), 0);
        json_decref(d);
        sonde_buf_release(&out);
    }
}

/* Nothing is loaded from anywhere, and what may run is named by its hash. */
static void test_alone(void **state)
{
    (void)state;
    write_file("t", "1");
    assert_int_equal(count_of(" src="), 0);
    assert_int_equal(count_of("<link"), 1);
    assert_int_equal(count_of("rel=\"icon\" href=\"data:,\""), 1);
    assert_int_equal(count_of("default-src 'none'"), 1);
    assert_int_equal(count_of(sonde_web_app_js.policy_hash), 1);
    assert_int_equal(count_of(sonde_web_app_css.policy_hash), 1);
    const char *script = strstr(out.data, "</script>\n<script>") + strlen("</script>\n<script>");
    assert_ptr_equal(strcasestr(script, "</script"), strstr(out.data, "</script>\n</body>"));
    assert_null(strstr(script, "<!--"));
    assert_true(out.len < 1 << 20);
    assert_true(out.len > sonde_web_app_js.len + sonde_web_app_css.len);
    sonde_buf_release(&out);
}

/* What a browser has to fetch before it can show anything, and what a page of others embeds. */
static void test_small(void **state)
{
    (void)state;
    const size_t most = 250 * 1000;
    assert_true(sonde_web_page_html.packed_len + sonde_web_app_js.packed_len +
                    sonde_web_app_css.packed_len < most);
    assert_true(sonde_web_elements_js.packed_len < most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
