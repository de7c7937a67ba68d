/* zlib_stream.h - private to codec_deflate.c and codec_gzip.c: zlib, whole blocks at a time, by a
 * stream that is reset between them. The two differ in the window's sign and in what is around the
 * data. */
#ifndef SONDE_BENCH_COMPRESS_ZLIB_STREAM_H
#define SONDE_BENCH_COMPRESS_ZLIB_STREAM_H

#include "bench/compress/codec.h"

const char *codec_zlib_version(char out[32]);
size_t codec_zlib_bound(size_t bytes);
/* window: as of deflateInit2(). */
void *codec_zlib_open(const struct sonde_codec_how *how, int window);
int codec_zlib_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                    size_t *made);
int codec_zlib_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                      size_t *made);
void codec_zlib_close(void *state);

/* What both say of themselves but for names and open. */
#define CODEC_ZLIB_MEMBERS                                                                       \
    .level_min = 1, .level_max = 9, .levels = "1,6,9", .counted = 1,                             \
    .block_max = (size_t)1 << 40, .version = codec_zlib_version, .bound = codec_zlib_bound,      \
    .pack = codec_zlib_pack, .unpack = codec_zlib_unpack, .close = codec_zlib_close

#endif
