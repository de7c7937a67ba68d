/* lz4_block.c - see lz4_block.h. The state is allocated by us, so its memory is known; unpacking
 * needs none. */
#include "bench/compress/lz4_block.h"

#include <stdio.h>

#include "sonde/sonde.h"

struct codec_lz4_state {
    void *table; /* NULL: for unpacking */
    int level;
    CODEC_LZ4_COMPRESS(compress);
};

const char *codec_lz4_version(char out[32])
{
    snprintf(out, 32, "lz4 %.20s", LZ4_versionString());
    return out;
}

size_t codec_lz4_bound(size_t bytes) { return (size_t)LZ4_compressBound((int)bytes); }

void codec_lz4_close(void *state)
{
    struct codec_lz4_state *s = state;
    if (s) sonde_codec_free(s->table);
    sonde_codec_free(s);
}

void *codec_lz4_open_as(const struct sonde_codec_how *how, int table_bytes,
                        CODEC_LZ4_COMPRESS(compress))
{
    struct codec_lz4_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (!s) return NULL;
    *s = (struct codec_lz4_state){ .level = how->level, .compress = compress };
    if (how->unpack) return s;
    s->table = sonde_codec_alloc(how->memory, (size_t)table_bytes);
    if (s->table) return s;
    codec_lz4_close(s);
    return NULL;
}

int codec_lz4_pack(void *state, const void *in, size_t bytes, void *out, size_t room, size_t *made)
{
    const struct codec_lz4_state *s = state;
    const int size = room < LZ4_MAX_INPUT_SIZE ? (int)room : LZ4_MAX_INPUT_SIZE;
    if (bytes > LZ4_MAX_INPUT_SIZE) return SONDE_EFULL;
    const int n = s->compress(s->table, in, out, (int)bytes, size, s->level);
    if (n <= 0) return SONDE_EFULL;
    *made = (size_t)n;
    return 0;
}

int codec_lz4_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
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
