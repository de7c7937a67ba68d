/* Text to cells: widths, cutting, padding, and that nothing harmful comes through. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "present/text.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void cells(void **state)
{
    (void)state;
    static const struct { const char *text; int utf8, ascii; } cases[] = {
        { "", 0, 0 },
        { "abc", 3, 3 },
        { "µs", 2, 2 },
        { "日本語", 6, 3 },
        { "e\xcc\x81x", 2, 2 },           /* combining acute */
        { "🙂", 2, 1 },
        { "\xff\xfe", 2, 2 },             /* not UTF-8: one cell a byte */
        { "\xe6\x97", 2, 2 },             /* cut in the middle */
        { "\xed\xa0\x80", 3, 3 },         /* a surrogate */
        { "\xc0\xaf", 2, 2 },             /* overlong */
        { "a\nb\x1b[31m", 8, 8 },
        { "\xe2\x80\xae" "abc", 4, 4 },   /* right-to-left override */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sonde_text_cells(cases[i].text, 0), cases[i].utf8);
        assert_int_equal(sonde_text_cells(cases[i].text, 1), cases[i].ascii);
    }
}

static void fit(void **state)
{
    (void)state;
    static const struct {
        const char *text; int cells; enum sonde_align align; int ascii; const char *expect;
    } cases[] = {
        { "abc", 5, SONDE_LEFT, 0, "abc  " },
        { "abc", 5, SONDE_RIGHT, 0, "  abc" },
        { "abc", 3, SONDE_RIGHT, 0, "abc" },
        { "abcdef", 4, SONDE_LEFT, 0, "abc…" },
        { "abcdef", 4, SONDE_RIGHT, 0, "abc…" },
        { "abcdef", 4, SONDE_LEFT, 1, "abc~" },
        { "abcdef", 1, SONDE_LEFT, 0, "…" },
        { "abcdef", 0, SONDE_LEFT, 0, "" },
        { "abcdef", -3, SONDE_LEFT, 0, "" },
        { "日本語", 6, SONDE_LEFT, 0, "日本語" },
        { "日本語", 5, SONDE_LEFT, 0, "日本…" },
        { "日本語", 4, SONDE_LEFT, 0, "日 …" },  /* half a character is a blank */
        { "日本語", 5, SONDE_LEFT, 1, "???  " },
        { "12 µs", 6, SONDE_RIGHT, 1, " 12 us" },
        { "a\tb", 3, SONDE_LEFT, 0, "a␉b" },
        { "a\tb", 3, SONDE_LEFT, 1, "a?b" },
        { "\x1b[2J", 4, SONDE_LEFT, 0, "␛[2J" },
        { "x\x7fy", 3, SONDE_LEFT, 0, "x␡y" },
        { "\xc2\x9b" "31m", 4, SONDE_LEFT, 0, "\xef\xbf\xbd" "31m" }, /* C1 CSI */
        { "e\xcc\x81", 2, SONDE_LEFT, 0, "e\xcc\x81 " },
        { "e\xcc\x81", 2, SONDE_LEFT, 1, "e " },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[64];
        const size_t len = sonde_text_fit(out, sizeof(out), cases[i].text, cases[i].cells,
                                          cases[i].align, cases[i].ascii);
        assert_string_equal(out, cases[i].expect);
        assert_int_equal(len, strlen(out));
    }
}

static void fit_small_buffer(void **state)
{
    (void)state;
    char out[6];
    sonde_text_fit(out, sizeof(out), "日本語", 6, SONDE_LEFT, 0);
    assert_string_equal(out, "日"); /* whole characters only */
    sonde_text_fit(out, 1, "abc", 3, SONDE_RIGHT, 0);
    assert_string_equal(out, "");
}

/* Any bytes at all: the result is valid UTF-8 without controls, and as wide as asked. */
static void hostile_bytes(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        char in[48], out[512];
        const size_t n = (size_t)rand() % (sizeof(in) - 1);
        for (size_t i = 0; i < n; i++) in[i] = (char)(rand() % 255 + 1);
        in[n] = 0;
        const int want = rand() % 60 + 1, ascii = rand() % 2;
        const size_t len = sonde_text_fit(out, sizeof(out), in, want, SONDE_LEFT, ascii);
        assert_int_equal(sonde_text_cells(out, ascii), want);
        assert_true(sonde__utf8_valid(out, len));
        for (size_t i = 0; i < len; i++) {
            assert_true((unsigned char)out[i] >= 0x20 && out[i] != 0x7f);
            if (ascii) assert_true((unsigned char)out[i] < 0x80);
        }
    }
}

static void encode_decodes(void **state)
{
    (void)state;
    static const uint32_t codes[] = { 'a', 0xb5, 0x7ff, 0x800, 0x2581, 0xfffd, 0x10000, 0x1f642 };
    for (size_t i = 0; i < COUNT(codes); i++) {
        char bytes[4];
        struct sonde_glyph g;
        const size_t n = sonde_text_encode(codes[i], bytes);
        assert_int_equal(sonde_text_next(bytes, n, 0, &g), n);
        assert_int_equal(g.code, codes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells),         cmocka_unit_test(fit),
        cmocka_unit_test(fit_small_buffer), cmocka_unit_test(hostile_bytes),
        cmocka_unit_test(encode_decodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
