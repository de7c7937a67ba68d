/* codec.c - see codec.h: the table, and the allocator that counts.
 *
 * A block has its size and its counter in front of it, since libraries do not say either when they
 * free. What is counted is what was asked for, without that head. */
#include "bench/compress/codec.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

#define SONDE_CODEC(id) extern const struct sonde_codec sonde_codec_##id;
#include "bench/compress/codec_list.h"
#undef SONDE_CODEC

const struct sonde_codec *const sonde_codecs[] = {
#define SONDE_CODEC(id) &sonde_codec_##id,
#include "bench/compress/codec_list.h"
#undef SONDE_CODEC
    NULL,
};

const struct sonde_codec *sonde_codec_find(const char *name, size_t len)
{
    for (size_t i = 0; sonde_codecs[i]; i++) {
        if (strlen(sonde_codecs[i]->name) == len && !memcmp(sonde_codecs[i]->name, name, len)) {
            return sonde_codecs[i];
        }
    }
    return NULL;
}

struct codec_block {
    _Alignas(16) struct sonde_codec_memory *memory;
    size_t size;
};

void *sonde_codec_alloc(struct sonde_codec_memory *m, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    struct codec_block *b = sonde__alloc(sizeof(*b) + size);
    if (!b) return NULL;
    *b = (struct codec_block){ .memory = m, .size = size };
    const int64_t now = atomic_fetch_add(&m->now_bytes, (int64_t)size) + (int64_t)size;
    int64_t peak = atomic_load(&m->peak_bytes);
    while (now > peak && !atomic_compare_exchange_weak(&m->peak_bytes, &peak, now)) { }
    return b + 1;
}

void sonde_codec_free(void *p)
{
    if (!p) return;
    struct codec_block *b = (struct codec_block *)p - 1;
    atomic_fetch_sub(&b->memory->now_bytes, (int64_t)b->size);
    sonde__free(b);
}
