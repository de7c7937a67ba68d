/* buf.c - growing buffer and the number formatting that /metrics spends its time in.
 *
 * Integers are written two digits at a time from a table. Doubles: most values met in practice
 * are integers or decimals of few digits, and those take a path of one multiplication and one
 * division; others of common size are searched for their shortest decimal in exact 128-bit
 * arithmetic; the very large and very small go through snprintf, tried at 15, 16 and 17 digits.
 * Rejected: Ryu and Schubfach, which cover the whole range at this speed for 10 KB of tables. */
#include "base/buf.h"

#include <assert.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

enum { FIRST_CAP = 256, U64_DIGITS = 20, JSON_PIECE = 128 };

void sonde_buf_init(struct sonde_buf *b, size_t max)
{
    /* The terminating NUL needs a byte of its own. */
    assert(max < SIZE_MAX);
    *b = (struct sonde_buf){ .max = max };
}

void sonde_buf_release(struct sonde_buf *b)
{
    sonde__free(b->data);
    *b = (struct sonde_buf){ .max = b->max };
}

void sonde_buf_reset(struct sonde_buf *b)
{
    b->len = 0;
    b->error = 0;
    if (b->data) b->data[0] = 0;
}

char *sonde_buf_take(struct sonde_buf *b)
{
    if (!b->error && !b->data) sonde_buf_add(b, "", 0);
    char *data = b->error ? NULL : b->data;
    if (data) b->data = NULL;
    sonde_buf_release(b);
    return data;
}

static char *buf_grow(struct sonde_buf *b, size_t n)
{
    assert(b->len <= b->max && b->cap <= b->max + 1);
    if (b->error) return NULL;
    if (n > b->max - b->len) {
        b->error = SONDE_EFULL;
        return NULL;
    }
    const size_t need = b->len + n + 1;
    size_t cap = b->cap ? b->cap : FIRST_CAP;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    if (cap > b->max + 1) cap = b->max + 1;
    char *data = sonde__realloc(b->data, cap);
    if (!data) {
        b->error = SONDE_ENOMEM;
        return NULL;
    }
    b->data = data;
    b->cap = cap;
    return data + b->len;
}

char *sonde_buf_reserve(struct sonde_buf *b, size_t n)
{
    /* cap never passes max + 1, so one comparison checks both. */
    if (__builtin_expect(!b->error && n < b->cap - b->len, 1)) return b->data + b->len;
    return buf_grow(b, n);
}

void sonde_buf_add(struct sonde_buf *b, const void *data, size_t len)
{
    char *to = sonde_buf_reserve(b, len);
    if (!to) return;
    assert(data || !len);
    if (len) memcpy(to, data, len);
    to[len] = 0;
    b->len += len;
}

void sonde_buf_puts(struct sonde_buf *b, const char *s) { sonde_buf_add(b, s, strlen(s)); }

void sonde_buf_putc(struct sonde_buf *b, char c) { sonde_buf_add(b, &c, 1); }

void sonde_buf_printf(struct sonde_buf *b, const char *format, ...)
{
    if (b->error) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t room = b->cap - b->len;
    const int n = vsnprintf(room ? b->data + b->len : NULL, room, format, args);
    va_end(args);
    if (n < 0) {
        b->error = SONDE_EINVAL;
        if (room) b->data[b->len] = 0;
    } else if ((size_t)n < room) {
        b->len += (size_t)n;
    } else {
        char *to = sonde_buf_reserve(b, (size_t)n);
        if (to) {
            vsnprintf(to, (size_t)n + 1, format, again);
            b->len += (size_t)n;
        } else if (room) {
            b->data[b->len] = 0; /* the first try wrote here */
        }
    }
    va_end(again);
}

/* ---- numbers ----------------------------------------------------------------------------- */

static const char digit_pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445"
    "46474849505152535455565758596061626364656667686970717273747576777879808182838485868788899091"
    "9293949596979899";

static void buf_pair(char *to, uint32_t v) { memcpy(to, digit_pairs + v * 2, 2); }

/* Writes v so that it ends before end; returns its first digit. Eight digits at a time as long
 * as there are as many, for their divisions do not have to wait for each other. */
static char *digits_before(char *end, uint64_t v)
{
    while (v >= 100000000) {
        const uint32_t low = (uint32_t)(v % 100000000), a = low / 10000, b = low % 10000;
        v /= 100000000;
        end -= 8;
        buf_pair(end, a / 100);
        buf_pair(end + 2, a % 100);
        buf_pair(end + 4, b / 100);
        buf_pair(end + 6, b % 100);
    }
    uint32_t rest = (uint32_t)v;
    while (rest >= 100) {
        end -= 2;
        buf_pair(end, rest % 100);
        rest /= 100;
    }
    if (rest >= 10) {
        end -= 2;
        buf_pair(end, rest);
    } else {
        *--end = (char)('0' + rest);
    }
    return end;
}

