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

enum sonde__wire_type { SONDE__WIRE_START = 1, SONDE__WIRE_FRAMES, SONDE__WIRE_END,
                        SONDE__WIRE_DONE };

struct sonde__wire_message {
    uint32_t type, a, b;
    /* FRAMES: texts are NUL-terminated copies in the reader. */
    const struct sonde_symbol_frame *frames;
};

/* ---- Writing ------------------------------------------------------------------------------- */

struct sonde__wire_writer {
    int fd;
    size_t len;
    char buf[1u << 16];
};

/* 0 or SONDE_EIO. START, END and DONE are sent at once. */
int sonde__wire_send(struct sonde__wire_writer *w, enum sonde__wire_type type, uint32_t a,
                     uint32_t b);
int sonde__wire_frames(struct sonde__wire_writer *w, uint32_t index,
                       const struct sonde_symbol_frame *frames, uint32_t count);

/* ---- Reading ------------------------------------------------------------------------------- */

struct sonde__wire_reader {
    struct sonde_buf in;
    size_t taken;            /* of in: already handed out */
    struct sonde_buf text;   /* of the last message's frames */
    struct sonde_symbol_frame frames[SONDE_SYMBOL_FRAMES_MAX];
};

void sonde__wire_reader_init(struct sonde__wire_reader *r);
void sonde__wire_reader_release(struct sonde__wire_reader *r);

/* Take some bytes, then ask for messages: 1, 0 = no whole one yet, SONDE_EFORMAT, SONDE_ENOMEM. */
int sonde__wire_feed(struct sonde__wire_reader *r, const void *data, size_t len);
int sonde__wire_next(struct sonde__wire_reader *r, struct sonde__wire_message *out);

#endif
