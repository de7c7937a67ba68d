#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define R "\xef\xbf\xbd"
#define TEXT(s) s, sizeof(s) - 1

static const struct {
    const char *name;
    const char *in;
    size_t in_len;
    const char *out; /* repaired; the same as in when valid */
} cases[] = {
    { "empty", TEXT(""), "" },
    { "ascii", TEXT("plain text, longer than eight"), "plain text, longer than eight" },
    { "two, three, four bytes", TEXT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
      "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
    { "first and last of each length",
      TEXT("\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
      "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
    { "around the surrogates", TEXT("\xed\x9f\xbf\xee\x80\x80"), "\xed\x9f\xbf\xee\x80\x80" },
    { "NUL", TEXT("a\0b"), "a" R "b" },
    { "NUL in a run of eight", TEXT("abcdefg\0abcdefgh"), "abcdefg" R "abcdefgh" },
    { "lone continuation", TEXT("a\x80z"), "a" R "z" },
    { "overlong slash", TEXT("\xc0\xaf"), R R },
    { "overlong three", TEXT("\xe0\x80\xaf"), R R R },
    { "overlong four", TEXT("\xf0\x80\x80\xaf"), R R R R },
    { "surrogate", TEXT("\xed\xa0\x80"), R R R },
    { "above U+10FFFF", TEXT("\xf4\x90\x80\x80"), R R R R },
    { "no such lead", TEXT("\xf5\xff\xfe"), R R R },
    { "cut two", TEXT("a\xc3"), "a" R },
    { "cut three: one mark", TEXT("\xe2\x82"), R },
    { "cut four: one mark", TEXT("\xf0\x9f\x98"), R },
    { "cut by ascii", TEXT("\xf0\x9f\x98z"), R "z" },
    { "cut by a lead", TEXT("\xe2\x82\xc3\xa9"), R "\xc3\xa9" },
    { "latin-1", TEXT("caf\xe9 au lait"), "caf" R " au lait" },
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t want = strlen(cases[i].out);
        const int same = want == cases[i].in_len && !memcmp(cases[i].in, cases[i].out, want);
        char out[128];
        int changed = 0;
        const size_t n =
            sonde__utf8_copy(out, sizeof(out), cases[i].in, cases[i].in_len, &changed);
        if (n != want || memcmp(out, cases[i].out, n) != 0) fail_msg("copy: %s", cases[i].name);
        if (changed != !same) fail_msg("changed: %s", cases[i].name);
        if (sonde__utf8_valid(cases[i].in, cases[i].in_len) != same) {
            fail_msg("valid: %s", cases[i].name);
        }
    }
}

/* Every room from none to plenty: never too much, never half a character, a prefix of the whole. */
static void test_cut(void **state)
{
    (void)state;
    static const char in[] = "a\xc3\xa9" "bc\xe2\x82\xac" "d\xff\xf0\x9f\x98\x80 long ascii tail";
    char whole[64];
    int changed = 0;
    const size_t total = sonde__utf8_copy(whole, sizeof(whole), in, sizeof(in) - 1, &changed);
    for (size_t room = 0; room <= total; room++) {
        char out[64];
        memset(out, '#', sizeof(out));
        changed = 0;
        const size_t n = sonde__utf8_copy(out, room, in, sizeof(in) - 1, &changed);
        assert_true(n <= room && room - n < 4);
        assert_memory_equal(out, whole, n);
        assert_int_equal(out[n], '#');
        assert_true(sonde__utf8_valid(out, n));
        assert_true(changed);
    }
}

static void test_changed_is_never_cleared(void **state)
{
    (void)state;
    char out[8];
    int changed = 1;
    assert_int_equal(sonde__utf8_copy(out, sizeof(out), "ok", 2, &changed), 2);
    assert_int_equal(changed, 1);
}

/* All pairs of bytes against the definition, behind ascii of each alignment. */
static void test_all_pairs(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const int one = a > 0 && a < 0x80 && b > 0 && b < 0x80;
            const int two = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
            char s[18] = "abcdefghabcdefgh";
            const size_t at = (a + b) % 9;
            s[at] = (char)a;
            s[at + 1] = (char)b;
            assert_int_equal(sonde__utf8_valid(s, at + 2), one || two);
            assert_int_equal(sonde__utf8_valid(s, 16), one || two);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_changed_is_never_cleared),
        cmocka_unit_test(test_all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
