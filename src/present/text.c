/* text.c - see text.h.
 *
 * Widths are our own small table rather than wcwidth(): the answer must not depend on whether
 * somebody called setlocale(), and a table of ranges is right for everything seen in names. */
#include "present/text.h"

#include <assert.h>
#include <langinfo.h>
#include <string.h>

#include "base/array.h"

struct text_range { uint32_t first, last; };

/* Combining marks and variation selectors: drawn over the character before. */
static const struct text_range zero_width[] = {
    { 0x0300, 0x036f }, { 0x0483, 0x0489 }, { 0x0591, 0x05bd }, { 0x05bf, 0x05bf },
    { 0x05c1, 0x05c2 }, { 0x05c4, 0x05c5 }, { 0x0610, 0x061a }, { 0x064b, 0x065f },
    { 0x0670, 0x0670 }, { 0x06d6, 0x06dc }, { 0x06df, 0x06e4 }, { 0x06e7, 0x06e8 },
    { 0x06ea, 0x06ed }, { 0x0900, 0x0902 }, { 0x093a, 0x093a }, { 0x093c, 0x093c },
    { 0x0941, 0x0948 }, { 0x094d, 0x094d }, { 0x0951, 0x0957 }, { 0x0e31, 0x0e31 },
    { 0x0e34, 0x0e3a }, { 0x0e47, 0x0e4e }, { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff },
    { 0x20d0, 0x20f0 }, { 0x302a, 0x302d }, { 0x3099, 0x309a }, { 0xfe00, 0xfe0f },
    { 0xfe20, 0xfe2f }, { 0xe0100, 0xe01ef },
};

/* East Asian wide and emoji. */
static const struct text_range double_width[] = {
    { 0x1100, 0x115f }, { 0x231a, 0x231b }, { 0x2329, 0x232a }, { 0x23e9, 0x23ec },
    { 0x23f0, 0x23f0 }, { 0x23f3, 0x23f3 }, { 0x25fd, 0x25fe }, { 0x2614, 0x2615 },
    { 0x2648, 0x2653 }, { 0x267f, 0x267f }, { 0x2693, 0x2693 }, { 0x26a1, 0x26a1 },
    { 0x26aa, 0x26ab }, { 0x26bd, 0x26be }, { 0x26c4, 0x26c5 }, { 0x26ce, 0x26ce },
    { 0x26d4, 0x26d4 }, { 0x26ea, 0x26ea }, { 0x26f2, 0x26f3 }, { 0x26f5, 0x26f5 },
    { 0x26fa, 0x26fa }, { 0x26fd, 0x26fd }, { 0x2705, 0x2705 }, { 0x270a, 0x270b },
    { 0x2728, 0x2728 }, { 0x274c, 0x274c }, { 0x274e, 0x274e }, { 0x2753, 0x2755 },
    { 0x2757, 0x2757 }, { 0x2795, 0x2797 }, { 0x27b0, 0x27b0 }, { 0x27bf, 0x27bf },
    { 0x2b1b, 0x2b1c }, { 0x2b50, 0x2b50 }, { 0x2b55, 0x2b55 }, { 0x2e80, 0x303e },
    { 0x3041, 0xa4cf }, { 0xa960, 0xa97c }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff },
    { 0xfe30, 0xfe6f }, { 0xff01, 0xff60 }, { 0xffe0, 0xffe6 }, { 0x16fe0, 0x18cff },
    { 0x1b000, 0x1b2fb }, { 0x1f004, 0x1f004 }, { 0x1f0cf, 0x1f0cf }, { 0x1f18e, 0x1f18e },
    { 0x1f191, 0x1f19a }, { 0x1f200, 0x1f320 }, { 0x1f32d, 0x1f335 }, { 0x1f337, 0x1f37c },
    { 0x1f37e, 0x1f393 }, { 0x1f3a0, 0x1f3ca }, { 0x1f3cf, 0x1f3d3 }, { 0x1f3e0, 0x1f3f0 },
    { 0x1f3f4, 0x1f3f4 }, { 0x1f3f8, 0x1f43e }, { 0x1f440, 0x1f440 }, { 0x1f442, 0x1f4fc },
    { 0x1f4ff, 0x1f53d }, { 0x1f54b, 0x1f54e }, { 0x1f550, 0x1f567 }, { 0x1f57a, 0x1f57a },
    { 0x1f595, 0x1f596 }, { 0x1f5a4, 0x1f5a4 }, { 0x1f5fb, 0x1f64f }, { 0x1f680, 0x1f6c5 },
    { 0x1f6cc, 0x1f6cc }, { 0x1f6d0, 0x1f6d2 }, { 0x1f6d5, 0x1f6df }, { 0x1f6eb, 0x1f6ec },
    { 0x1f6f4, 0x1f6fc }, { 0x1f7e0, 0x1f7f0 }, { 0x1f90c, 0x1f93a }, { 0x1f93c, 0x1f945 },
    { 0x1f947, 0x1f9ff }, { 0x1fa70, 0x1faff }, { 0x20000, 0x3fffd },
};

/* Invisible or able to reorder the line: soft hyphen, zero-width and bidirectional controls,
 * line and paragraph separators, tags, private use, noncharacters. */
static const struct text_range hostile[] = {
    { 0x0080, 0x009f }, { 0x00ad, 0x00ad }, { 0x034f, 0x034f }, { 0x061c, 0x061c },
    { 0x115f, 0x1160 }, { 0x180b, 0x180f }, { 0x200b, 0x200f }, { 0x2028, 0x202e },
    { 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xd800, 0xf8ff }, { 0xfdd0, 0xfdef },
    { 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb }, { 0xfffe, 0xffff },
    { 0xe0000, 0xe00ff }, { 0xe01f0, 0x10ffff },
};

