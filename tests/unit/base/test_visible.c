/* What a terminal would obey is shown as '?', and nothing else is changed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/visible.h"

static void test_in_place(void **state)
{
    (void)state;
    static const struct { const char *in, *out; } cases[] = {
        { "", "" },
        { "plain caf\xc3\xa9 \xf0\x9f\x98\x80\nline", "plain caf\xc3\xa9 \xf0\x9f\x98\x80\nline" },
        { "\033]0;title\a", "?]0;title?" },
        { "\x01\t\r\x7f", "????" },
        { "a\xc2\x9b" "2Jb\xc2\xa0", "a?2Jb\xc2\xa0" }, /* U+009B is CSI, U+00A0 is not */
        { "\xc2", "\xc2" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];
        strcpy(text, cases[i].in);
        text[sonde_visible(text, strlen(text))] = '\0';
        assert_string_equal(text, cases[i].out);
    }
}

static void test_printf(void **state)
{
    (void)state;
    int ends[2];
    char got[16384], big[5000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_int_equal(pipe(ends), 0);
    sonde_visible_printf(ends[1], "%s: \033[31m%d \xff\n", "name\033c", 5);
    sonde_visible_printf(ends[1], "%s", big);
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], got + len, sizeof(got) - len)) > 0;) len += (size_t)n;
    close(ends[0]);
    static const char first[] = "name?c: ?[31m5 \xef\xbf\xbd\n";
    assert_int_equal(len, sizeof(first) - 1 + sizeof(big) - 1);
    assert_memory_equal(got, first, sizeof(first) - 1);
    assert_memory_equal(got + sizeof(first) - 1, big, sizeof(big) - 1);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_printf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
