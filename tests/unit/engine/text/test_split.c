#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/split.h"
#include "text/unicode.h"

struct joined { char text[512]; size_t at, bytes; const char *valid; };

static int word_join(void *context, const uint32_t *units, size_t count)
{
    struct joined *j = context;
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = unit_bytes(units[i]);
        memcpy(j->text + j->bytes, j->valid + j->at, bytes);
        j->bytes += bytes;
        j->at += bytes;
    }
    j->text[j->bytes++] = '|';
    j->text[j->bytes] = 0;
    return 0;
}

/* Words as `llama-tokenize`'s regular expressions give them, each ended by a bar. */
static const struct { const char *pre, *text, *words; } cases[] = {
    { "gpt-2", "Hello  World's 12345!?\n\n x", "Hello| | World|'s| 12345|!?|\n\n| x|" },
    { "gpt-2", "I'LL i'll", "I|'|LL| i|'ll|" },
    { "gpt-2", "a   ", "a|   |" },
    { "gpt-2", " \u00a0x", " |\u00a0|x|" },
    { "llama-bpe", "I'LL pay 1234567 euros!\n\n  ok",
      "I|'LL| pay| |123|456|7| euros|!\n\n| | ok|" },
    { "llama-bpe", "x \n y", "x| \n| y|" },
    { "llama-bpe", "\"quoted\"", "\"quoted|\"|" },
    { "llama-bpe", "tail ", "tail| |" },
    { "qwen2", "a 12b", "a| |1|2|b|" },
    { "qwen2", "e\u0301", "e|\u0301|" },
    { "qwen35", "e\u0301x \u0301", "e\u0301x| \u0301|" },
    { "starcoder", "ab12 3", "ab|1|2| |3|" },
    { "falcon", "a==b 12345", "a|==|b| |123|45|" },
    { "default", "a==b 12345", "a|==|b| |123|45|" },
    { "deepseek-llm", "Hi\n\n 你好。 12  ", "Hi|\n|\n| |你好|。| |12|  |" },
    { "deepseek-coder", "Hi, x1\n", "Hi|,| x|1|\n|" },
    { "deepseek-v3", "$foo(1234)", "$foo|(|123|4|)|" },
    { "gpt-4o", "camelCase HTTPServer's don'T", "camel|Case| HTTPServer's| don'T|" },
    { "tekken", "ÀBc ABÀ 12", "ÀBc| ABÀ| |1|2|" },
    { "gpt-4o", "path/to//\n", "path|/to|//\n|" },
    { "bloom", "Hi, you (a)", "Hi|,| you| (|a|)|" },
    { "seed-coder", "a!\nb", "a|!|\n|b|" },
};

static void test_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct split *s = split_named(cases[i].pre, strlen(cases[i].pre));
        assert_non_null(s);
        uint32_t units[256];
        char valid[768];
        size_t bytes;
        const size_t count = unicode_units(cases[i].text, strlen(cases[i].text), units, valid,
                                           &bytes);
        struct joined j = { .valid = valid };
        assert_int_equal(split_words(s, units, count, word_join, &j), 0);
        assert_string_equal(j.text, cases[i].words);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_null(split_named("gpt-22", 6));
    assert_null(split_named("gpt-", 4));
    assert_null(split_named("", 0));
    assert_true(split_named("llama3", 6)->ignore_merges);
    assert_false(split_named("dbrx", 4)->ignore_merges);
}

static int word_stop(void *context, const uint32_t *units, size_t count)
{
    (void)units;
    (void)count;
    return ++*(int *)context == 2 ? -7 : 0;
}

static void test_stops(void **state)
{
    (void)state;
    uint32_t units[16];
    char valid[48];
    size_t bytes;
    int calls = 0;
    const size_t count = unicode_units("a b c d", 7, units, valid, &bytes);
    assert_int_equal(split_words(split_named("gpt-2", 5), units, count, word_stop, &calls), -7);
    assert_int_equal(calls, 2);
}

