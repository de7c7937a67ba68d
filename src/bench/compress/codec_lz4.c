/* codec_lz4.c - LZ4, one block without a frame around it, as `lz4 -b` measures it. Its level is the
 * acceleration: the higher, the faster and the larger. The state is allocated by us, so its memory
 * is known; unpacking needs none. */
#include <lz4.h>
#include <stdio.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

struct codec_lz4_state {
    void *table; /* NULL: for unpacking */
    int level;
};

static const char *codec_lz4_version(char out[32])
{
    snprintf(out, 32, "lz4 %.20s", LZ4_versionString());
    return out;
}

static size_t codec_lz4_bound(size_t bytes) { return (size_t)LZ4_compressBound((int)bytes); }

static void codec_lz4_close(void *state)
{
    struct codec_lz4_state *s = state;
    if (s) sonde_codec_free(s->table);
    sonde_codec_free(s);
}

static void *codec_lz4_open(const struct sonde_codec_how *how)
{
    struct codec_lz4_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (!s) return NULL;
    *s = (struct codec_lz4_state){ .level = how->level };
    if (how->unpack) return s;
    s->table = sonde_codec_alloc(how->memory, (size_t)LZ4_sizeofState());
    if (s->table) return s;
    codec_lz4_close(s);
    return NULL;
}

static int codec_lz4_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                          size_t *made)
{
    const struct codec_lz4_state *s = state;
    const int size = room < LZ4_MAX_INPUT_SIZE ? (int)room : LZ4_MAX_INPUT_SIZE;
    if (bytes > LZ4_MAX_INPUT_SIZE) return SONDE_EFULL;
    const int n = LZ4_compress_fast_extState(s->table, in, out, (int)bytes, size, s->level);
    if (n <= 0) return SONDE_EFULL;
    *made = (size_t)n;
    return 0;
}

static int codec_lz4_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
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

const struct sonde_codec sonde_codec_lz4 = {
    .name = "lz4",
    .summary = "LZ4; its level is the acceleration, more is faster",
    .level_min = 1,
    .level_max = 65537,
    .levels = "1",
    .counted = 1,
    .block_max = LZ4_MAX_INPUT_SIZE,
    .version = codec_lz4_version,
    .bound = codec_lz4_bound,
    .open = codec_lz4_open,
    .pack = codec_lz4_pack,
    .unpack = codec_lz4_unpack,
    .close = codec_lz4_close,
};
