/* zlib_stream.c - see zlib_stream.h. zlib counts in 32 bits: both sides are handed over in
 * pieces. */
#include "bench/compress/zlib_stream.h"

#include <stdio.h>
#include <zlib.h>

#include "sonde/sonde.h"

enum { CODEC_ZLIB_PIECE = 1 << 30, CODEC_ZLIB_MEMORY_LEVEL = 8 };

struct codec_zlib_state {
    z_stream z;
    int unpack;
};

static voidpf codec_zlib_alloc(voidpf memory, uInt count, uInt size)
{
    return sonde_codec_alloc(memory, (size_t)count * size);
}

static void codec_zlib_free(voidpf memory, voidpf p)
{
    (void)memory;
    sonde_codec_free(p);
}

const char *codec_zlib_version(char out[32])
{
    snprintf(out, 32, "zlib %.20s", zlibVersion());
    return out;
}

/* deflateBound() asks a stream; this is what it says at most for any, with gzip's head. */
size_t codec_zlib_bound(size_t bytes)
{
    return bytes + (bytes >> 5) + (bytes >> 7) + (bytes >> 11) + 7 + 18 + 64;
}

void *codec_zlib_open(const struct sonde_codec_how *how, int window)
{
    struct codec_zlib_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (!s) return NULL;
    *s = (struct codec_zlib_state){
        .z = { .zalloc = codec_zlib_alloc, .zfree = codec_zlib_free, .opaque = how->memory },
        .unpack = how->unpack };
    const int rc = how->unpack ? inflateInit2(&s->z, window)
                               : deflateInit2(&s->z, how->level, Z_DEFLATED, window,
                                              CODEC_ZLIB_MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
    if (rc == Z_OK) return s;
    sonde_codec_free(s);
    return NULL;
}

void codec_zlib_close(void *state)
{
    struct codec_zlib_state *s = state;
    if (!s) return;
    if (s->unpack) inflateEnd(&s->z);
    else deflateEnd(&s->z);
    sonde_codec_free(s);
}

static uInt codec_zlib_piece(size_t *left)
{
    const size_t n = *left < CODEC_ZLIB_PIECE ? *left : CODEC_ZLIB_PIECE;
    *left -= n;
    return (uInt)n;
}

/* Until the end of the stream, or an error. */
static int codec_zlib_turn(struct codec_zlib_state *s, const void *in, size_t bytes, void *out,
                           size_t room, size_t *made)
{
    z_stream *z = &s->z;
    size_t in_left = bytes, out_left = room;
    int rc = Z_OK;
    z->next_in = (Bytef *)(uintptr_t)in;
    z->next_out = out;
    z->avail_in = z->avail_out = 0;
    while (rc == Z_OK) {
        if (!z->avail_in) z->avail_in = codec_zlib_piece(&in_left);
        if (!z->avail_out) z->avail_out = codec_zlib_piece(&out_left);
        rc = s->unpack ? inflate(z, Z_NO_FLUSH) : deflate(z, in_left ? Z_NO_FLUSH : Z_FINISH);
        if (rc == Z_OK && !z->avail_out && !out_left) return SONDE_EFULL;
        if (rc == Z_OK && s->unpack && !z->avail_in && !in_left) return SONDE_EINVAL;
    }
    if (rc == Z_BUF_ERROR) return !z->avail_out && !out_left ? SONDE_EFULL : SONDE_EINVAL;
    if (rc != Z_STREAM_END) return rc == Z_MEM_ERROR ? SONDE_ENOMEM : SONDE_EINVAL;
    if (z->avail_in || in_left) return SONDE_EINVAL; /* something follows */
    *made = room - out_left - z->avail_out;
    return 0;
}

int codec_zlib_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                    size_t *made)
{
    struct codec_zlib_state *s = state;
    if (deflateReset(&s->z) != Z_OK) return SONDE_EINVAL;
    return codec_zlib_turn(s, in, bytes, out, room, made);
}

int codec_zlib_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                      size_t *made)
{
    struct codec_zlib_state *s = state;
    if (inflateReset(&s->z) != Z_OK) return SONDE_EINVAL;
    return codec_zlib_turn(s, in, bytes, out, room, made);
}