static void test_decode(void **state)
{
    (void)state;
    static const struct { const char *text; size_t took; uint32_t point; } decodes[] = {
        { "a", 1, 'a' }, { "\xC3\xA9", 2, 0xE9 }, { "\xE4\xBD\xA0", 3, 0x4F60 },
        { "\xF0\x9F\x99\x82", 4, 0x1F642 },
        { "\x80", 1, 0xFFFD }, { "\xC3", 1, 0xFFFD }, { "\xC3(", 1, 0xFFFD },
        { "\xE4\xBD", 1, 0xFFFD }, { "\xF8\x80\x80\x80", 1, 0xFFFD }, { "\xFF", 1, 0xFFFD },
        { "\xF4\x90\x80\x80", 1, 0xFFFD },      /* beyond the last */
        { "\xC1\x81", 2, 'A' },                 /* longer than needed: accepted, as in llama.cpp */
        { "\xED\xA0\x80", 3, 0xD800 },          /* half of a pair, too */
    };
    for (size_t i = 0; i < sizeof(decodes) / sizeof(decodes[0]); i++) {
        uint32_t point;
        assert_int_equal(unicode_decode(decodes[i].text, strlen(decodes[i].text), &point),
                         decodes[i].took);
        assert_int_equal(point, decodes[i].point);
    }
    for (uint32_t point = 0; point < 0x110000; point += point < 0x10000 ? 1 : 61) {
        char text[4];
        uint32_t back;
        const size_t bytes = unicode_encode(point, text);
        assert_int_equal(unicode_decode(text, bytes, &back), bytes);
        assert_int_equal(back, point);
        assert_int_equal(unit_bytes(unicode_unit(point)), bytes);
        assert_int_equal(unit_point(unicode_unit(point)), point);
    }
}

static void test_classes(void **state)
{
    (void)state;
    static const struct { uint32_t point, flags; } classes[] = {
        { 'a', UNIT_LETTER }, { '0', UNIT_NUMBER }, { '!', UNIT_PUNCTUATION }, { '$', UNIT_SYMBOL },
        { ' ', UNIT_SEPARATOR | UNIT_SPACE }, { '\n', UNIT_CONTROL | UNIT_SPACE },
        { 0x85, UNIT_CONTROL | UNIT_SPACE }, { 0x3000, UNIT_SEPARATOR | UNIT_SPACE },
        { 0x200B, UNIT_CONTROL }, { 0x301, UNIT_MARK }, { 0x4E00, UNIT_LETTER },
        { 0x1F642, UNIT_SYMBOL }, { 0x0660, UNIT_NUMBER }, { 0x378, UNIT_UNASSIGNED },
        { 0xE000, UNIT_CONTROL }, { 0x10FFFF, UNIT_UNASSIGNED }, { 0x10FFFD, UNIT_CONTROL },
        { 0xD800, UNIT_CONTROL },
        { 0x1F6DC, UNIT_SYMBOL }, { 0x11F02, UNIT_LETTER }, /* of 15.0 */
        { 0x2EBF0, UNIT_LETTER }, { 0x2FFC, UNIT_SYMBOL },  /* of 15.1 */
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        assert_int_equal(unicode_unit(classes[i].point),
                         classes[i].point << UNIT_SHIFT | classes[i].flags);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    int seen = 0;
    for (uint32_t point = 0; point < 0x200; point++) {
        const int byte = unicode_byte_of(point);
        if (byte < 0) continue;
        assert_int_equal(unicode_of_byte((unsigned char)byte), point);
        seen++;
    }
    assert_int_equal(seen, 256);
    assert_int_equal(unicode_of_byte(' '), 0x120);
    assert_int_equal(unicode_of_byte('\n'), 0x10A);
    assert_int_equal(unicode_byte_of(0x4E00), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words), cmocka_unit_test(test_names), cmocka_unit_test(test_stops),
        cmocka_unit_test(test_decode), cmocka_unit_test(test_classes), cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
