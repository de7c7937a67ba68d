/* utf8.c - runs in users' processes: libc only, no allocation, no locks.
 *
 * Well-formed is what table 3-7 of the Unicode standard says: no overlong forms, no surrogates,
 * nothing above U+10FFFF. A bad sequence is replaced by one U+FFFD per "maximal subpart", as
 * browsers and Python do, so a cut-off character becomes one mark and not three. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

static const char replacement[3] = { '\xef', '\xbf', '\xbd' };

/* Length of the well-formed character at s, or 0; *bad is then the length of what to replace.
 * len is at least 1. */
static size_t utf8_character(const unsigned char *s, size_t len, size_t *bad)
{
    const unsigned char b = s[0];
    *bad = 1;
    if (b < 0x80) return b != 0;
    if (b < 0xc2 || b > 0xf4) return 0;

    /* The second byte's range is what excludes overlong forms, surrogates and > U+10FFFF. */
    unsigned char low = 0x80, high = 0xbf;
    if (b == 0xe0) low = 0xa0;
    if (b == 0xed) high = 0x9f;
    if (b == 0xf0) low = 0x90;
    if (b == 0xf4) high = 0x8f;

    const size_t need = b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < need; i++) {
        if (i == len || s[i] < low || s[i] > high) {
            *bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return need;
}

/* Bytes at s that are plain ASCII without NUL, eight at a time: most text is nothing else. */
static size_t ascii_run(const unsigned char *s, size_t len)
{
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t w;
        memcpy(&w, s + i, 8);
        /* The subtraction borrows out of a zero byte; the high bit marks it or a non-ASCII. */
        if ((w | (w - 0x0101010101010101u)) & 0x8080808080808080u) break;
    }
    while (i < len && s[i] - 1u < 0x7f) i++;
    return i;
}

int sonde__utf8_valid(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t i = 0; i < len;) {
        i += ascii_run(p + i, len - i);
        if (i == len) break;
        size_t bad;
        const size_t n = utf8_character(p + i, len - i, &bad);
        if (!n) return 0;
        i += n;
    }
    return 1;
}

size_t sonde__utf8_copy(char *out, size_t out_max, const char *s, size_t len, int *changed)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t done = 0;
    for (size_t i = 0; i < len;) {
        size_t run = ascii_run(p + i, len - i);
        if (run) {
            if (run > out_max - done) run = out_max - done;
            if (!run) goto cut;
            memcpy(out + done, p + i, run);
            done += run;
            i += run;
            continue;
        }
        size_t bad;
        const size_t n = utf8_character(p + i, len - i, &bad);
        const size_t add = n ? n : sizeof(replacement);
        if (add > out_max - done) goto cut;
        memcpy(out + done, n ? (const void *)(p + i) : (const void *)replacement, add);
        done += add;
        i += n ? n : bad;
        if (!n) *changed = 1;
    }
    return done;
cut:
    *changed = 1;
    return done;
}
