/* sampled_hot.c - a sampled allocation, and the end of one. All add to lane 0. */
#include <stddef.h>
#include <string.h>

#include "preload/heap/live.h"

#include "base/hot_banned.h"

static void heap_sampled_add(uint64_t *cell, uint64_t v) { sonde__heap_add(cell, v, 1); }

/* ---- The filter ------------------------------------------------------------------------------ */

#define FILTER_ROOM 128u    /* bits for a block, as long as it can grow */

/* Every free looks into it: small, it stays in the first-level cache, which is a hundredth of what
 * a malloc and a free take; but of frees that it does not tell apart one in so many bits of it, for
 * each block in it, goes the slow way. So it doubles as blocks come. Both halves are then what it
 * was: a block that is removed later leaves its count in the half that it is not in, which costs a
 * few slow ways and loses none. */
static void filter_grow(struct sonde__heap_gate *g)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_FILTER));
    const uint32_t words = g->filter_mask + 1;
    memcpy(g->filter + words, g->filter, words * sizeof(*g->filter));
    memcpy(g->filter_count + words * 64, g->filter_count, words * 64);
    /* Whoever frees a block that comes after this has seen it: it came to him from who added it. */
    __atomic_store_n(&g->filter_mask, 2 * words - 1, __ATOMIC_RELEASE);
}

/* Blocks that share the bit of addr. */
static uint8_t *filter_count(struct sonde__heap_gate *g, uint64_t addr)
{
    return &g->filter_count[sonde__heap_filter_word(addr) * 64 + sonde__heap_filter_bit(addr)];
}

static int filter_add(uint64_t addr)
{
    struct sonde__heap_gate *g = &sonde__heap_gate;
    if (sonde__heap_lock(&g->filter_lock, SONDE__HEAP_RANK_FILTER)) return -1;
    const uint64_t room = ++g->filter_used * (uint64_t)FILTER_ROOM;
    if (g->filter_mask + 1 < SONDE__HEAP_FILTER && room > g->filter_mask * 64ull) filter_grow(g);
    uint8_t *count = filter_count(g, addr);
    if (*count < UINT8_MAX) ++*count;
    __atomic_fetch_or(&g->filter[sonde__heap_filter_word(addr)],
                      1ull << sonde__heap_filter_bit(addr), __ATOMIC_RELAXED);
    sonde__heap_unlock(&g->filter_lock, SONDE__HEAP_RANK_FILTER);
    return 0;
}

static void filter_remove(uint64_t addr)
{
    struct sonde__heap_gate *g = &sonde__heap_gate;
    /* Without it some frees go the slow way for nothing. */
    if (sonde__heap_lock(&g->filter_lock, SONDE__HEAP_RANK_FILTER)) return;
    uint8_t *count = filter_count(g, addr);
    g->filter_used--;
    if (*count && *count < UINT8_MAX && !--*count) {
        __atomic_fetch_and(&g->filter[sonde__heap_filter_word(addr)],
                           ~(1ull << sonde__heap_filter_bit(addr)), __ATOMIC_RELAXED);
    }
    sonde__heap_unlock(&g->filter_lock, SONDE__HEAP_RANK_FILTER);
}

/* ---- Allocations ----------------------------------------------------------------------------- */

/* In the table. A block that is there already was freed by a handler that came in between. */
static int heap_sampled_put(const struct sonde__heap_block *b)
{
    struct sonde__live_entry e, old;
    struct sonde__heap_block before;
    if (sonde__live_pack(b, &e)) return -1;
    const int rc = sonde__live_put(e, &old);
    if (rc > 0) {
        sonde__live_unpack(&old, &before);
        sonde__heap_sampled_freed(&before);
        return 0;
    }
    if (!rc && !filter_add(b->addr)) return 0;
    /* Not in the table; or it was and must not be, since its free would not be seen. */
    if (rc < 0 || sonde__live_take(b->addr, &e)) sonde__live_unpack(&e, &before);
    return -1;
}

