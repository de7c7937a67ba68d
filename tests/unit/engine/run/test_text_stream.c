/* Whole characters, stop strings across pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "run/text_stream.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define R "\xef\xbf\xbd"

/* Pieces are separated by |; what comes out after each, and at the end, is too. */
static const struct {
    const char *name, *stops[3], *in, *out;
    int stopped;
} cases[] = {
    { "plain", { 0 }, "He|llo", "He|llo|", 0 },
    { "two bytes apart", { 0 }, "caf\xc3|\xa9!", "caf|\xc3\xa9!|", 0 },
    { "an emoji in four pieces", { 0 }, "\xf0|\x9f|\x98|\x80", "|||\xf0\x9f\x98\x80|", 0 },
    { "cut at the end", { 0 }, "a\xe2\x82", "a|" R, 0 },
    { "no character", { 0 }, "a\x80" "b\xff" "c", "a" R "b" R "c|", 0 },
    { "cut by another", { 0 }, "\xf0\x9f|\xc3\xa9", "|" R "\xc3\xa9|", 0 },
    { "a surrogate", { 0 }, "\xed\xa0\x80", R R R "|", 0 },
    { "a stop", { "END" }, "one END two", "one ", 1 },
    { "a stop in pieces", { "END" }, "one E|N|D two", "one ||", 1 },
    { "nearly a stop", { "END" }, "E|N|d", "||ENd|", 0 },
    { "a stop that begins twice", { "aab" }, "a|a|a|b", "||a|", 1 },
    { "held at the end", { "END" }, "x EN", "x |EN", 0 },
    { "the first of two", { "cd", "bcde" }, "ab|cd", "a|b", 1 },
    { "a stop of characters", { "\xe2\x82\xac" }, "1 \xe2|\x82|\xac 2", "1 ||", 1 },
    { "after the stop", { "." }, "a.|b|c", "a", 1 },
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct text_stream s;
        char got[256] = "";
        size_t stops = 0;
        while (stops < 3 && cases[i].stops[stops]) stops++;
        text_stream_init(&s, cases[i].stops, stops);
        const char *at = cases[i].in, *out;
        for (int more = 1; more && !s.stopped;) {
            const size_t bytes = strcspn(at, "|");
            const long n = text_stream_add(&s, at, bytes, &out);
            assert_true(n >= 0);
            strncat(got, out, (size_t)n);
            more = at[bytes] == '|';
            at += bytes + 1;
            if (!s.stopped) strcat(got, "|");
        }
        if (s.stopped != cases[i].stopped) fail_msg("stopped: %s", cases[i].name);
        const long n = text_stream_end(&s, &out);
        strncat(got, out, (size_t)n);
        if (strcmp(got, cases[i].out) != 0) fail_msg("%s: '%s'", cases[i].name, got);
        text_stream_release(&s);
    }
}

/* Whatever the pieces are cut to, the text is the same. */
static void test_any_cut(void **state)
{
    static const char text[] =
        "Grüße \xf0\x9f\x98\x80 an alle, stop here \xff and there: STOP, or not";
    const char *const stops[] = { "STOP", "st\xc3\xb6p" };
    (void)state;
    for (size_t step = 1; step < 12; step++) {
        struct text_stream s;
        char got[256] = "";
        const char *out;
        text_stream_init(&s, stops, 2);
        for (size_t at = 0; at < sizeof(text) - 1; at += step) {
            const size_t left = sizeof(text) - 1 - at;
            const long n = text_stream_add(&s, text + at, left < step ? left : step, &out);
            strncat(got, out, (size_t)n);
        }
        const long n = text_stream_end(&s, &out);
        strncat(got, out, (size_t)n);
        assert_string_equal(got, "Grüße \xf0\x9f\x98\x80 an alle, stop here " R " and there: ");
        text_stream_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_table),
                                        cmocka_unit_test(test_any_cut) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
