/* unicode.c - decoding, and classes by a table of two stages.
 *
 *   point >> 8 → block → class       blocks that are of one class throughout share one block
 *
 * The table is made from the ranges on first use: 4,352 indexes and about 250 blocks of 256 bytes.
 * A search in the ranges for each character would be a quarter of the time of an encode. */
#include "text/unicode.h"

#include <pthread.h>
#include <string.h>

enum { BLOCKS = 0x110000 >> 8, BLOCKS_MIXED_MAX = 512, BLOCKS_UNIFORM = 8 };

static uint16_t block_of[BLOCKS];
static uint8_t blocks[BLOCKS_UNIFORM + BLOCKS_MIXED_MAX][256];
static pthread_once_t blocks_once = PTHREAD_ONCE_INIT;

static const uint16_t spaces[] = {
    0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
    0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000,
};

static uint32_t space_bit(uint32_t point)
{
    if (point <= 0x20) return point == 0x20 || (point >= 0x09 && point <= 0x0D) ? UNIT_SPACE : 0;
    if (point < 0x80 || point > 0x3000) return 0;
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        if (spaces[i] == point) return UNIT_SPACE;
    }
    return 0;
}

static void blocks_fill(void)
{
    for (uint32_t bit = 0; bit < BLOCKS_UNIFORM; bit++) memset(blocks[bit], 1 << bit, 256);
    uint16_t used = BLOCKS_UNIFORM;
    size_t range = 0;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        uint8_t row[256];
        for (uint32_t i = 0; i < 256; i++) {
            const uint32_t point = block << 8 | i;
            while (range + 1 < unicode_range_count && unicode_ranges[range + 1] >> 8 <= point) {
                range++;
            }
            row[i] = (uint8_t)(unicode_ranges[range] & 0xFF);
        }
        const uint16_t uniform = (uint16_t)__builtin_ctz(row[0]);
        if (!memcmp(row, blocks[uniform], 256)) {
            block_of[block] = uniform;
            continue;
        }
        memcpy(blocks[used], row, 256);
        block_of[block] = used++;
    }
}

static uint32_t unicode_unit_of(uint32_t point)
{
    return point << UNIT_SHIFT | blocks[block_of[point >> 8]][point & 0xFF] | space_bit(point);
}

uint32_t unicode_unit(uint32_t point)
{
    pthread_once(&blocks_once, blocks_fill);
    return unicode_unit_of(point);
}

static int is_tail(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

size_t unicode_decode(const char *text, size_t bytes, uint32_t *point)
{
    const unsigned char lead = (unsigned char)text[0];
    if (lead < 0x80) {
        *point = lead;
        return 1;
    }
    *point = 0xFFFD;
    if (lead < 0xC0 || lead >= 0xF8) return 1;
    const size_t length = unicode_lead_bytes(text[0]);
    if (length > bytes) return 1;
    uint32_t value = lead & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (!is_tail(text[i])) return 1;
        value = value << 6 | ((unsigned char)text[i] & 0x3F);
    }
    if (value >= 0x110000) return 1;
    *point = value;
    return length;
}

size_t unicode_encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    const size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3F));
        point >>= 6;
    }
    out[0] = (char)((0xF00u >> length) | point);
    return length;
}

size_t unicode_units(const char *text, size_t bytes, uint32_t *units, char *valid,
                     size_t *valid_bytes)
{
    pthread_once(&blocks_once, blocks_fill);
    size_t count = 0, to = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t point;
        at += unicode_decode(text + at, bytes - at, &point);
        to += unicode_encode(point, valid + to);
        units[count++] = unicode_unit_of(point);
    }
    units[count] = 0;
    *valid_bytes = to;
    return count;
}

static int byte_prints(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The bytes that do not print, in order: 0x00-0x20, 0x7F-0xA0, 0xAD are U+0100 and up. */
int unicode_byte_of(uint32_t point)
{
    if (point < 0x100) return byte_prints(point) ? (int)point : -1;
    const uint32_t nth = point - 0x100;
    if (nth <= 0x20) return (int)nth;
    if (nth <= 0x42) return (int)(nth - 0x21 + 0x7F);
    return nth == 0x43 ? 0xAD : -1;
}

uint32_t unicode_of_byte(unsigned char byte)
{
    if (byte_prints(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}
