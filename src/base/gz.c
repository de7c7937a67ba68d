#include "base/gz.h"

#include <zlib.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

enum { WINDOW_GZIP = 15 + 16, MEMORY_LEVEL = 8, ROOM = 1 << 18, FEED_MAX = 1 << 30 };

static voidpf z_alloc(voidpf arg, uInt count, uInt size)
{
    (void)arg;
    return sonde__calloc(count, size);
}

static void z_free(voidpf arg, voidpf p)
{
    (void)arg;
    sonde__free(p);
}

/* zlib counts in 32 bits: hand it the input piece by piece. */
static void gz_feed(z_stream *z, const unsigned char **data, size_t *len)
{
    if (z->avail_in || !*len) return;
    const size_t n = *len < FEED_MAX ? *len : FEED_MAX;
    z->next_in = (Bytef *)*data;
    z->avail_in = (uInt)n;
    *data += n;
    *len -= n;
}

/* Room for zlib to write to, up to out's cap; 0 = none, out->error says why. */
static size_t gz_offer(z_stream *z, struct sonde_buf *out)
{
    const size_t left = out->max - out->len, room = left && left < ROOM ? left : ROOM;
    char *to = sonde_buf_reserve(out, room);
    if (!to) return 0;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)room;
    return room;
}

int sonde_gz_pack(const void *data, size_t len, int level, struct sonde_buf *out)
{
    const unsigned char *at = data;
    z_stream z = { .zalloc = z_alloc, .zfree = z_free };
    if (out->error) return out->error;
    if (deflateInit2(&z, level, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return out->error = SONDE_ENOMEM;
    }
    int rc = Z_OK;
    while (rc == Z_OK) {
        gz_feed(&z, &at, &len);
        const size_t room = gz_offer(&z, out);
        if (!room) break;
        rc = deflate(&z, len ? Z_NO_FLUSH : Z_FINISH);
        out->len += room - z.avail_out;
    }
    deflateEnd(&z);
    if (rc != Z_STREAM_END && !out->error) out->error = SONDE_ENOMEM;
    return out->error;
}

int sonde_gz_unpack(const void *data, size_t len, struct sonde_buf *out)
{
    const unsigned char *at = data;
    const size_t packed = len, had = out->len;
    z_stream z = { .zalloc = z_alloc, .zfree = z_free };
    if (inflateInit2(&z, WINDOW_GZIP) != Z_OK) return SONDE_ENOMEM;
    int rc = Z_OK;
    while (rc == Z_OK) {
        gz_feed(&z, &at, &len);
        const size_t room = gz_offer(&z, out);
        if (!room) break;
        rc = inflate(&z, Z_NO_FLUSH);
        out->len += room - z.avail_out;
        const size_t unpacked = out->len - had, read = packed - len - z.avail_in;
        if (unpacked > SONDE_GZ_RATIO_FROM && unpacked / SONDE_GZ_RATIO_MAX > read) {
            inflateEnd(&z);
            return SONDE_EFULL;
        }
        if (rc == Z_STREAM_END && (z.avail_in || len)) rc = inflateReset(&z);
    }
    inflateEnd(&z);
    if (out->error) return out->error;
    if (rc == Z_MEM_ERROR) return SONDE_ENOMEM;
    return rc == Z_STREAM_END ? 0 : SONDE_EFORMAT;
}

int sonde_gz_is(const void *data, size_t len)
{
    const unsigned char *d = data;
    return len >= 2 && d[0] == 0x1f && d[1] == 0x8b;
}
