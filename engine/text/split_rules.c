/* split_rules.c - rules that cut out one kind of thing and leave the rest as it is, to further
 * rules. */
#include "text/split_rules.h"
#include "text/unicode.h"

static int split_rules_is(uint32_t unit, uint32_t classes) { return (unit & classes) != 0; }

struct point_range { uint32_t first, last; };

/* White space outside of ASCII is no character of a range: llama.cpp replaces it before it
 * matches. */
static int split_rules_is_in(uint32_t unit, const struct point_range *ranges, size_t count)
{
    const uint32_t point = unit_point(unit);
    if (split_rules_is(unit, UNIT_SPACE)) return 0;
    size_t low = 0, high = count; /* the first range that starts beyond point */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (ranges[middle].first <= point) low = middle + 1;
        else high = middle;
    }
    return low > 0 && point <= ranges[low - 1].last;
}

static size_t in_run(const uint32_t *u, size_t n, size_t from, const struct point_range *ranges,
                     size_t count)
{
    while (from < n && split_rules_is_in(u[from], ranges, count)) from++;
    return from;
}

#define IN_RUN(u, n, from, ranges) in_run(u, n, from, ranges, sizeof(ranges) / sizeof((ranges)[0]))

static size_t class_run(const uint32_t *u, size_t n, size_t from, uint32_t classes)
{
    while (from < n && split_rules_is(u[from], classes)) from++;
    return from;
}

/* \p{N} */
size_t split_number(const uint32_t *u, size_t n)
{
    (void)n;
    return split_rules_is(u[0], UNIT_NUMBER) ? 1 : 0;
}

/* \p{N}+ */
size_t split_numbers(const uint32_t *u, size_t n) { return class_run(u, n, 0, UNIT_NUMBER); }

/* \p{N}{1,3} */
size_t split_numbers_3(const uint32_t *u, size_t n)
{
    return class_run(u, n < 3 ? n : 3, 0, UNIT_NUMBER);
}

/* [0-9][0-9][0-9] */
size_t split_digits_3(const uint32_t *u, size_t n)
{
    for (size_t i = 0; i < 3; i++) {
        if (i >= n || unit_point(u[i]) < '0' || unit_point(u[i]) > '9') return 0;
    }
    return 3;
}

/* [\r\n] */
size_t split_newline(const uint32_t *u, size_t n)
{
    (void)n;
    return unit_point(u[0]) == '\r' || unit_point(u[0]) == '\n';
}

static size_t punctuation_and(const uint32_t *u, size_t n, const char *more)
{
    size_t to = 0;
    for (; to < n; to++) {
        int match = split_rules_is(u[to], UNIT_PUNCTUATION);
        for (const char *c = more; !match && *c; c++) {
            match = unit_point(u[to]) == (unsigned char)*c;
        }
        if (!match) break;
    }
    return to;
}

/* [\p{P}\$\+<=>\^~\|]+ and the same with ` */
size_t split_punctuation_default(const uint32_t *u, size_t n)
{
    return punctuation_and(u, n, "$+<=>^~|");
}
size_t split_punctuation_falcon(const uint32_t *u, size_t n)
{
    return punctuation_and(u, n, "$+<=>^~|`");
}

/* \s?\p{L}+ and \s?\p{P}+ */
static size_t split_rules_space_and(const uint32_t *u, size_t n, uint32_t classes)
{
    const size_t from = split_rules_is(u[0], UNIT_SPACE) ? 1 : 0,
                 to = class_run(u, n, from, classes);
    return to > from ? to : 0;
}
size_t split_space_letters(const uint32_t *u, size_t n)
{
    return split_rules_space_and(u, n, UNIT_LETTER);
}
size_t split_space_punctuation(const uint32_t *u, size_t n)
{
    return split_rules_space_and(u, n, UNIT_PUNCTUATION);
}

/* \s+$ */
size_t split_space_end(const uint32_t *u, size_t n)
{
    return class_run(u, n, 0, UNIT_SPACE) == n ? n : 0;
}

