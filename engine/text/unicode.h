/* unicode.h - characters as pre-tokenizers see them: a code point and its class, in one word.
 *
 * Classes are those of Unicode 15.1, which llama.cpp's tables are of (unicode_ranges.c says how
 * they are made). Lower-casing is not needed: the only case-blind rules are 's 't 're 've 'm 'll
 * 'd, and no character outside of ASCII has one of their letters as its lower case. */
#ifndef ENGINE_TEXT_UNICODE_H
#define ENGINE_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* A unit: code point << UNIT_SHIFT | class | space. 0 is "no character": beyond the end. */
enum {
    UNIT_NUMBER = 1, UNIT_LETTER = 2, UNIT_MARK = 4, UNIT_PUNCTUATION = 8, UNIT_SYMBOL = 16,
    UNIT_SEPARATOR = 32, UNIT_CONTROL = 64, UNIT_UNASSIGNED = 128, /* one of these */
    UNIT_SPACE = 256,                                              /* \s, beside its class */
    UNIT_SHIFT = 9,
};

static inline uint32_t unit_point(uint32_t unit) { return unit >> UNIT_SHIFT; }

/* Bytes of the character in UTF-8. */
static inline size_t unit_bytes(uint32_t unit)
{
    const uint32_t point = unit_point(unit);
    return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

uint32_t unicode_unit(uint32_t point); /* point < 0x110000 */

/* One code point at text[0], as llama.cpp decodes: longer forms than needed and surrogates are
 * accepted; a byte that starts nothing is U+FFFD. Returns the bytes that it took. */
size_t unicode_decode(const char *text, size_t bytes, uint32_t *point);
size_t unicode_encode(uint32_t point, char out[4]);

/* Bytes that the lead byte promises, valid or not; 1 for a byte that leads nothing. */
static inline size_t unicode_lead_bytes(char lead)
{
    const unsigned char c = (unsigned char)lead;
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Text into units, and into the same characters as UTF-8 (what was not valid is replaced). There
 * has to be room for bytes + 1 units (the last is a 0) and for 3 * bytes. Returns how many
 * units. */
size_t unicode_units(const char *text, size_t bytes, uint32_t *units, char *valid,
                     size_t *valid_bytes);

/* The characters that stand for bytes in byte-level vocabularies: printable ones of Latin-1 are
 * themselves, the others U+0100 and up. -1: stands for none. */
int unicode_byte_of(uint32_t point);
uint32_t unicode_of_byte(unsigned char byte);

/* ranges[i]: first code point << 8 | class; it reaches to the next one's first. */
extern const uint32_t unicode_ranges[];
extern const size_t unicode_range_count;

#endif
