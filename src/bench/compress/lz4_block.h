/* lz4_block.h - private to codec_lz4.c and codec_lz4hc.c: LZ4's blocks, without a frame around
 * them. The two differ in how they search and what that needs; what they make is unpacked alike. */
#ifndef SONDE_BENCH_COMPRESS_LZ4_BLOCK_H
#define SONDE_BENCH_COMPRESS_LZ4_BLOCK_H

#include <lz4.h>

#include "bench/compress/codec.h"

/* LZ4_compress_fast_extState, or that of HC. */
#define CODEC_LZ4_COMPRESS(name)                                                                 \
    int (*name)(void *table, const char *in, char *out, int bytes, int room, int level)

const char *codec_lz4_version(char out[32]);
size_t codec_lz4_bound(size_t bytes);
void *codec_lz4_open_as(const struct sonde_codec_how *how, int table_bytes,
                        CODEC_LZ4_COMPRESS(compress));
int codec_lz4_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                   size_t *made);
int codec_lz4_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                     size_t *made);
void codec_lz4_close(void *state);

/* What both say of themselves but for names, levels and open. */
#define CODEC_LZ4_MEMBERS                                                                        \
    .counted = 1, .block_max = LZ4_MAX_INPUT_SIZE, .version = codec_lz4_version,                 \
    .bound = codec_lz4_bound, .pack = codec_lz4_pack, .unpack = codec_lz4_unpack,                \
    .close = codec_lz4_close

#endif