static void heap_sampled_count(struct sonde__heap_lane *lane, struct sonde__heap_row *row,
                               uint64_t size, const struct sonde__heap_weight *w)
{
    heap_sampled_add(&row->allocs, w->count);
    heap_sampled_add(&row->alloc_bytes, w->bytes);
    heap_sampled_add(&row->alloc_bytes_var, w->bytes_var);
    heap_sampled_add(&row->alloc_count_var, w->count_var);
    heap_sampled_add(&row->samples, 1);
    heap_sampled_add(&lane->allocs, w->count);
    heap_sampled_add(&lane->alloc_bytes, w->bytes);
    heap_sampled_add(&lane->size_class[sonde__heap_size_class(size)], w->count);
    sonde__heap_tls.allocs += w->count;
    sonde__heap_tls.bytes += w->bytes;
}

void sonde__heap_sampled_alloc(const struct sonde__caller *c, void *p, uint64_t size)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap *m = sonde__heap_state.area;
    struct sonde__heap_row *row;
    struct sonde__heap_thread *t = sonde__heap_thread_take();
    if (!t) {
        sonde__heap_count(&m->refused);
        return;
    }
    const uint32_t site = sonde__heap_walk(t, c, &row);
    const struct sonde__heap_block b = { (uint64_t)(uintptr_t)p, size, sonde_ticks(), site, 0, 1 };
    if (heap_sampled_put(&b)) {
        sonde__heap_count(&m->refused);
    } else {
        const struct sonde__heap_weight w = sonde__heap_weigh(size, sonde__heap_state.mean);
        heap_sampled_count(m->lane, row, size, &w);
        sonde__heap_newest(b.addr);
        sonde__heap_live_add(t, (int64_t)w.bytes);
        sonde__heap_tell_alloc(&b);
    }
    sonde__heap_thread_give(t);
    sonde__heap_arena();
}

/* ---- Frees ----------------------------------------------------------------------------------- */

int sonde__heap_sampled_forget(void *p, struct sonde__heap_block *out)
{
    struct sonde__live_entry e;
    const uint64_t addr = (uint64_t)(uintptr_t)p;
    if (!sonde__live_take(addr, &e)) return 0;
    filter_remove(addr);
    sonde__live_unpack(&e, out);
    return 1;
}

void sonde__heap_sampled_freed(const struct sonde__heap_block *b)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap_lane *lane = sonde__heap_state.area->lane;
    struct sonde__heap_row *row = sonde__heap_row(0, b->site);
    const struct sonde__heap_weight w = sonde__heap_weigh(b->size, sonde__heap_state.mean);
    const uint64_t now = sonde_ticks(), us = sonde__heap_ticks_us(now - b->ticks);
    heap_sampled_add(&row->frees, w.count);
    heap_sampled_add(&row->free_bytes, w.bytes);
    heap_sampled_add(&row->free_bytes_var, w.bytes_var);
    heap_sampled_add(&row->free_count_var, w.count_var);
    heap_sampled_add(&row->samples_freed, 1);
    heap_sampled_add(&row->lifetime_us, (uint64_t)((unsigned __int128)us * w.count >> 16));
    if (sonde__heap_temporary(b->addr)) {
        heap_sampled_add(&row->temps, w.count);
        heap_sampled_add(&row->temp_bytes, w.bytes);
    }
    heap_sampled_add(&lane->frees, w.count);
    heap_sampled_add(&lane->free_bytes, w.bytes);
    heap_sampled_add(&lane->lifetime[sonde__heap_lifetime_class(us)], w.count);
    __atomic_fetch_sub(&sonde__heap_state.area->live_bytes, w.bytes, __ATOMIC_RELAXED);
    sonde__heap_tell_free(b, now);
}

void sonde__heap_put_back(const struct sonde__heap_block *b)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__live_entry e, old;
    if (sonde__heap_gate.mode == SONDE__HEAP_SAMPLED) (void)heap_sampled_put(b);
    else if (!sonde__live_pack(b, &e)) (void)sonde__live_put(e, &old);
}
