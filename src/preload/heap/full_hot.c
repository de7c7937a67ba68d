/* full_hot.c - every allocation, and the end of every one. The commonest of all paths: what is
 * rare is in functions of its own, what is common in as few as there can be. */
#include <stddef.h>

#include "preload/heap/live.h"
#include "preload/heap/stack.h"
#include "record/state.h"

#include "base/hot_banned.h"

#define COARSE_EVERY 8u     /* calls, while the clock stands still between readings */
#define RARE __attribute__((noinline, cold)) static
#define LIKELY(x) (__builtin_expect(!!(x), 1) != 0)

/* ---- Time ------------------------------------------------------------------------------------ */

/* Read every time, but while allocations come so fast that it does not move, every eighth. */
__attribute__((noinline)) static void coarse_read(struct sonde__heap_thread *t)
{
    const uint32_t now = sonde__heap_coarse();
    t->coarse_every = now == t->coarse ? COARSE_EVERY : 0;
    t->coarse_left = t->coarse_every;
    t->ticked |= now != t->coarse;
    t->coarse = now;
}

static inline uint32_t heap_full_coarse(struct sonde__heap_thread *t)
{
    if (LIKELY(t->coarse_left)) t->coarse_left--;
    else coarse_read(t);
    return t->coarse;
}

static uint64_t coarse_us(uint32_t since) { return ((uint64_t)since << 20) / 1000; }

/* ---- Allocations ----------------------------------------------------------------------------- */

RARE int put_rare(int rc, const struct sonde__live_entry *old)
{
    struct sonde__heap_block before;
    if (rc < 0) return -1;
    /* It was freed by a handler that came in between. */
    sonde__live_unpack(old, &before);
    sonde__heap_full_freed(&before);
    return 0;
}

/* One that is told as an event, too. */
RARE int put_event(struct sonde__heap_thread *t, struct sonde__heap_block *b)
{
    struct sonde__live_entry e, old;
    t->event_countdown = sonde__heap_draw(&sonde__heap_tls.rng, sonde__heap_state.mean);
    b->ticks = sonde_ticks();
    b->precise = 1;
    if (sonde__live_pack(b, &e)) return -1;
    const int rc = sonde__live_put(e, &old);
    if (rc < 0) sonde__live_unpack(&e, b);
    return rc ? put_rare(rc, &old) : 0;
}

static inline int heap_full_put(struct sonde__heap_thread *t, struct sonde__heap_block *b)
{
    struct sonde__live_entry old;
    /* Larger ones do not fit into a table's entry. */
    if (!LIKELY(b->size < t->event_countdown && b->size <= UINT32_MAX)) return put_event(t, b);
    t->event_countdown -= b->size + 1;
    const struct sonde__live_entry e = { b->addr >> 3 | (uint64_t)b->site << SONDE__LIVE_KEY_BITS,
                                         b->size | (uint64_t)b->coarse << 32 };
    if (b->addr >> (SONDE__LIVE_KEY_BITS + 3)) return -1;
    const int rc = sonde__live_put(e, &old);
    return LIKELY(!rc) ? 0 : put_rare(rc, &old);
}

static inline void heap_full_count_alloc(struct sonde__heap_thread *t, struct sonde__heap_row *row,
                                         uint64_t size, int shared)
{
    sonde__heap_add(&row->allocs, 1, shared);
    sonde__heap_add(&row->alloc_bytes, size, shared);
    sonde__heap_add(&t->lane->allocs, 1, shared);
    sonde__heap_add(&t->lane->alloc_bytes, size, shared);
    sonde__heap_add(&t->lane->size_class[sonde__heap_size_class(size)], 1, shared);
}

RARE void count_alloc_shared(struct sonde__heap_thread *t, struct sonde__heap_row *row,
                             uint64_t size)
{
    heap_full_count_alloc(t, row, size, 1);
    sonde__heap_tls.allocs++;
    sonde__heap_tls.bytes += size;
}

RARE void tick(struct sonde__heap_thread *t)
{
    t->ticked = 0;
    sonde__heap_arena();
}

