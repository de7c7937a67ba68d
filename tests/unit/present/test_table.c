#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "present/table.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct sonde_column columns[] = {
    { .title = "PID", .align = SONDE_RIGHT, .want = 5 },
    { .title = "PROGRAM", .min = 4 },
    { .title = "CPU", .align = SONDE_RIGHT, .want = 6, .drop = 1 },
    { .title = "NOTE", .max = 8, .drop = 2 },
};

static void fill(struct sonde_table *t)
{
    sonde_table_init(t, columns, COUNT(columns));
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%d", 17);
    sonde_table_cell(t, 1, "example_shop");
    sonde_table_cell(t, 2, "12.3 %%");
    sonde_table_cell(t, 3, "ok");
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%d", 123456);
    sonde_table_cell(t, 1, "日本語");
    sonde_table_cell(t, 3, "rather long");
}

static void rendered(void **state)
{
    (void)state;
    static const struct { int width; const char *expect; } cases[] = {
        { 0, "   PID  PROGRAM          CPU  NOTE\n"
             "    17  example_shop  12.3 %  ok\n"
             "123456  日本語                rather …\n" },
        { 34, "   PID  PROGRAM      CPU  NOTE\n"
              "    17  example…  12.3 %  ok\n"
              "123456  日本語            rather …\n" },
        { 24, "   PID  PROGRAM      CPU\n"
              "    17  example…  12.3 %\n"
              "123456  日本語\n" },
        { 12, "   PID  PRO…\n"
              "    17  exa…\n"
              "123456  日 …\n" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_table t;
        struct sonde_buf out;
        fill(&t);
        sonde_buf_init(&out, 1 << 16);
        sonde_table_render(&t, cases[i].width, 0, &out);
        assert_string_equal(out.data, cases[i].expect);
        sonde_buf_release(&out);
        sonde_table_release(&t);
    }
}

/* Whatever the width, no line is wider. */
static void never_too_wide(void **state)
{
    (void)state;
    struct sonde_table t;
    fill(&t);
    for (int width = 1; width < 60; width++) {
        int fit[SONDE_TABLE_COLUMNS_MAX];
        struct sonde_buf out;
        sonde_buf_init(&out, 1 << 16);
        sonde_table_render(&t, width, width & 1, &out);
        for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
            assert_true(sonde_text_cells(line, width & 1) <= width);
        }
        sonde_buf_release(&out);
        sonde_table_fit(&t, width, 0, fit);
        assert_true(fit[0] > 0);
    }
    sonde_table_release(&t);
}

static void out_of_memory(void **state)
{
    (void)state;
    const int64_t before = sonde__alloc_live();
    int error = SONDE_ENOMEM;
    for (uint64_t nth = 1; error && nth < 100; nth++) {
        struct sonde_table t;
        sonde__alloc_fail_nth(nth);
        fill(&t);
        sonde__alloc_fail_nth(0);
        error = t.error;
        assert_true(error == 0 || error == SONDE_ENOMEM);
        sonde_table_release(&t);
        assert_int_equal(sonde__alloc_live(), before);
    }
    assert_int_equal(error, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rendered), cmocka_unit_test(never_too_wide),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
