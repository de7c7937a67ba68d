/* codec_none.c - no compression: memcpy(). What the others have to be worth more than, and the
 * speed of this machine's memory that theirs is a share of. */
#include <stdio.h>
#include <string.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

static const char *codec_none_version(char out[32])
{
    snprintf(out, 32, "memcpy");
    return out;
}

static size_t codec_none_bound(size_t bytes) { return bytes; }

static void *codec_none_open(const struct sonde_codec_how *how)
{
    return sonde_codec_alloc(how->memory, 0);
}

static int codec_none_copy(void *state, const void *in, size_t bytes, void *out, size_t room,
                           size_t *made)
{
    (void)state;
    if (bytes > room) return SONDE_EFULL;
    if (bytes) memcpy(out, in, bytes);
    *made = bytes;
    return 0;
}

const struct sonde_codec sonde_codec_none = {
    .name = "none",
    .summary = "a copy in memory, to compare with",
    .levels = "0",
    .counted = 1,
    .block_max = SIZE_MAX,
    .version = codec_none_version,
    .bound = codec_none_bound,
    .open = codec_none_open,
    .pack = codec_none_copy,
    .unpack = codec_none_copy,
    .close = sonde_codec_free,
};