void sonde__heap_full_alloc(const struct sonde__caller *c, void *p, uint64_t size)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap_thread *t = sonde__heap_tls.self;
    if (!LIKELY(t) && !(t = sonde__heap_thread_take())) {
        sonde__heap_count(&sonde__heap_state.area->refused);
        return;
    }
    struct sonde__heap_block b = { .addr = (uint64_t)(uintptr_t)p, .size = size };
    struct sonde__heap_row *row;
    sonde__live_prefetch(b.addr);
    b.coarse = heap_full_coarse(t);
    const struct sonde__heap_stack *s = sonde__stack_recall(t, c);
    if (LIKELY(s)) {
        b.site = s->site;
        row = s->row;
    } else {
        b.site = sonde__heap_walk(t, c, &row);
    }
    if (!LIKELY(!heap_full_put(t, &b))) {
        sonde__heap_count(&sonde__heap_state.area->refused);
    } else {
        if (LIKELY(t->lane_index)) heap_full_count_alloc(t, row, size, 0);
        else count_alloc_shared(t, row, size);
        sonde__heap_newest(b.addr);
        sonde__heap_live_add(t, (int64_t)size);
        if (!LIKELY(!b.precise)) sonde__heap_tell_alloc(&b);
    }
    if (!LIKELY(!t->ticked)) tick(t);
    if (!LIKELY(t == sonde__heap_tls.self)) sonde__heap_thread_give(t);
}

/* ---- Frees ----------------------------------------------------------------------------------- */

static inline void heap_full_count_free(struct sonde__heap_lane *lane, struct sonde__heap_row *row,
                                        uint64_t addr, uint64_t size, uint64_t us, int shared)
{
    sonde__heap_add(&row->frees, 1, shared);
    sonde__heap_add(&row->free_bytes, size, shared);
    if (us) sonde__heap_add(&row->lifetime_us, us, shared);
    if (sonde__heap_temporary(addr)) {
        sonde__heap_add(&row->temps, 1, shared);
        sonde__heap_add(&row->temp_bytes, size, shared);
    }
    sonde__heap_add(&lane->frees, 1, shared);
    sonde__heap_add(&lane->free_bytes, size, shared);
    sonde__heap_add(&lane->lifetime[sonde__heap_lifetime_class(us)], 1, shared);
}

/* By any thread, also one without a lane, or that has ended. Of lane 0 there are rows of all. */
void sonde__heap_full_freed(const struct sonde__heap_block *b)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap_thread *t = sonde__heap_thread_take();
    const uint32_t lane = t ? t->lane_index : 0;
    struct sonde__heap_row *row = lane ? sonde__heap_row(lane, b->site) : NULL;
    struct sonde__heap_lane *all = sonde__heap_state.area->lane;
    const uint64_t now = sonde_ticks();
    const uint64_t us = b->precise ? sonde__heap_ticks_us(now - b->ticks)
                                   : coarse_us(sonde__heap_coarse() - b->coarse);
    if (row) heap_full_count_free(t->lane, row, b->addr, b->size, us, 0);
    else heap_full_count_free(all, sonde__heap_row(0, b->site), b->addr, b->size, us, 1);
    if (b->precise) sonde__heap_tell_free(b, now);
    if (!t) return;
    sonde__heap_live_add(t, -(int64_t)b->size);
    sonde__heap_thread_give(t);
}

RARE void free_rare(const struct sonde__live_entry *e)
{
    struct sonde__heap_block b;
    sonde__live_unpack(e, &b);
    sonde__heap_full_freed(&b);
}

void sonde__heap_full_free(void *p)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap_thread *t = sonde__heap_tls.self;
    struct sonde__live_entry e;
    const uint64_t addr = (uint64_t)(uintptr_t)p;
    if (!sonde__live_take(addr, &e)) {
        sonde__heap_count(&sonde__heap_state.area->unmatched);
        return;
    }
    const uint32_t site = (uint32_t)(e.key >> SONDE__LIVE_KEY_BITS) & SONDE__LIVE_SITE;
    const uint64_t rows = t ? t->directory[site / SONDE__HEAP_ROWS] : 0;
    if (!LIKELY(rows && t->lane_index && !(e.key & SONDE__LIVE_SIDE))) {
        free_rare(&e);
        return;
    }
    struct sonde__heap_row *row = (struct sonde__heap_row *)(void *)sonde__at(rows);
    const uint64_t size = (uint32_t)e.value;
    const uint32_t since = heap_full_coarse(t) - (uint32_t)(e.value >> 32);
    heap_full_count_free(t->lane, row + site % SONDE__HEAP_ROWS, addr, size, coarse_us(since), 0);
    sonde__heap_live_add(t, -(int64_t)size);
}

int sonde__heap_full_forget(void *p, struct sonde__heap_block *out)
{
    struct sonde__live_entry e;
    if (!sonde__live_take((uint64_t)(uintptr_t)p, &e)) {
        sonde__heap_count(&sonde__heap_state.area->unmatched);
        return 0;
    }
    sonde__live_unpack(&e, out);
    return 1;
}