/* \s?[A-Za-zµ…]+ : letters of scripts that have case */
size_t split_deepseek_letters(const uint32_t *u, size_t n)
{
    static const struct point_range cased[] = {
        { 0x41, 0x5A }, { 0x61, 0x7A }, { 0xB5, 0xB5 }, { 0xC0, 0xD6 }, { 0xD8, 0xF6 },
        { 0xF8, 0x1BA }, { 0x1BC, 0x1BF }, { 0x1C4, 0x293 }, { 0x295, 0x2AF }, { 0x370, 0x373 },
        { 0x376, 0x377 }, { 0x37B, 0x37D }, { 0x37F, 0x37F }, { 0x386, 0x386 }, { 0x388, 0x38A },
        { 0x38C, 0x38C }, { 0x38E, 0x3A1 }, { 0x3A3, 0x3F5 }, { 0x3F7, 0x481 }, { 0x48A, 0x52F },
        { 0x531, 0x556 }, { 0x10A0, 0x10C5 }, { 0x13A0, 0x13F5 }, { 0x13F8, 0x13FD },
        { 0x1C90, 0x1CBA }, { 0x1CBD, 0x1CBF }, { 0x1D00, 0x1D2B }, { 0x1D6B, 0x1D77 },
        { 0x1D79, 0x1D9A }, { 0x1E00, 0x1F15 }, { 0x1F18, 0x1F1D }, { 0x1F20, 0x1F45 },
        { 0x1F48, 0x1F4D }, { 0x1F50, 0x1F57 }, { 0x1F59, 0x1F59 }, { 0x1F5B, 0x1F5B },
        { 0x1F5D, 0x1F5D }, { 0x1F5F, 0x1F7D }, { 0x1F80, 0x1FB4 }, { 0x1FB6, 0x1FBC },
        { 0x1FBE, 0x1FBE }, { 0x1FC2, 0x1FC4 }, { 0x1FC6, 0x1FCC }, { 0x1FD0, 0x1FD3 },
        { 0x1FD6, 0x1FDB }, { 0x1FE0, 0x1FEC }, { 0x1FF2, 0x1FF4 }, { 0x1FF6, 0x1FFC },
        { 0x2102, 0x2102 }, { 0x2107, 0x2107 }, { 0x210A, 0x2113 }, { 0x2115, 0x2115 },
        { 0x2119, 0x211D }, { 0x2124, 0x2124 }, { 0x2126, 0x2126 }, { 0x2128, 0x2128 },
        { 0x212A, 0x212D }, { 0x212F, 0x2134 }, { 0x2139, 0x2139 }, { 0x213C, 0x213F },
        { 0x2145, 0x2149 }, { 0x214E, 0x214E }, { 0x2183, 0x2184 }, { 0x2C00, 0x2C7B },
        { 0x2C7E, 0x2CE4 }, { 0x2CEB, 0x2CEE }, { 0x2CF2, 0x2CF3 }, { 0xA640, 0xA66D },
        { 0xA680, 0xA69B }, { 0xA722, 0xA76F }, { 0xA771, 0xA787 }, { 0xA78B, 0xA78E },
        { 0xAB70, 0xABBF }, { 0xFB00, 0xFB06 }, { 0xFB13, 0xFB17 }, { 0xFF21, 0xFF3A },
        { 0xFF41, 0xFF5A }, { 0x10400, 0x1044F }, { 0x104B0, 0x104D3 }, { 0x104D8, 0x104FB },
        { 0x10C80, 0x10CB2 }, { 0x10CC0, 0x10CF2 }, { 0x118A0, 0x118DF }, { 0x1E900, 0x1E943 },
    };
    const size_t from = split_rules_is(u[0], UNIT_SPACE) ? 1 : 0, to = IN_RUN(u, n, from, cased);
    return to > from ? to : 0;
}

/* \s?[!-/:-~！-／：-～‘-‟　-。]+ */
size_t split_deepseek_punctuation(const uint32_t *u, size_t n)
{
    static const struct point_range marks[] = {
        { '!', '/' }, { ':', '~' }, { 0x2018, 0x201F }, { 0x3000, 0x3002 }, { 0xFF01, 0xFF0F },
        { 0xFF1A, 0xFF5E },
    };
    const size_t from = split_rules_is(u[0], UNIT_SPACE) ? 1 : 0, to = IN_RUN(u, n, from, marks);
    return to > from ? to : 0;
}

/* [一-龥ࠀ-一가-퟿]+ */
size_t split_deepseek_cjk(const uint32_t *u, size_t n)
{
    static const struct point_range cjk[] = { { 0x800, 0x9FA5 }, { 0xAC00, 0xD7FF } };
    return IN_RUN(u, n, 0, cjk);
}

/* [一-龥぀-ゟ゠-ヿ]+ */
size_t split_deepseek3_cjk(const uint32_t *u, size_t n)
{
    static const struct point_range cjk[] = { { 0x3040, 0x30FF }, { 0x4E00, 0x9FA5 } };
    return IN_RUN(u, n, 0, cjk);
}