void sonde_buf_u64(struct sonde_buf *b, uint64_t v)
{
    char text[U64_DIGITS];
    const char *first = digits_before(text + sizeof(text), v);
    sonde_buf_add(b, first, (size_t)(text + sizeof(text) - first));
}

/* digits / 10^places, places > 0, ending before end. */
static char *point_before(char *end, uint64_t digits, size_t places)
{
    char *first = digits_before(end, digits);
    while ((size_t)(end - first) <= places) *--first = '0';
    const size_t whole = (size_t)(end - first) - places;
    first--;
    memmove(first, first + 1, whole);
    first[whole] = '.';
    return first;
}

/* Decimals of at most 15 digits; v is in [0.0001, 1e15) and not an integer. A double is within
 * half a unit in its last place of such a decimal m / 10^k, so rint(v * 10^k) is m; and as m and
 * 10^k are exact doubles, m / 10^k is rounded once, just as a reader rounds the text. Without
 * its trailing zeros it is the shortest text: no two decimals of 15 digits read as one double.
 * Returns the first character of text that ends before end, or NULL if v is not of this kind. */
static char *short_decimal(char *end, double v)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                     1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18 };
    size_t places = v < 1e-3 ? 18 : v < 1e-2 ? 17 : v < 1e-1 ? 16 : 15;
    for (size_t i = 0; places <= 15 && places > 0 && v >= powers[i]; i++) places--;

    const double rounded = rint(v * powers[places]);
    if (rounded / powers[places] != v) return NULL;
    uint64_t m = (uint64_t)rounded;
    while (m % 100 == 0) {
        m /= 100;
        places -= 2;
    }
    if (m % 10 == 0) {
        m /= 10;
        places--;
    }
    return point_before(end, m, places);
}

/* The shortest decimal of any v in [2^-36, 2^53) that is not an integer: v = digits / 10^places.
 *
 * With v = m * 2^q, take k so that v * 10^k has 17 or 18 digits; it is m * 5^k * 2^(q + k), and
 * m * 5^k is exact in 117 bits. Every decimal within half a unit of m reads back as v (the ends
 * too if m is even, as readers round half to even). Among the integers around v * 10^k those
 * with j trailing zeros are tried, j = 0, 1, …; as one with j + 1 zeros also has j, the last j
 * that finds one is the shortest. Below a power of two the
 * interval is not symmetric, which would need a case of its own: 0 is returned. */
static int shortest_decimal(double v, uint64_t *digits, size_t *places)
{
    static const uint64_t fives[] = {
        1u, 5u, 25u, 125u, 625u, 3125u, 15625u, 78125u, 390625u, 1953125u, 9765625u, 48828125u,
        244140625u, 1220703125u, 6103515625u, 30517578125u, 152587890625u, 762939453125u,
        3814697265625u, 19073486328125u, 95367431640625u, 476837158203125u, 2384185791015625u,
        11920928955078125u, 59604644775390625u, 298023223876953125u, 1490116119384765625u,
        7450580596923828125u
    };
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    const int e = (int)(bits >> 52) - 1023; /* v is positive and normal */
    const uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    if (m == UINT64_C(1) << 52) return 0;
    const int k = 16 - (e * 78913 >> 18); /* 16 - floor(log10(2^e)) */
    const int shift = 52 - e - k + 1;
    assert(k > 0 && k < (int)SONDE_COUNT(fives) && shift >= 0);

    /* All in units of 2^-shift, in which half of m's last place is a whole number: 5^k. */
    const unsigned __int128 exact = (unsigned __int128)m * 2 * fives[k];
    const unsigned __int128 low = exact - fives[k] + (m & 1);
    const unsigned __int128 high = exact + fives[k] - (m & 1);
    const uint64_t floor = (uint64_t)(exact >> shift);

    int zeros = -1;
    uint64_t best = 0;
    for (uint64_t step = 1; step <= UINT64_C(100000000000000000); step *= 10) {
        const uint64_t below = floor - floor % step, above = below + step;
        const unsigned __int128 b = (unsigned __int128)below << shift;
        const unsigned __int128 a = (unsigned __int128)above << shift;
        if (b < low && a > high) break;
        /* The nearer one; of two as near, the even one, as printf has it. */
        const unsigned __int128 to_b = exact - b, to_a = a - exact;
        best = below / step;
        best += to_a < to_b || (to_a == to_b && best % 2);
        zeros++;
    }
    *digits = best;
    *places = (size_t)(k - zeros);
    return zeros >= 0;
}

