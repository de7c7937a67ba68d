/* codec_snappy.c - Snappy by its C interface. It keeps nothing between calls and takes no
 * allocator, so its memory is counted from outside. */
#include <snappy-c.h>
#include <stdio.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

static const char *codec_snappy_version(char out[32])
{
    snprintf(out, 32, "snappy"); /* the C interface does not tell which */
    return out;
}

static size_t codec_snappy_bound(size_t bytes) { return snappy_max_compressed_length(bytes); }

static void *codec_snappy_open(const struct sonde_codec_how *how)
{
    return sonde_codec_alloc(how->memory, 0);
}

static int codec_snappy_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                             size_t *made)
{
    (void)state;
    size_t n = room;
    if (room < snappy_max_compressed_length(bytes)) return SONDE_EFULL;
    if (snappy_compress(in, bytes, out, &n) != SNAPPY_OK) return SONDE_EFULL;
    *made = n;
    return 0;
}

static int codec_snappy_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                               size_t *made)
{
    (void)state;
    size_t n;
    if (snappy_uncompressed_length(in, bytes, &n) != SNAPPY_OK) return SONDE_EINVAL;
    if (n > room) return SONDE_EFULL;
    n = room;
    if (snappy_uncompress(in, bytes, out, &n) != SNAPPY_OK) return SONDE_EINVAL;
    *made = n;
    return 0;
}

const struct sonde_codec sonde_codec_snappy = {
    .name = "snappy",
    .summary = "Snappy; it has no levels",
    .levels = "0",
    .block_max = UINT32_MAX,
    .version = codec_snappy_version,
    .bound = codec_snappy_bound,
    .open = codec_snappy_open,
    .pack = codec_snappy_pack,
    .unpack = codec_snappy_unpack,
    .close = sonde_codec_free,
};
