/* row_hot.c - what goes to the segment: whose rows a thread adds to, and events one by one. */
#include <string.h>

#include "preload/heap/heap.h"
#include "preload/ring.h"
#include "record/state.h"

#include "base/hot_banned.h"

#define ROW_CHUNK_BYTES (SONDE__HEAP_ROWS * sizeof(struct sonde__heap_row))

/* A block of the segment where *at says; made if there is none. Several threads may want it: the
 * first to put it there wins, others' stay unused. */
static char *heap_row_block(uint64_t *at, uint64_t bytes)
{
    uint64_t off = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (!off) {
        const uint64_t mine = sonde__block_take(bytes);
        if (!mine) return NULL;
        if (__atomic_compare_exchange_n(at, &off, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            off = mine;
        }
    }
    return sonde__at(off);
}

uint64_t *sonde__heap_directory(uint32_t lane)
{
    return (uint64_t *)(void *)heap_row_block(&sonde__heap_state.area->lane[lane].rows,
                                              SONDE__HEAP_ROW_CHUNKS * sizeof(uint64_t));
}

struct sonde__heap_row *sonde__heap_row(uint32_t lane, uint32_t site)
{
    SONDE_MUST(lane < SONDE__HEAP_LANES && site < SONDE__HEAP_ROWS * SONDE__HEAP_ROW_CHUNKS);
    uint64_t *directory = sonde__heap_directory(lane);
    if (!directory) return NULL;
    struct sonde__heap_row *rows =
        (struct sonde__heap_row *)(void *)heap_row_block(&directory[site / SONDE__HEAP_ROWS],
                                                         ROW_CHUNK_BYTES);
    return rows ? &rows[site % SONDE__HEAP_ROWS] : NULL;
}

uint32_t sonde__heap_lane_take(uint32_t tid)
{
    SONDE_MUST(tid);
    struct sonde__heap *m = sonde__heap_state.area;
    uint32_t found = 0;
    if (sonde__heap_lock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE)) return 0;
    for (uint32_t i = 1; i < m->lane_count && !found; i++) {
        if (!__atomic_load_n(&m->lane[i].tid, __ATOMIC_ACQUIRE)) found = i;
    }
    if (!found && m->lane_count < SONDE__HEAP_LANES) {
        found = m->lane_count;
        __atomic_store_n(&m->lane_count, found + 1, __ATOMIC_RELEASE);
    }
    if (found) {
        m->lane[found].claims++;
        __atomic_store_n(&m->lane[found].tid, tid, __ATOMIC_RELEASE);
    }
    sonde__heap_unlock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE);
    return found;
}

void sonde__heap_lane_give(uint32_t lane)
{
    SONDE_MUST(lane && lane < SONDE__HEAP_LANES); /* lane 0 is everybody's */
    __atomic_store_n(&sonde__heap_state.area->lane[lane].tid, 0, __ATOMIC_RELEASE);
}

/* ---- Events ---------------------------------------------------------------------------------- */

void sonde__heap_tell(uint32_t type, const uint64_t *words, uint32_t count)
{
    SONDE_MUST(count <= 7);
    struct sonde__heap *m = sonde__heap_state.area;
    uint64_t w[7] = { 0 };
    memcpy(w, words, count * sizeof(w[0]));
    sonde__chunk_put(sonde__heap_state.ring, m->chunk_count, sonde__chunk_reserve(&m->reserve, 1),
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
