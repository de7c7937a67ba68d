/* codec_lz4hc.c - LZ4 HC: a longer search for the same format, which LZ4 unpacks. */
#include <lz4hc.h>

#include "bench/compress/lz4_block.h"

static void *codec_lz4hc_open(const struct sonde_codec_how *how)
{
    return codec_lz4_open_as(how, LZ4_sizeofStateHC(), LZ4_compress_HC_extStateHC);
}

const struct sonde_codec sonde_codec_lz4hc = {
    .name = "lz4hc",
    .summary = "LZ4 HC: slower and smaller, unpacks as LZ4 does",
    .level_min = 2,
    .level_max = LZ4HC_CLEVEL_MAX,
    .levels = "3,9,12",
    .open = codec_lz4hc_open,
    CODEC_LZ4_MEMBERS,
};
