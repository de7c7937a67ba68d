/* codec_deflate.c - zlib's deflate, without head or checksum: deflate data alone. */
#include "bench/compress/zlib_stream.h"

static void *codec_deflate_open(const struct sonde_codec_how *how)
{
    return codec_zlib_open(how, -15);
}

const struct sonde_codec sonde_codec_deflate = {
    .name = "deflate",
    .summary = "zlib's deflate, without head or checksum",
    .level_min = 1,
    .level_max = 9,
    .levels = "1,6,9",
    .counted = 1,
    .block_max = (size_t)1 << 40,
    .version = codec_zlib_version,
    .bound = codec_zlib_bound,
    .open = codec_deflate_open,
    .pack = codec_zlib_pack,
    .unpack = codec_zlib_unpack,
    .close = codec_zlib_close,
};
