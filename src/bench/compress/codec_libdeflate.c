/* codec_libdeflate.c - libdeflate: the same format as deflate, by a library that only knows whole
 * blocks. Its allocator is one for the process: ours gets to know whose state is being made by a
 * variable of the thread, and everything that libdeflate allocates is allocated then. */
#include <libdeflate.h>
#include <pthread.h>
#include <stdio.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

struct codec_libdeflate_state {
    struct libdeflate_compressor *pack;
    struct libdeflate_decompressor *unpack;
};

static _Thread_local struct sonde_codec_memory *codec_libdeflate_memory;
static pthread_once_t codec_libdeflate_once = PTHREAD_ONCE_INIT;

static void *codec_libdeflate_alloc(size_t size)
{
    static struct sonde_codec_memory others;
    return sonde_codec_alloc(codec_libdeflate_memory ? codec_libdeflate_memory : &others, size);
}

static void codec_libdeflate_setup(void)
{
    libdeflate_set_memory_allocator(codec_libdeflate_alloc, sonde_codec_free);
}

static const char *codec_libdeflate_version(char out[32])
{
    snprintf(out, 32, "libdeflate %s", LIBDEFLATE_VERSION_STRING);
    return out;
}

static size_t codec_libdeflate_bound(size_t bytes)
{
    return libdeflate_deflate_compress_bound(NULL, bytes);
}

static void codec_libdeflate_close(void *state)
{
    struct codec_libdeflate_state *s = state;
    if (!s) return;
    if (s->pack) libdeflate_free_compressor(s->pack);
    if (s->unpack) libdeflate_free_decompressor(s->unpack);
    sonde_codec_free(s);
}

static void *codec_libdeflate_open(const struct sonde_codec_how *how)
{
    pthread_once(&codec_libdeflate_once, codec_libdeflate_setup);
    struct codec_libdeflate_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (!s) return NULL;
    *s = (struct codec_libdeflate_state){ 0 };
    codec_libdeflate_memory = how->memory;
    if (how->unpack) s->unpack = libdeflate_alloc_decompressor();
    else s->pack = libdeflate_alloc_compressor(how->level);
    codec_libdeflate_memory = NULL;
    if (s->pack || s->unpack) return s;
    codec_libdeflate_close(s);
    return NULL;
}

static int codec_libdeflate_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                                 size_t *made)
{
    const struct codec_libdeflate_state *s = state;
    const size_t n = libdeflate_deflate_compress(s->pack, in, bytes, out, room);
    if (!n) return SONDE_EFULL;
    *made = n;
    return 0;
}

static int codec_libdeflate_unpack(void *state, const void *in, size_t bytes, void *out,
                                   size_t room, size_t *made)
{
    const struct codec_libdeflate_state *s = state;
    size_t used = 0, n = 0;
    const enum libdeflate_result rc =
        libdeflate_deflate_decompress_ex(s->unpack, in, bytes, out, room, &used, &n);
    if (rc == LIBDEFLATE_INSUFFICIENT_SPACE) return SONDE_EFULL;
    if (rc != LIBDEFLATE_SUCCESS || used != bytes) return SONDE_EINVAL;
    *made = n;
    return 0;
}

const struct sonde_codec sonde_codec_libdeflate = {
    .name = "libdeflate",
    .summary = "libdeflate: deflate's format, whole blocks only",
    .level_min = 1,
    .level_max = 12,
    .levels = "1,6,12",
    .counted = 1,
    .block_max = (size_t)1 << 40,
    .version = codec_libdeflate_version,
    .bound = codec_libdeflate_bound,
    .open = codec_libdeflate_open,
    .pack = codec_libdeflate_pack,
    .unpack = codec_libdeflate_unpack,
    .close = codec_libdeflate_close,
};
