/* codec_deflate.c - zlib's deflate, without head or checksum: deflate data alone. */
#include "bench/compress/zlib_stream.h"

static void *codec_deflate_open(const struct sonde_codec_how *how)
{
    return codec_zlib_open(how, -15);
}

const struct sonde_codec sonde_codec_deflate = {
    .name = "deflate",
    .summary = "zlib's deflate, without head or checksum",
    .open = codec_deflate_open,
    CODEC_ZLIB_MEMBERS,
};
