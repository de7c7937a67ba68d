/* Texts of exporters: what is read out of good ones, and that bad ones are refused by line. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "model/exposition.h"
#include "collect/ingest/ingest.h"
#include "sonde/sonde.h"

/* `type family|name{a=b}=value` of each sample, one a line. */
static int note(const struct sonde_exposition_sample *s, void *arg)
{
    static const char *const types[] = { "unknown", "counter", "gauge", "histogram", "summary",
                                         "info", "stateset", "gaugehistogram" };
    struct sonde_buf *b = arg;
    struct sonde_ingest_point p;
    sonde_buf_printf(b, "%s %s|%s{", types[s->type], s->family, s->name);
    for (size_t i = 0; i < s->label_count; i++) {
        sonde_buf_printf(b, "%s%s=%s", i ? "," : "", s->labels[i].name, s->labels[i].value);
    }
    sonde_buf_puts(b, "}=");
    sonde_buf_double(b, s->value);
    if (s->has_time) sonde_buf_printf(b, "@%.3f", s->time_s);
    if (!sonde_ingest_exposition(s, &p)) sonde_buf_puts(b, " none");
    sonde_buf_putc(b, '\n');
    return 0;
}

static int parse(const char *text, size_t len, int open, struct sonde_buf *out,
                 struct sonde_err *err)
{
    const struct sonde_exposition_sink sink = { note, out };
    sonde_buf_init(out, 1 << 20);
    return sonde_exposition_read(text, len, open, &sink, err);
}

static const struct { const char *what; int open; const char *text, *samples; } good[] = {
    { "nothing", 0, "", "" },
    { "only comments", 0, "# a comment\n#\n\n  \n#HELP\n", "" },
    { "plain", 0, "x 1\n", "unknown x|x{}=1\n" },
    { "blanks", 0, " \tx  {  a = \"b\" , } \t 1  \t1700000000123 \n",
      "unknown x|x{a=b}=1@1700000000.123\n" },
    { "carriage returns", 0, "# TYPE x gauge\r\nx 1\r\n", "gauge x|x{}=1\n" },
    { "escapes", 0, "x{a=\"\\\\ \\\" \\n \xc3\xa4\"} 1\n", "unknown x|x{a=\\ \" \n \xc3\xa4}=1\n" },
    { "numbers", 0, "a NaN\nb +Inf\nc -Inf\nd 1e3\ne -.5\nf 0x10\ng inf\nh nan\n",
      "unknown a|a{}=NaN\nunknown b|b{}=+Inf\nunknown c|c{}=-Inf\nunknown d|d{}=1000\n"
      "unknown e|e{}=-0.5\nunknown f|f{}=16\nunknown g|g{}=+Inf\nunknown h|h{}=NaN\n" },
    { "histogram", 0,
      "# HELP h of\\n lines\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n"
      "h_total 9\n",
      "histogram h|h_bucket{le=+Inf}=3\nhistogram h|h_sum{}=4\nhistogram h|h_count{}=3\n"
      "unknown h_total|h_total{}=9\n" },
    { "summary", 0, "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 2\ns_count 3\n",
      "summary s|s{quantile=0.5}=1\nsummary s|s_sum{}=2\nsummary s|s_count{}=3\n" },
    { "a name with colons", 0, "a:b:c 1\n", "unknown a:b:c|a:b:c{}=1\n" },
    { "a type does not last", 0, "# TYPE a gauge\na 1\nab 2\n# TYPE c counter\nc 3\n",
      "gauge a|a{}=1\nunknown ab|ab{}=2\ncounter c|c{}=3\n" },
    { "OpenMetrics", 1, "# TYPE c counter\n# UNIT c bytes\n# HELP c \\\"x\\\"\n"
                        "c_total{a=\"b\"} 5 1.5 # {trace_id=\"7\"} 3 1\n"
                        "c_created 1\n# TYPE i info\ni_info{v=\"1\"} 1\n# TYPE g gaugehistogram\n"
                        "g_bucket{le=\"1\"} 1\n"
                        "g_gsum 1\n# TYPE u unknown\nu 1\n# EOF\n",
      "counter c|c_total{a=b}=5@1.500\ncounter c|c_created{}=1 none\ninfo i|i_info{v=1}=1\n"
      "gaugehistogram g|g_bucket{le=1}=1\ngaugehistogram g|g_gsum{}=1\nunknown u|u{}=1\n" },
    { "nothing but the end", 1, "# EOF", "" },
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct sonde_buf out;
        struct sonde_err err = { "" };
        print_message("%s\n", good[i].what);
        assert_int_equal(parse(good[i].text, strlen(good[i].text), good[i].open, &out, &err), 0);
        assert_string_equal(out.len ? out.data : "", good[i].samples);
        sonde_buf_release(&out);
    }
}

