/* event_hot.c - what is told one by one: into the ring of the segment. */
#include <string.h>

#include "preload/heap/heap.h"
#include "preload/ring.h"

#include "base/hot_banned.h"

void sonde__heap_tell(uint32_t type, const uint64_t *words, uint32_t count)
{
    struct sonde__heap *m = sonde__heap_state.area;
    uint64_t w[7] = { 0 };
    memcpy(w, words, count * sizeof(w[0]));
    sonde__ring_put(sonde__heap_state.ring, m->chunk_count, sonde__ring_reserve(&m->reserve, 1),
                    type, w);
}

void sonde__heap_tell_alloc(const struct sonde__heap_block *b)
{
    const uint64_t w[] = { b->ticks, sonde__heap_tls.tid, b->size, sonde__heap_site_node(b->site),
                           b->addr };
    sonde__heap_tell(SONDE__HEAP_ALLOC, w, 5);
}

void sonde__heap_tell_free(const struct sonde__heap_block *b, uint64_t now)
{
    const uint64_t w[] = { now, sonde__heap_tls.tid, b->size, sonde__heap_site_node(b->site),
                           b->addr, b->ticks };
    sonde__heap_tell(SONDE__HEAP_FREE, w, 6);
}
