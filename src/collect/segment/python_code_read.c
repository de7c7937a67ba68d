/* python_code_read.c - functions of Python out of a segment (segment/python.h). Nothing of it is
 * believed: where a code lies, how long its texts are and what its table of lines says. */
#include <assert.h>
#include <string.h>

#include "profile/python_code.h"
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
    const struct sonde__python *at =
        (const struct sonde__python *)(const void *)(s->map.base + off);
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
    sonde_python_text(out->name, sizeof(out->name), text, c.name_bytes, c.name_kind);
    sonde_python_text(out->file, sizeof(out->file), text + c.name_bytes, c.file_bytes,
                      c.file_kind);
    out->first_line = c.first_line <= INT32_MAX ? c.first_line : 0;
    out->line = sonde_python_line(text + c.name_bytes + c.file_bytes, c.lines_bytes,
                                  out->first_line, sonde__python_instruction(ip));
    return segment_verdict(s, 0, err);
}
