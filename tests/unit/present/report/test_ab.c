/* What /api/ab says, as text: figures, what is missing, answers that are none, and text that would
 * do something to a terminal. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "present/report/ab.h"
#include "sonde/sonde.h"

#define MEASURE(key, mean) "\"" key "\":{\"count\":10,\"mean\":" mean                              \
                           ",\"low\":0.01,\"high\":0.02,\"p95\":0.5}"
#define ARM(url, ttft) "{\"url\":\"" url "\",\"requests\":12,\"ok\":10,\"failed\":2,"              \
    "\"cancelled\":0,\"output_tokens\":400,\"errors\":{\"connect_refused\":2,\"none\":0},"         \
    MEASURE("ttft_s", ttft) "," MEASURE("tokens_per_s", "40") "}"
#define DIFFERENCES "[{\"measure\":\"ttft_s\",\"title\":\"time to first token\",\"relative\":0.5," \
    "\"relative_low\":0.4,\"relative_high\":0.6,\"blocks\":33,\"verdict\":\"a_better\"},"          \
    "{\"measure\":\"tokens_per_s\",\"relative\":-0.1,\"relative_low\":null,"                       \
    "\"relative_high\":null,\"verdict\":\"undecided\"},"                                           \
    "{\"measure\":\"error_ratio\",\"relative\":null,\"blocks\":5,\"blocks_more\":7,"                   \
    "\"verdict\":\"new\"},{\"measure\":\"error_ratio\",\"a\":0,\"b\":0,\"verdict\":\"undecided\"}]"

static char *text_of(const char *json, int width, int ascii)
{
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, 1 << 20);
    const struct sonde_ab_style style = { .width = width, .ascii = ascii };
    if (sonde_ab_text(json, strlen(json), &style, &out, &err) != 0) fail_msg("%s", err.text);
    char *text = calloc(1, out.len + 1);
    assert_non_null(text);
    memcpy(text, out.data, out.len);
    sonde_buf_release(&out);
    return text;
}

static void ab_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static void test_text(void **state)
{
    (void)state;
    char *text = text_of("{\"mode\":\"mirror\",\"share\":0.1,\"seconds\":90,\"a\":"
                         ARM("http://h:1", "0.012") ",\"b\":" ARM("http://h:2/x", "0.018")
                         ",\"mirror\":{\"dropped\":{\"busy\":3,\"too_large\":0}},\"differences\":"
                         DIFFERENCES ",\"warnings\":[\"b is far away\",5],"
                         "\"text\":\"b is worse: so much\"}", 0, 0);
    ab_has(text, "10.0 % of the inference requests are mirrored to b, for 1.50 min\n");
    ab_has(text, "a  http://h:1          12  10       2          0            400\n");
    ab_has(text, "12.0 ms (10.0 ms … 20.0 ms)");
    ab_has(text, "18.0 ms (10.0 ms … 20.0 ms)");
    ab_has(text, "+50.0 % (+40.0 … +60.0 %)");
    ab_has(text, "b is worse\n");
    ab_has(text, "-10.0 %  ");
    ab_has(text, "not known yet\n");
    ab_has(text, "5 of ~12  new\n");
    ab_has(text, "none failed\n");
    ab_has(text, "errors of b: connect_refused 2\n");
    ab_has(text, "not mirrored: busy 3\n");
    ab_has(text, "note: b is far away\n");
    ab_has(text, "\nb is worse: so much\n");
    free(text);
    text = text_of("{\"a\":{},\"b\":{},\"differences\":[{}]}", 40, 1);
    for (const char *c = text; *c; c++) assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    free(text);
}

static void test_harmless(void **state)
{
    (void)state;
    char *text = text_of("{\"mode\":\"split\",\"a\":{\"url\":\"\\u001b[31mred\",\"errors\":"
                         "{\"\\u001b]0;x\\u0007\":1}},\"b\":{\"url\":\"\\u009b2J\"},"
                         "\"differences\":[{\"measure\":\"\\u001b\",\"verdict\":\"\\u001b\"}],"
                         "\"warnings\":[\"\\u001b[2J\\nforged\"],\"text\":\"\\r\\u202e\"}", 0, 0);
    for (const char *c = text; *c; c++) assert_true(*c == '\n' || (unsigned char)*c >= ' ');
    assert_null(strstr(text, "\xc2\x9b"));
    assert_null(strstr(text, "\nforged"));
    free(text);
}

static void test_none(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "{", "[]", "null", "{}", "{\"a\":{},\"b\":{}}",
                                       "{\"a\":1,\"b\":{},\"differences\":[]}", "\xff" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_buf out;
        struct sonde_err err = { "" };
        sonde_buf_init(&out, 1 << 20);
        const struct sonde_ab_style style = { 0 };
        assert_int_equal(sonde_ab_text(bad[i], strlen(bad[i]), &style, &out, &err), SONDE_EINVAL);
        assert_int_equal(out.len, 0);
        sonde_buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text),
                                        cmocka_unit_test(test_harmless),
                                        cmocka_unit_test(test_none) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
