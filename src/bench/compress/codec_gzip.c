/* codec_gzip.c - zlib's deflate in gzip's frame, with its CRC: as files and HTTP have it. */
#include "bench/compress/zlib_stream.h"

static void *codec_gzip_open(const struct sonde_codec_how *how)
{
    return codec_zlib_open(how, 15 + 16);
}

const struct sonde_codec sonde_codec_gzip = {
    .name = "gzip",
    .summary = "zlib's deflate in gzip's frame, with its CRC",
    .open = codec_gzip_open,
    CODEC_ZLIB_MEMBERS,
};