#define TEXT(s) s, sizeof(s) - 1
static const struct { const char *what; int open; const char *text; size_t len; } bad[] = {
    { "no value", 0, TEXT("x\n") },
    { "no number", 0, TEXT("x abc\n") },
    { "nan with bits", 0, TEXT("x nan(1)\n") },
    { "a number with blanks inside", 0, TEXT("x 1 2 3\n") },
    { "a name that begins with a digit", 0, TEXT("1x 1\n") },
    { "a label that begins with a digit", 0, TEXT("x{1a=\"b\"} 1\n") },
    { "a label with a colon", 0, TEXT("x{a:b=\"b\"} 1\n") },
    { "no quotes", 0, TEXT("x{a=b} 1\n") },
    { "an open quote", 0, TEXT("x{a=\"b} 1\n") },
    { "an open escape", 0, TEXT("x{a=\"\\") },
    { "an unknown escape", 0, TEXT("x{a=\"\\t\"} 1\n") },
    { "an open brace", 0, TEXT("x{a=\"b\" 1\n") },
    { "two labels without a comma", 0, TEXT("x{a=\"b\"c=\"d\"} 1\n") },
    { "not UTF-8", 0, TEXT("x{a=\"\xff\"} 1\n") },
    { "a NUL", 0, TEXT("x{a=\"\0\"} 1\n") },
    { "no end of the last line", 0, TEXT("x 1\ny 2") },
    { "an unknown type", 0, TEXT("# TYPE x thing\n") },
    { "a type of OpenMetrics", 0, TEXT("# TYPE x info\n") },
    { "an exemplar", 0, TEXT("x 1 # {a=\"b\"} 1\n") },
    { "no EOF", 1, TEXT("x 1\n") },
    { "more behind EOF", 1, TEXT("# EOF\nx 1\n") },
    { "another comment", 1, TEXT("# hello\n# EOF\n") },
    { "an empty line", 1, TEXT("\n# EOF\n") },
    { "an exemplar cut", 1, TEXT("x_total 1 # {a=\"b\n# EOF\n") },
    { "binary", 0, TEXT("\x1f\x8b\x08\x00\x00") },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_buf out;
        struct sonde_err err = { "" };
        print_message("%s\n", bad[i].what);
        assert_int_equal(parse(bad[i].text, bad[i].len, bad[i].open, &out, &err), SONDE_EFORMAT);
        assert_true(err.text[0]);
        sonde_buf_release(&out);
    }
}

static void test_long(void **state)
{
    (void)state;
    struct sonde_buf text, out;
    struct sonde_err err = { "" };
    sonde_buf_init(&text, 1 << 22);
    sonde_buf_puts(&text, "x{a=\"");
    for (int i = 0; i < 100000; i++) sonde_buf_putc(&text, 'a');
    sonde_buf_puts(&text, "\"} 1\n");
    assert_int_equal(parse(text.data, text.len, 0, &out, &err), SONDE_EFORMAT);
    sonde_buf_release(&out);
    sonde_buf_reset(&text);
    sonde_buf_puts(&text, "x{");
    for (int i = 0; i < 65; i++) sonde_buf_printf(&text, "a%d=\"\",", i);
    sonde_buf_puts(&text, "} 1\n");
    assert_int_equal(parse(text.data, text.len, 0, &out, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "line 1: too many labels"));
    sonde_buf_release(&out);
    sonde_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
