/* codec_zstd.c - Zstandard: a frame a block, by a context that is used again, as `zstd -b` does it.
 * Without a checksum, which is the library's default. With workers it cuts a block into jobs of its
 * own, which make one frame. */
#include <stdio.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_customMem */
#include <zstd.h>
#include <zstd_errors.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

struct codec_zstd_state {
    ZSTD_CCtx *pack;
    ZSTD_DCtx *unpack;
};

static void *codec_zstd_alloc(void *memory, size_t size)
{
    return sonde_codec_alloc(memory, size);
}

static void codec_zstd_free(void *memory, void *p)
{
    (void)memory;
    sonde_codec_free(p);
}

static const char *codec_zstd_version(char out[32])
{
    snprintf(out, 32, "zstd %.20s", ZSTD_versionString());
    return out;
}

static size_t codec_zstd_bound(size_t bytes) { return ZSTD_compressBound(bytes); }

static void codec_zstd_close(void *state)
{
    struct codec_zstd_state *s = state;
    if (!s) return;
    ZSTD_freeCCtx(s->pack);
    ZSTD_freeDCtx(s->unpack);
    sonde_codec_free(s);
}

static void *codec_zstd_open(const struct sonde_codec_how *how)
{
    const ZSTD_customMem memory = { codec_zstd_alloc, codec_zstd_free, how->memory };
    struct codec_zstd_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (!s) return NULL;
    *s = (struct codec_zstd_state){ 0 };
    int bad;
    if (how->unpack) {
        s->unpack = ZSTD_createDCtx_advanced(memory);
        bad = !s->unpack;
    } else {
        s->pack = ZSTD_createCCtx_advanced(memory);
        bad = !s->pack ||
              ZSTD_isError(ZSTD_CCtx_setParameter(s->pack, ZSTD_c_compressionLevel, how->level)) ||
              (how->workers > 1 &&
               ZSTD_isError(ZSTD_CCtx_setParameter(s->pack, ZSTD_c_nbWorkers,
                                                   (int)how->workers)));
    }
    if (!bad) return s;
    codec_zstd_close(s);
    return NULL;
}

static int codec_zstd_error(size_t code)
{
    const ZSTD_ErrorCode e = ZSTD_getErrorCode(code);
    return e == ZSTD_error_memory_allocation ? SONDE_ENOMEM
           : e == ZSTD_error_dstSize_tooSmall ? SONDE_EFULL : SONDE_EINVAL;
}

static int codec_zstd_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                           size_t *made)
{
    const struct codec_zstd_state *s = state;
    const size_t n = ZSTD_compress2(s->pack, out, room, in, bytes);
    if (ZSTD_isError(n)) return codec_zstd_error(n);
    *made = n;
    return 0;
}

static int codec_zstd_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                             size_t *made)
{
    const struct codec_zstd_state *s = state;
    const size_t n = ZSTD_decompressDCtx(s->unpack, out, room, in, bytes);
    if (ZSTD_isError(n)) return codec_zstd_error(n);
    *made = n;
    return 0;
}

const struct sonde_codec sonde_codec_zstd = {
    .name = "zstd",
    .summary = "Zstandard; levels below 1 are its fast ones",
    .level_min = -100,
    .level_max = 22,
    .levels = "-5,1,3,6,12,19",
    .counted = 1,
    .threaded = 1,
    .block_max = (size_t)1 << 40,
    .version = codec_zstd_version,
    .bound = codec_zstd_bound,
    .open = codec_zstd_open,
    .pack = codec_zstd_pack,
    .unpack = codec_zstd_unpack,
    .close = codec_zstd_close,
};
