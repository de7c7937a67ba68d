/* python_layout.h - where CPython keeps its frames, by version. Read in the process by
 * libsonde_preload, and from outside by the agent, where threads are blocked.
 *
 * 3.11 and 3.12 do not say: the numbers are those of their headers, which no release of either has
 * changed, and which tests/unit/segment/test_python_layout.c compares. From 3.13 on an interpreter
 * says it itself, at the start of _PyRuntime. */
#ifndef SONDE_SEGMENT_PYTHON_LAYOUT_H
#define SONDE_SEGMENT_PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "segment/python.h"

struct sonde__python_layout {
    uint16_t thread_bytes;      /* of a thread's state, in all */
    uint16_t thread_top;        /* in it: its cframe (up to 3.12), or its frame */
    uint16_t chained;           /* 1: by cframes, which are the anchors; 0: runs end in an entry
                                   frame, which is */
    uint16_t anchor_frame, anchor_previous; /* chained: in a cframe */
    uint16_t frame_code, frame_previous, frame_instruction;
    uint16_t frame_flag;        /* a byte that tells the last frame of a run … */
    uint16_t frame_last;        /* … by this value … */
    uint16_t last_is_real;      /* … and whether that is a function's, or only marks the end */
    uint16_t code_file, code_name, code_first_line, code_lines, code_start;
    uint16_t object_type;
    uint16_t bytes_size, bytes_text;
    uint16_t text_length, text_state, text_ascii, text_compact;
    /* For who looks from outside: from _PyRuntime to the state of a thread. */
    uint16_t runtime_interpreter, interpreter_thread, thread_next, thread_id;
};

/* How much of each structure is read at once, and no more: what is behind may be the end of memory.
 * A layout with a word that does not fit is refused. */
#define SONDE__PYTHON_ANCHOR_BYTES 24u
#define SONDE__PYTHON_FRAME_BYTES 72u
#define SONDE__PYTHON_CODE_BYTES 144u
#define SONDE__PYTHON_TEXT_BYTES 40u
#define SONDE__PYTHON_BYTES_BYTES 32u
#define SONDE__PYTHON_STATE_BYTES 16384u

static const struct sonde__python_layout sonde__python_3_11 = {
    .thread_bytes = 360, .thread_top = 56, .chained = 1, .anchor_frame = 8,
    .anchor_previous = 16, .frame_code = 32, .frame_previous = 48, .frame_instruction = 56,
    .frame_flag = 68, .frame_last = 1, .last_is_real = 1,
    .code_file = 112, .code_name = 128, .code_first_line = 72, .code_lines = 136,
    .code_start = 184, .object_type = 8, .bytes_size = 16, .bytes_text = 32,
    .text_length = 16, .text_state = 32, .text_ascii = 48, .text_compact = 72,
    .runtime_interpreter = 40, .interpreter_thread = 16, .thread_next = 8, .thread_id = 160,
};

static const struct sonde__python_layout sonde__python_3_12 = {
    .thread_bytes = 288, .thread_top = 56, .chained = 1, .anchor_frame = 0,
    .anchor_previous = 8, .frame_code = 0, .frame_previous = 8, .frame_instruction = 56,
    .frame_flag = 70, .frame_last = 3, .last_is_real = 0,
    .code_file = 112, .code_name = 128, .code_first_line = 68, .code_lines = 136,
    .code_start = 192, .object_type = 8, .bytes_size = 16, .bytes_text = 32,
    .text_length = 16, .text_state = 32, .text_ascii = 40, .text_compact = 56,
    .runtime_interpreter = 40, .interpreter_thread = 72, .thread_next = 8, .thread_id = 144,
};

