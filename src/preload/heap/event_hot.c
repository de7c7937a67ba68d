/* event_hot.c - what is told one by one: into the ring of the segment. */
#include <string.h>

#include "preload/heap/heap.h"
#include "preload/ring.h"

#include "base/hot_banned.h"

void sonde__mem_tell(uint32_t type, const uint64_t *words, uint32_t count)
{
    struct sonde__mem *m = sonde__mem_state.area;
    uint64_t w[7] = { 0 };
    memcpy(w, words, count * sizeof(w[0]));
    sonde__ring_put(sonde__mem_state.ring, m->chunk_count, sonde__ring_reserve(&m->reserve, 1),
                    type, w);
}

void sonde__mem_tell_alloc(const struct sonde__mem_block *b)
{
    const uint64_t w[] = { b->ticks, sonde__mem_tls.tid, b->size, sonde__mem_site_node(b->site),
                           b->addr };
    sonde__mem_tell(SONDE__MEM_ALLOC, w, 5);
}

void sonde__mem_tell_free(const struct sonde__mem_block *b, uint64_t now)
{
    const uint64_t w[] = { now, sonde__mem_tls.tid, b->size, sonde__mem_site_node(b->site),
                           b->addr, b->ticks };
    sonde__mem_tell(SONDE__MEM_FREE, w, 6);
}
