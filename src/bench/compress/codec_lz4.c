/* codec_lz4.c - LZ4, as `lz4 -b` measures it. Its level is the acceleration: the higher, the faster
 * and the larger. */
#include "bench/compress/lz4_block.h"

static void *codec_lz4_open(const struct sonde_codec_how *how)
{
    return codec_lz4_open_as(how, LZ4_sizeofState(), LZ4_compress_fast_extState);
}

const struct sonde_codec sonde_codec_lz4 = {
    .name = "lz4",
    .summary = "LZ4; its level is the acceleration, more is faster",
    .level_min = 1,
    .level_max = 65537,
    .levels = "1",
    .open = codec_lz4_open,
    CODEC_LZ4_MEMBERS,
};