/* digits / 10^places as d.ddde-NN, the form %g has for v < 0.0001. */
static char *exponent_before(char *end, uint64_t digits, size_t places)
{
    char text[U64_DIGITS];
    const char *first = digits_before(text + sizeof(text), digits);
    const size_t count = (size_t)(text + sizeof(text) - first);
    const size_t exponent = places + 1 - count;
    assert(exponent < 100);
    end -= 2;
    buf_pair(end, (uint32_t)exponent);
    *--end = '-';
    *--end = 'e';
    if (count > 1) {
        end -= count - 1;
        memcpy(end, first + 1, count - 1);
        *--end = '.';
    }
    *--end = *first;
    return end;
}

/* Any finite double, by trying. In the C locale: the thread's may write a comma. */
static size_t printed_double(char *text, size_t size, double v)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(plain);
    int n = 0;
    for (int precision = 15; precision <= 17; precision++) {
        n = snprintf(text, size, "%.*g", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    uselocale(before);
    freelocale(plain);
    return (size_t)n;
}

/* The shortest text of v > 0, which ends before end; NULL for the sizes left to snprintf. */
static char *double_before(char *end, double v)
{
    if (v < 0x1p53 && v == (double)(uint64_t)v) {
        return digits_before(end, (uint64_t)v);
    }
    if (v < 0x1p-36 || v >= 0x1p53) return NULL;
    char *first = v >= 1e-4 && v < 1e15 ? short_decimal(end, v) : NULL;
    if (first) return first;
    uint64_t digits;
    size_t places;
    if (!shortest_decimal(v, &digits, &places)) return NULL;
    return v >= 1e-4 ? point_before(end, digits, places) : exponent_before(end, digits, places);
}

static void add_finite(struct sonde_buf *b, double v)
{
    char text[40];
    char *const end = text + sizeof(text);
    char *first = double_before(end, fabs(v));
    if (first) {
        if (signbit(v)) *--first = '-';
        sonde_buf_add(b, first, (size_t)(end - first));
    } else {
        sonde_buf_add(b, text, printed_double(text, sizeof(text), v));
    }
}

void sonde_buf_double(struct sonde_buf *b, double v)
{
    if (isfinite(v)) {
        add_finite(b, v);
    } else {
        sonde_buf_puts(b, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
    }
}

void sonde_buf_json_double(struct sonde_buf *b, double v)
{
    if (isfinite(v)) {
        add_finite(b, v);
    } else {
        sonde_buf_puts(b, "null");
    }
}

/* ---- JSON strings ------------------------------------------------------------------------ */

static void buf_json_escape(struct sonde_buf *b, unsigned char c)
{
    switch (c) {
    case '"': sonde_buf_add(b, "\\\"", 2); break;
    case '\\': sonde_buf_add(b, "\\\\", 2); break;
    case '\n': sonde_buf_add(b, "\\n", 2); break;
    case '\r': sonde_buf_add(b, "\\r", 2); break;
    case '\t': sonde_buf_add(b, "\\t", 2); break;
    default: sonde_buf_printf(b, "\\u%04x", c); break;
    }
}

static void json_body(struct sonde_buf *b, const char *s, size_t len)
{
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        sonde_buf_add(b, s + from, i - from);
        buf_json_escape(b, c);
        from = i + 1;
    }
    sonde_buf_add(b, s + from, len - from);
}

/* How much of s to repair at a time, so that no character is split: the next piece begins with
 * a byte that continues nothing, if there is one in reach. */
static size_t buf_piece(const char *s, size_t len)
{
    if (len <= JSON_PIECE) return len;
    for (size_t n = JSON_PIECE; n > JSON_PIECE - 4; n--) {
        if (((unsigned char)s[n] & 0xc0) != 0x80) return n;
    }
    return JSON_PIECE;
}

void sonde_buf_url(struct sonde_buf *b, const char *s)
{
    for (; *s; s++) {
        const int plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                          (*s >= '0' && *s <= '9') || strchr("-_.!~*'()", *s);
        if (plain) sonde_buf_putc(b, *s);
        else sonde_buf_printf(b, "%%%02X", (unsigned char)*s);
    }
}

void sonde_buf_json_str(struct sonde_buf *b, const char *s, size_t len)
{
    sonde_buf_putc(b, '"');
    if (sonde__utf8_valid(s, len)) {
        json_body(b, s, len);
    } else {
        for (size_t i = 0; i < len;) {
            char fixed[3 * JSON_PIECE];
            const size_t n = buf_piece(s + i, len - i);
            int changed = 0;
            json_body(b, fixed, sonde__utf8_copy(fixed, sizeof(fixed), s + i, n, &changed));
            i += n;
        }
    }
    sonde_buf_putc(b, '"');
}
