#include "profile/python_code.h"

#include <string.h>

/* ---- Texts ----------------------------------------------------------------------------------- */

static size_t python_put_utf8(char *to, uint32_t c)
{
    if (c < 0x20 || c == 0x7f || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* As valid UTF-8 without control characters; what does not fit is cut. */
void sonde_python_text(char *to, size_t size, const char *from, uint32_t bytes, uint32_t kind)
{
    size_t n = 0;
    for (uint32_t at = 0; at + kind <= bytes && n + 4 < size; at += kind) {
        uint32_t c = 0;
        memcpy(&c, from + at, kind);
        n += python_put_utf8(to + n, c);
    }
    to[n] = '\0';
}

/* ---- Lines ----------------------------------------------------------------------------------- */

struct python_lines {
    const unsigned char *at, *end;
};

/* Six bits a byte, the lowest first; bit 6: more follow. */
static uint32_t python_varint(struct python_lines *l)
{
    uint32_t v = 0;
    for (uint32_t shift = 0; l->at < l->end; shift += 6) {
        const unsigned char b = *l->at++;
        if (shift < 30) v |= (uint32_t)(b & 63) << shift;
        if (!(b & 64)) break;
    }
    return v;
}

static int32_t python_svarint(struct python_lines *l)
{
    const uint32_t v = python_varint(l);
    return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* Entries of a byte, 1 << 7 | form << 3 | instructions - 1, and what the form has
 * (Objects/locations.md in CPython). */
uint32_t sonde_python_line(const char *table, uint32_t bytes, uint32_t first,
                           uint32_t instruction)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    struct python_lines l = { (const unsigned char *)table, (const unsigned char *)table + bytes };
    int64_t line = first;
    uint64_t done = 0;
    while (l.at < l.end) {
        const unsigned char head = *l.at++;
        const uint32_t form = head >> 3 & 15;
        if (form == LONG) {
            line += python_svarint(&l);
            for (int i = 0; i < 3; i++) python_varint(&l);
        } else if (form == NO_COLUMNS) {
            line += python_svarint(&l);
        } else if (form >= ONE_LINE && form < NO_COLUMNS) {
            line += form - ONE_LINE;
            l.at += 2;
        } else if (form < ONE_LINE) {
            l.at += 1;
        }
        done += (head & 7u) + 1;
        if (instruction < done) {
            return form == NONE || line < 1 || line > INT32_MAX ? 0 : (uint32_t)line;
        }
    }
    return 0;
}
