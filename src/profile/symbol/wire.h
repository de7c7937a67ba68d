/* wire.h - what the child tells the symbolizer, through a pipe:
 *
 *   message: u32 type, u32 a, u32 b, u32 length of the payload
 *
 *   START   a = job                          its names follow
 *   FRAMES  a = index in the job's at[], b = frames; payload: each frame as
 *           u32 line, u32 start line, u16 name length, u16 file length, name, file
 *   END     a = job, b = flags to add to its modules
 *   DONE                                     all jobs are finished
 *
 * The child works on hostile files, so the reader believes nothing of it. */
#ifndef SONDE_PROFILE_SYMBOL_WIRE_H
#define SONDE_PROFILE_SYMBOL_WIRE_H

#include "base/buf.h"
#include "profile/symbol/symbol.h"

enum sonde_symbol_wire_type {
    SONDE_SYMBOL_WIRE_START = 1, SONDE_SYMBOL_WIRE_FRAMES, SONDE_SYMBOL_WIRE_END,
    SONDE_SYMBOL_WIRE_DONE
};

struct sonde_symbol_wire_message {
    uint32_t type, a, b;
    /* FRAMES: texts are NUL-terminated copies in the reader. */
    const struct sonde_symbol_frame *frames;
};

/* ---- Writing ------------------------------------------------------------------------------- */

struct sonde_symbol_wire_writer {
    int fd;
    size_t len;
    char buf[1u << 16];
};

/* 0 or SONDE_EIO. START, END and DONE are sent at once. */
int sonde_symbol_wire_send(struct sonde_symbol_wire_writer *w, enum sonde_symbol_wire_type type,
                           uint32_t a, uint32_t b);
int sonde_symbol_wire_frames(struct sonde_symbol_wire_writer *w, uint32_t index,
                             const struct sonde_symbol_frame *frames, uint32_t count);

/* ---- Reading ------------------------------------------------------------------------------- */

struct sonde_symbol_wire_reader {
    struct sonde_buf in;
    size_t taken;            /* of in: already handed out */
    struct sonde_buf text;   /* of the last message's frames */
    struct sonde_symbol_frame frames[SONDE_SYMBOL_FRAMES_MAX];
};

void sonde_symbol_wire_reader_init(struct sonde_symbol_wire_reader *r);
void sonde_symbol_wire_reader_release(struct sonde_symbol_wire_reader *r);

/* Take some bytes, then ask for messages: 1, 0 = no whole one yet, SONDE_EFORMAT, SONDE_ENOMEM. */
int sonde_symbol_wire_feed(struct sonde_symbol_wire_reader *r, const void *data, size_t len);
int sonde_symbol_wire_next(struct sonde_symbol_wire_reader *r,
                           struct sonde_symbol_wire_message *out);

#endif