/* What 3.13 says of itself (_Py_DebugOffsets): a cookie, its version, and offsets, 64 bits each. */
#define SONDE__PYTHON_SAYS_WORDS 73u
#define SONDE__PYTHON_SAYS_FREE_THREADED 2u
#define SONDE__PYTHON_SAYS(X)                                                                  \
    X(5, runtime_interpreter, SONDE__PYTHON_STATE_BYTES)                                       \
    X(9, interpreter_thread, SONDE__PYTHON_STATE_BYTES)                                        \
    X(19, thread_bytes, SONDE__PYTHON_STATE_BYTES)                                             \
    X(21, thread_next, SONDE__PYTHON_STATE_BYTES)                                              \
    X(23, thread_top, SONDE__PYTHON_STATE_BYTES)                                               \
    X(25, thread_id, SONDE__PYTHON_STATE_BYTES)                                                \
    X(29, frame_previous, SONDE__PYTHON_FRAME_BYTES)                                           \
    X(30, frame_code, SONDE__PYTHON_FRAME_BYTES)                                               \
    X(31, frame_instruction, SONDE__PYTHON_FRAME_BYTES)                                        \
    X(33, frame_flag, SONDE__PYTHON_FRAME_BYTES + 7) /* a byte */                              \
    X(35, code_file, SONDE__PYTHON_CODE_BYTES)                                                 \
    X(37, code_name, SONDE__PYTHON_CODE_BYTES)                                                 \
    X(38, code_lines, SONDE__PYTHON_CODE_BYTES)                                                \
    X(39, code_first_line, SONDE__PYTHON_CODE_BYTES)                                           \
    X(43, code_start, SONDE__PYTHON_STATE_BYTES)                                               \
    X(45, object_type, SONDE__PYTHON_BYTES_BYTES)                                              \
    X(65, bytes_size, SONDE__PYTHON_BYTES_BYTES)                                               \
    X(66, bytes_text, SONDE__PYTHON_STATE_BYTES)                                               \
    X(68, text_state, SONDE__PYTHON_TEXT_BYTES)                                                \
    X(69, text_length, SONDE__PYTHON_TEXT_BYTES)                                               \
    X(70, text_ascii, SONDE__PYTHON_STATE_BYTES)

static inline uint32_t sonde__python_layout_said(uint32_t version, const void *runtime,
                                                 size_t bytes, struct sonde__python_layout *out)
{
    uint64_t w[SONDE__PYTHON_SAYS_WORDS];
    struct sonde__python_layout l = { .frame_last = 3 };
    if (bytes < sizeof(w)) return SONDE__PYTHON_STRIPPED;
    memcpy(w, runtime, sizeof(w));
    if (memcmp(w, "xdebugpy", 8) || w[1] != version) return SONDE__PYTHON_NEW;
    if (w[SONDE__PYTHON_SAYS_FREE_THREADED]) return SONDE__PYTHON_THREADED;
#define SONDE__X(word, field, size)                                                            \
    if (w[word] > (size) - 8) return SONDE__PYTHON_NEW;                                        \
    l.field = (uint16_t)w[word];
    SONDE__PYTHON_SAYS(SONDE__X)
#undef SONDE__X
    l.text_compact = (uint16_t)(l.text_ascii + 16); /* its UTF-8, and the length of that */
    *out = l;
    return SONDE__PYTHON_READS;
}

/* The layout of a version (as PY_VERSION_HEX): enum sonde__python_state. runtime: what is at
 * _PyRuntime, of which so many bytes can be read. */
static inline uint32_t sonde__python_layout_of(uint32_t version, const void *runtime, size_t bytes,
                                               struct sonde__python_layout *out)
{
    const uint32_t minor = version >> 16;
    if (minor < 0x30b) return SONDE__PYTHON_OLD;
    if (minor > 0x30d || (version & 0xf0) < 0xc0) return SONDE__PYTHON_NEW; /* not a release */
    if (minor == 0x30d) return sonde__python_layout_said(version, runtime, bytes, out);
    *out = minor == 0x30b ? sonde__python_3_11 : sonde__python_3_12;
    return SONDE__PYTHON_READS;
}

#endif