/* What we draw with ourselves, for terminals that cannot show it. */
static const struct { uint32_t code; char plain; } plain_forms[] = {
    { 0x00b5, 'u' }, { 0x00b7, '.' }, { 0x2013, '-' }, { 0x2014, '-' }, { 0x2026, '~' },
    { 0x2190, '<' }, { 0x2191, '^' }, { 0x2192, '>' }, { 0x2193, 'v' }, { 0x21e5, '>' },
    { 0x2500, '-' }, { 0x2502, '|' }, { 0x2514, '`' }, { 0x251c, '|' }, { 0x25b2, '^' },
    { 0x25bc, 'v' }, { 0x25b8, '>' }, { 0x25cf, '*' }, { 0x2581, '_' }, { 0x2582, '.' },
    { 0x2583, '-' }, { 0x2584, ':' }, { 0x2585, '=' }, { 0x2586, '+' }, { 0x2587, '*' },
    { 0x2588, '#' }, { 0x2591, '.' }, { 0x00d7, 'x' },
};

static int in_ranges(uint32_t code, const struct text_range *r, size_t count)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (code > r[mid].last) lo = mid + 1;
        else if (code < r[mid].first) hi = mid;
        else return 1;
    }
    return 0;
}
#define IN(code, table) in_ranges(code, table, SONDE_COUNT(table))

/* Decode one sequence; a bad byte is U+FFFD and one byte long. */
static size_t text_decode(const unsigned char *s, size_t len, uint32_t *code)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t need;
    uint32_t c;

    if (s[0] < 0x80) { *code = s[0]; return 1; }
    if ((s[0] & 0xe0) == 0xc0) { need = 2; c = s[0] & 0x1fu; }
    else if ((s[0] & 0xf0) == 0xe0) { need = 3; c = s[0] & 0x0fu; }
    else if ((s[0] & 0xf8) == 0xf0) { need = 4; c = s[0] & 0x07u; }
    else { *code = 0xfffd; return 1; }

    *code = 0xfffd;
    if (need > len) return 1;
    for (size_t i = 1; i < need; i++) {
        if ((s[i] & 0xc0) != 0x80) return 1;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < smallest[need] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 1;
    *code = c;
    return need;
}

static uint32_t plain_form(uint32_t code)
{
    for (size_t i = 0; i < SONDE_COUNT(plain_forms); i++) {
        if (plain_forms[i].code == code) return (uint32_t)plain_forms[i].plain;
    }
    return '?';
}

size_t sonde_text_next(const char *s, size_t len, int ascii, struct sonde_glyph *out)
{
    assert(len > 0);
    uint32_t code;
    const size_t used = text_decode((const unsigned char *)s, len, &code);

    if (code < 0x20) code = 0x2400 + code;
    else if (code == 0x7f) code = 0x2421;
    else if (code >= 0x80 && IN(code, hostile)) code = 0xfffd;

    int cells = 1;
    if (code >= 0x300) {
        if (IN(code, zero_width)) cells = 0;
        else if (IN(code, double_width)) cells = 2;
    }
    if (ascii && code >= 0x80) {
        code = cells ? plain_form(code) : 0;
        cells = cells ? 1 : 0;
    }
    *out = (struct sonde_glyph){ .code = code, .cells = cells };
    return used;
}

size_t sonde_text_encode(uint32_t code, char out[4])
{
    assert(code && code <= 0x10ffff);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

int sonde_text_cells(const char *s, int ascii)
{
    int cells = 0;
    size_t len = strlen(s);
    while (len > 0 && cells < 1 << 20) {
        struct sonde_glyph g;
        const size_t used = sonde_text_next(s, len, ascii, &g);
        cells += g.cells;
        s += used;
        len -= used;
    }
    return cells;
}

struct text_writer { char *out; size_t size, len; };

static int text_put(struct text_writer *w, uint32_t code)
{
    char bytes[4];
    const size_t n = sonde_text_encode(code, bytes);
    if (w->len + n + 1 > w->size) return 0;
    memcpy(w->out + w->len, bytes, n);
    w->len += n;
    return 1;
}

static void text_pad(struct text_writer *w, int cells)
{
    while (cells-- > 0 && text_put(w, ' ')) { }
}

size_t sonde_text_fit(char *out, size_t out_size, const char *s, int cells,
                      enum sonde_align align, int ascii)
{
    assert(out_size > 0);
    struct text_writer w = { .out = out, .size = out_size };
    const int want = sonde_text_cells(s, ascii);
    const int cut = want > cells;
    const int room = cut ? cells - 1 : cells; /* the ellipsis takes the last one */

    if (cells <= 0) {
        out[0] = 0;
        return 0;
    }
    if (align == SONDE_RIGHT && !cut) text_pad(&w, cells - want);

    int used = 0;
    size_t len = strlen(s);
    while (len > 0) {
        struct sonde_glyph g;
        const size_t n = sonde_text_next(s, len, ascii, &g);
        if (used + g.cells > room || (cut && used == room)) break;
        if (g.code && !text_put(&w, g.code)) break;
        used += g.cells;
        s += n;
        len -= n;
    }
    if (cut) {
        text_pad(&w, room - used); /* a wide character that did not fit leaves one cell */
        text_put(&w, ascii ? '~' : 0x2026);
    } else if (align == SONDE_LEFT) {
        text_pad(&w, cells - want);
    }
    out[w.len] = 0;
    return w.len;
}

int sonde_text_locale_ascii(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}
