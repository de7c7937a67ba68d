/* ring.h - writing to a ring of chunks in the segment: see "Span rings" and "The sampler" in
 * segment.h. Any number of writers: all chunks of a record are reserved by one locked add. */
#ifndef SONDE_PRELOAD_RING_H
#define SONDE_PRELOAD_RING_H

#include "segment/segment.h"

static inline uint64_t sonde__chunk_reserve(uint64_t *reserve, uint32_t chunks)
{
    const uint64_t at = __atomic_fetch_add(reserve, chunks, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* the reader must see reserve before the words */
    return at;
}

/* count: chunks of the ring. */
static inline void sonde__chunk_put(struct sonde__chunk *chunks, uint32_t count, uint64_t index,
                                    uint32_t type, const uint64_t word[7])
{
    struct sonde__chunk *c = &chunks[index & (count - 1)];
    for (int i = 0; i < 7; i++) __atomic_store_n(&c->word[i], word[i], __ATOMIC_RELAXED);
    __atomic_store_n(&c->seq_type, (index + 1) << 8 | type, __ATOMIC_RELEASE);
}

#endif
