/* Fields of CSV: quotes, formulas, bytes that are not UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "present/report/csv.h"

static void test_fields(void **state)
{
    (void)state;
    static const struct { const char *text, *field; } cases[] = {
        { "plain", "plain" },
        { "a,b", "\"a,b\"" },
        { "say \"no\"", "\"say \"\"no\"\"\"" },
        { "two\nlines", "\"two\nlines\"" },
        { "=1+1", "\"'=1+1\"" },
        { "+1", "\"'+1\"" },
        { "-1", "\"'-1\"" },
        { "@a", "\"'@a\"" },
        { "\tx", "\"'\tx\"" },
        { "\xef\xbc\x9d" "1", "\"'\xef\xbc\x9d" "1\"" },
        { "a=1", "a=1" },
        { "1-2", "1-2" },
        { "it's", "\"it's\"" },
        { "bad\xff", "bad\xef\xbf\xbd" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_buf out;
        char wanted[200];
        sonde_buf_init(&out, 1000);
        const struct report_csv c = { .out = &out, .section = "s", .name = cases[i].text,
                                      .pid = 3 };
        report_csv_text(&c, "f", "t");
        snprintf(wanted, sizeof(wanted), "s,,3,%s,,f,,,t\r\n", cases[i].field);
        assert_string_equal(out.data, wanted);
        sonde_buf_release(&out);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    struct sonde_buf out;
    sonde_buf_init(&out, 1000);
    const struct report_csv c = { .out = &out, .section = "s" };
    report_csv_num(&c, "a", -1.5, "seconds"); /* a number is no formula */
    report_csv_num(&c, "b", NAN, "");
    report_csv_num(&c, "c", INFINITY, "");
    report_csv_u64(&c, "d", UINT64_MAX, "bytes");
    report_csv_text(&c, "e", "");
    assert_string_equal(out.data, "s,,,,,a,-1.5,seconds,\r\n"
                                  "s,,,,,d,18446744073709551615,bytes,\r\n");
    sonde_buf_release(&out);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_fields),
                                        cmocka_unit_test(test_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
