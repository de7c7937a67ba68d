/* codec_lz4hc.c - LZ4 HC: a longer search for the same format, which LZ4 unpacks. */
#include <lz4.h>
#include <lz4hc.h>
#include <stdio.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

struct codec_lz4hc_state {
    void *table; /* NULL: for unpacking */
    int level;
};

static const char *codec_lz4hc_version(char out[32])
{
    snprintf(out, 32, "lz4 %.20s", LZ4_versionString());
    return out;
}

static size_t codec_lz4hc_bound(size_t bytes) { return (size_t)LZ4_compressBound((int)bytes); }

static void codec_lz4hc_close(void *state)
{
    struct codec_lz4hc_state *s = state;
    if (s) sonde_codec_free(s->table);
    sonde_codec_free(s);
}

static void *codec_lz4hc_open(const struct sonde_codec_how *how)
{
    struct codec_lz4hc_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (!s) return NULL;
    *s = (struct codec_lz4hc_state){ .level = how->level };
    if (how->unpack) return s;
    s->table = sonde_codec_alloc(how->memory, (size_t)LZ4_sizeofStateHC());
    if (s->table) return s;
    codec_lz4hc_close(s);
    return NULL;
}

static int codec_lz4hc_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                            size_t *made)
{
    const struct codec_lz4hc_state *s = state;
    const int size = room < LZ4_MAX_INPUT_SIZE ? (int)room : LZ4_MAX_INPUT_SIZE;
    if (bytes > LZ4_MAX_INPUT_SIZE) return SONDE_EFULL;
    const int n = LZ4_compress_HC_extStateHC(s->table, in, out, (int)bytes, size, s->level);
    if (n <= 0) return SONDE_EFULL;
    *made = (size_t)n;
    return 0;
}

static int codec_lz4hc_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                              size_t *made)
{
    (void)state;
    if (bytes > INT32_MAX) return SONDE_EINVAL;
    const int size = room < LZ4_MAX_INPUT_SIZE ? (int)room : LZ4_MAX_INPUT_SIZE;
    const int n = LZ4_decompress_safe(in, out, (int)bytes, size);
    if (n < 0) return SONDE_EINVAL;
    *made = (size_t)n;
    return 0;
}

const struct sonde_codec sonde_codec_lz4hc = {
    .name = "lz4hc",
    .summary = "LZ4 HC: slower and smaller, unpacks as LZ4 does",
    .level_min = 2,
    .level_max = LZ4HC_CLEVEL_MAX,
    .levels = "3,9,12",
    .counted = 1,
    .block_max = LZ4_MAX_INPUT_SIZE,
    .version = codec_lz4hc_version,
    .bound = codec_lz4hc_bound,
    .open = codec_lz4hc_open,
    .pack = codec_lz4hc_pack,
    .unpack = codec_lz4hc_unpack,
    .close = codec_lz4hc_close,
};
