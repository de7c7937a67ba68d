/* codec_gzip.c - zlib's deflate in gzip's frame, with its CRC: as files and HTTP have it. */
#include "bench/compress/zlib_stream.h"

static void *codec_gzip_open(const struct sonde_codec_how *how)
{
    return codec_zlib_open(how, 15 + 16);
}

const struct sonde_codec sonde_codec_gzip = {
    .name = "gzip",
    .summary = "zlib's deflate in gzip's frame, with its CRC",
    .level_min = 1,
    .level_max = 9,
    .levels = "1,6,9",
    .counted = 1,
    .block_max = (size_t)1 << 40,
    .version = codec_zlib_version,
    .bound = codec_zlib_bound,
    .open = codec_gzip_open,
    .pack = codec_zlib_pack,
    .unpack = codec_zlib_unpack,
    .close = codec_zlib_close,
};
