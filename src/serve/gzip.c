/* gzip.c - see gzip.h. */
#include "serve/gzip.h"

#include <assert.h>
#include <limits.h>
#include <zlib.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

enum { LEVEL = 1, WINDOW_GZIP = 15 + 16, MEMORY_LEVEL = 8, ROOM = 1 << 16 };

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

int sonde_gzip(const struct sonde_buf *in, struct sonde_buf *out)
{
    assert(in->len <= UINT_MAX);
    z_stream z = { .zalloc = z_alloc, .zfree = z_free };
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return out->error = SONDE_ENOMEM;
    }
    z.next_in = (Bytef *)in->data;
    z.avail_in = (uInt)in->len;
    int rc = Z_OK;
    while (rc == Z_OK) {
        /* The cap may be near: a caller that wants no more than the original says so by it. */
        const size_t left = out->max - out->len, room = left && left < ROOM ? left : ROOM;
        char *to = sonde_buf_reserve(out, room);
        if (!to) break;
        z.next_out = (Bytef *)to;
        z.avail_out = (uInt)room;
        rc = deflate(&z, Z_FINISH);
        out->len += room - z.avail_out;
    }
    deflateEnd(&z);
    if (rc != Z_STREAM_END && !out->error) out->error = SONDE_ENOMEM;
    return out->error;
}
