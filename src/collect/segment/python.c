/* python.c - functions of Python out of a segment (segment/python.h). Nothing of it is believed:
 * where a code lies, how long its texts are and what its table of lines says. */
#include <assert.h>
#include <string.h>

#include "collect/segment/private.h"
#include "segment/python.h"

static int python_in_blocks(struct sonde_segment *s, uint64_t off, uint64_t bytes)
{
    struct sonde_err err;
    struct segment_counts c;
    return segment_counts_load(s, &c, &err) == 0 && segment_in_blocks(s, &c, off, bytes);
}

int sonde_segment_python(struct sonde_segment *s, struct sonde_segment_python_info *out,
                         struct sonde_err *err)
{
    const uint64_t off = __atomic_load_n(&s->live->python, __ATOMIC_ACQUIRE);
    if (!off) return SONDE_ENOENT;
    if (!python_in_blocks(s, off, sizeof(struct sonde__python))) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: what it says of "
                                                "Python lies outside the block area"), err);
    }
    const struct sonde__python *at = (const struct sonde__python *)(const void *)(s->map.base + off);
    *out = (struct sonde_segment_python_info){
        .state = __atomic_load_n(&at->state, __ATOMIC_ACQUIRE),
        .version = __atomic_load_n(&at->version, __ATOMIC_RELAXED),
        .codes = segment_load(&at->codes),
        .full = segment_load(&at->full),
        .broken = segment_load(&at->broken),
    };
    if (out->state >= SONDE__PYTHON_STATE_COUNT) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: what it says of "
                                                "Python makes no sense"), err);
    }
    return segment_verdict(s, 0, err);
}

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
static void python_text_decode(char *to, size_t size, const char *from, uint32_t bytes,
                               uint32_t kind)
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

/* co_linetable of 3.11 and later (Objects/locations.md in CPython): entries of a byte, 1 | form << 3
 * | instructions - 1, and what the form has. 0 = the instruction has no line. */
static uint32_t python_line_of(const char *table, uint32_t bytes, uint32_t first,
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
        if (instruction < done) return form == NONE || line < 1 || line > INT32_MAX
                                           ? 0 : (uint32_t)line;
    }
    return 0;
}

/* ---- Functions ------------------------------------------------------------------------------- */

int sonde_segment_python_function(struct sonde_segment *s, uint64_t ip,
                                  struct sonde_segment_python_function *out, struct sonde_err *err)
{
    assert(sonde__python_is(ip));
    char text[SONDE__PYTHON_NAME_MAX + SONDE__PYTHON_FILE_MAX + SONDE__PYTHON_LINES_MAX];
    struct sonde__python_code c;
    const uint64_t off = sonde__python_code_off(ip);
    if (!off) return SONDE_EFULL;
    if (!python_in_blocks(s, off, sizeof(c))) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: a function of Python "
                                                "lies outside the block area"), err);
    }
    const struct sonde__python_code *at =
        (const struct sonde__python_code *)(const void *)(s->map.base + off);
    const int ready = __atomic_load_n(&at->ready, __ATOMIC_ACQUIRE) == 1;
    memcpy(&c, at, sizeof(c));
    if (!ready) return segment_verdict(s, SONDE_EBUSY, err);
    const uint64_t bytes = (uint64_t)c.name_bytes + c.file_bytes + c.lines_bytes;
    const int kinds = (c.name_kind == 1 || c.name_kind == 2 || c.name_kind == 4) &&
                      (c.file_kind == 1 || c.file_kind == 2 || c.file_kind == 4);
    if (c.magic != SONDE__PYTHON_CODE_MAGIC || !kinds || c.name_bytes > SONDE__PYTHON_NAME_MAX ||
        c.file_bytes > SONDE__PYTHON_FILE_MAX || c.lines_bytes > SONDE__PYTHON_LINES_MAX ||
        !python_in_blocks(s, off, sizeof(c) + bytes)) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: a function of Python "
                                                "makes no sense"), err);
    }
    memcpy(text, at->text, (size_t)bytes);
    python_text_decode(out->name, sizeof(out->name), text, c.name_bytes, c.name_kind);
    python_text_decode(out->file, sizeof(out->file), text + c.name_bytes, c.file_bytes,
                       c.file_kind);
    out->first_line = c.first_line <= INT32_MAX ? c.first_line : 0;
    out->line = python_line_of(text + c.name_bytes + c.file_bytes, c.lines_bytes, out->first_line,
                               sonde__python_instruction(ip));
    return segment_verdict(s, 0, err);
}
