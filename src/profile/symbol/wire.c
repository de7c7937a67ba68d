/* wire.c - messages of the child, see wire.h. */
#include "profile/symbol/wire.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sonde/sonde.h"

#define FRAME_FIXED 12u
#define PAYLOAD_MAX (SONDE_SYMBOL_FRAMES_MAX * (FRAME_FIXED + 2 * SONDE_SYMBOL_TEXT_MAX))

struct symbol_wire_header { uint32_t type, a, b, len; };
struct symbol_wire_frame { uint32_t line, start_line; uint16_t name, file; };

/* ---- Writing ------------------------------------------------------------------------------- */

static int symbol_wire_flush(struct sonde_symbol_wire_writer *w)
{
    for (size_t sent = 0; sent < w->len;) {
        const ssize_t n = write(w->fd, w->buf + sent, w->len - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return SONDE_EIO;
        sent += (size_t)n;
    }
    w->len = 0;
    return 0;
}

static int symbol_wire_put(struct sonde_symbol_wire_writer *w, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        const size_t room = sizeof(w->buf) - w->len;
        const size_t n = len < room ? len : room;
        memcpy(w->buf + w->len, p, n);
        w->len += n;
        p += n;
        len -= n;
        if (w->len == sizeof(w->buf) && symbol_wire_flush(w) != 0) return SONDE_EIO;
    }
    return 0;
}

int sonde_symbol_wire_send(struct sonde_symbol_wire_writer *w, enum sonde_symbol_wire_type type,
                           uint32_t a, uint32_t b)
{
    assert(type != SONDE_SYMBOL_WIRE_FRAMES); /* which has a payload */
    const struct symbol_wire_header h = { type, a, b, 0 };
    const int rc = symbol_wire_put(w, &h, sizeof(h));
    return rc ? rc : symbol_wire_flush(w);
}

static uint16_t text_len(const char *s) { return (uint16_t)strnlen(s, SONDE_SYMBOL_TEXT_MAX); }

int sonde_symbol_wire_frames(struct sonde_symbol_wire_writer *w, uint32_t index,
                             const struct sonde_symbol_frame *frames, uint32_t count)
{
    assert(count <= SONDE_SYMBOL_FRAMES_MAX);
    struct symbol_wire_header h = { SONDE_SYMBOL_WIRE_FRAMES, index, count, 0 };
    for (uint32_t i = 0; i < count; i++) {
        h.len += FRAME_FIXED + text_len(frames[i].name) + text_len(frames[i].file);
    }
    int rc = symbol_wire_put(w, &h, sizeof(h));
    for (uint32_t i = 0; !rc && i < count; i++) {
        const struct sonde_symbol_frame *f = &frames[i];
        const struct symbol_wire_frame fixed = { f->line, f->start_line, text_len(f->name),
                                                 text_len(f->file) };
        rc = symbol_wire_put(w, &fixed, FRAME_FIXED);
        if (!rc) rc = symbol_wire_put(w, f->name, fixed.name);
        if (!rc) rc = symbol_wire_put(w, f->file, fixed.file);
    }
    return rc;
}

/* ---- Reading ------------------------------------------------------------------------------- */

void sonde_symbol_wire_reader_init(struct sonde_symbol_wire_reader *r)
{
    sonde_buf_init(&r->in, sizeof(struct symbol_wire_header) + PAYLOAD_MAX + (1u << 16));
    sonde_buf_init(&r->text, PAYLOAD_MAX + 2 * SONDE_SYMBOL_FRAMES_MAX);
}

void sonde_symbol_wire_reader_release(struct sonde_symbol_wire_reader *r)
{
    sonde_buf_release(&r->in);
    sonde_buf_release(&r->text);
}

int sonde_symbol_wire_feed(struct sonde_symbol_wire_reader *r, const void *data, size_t len)
{
    sonde_buf_add(&r->in, data, len);
    return r->in.error;
}

/* Copy the payload's texts with a NUL each; then, as they no longer move, point at them. */
static int symbol_wire_take_frames(struct sonde_symbol_wire_reader *r, const char *p, size_t len,
                                   uint32_t count)
{
    size_t at[2 * SONDE_SYMBOL_FRAMES_MAX];
    if (count > SONDE_SYMBOL_FRAMES_MAX) return SONDE_EFORMAT;
    sonde_buf_reset(&r->text);
    for (uint32_t i = 0; i < count; i++) {
        struct symbol_wire_frame f;
        if (len < FRAME_FIXED) return SONDE_EFORMAT;
        memcpy(&f, p, FRAME_FIXED);
        p += FRAME_FIXED;
        len -= FRAME_FIXED;
        if (f.name > SONDE_SYMBOL_TEXT_MAX || f.file > SONDE_SYMBOL_TEXT_MAX ||
            (size_t)f.name + f.file > len) {
            return SONDE_EFORMAT;
        }
        r->frames[i] = (struct sonde_symbol_frame){ .line = f.line, .start_line = f.start_line };
        at[2 * i] = r->text.len;
        sonde_buf_add(&r->text, p, f.name);
        sonde_buf_putc(&r->text, '\0');
        at[2 * i + 1] = r->text.len;
        sonde_buf_add(&r->text, p + f.name, f.file);
        sonde_buf_putc(&r->text, '\0');
        p += (size_t)f.name + f.file;
        len -= (size_t)f.name + f.file;
    }
    if (r->text.error) return r->text.error;
    for (uint32_t i = 0; i < count; i++) {
        r->frames[i].name = r->text.data + at[2 * i];
        r->frames[i].file = r->text.data + at[2 * i + 1];
    }
    return len == 0 ? 0 : SONDE_EFORMAT;
}

int sonde_symbol_wire_next(struct sonde_symbol_wire_reader *r,
                           struct sonde_symbol_wire_message *out)
{
    assert(r->taken <= r->in.len);
    struct symbol_wire_header h;
    int rc = 0;
    if (r->in.len - r->taken < sizeof(h)) goto later;
    memcpy(&h, r->in.data + r->taken, sizeof(h));
    if (h.type < SONDE_SYMBOL_WIRE_START || h.type > SONDE_SYMBOL_WIRE_DONE ||
        h.len > PAYLOAD_MAX || (h.type != SONDE_SYMBOL_WIRE_FRAMES && h.len != 0)) {
        return SONDE_EFORMAT;
    }
    if (r->in.len - r->taken - sizeof(h) < h.len) goto later;
    *out = (struct sonde_symbol_wire_message){ h.type, h.a, h.b, r->frames };
    if (h.type == SONDE_SYMBOL_WIRE_FRAMES) {
        rc = symbol_wire_take_frames(r, r->in.data + r->taken + sizeof(h), h.len, h.b);
    }
    r->taken += sizeof(h) + h.len;
    return rc ? rc : 1;

later: /* what is left moves to the front, once per feed */
    if (r->taken) memmove(r->in.data, r->in.data + r->taken, r->in.len - r->taken);
    r->in.len -= r->taken;
    r->taken = 0;
    return 0;
}
