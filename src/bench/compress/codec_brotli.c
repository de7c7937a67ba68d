/* codec_brotli.c - Brotli with its default window (22 bits) and the length of the block as a hint.
 * Neither an encoder nor a decoder can be used twice: each block has a new one, in our time as in
 * that of whoever uses the library. */
#include <brotli/decode.h>
#include <brotli/encode.h>
#include <stdio.h>

#include "bench/compress/codec.h"
#include "sonde/sonde.h"

struct codec_brotli_state {
    struct sonde_codec_memory *memory;
    int level;
};

static void *codec_brotli_alloc(void *memory, size_t size)
{
    return sonde_codec_alloc(memory, size);
}

static void codec_brotli_free(void *memory, void *p)
{
    (void)memory;
    sonde_codec_free(p);
}

static const char *codec_brotli_version(char out[32])
{
    const uint32_t v = BrotliEncoderVersion();
    snprintf(out, 32, "brotli %u.%u.%u", v >> 24, v >> 12 & 0xfff, v & 0xfff);
    return out;
}

/* What the library says is for levels above 1; the streams of 0 and 1 may be a little longer. */
static size_t codec_brotli_bound(size_t bytes)
{
    return BrotliEncoderMaxCompressedSize(bytes) + (bytes >> 12) + 1024;
}

static void *codec_brotli_open(const struct sonde_codec_how *how)
{
    struct codec_brotli_state *s = sonde_codec_alloc(how->memory, sizeof(*s));
    if (s) *s = (struct codec_brotli_state){ .memory = how->memory, .level = how->level };
    return s;
}

static int codec_brotli_pack(void *state, const void *in, size_t bytes, void *out, size_t room,
                             size_t *made)
{
    const struct codec_brotli_state *s = state;
    const uint8_t *next_in = in;
    uint8_t *next_out = out;
    size_t in_left = bytes, out_left = room;
    BrotliEncoderState *e =
        BrotliEncoderCreateInstance(codec_brotli_alloc, codec_brotli_free, s->memory);
    if (!e) return SONDE_ENOMEM;
    BrotliEncoderSetParameter(e, BROTLI_PARAM_QUALITY, (uint32_t)s->level);
    BrotliEncoderSetParameter(e, BROTLI_PARAM_SIZE_HINT,
                              bytes < 1u << 30 ? (uint32_t)bytes : 1u << 30);
    const int fine = BrotliEncoderCompressStream(e, BROTLI_OPERATION_FINISH, &in_left, &next_in,
                                                 &out_left, &next_out, NULL);
    const int finished = BrotliEncoderIsFinished(e);
    BrotliEncoderDestroyInstance(e);
    if (!fine) return SONDE_ENOMEM;
    if (!finished) return SONDE_EFULL;
    *made = room - out_left;
    return 0;
}

static int codec_brotli_unpack(void *state, const void *in, size_t bytes, void *out, size_t room,
                               size_t *made)
{
    const struct codec_brotli_state *s = state;
    const uint8_t *next_in = in;
    uint8_t *next_out = out;
    size_t in_left = bytes, out_left = room;
    BrotliDecoderState *d =
        BrotliDecoderCreateInstance(codec_brotli_alloc, codec_brotli_free, s->memory);
    if (!d) return SONDE_ENOMEM;
    const BrotliDecoderResult rc =
        BrotliDecoderDecompressStream(d, &in_left, &next_in, &out_left, &next_out, NULL);
    const BrotliDecoderErrorCode why = BrotliDecoderGetErrorCode(d);
    BrotliDecoderDestroyInstance(d);
    if (rc == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) return SONDE_EFULL;
    if (rc != BROTLI_DECODER_RESULT_SUCCESS) {
        return why <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                       why >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES ? SONDE_ENOMEM
                                                                          : SONDE_EINVAL;
    }
    if (in_left) return SONDE_EINVAL;
    *made = room - out_left;
    return 0;
}

const struct sonde_codec sonde_codec_brotli = {
    .name = "brotli",
    .summary = "Brotli with a window of 22 bits",
    .level_min = 0,
    .level_max = 11,
    .levels = "1,5,9,11",
    .counted = 1,
    .block_max = (size_t)1 << 40,
    .version = codec_brotli_version,
    .bound = codec_brotli_bound,
    .open = codec_brotli_open,
    .pack = codec_brotli_pack,
    .unpack = codec_brotli_unpack,
    .close = sonde_codec_free,
};
