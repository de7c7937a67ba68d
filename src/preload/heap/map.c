/* map.c - memory that the program gets from the kernel itself.
 *
 * A mapping counts as an allocation of whole pages. It may go piece by piece, so mappings are kept
 * in a list by address; a piece that goes takes its bytes along, and the lowest piece the count.
 * Not counted are mappings by the allocator, whose blocks are, by this library, and those without
 * access: an address space that is reserved is no memory yet.
 *
 * The kernel is asked first and the list changed after that: by then another thread may have been
 * given the addresses and be in the list with them. So a mapping in the list is numbered; taking
 * away spares those that are newer than the call, and what is covered by a new one is gone,
 * whoever has not come to say so yet.
 *
 * Frees are counted in lane 0: they are rare. sbrk is not interposed: allocators are all that use
 * it. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/heap/stack.h"
#include "segment/never.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define EXPORT __attribute__((visibility("default")))
#define LIST_FIRST 64u
#define LIST_MAX (1u << 20)
#define PAGE_MASK ((uint64_t)SONDE__PAGE - 1)

struct heap_map_mapping {
    uint64_t start, end;
    uint64_t number;
    struct sonde__heap_block block;      /* as it was made; addr 0: a piece without the count */
};

uint32_t sonde__heap_unmaps;

static struct heap_map_mapping *list;            /* by start; with map_lock */
static uint32_t list_count, list_room;
static uint64_t numbers;                /* of the newest */

/* ---- Going ----------------------------------------------------------------------------------- */

static void heap_map_add(uint64_t *cell, uint64_t v) { sonde__heap_add(cell, v, 1); }

static struct sonde__heap_weight heap_map_weigh(uint64_t size)
{
    if (sonde__heap_gate.mode == SONDE__HEAP_SAMPLED) {
        return sonde__heap_weigh(size, sonde__heap_state.mean);
    }
    return (struct sonde__heap_weight){ 1, size, 0, 0 };
}

/* The lowest piece is gone. */
static void heap_map_count_free(const struct sonde__heap_block *b,
                                const struct sonde__heap_weight *w, struct sonde__heap_row *row)
{
    struct sonde__heap *m = sonde__heap_state.area;
    const uint64_t now = sonde_ticks(), us = sonde__heap_ticks_us(now - b->ticks);
    heap_map_add(&row->frees, w->count);
    heap_map_add(&row->free_bytes_var, w->bytes_var);
    heap_map_add(&row->free_count_var, w->count_var);
    if (m->mode == SONDE__HEAP_SAMPLED) heap_map_add(&row->samples_freed, 1);
    heap_map_add(&row->lifetime_us, (uint64_t)((unsigned __int128)us * w->count >> m->count_shift));
    if (sonde__heap_temporary(b->addr)) {
        heap_map_add(&row->temps, w->count);
        heap_map_add(&row->temp_bytes, w->bytes);
    }
    heap_map_add(&m->lane[0].frees, w->count);
    heap_map_add(&m->lane[0].lifetime[sonde__heap_lifetime_class(us)], w->count);
    if (b->precise) sonde__heap_tell_free(b, now);
}

/* bytes of it are gone, and the count if `counts`. */
static void heap_map_gone(const struct sonde__heap_block *b, uint64_t bytes, int counts)
{
    struct sonde__heap *m = sonde__heap_state.area;
    struct sonde__heap_row *row = sonde__heap_row(0, b->site);
    const struct sonde__heap_weight w = heap_map_weigh(b->size);
    const uint64_t weighted =
        (uint64_t)((unsigned __int128)bytes * w.count >> m->count_shift);
    heap_map_add(&row->free_bytes, weighted);
    heap_map_add(&m->lane[0].free_bytes, weighted);
    __atomic_fetch_sub(&m->live_bytes, weighted, __ATOMIC_RELAXED);
    if (counts && b->addr) heap_map_count_free(b, &w, row);
}

/* ---- The list -------------------------------------------------------------------------------- */

/* The first that ends behind addr. */
static uint32_t first_behind(uint64_t addr)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_MAP));
    uint32_t low = 0, high = list_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (list[middle].end <= addr) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int room_make(void)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_MAP));
    if (list_count < list_room) return 0;
    const uint32_t room = list_room ? list_room * 2 : LIST_FIRST;
    struct heap_map_mapping *larger =
        room <= LIST_MAX ? sonde__heap_pages(room * sizeof(*larger)) : NULL;
    if (!larger) return -1;
    if (list) memcpy(larger, list, list_count * sizeof(*list));
    sonde__heap_pages_give(list, list_room * sizeof(*list));
    list = larger;
    list_room = room;
    return 0;
}

static void insert_at(uint32_t i, const struct heap_map_mapping *m)
{
    SONDE_MUST(i <= list_count && list_count < list_room && m->start < m->end);
    SONDE_MUST(!i || list[i - 1].start <= m->start); /* by start */
    memmove(&list[i + 1], &list[i], (list_count - i) * sizeof(*list));
    list[i] = *m;
    list_count++;
}

static void heap_map_remove_at(uint32_t i)
{
    SONDE_MUST(i < list_count);
    list_count--;
    memmove(&list[i], &list[i + 1], (list_count - i) * sizeof(*list));
}

/* Take [start, end) out of the mapping at i, and return where to go on. */
static uint32_t heap_map_cut_one(uint32_t i, uint64_t start, uint64_t end)
{
    struct heap_map_mapping *m = &list[i];
    const uint64_t low = start > m->start ? start : m->start;
    const uint64_t high = end < m->end ? end : m->end;
    const int head = low > m->start, tail = high < m->end;
    heap_map_gone(&m->block, high - low, !head && !tail);
    if (!head && !tail) {
        heap_map_remove_at(i);
        return i;
    }
    if (head && tail && !room_make()) {
        struct heap_map_mapping rest = list[i];
        list[i].end = low;
        rest.start = high;
        rest.block.addr = 0;
        insert_at(i + 1, &rest);
        return i + 2;
    }
    if (head && tail)
        heap_map_gone(&m->block, m->end - high, 0); /* for lack of memory it goes too */
    if (head) m->end = low;
    else m->start = high;
    return i + 1;
}

/* Take [start, end) away from all mappings that are older than number. Was there any? */
static int heap_map_cut(uint64_t start, uint64_t end, uint64_t number)
{
    int any = 0;
    for (uint32_t i = first_behind(start); i < list_count && list[i].start < end;) {
        if (list[i].number >= number) {
            i++;
            continue;
        }
        any = 1;
        i = heap_map_cut_one(i, start, end);
    }
    return any;
}

static int heap_map_put(uint64_t start, uint64_t end, const struct sonde__heap_block *b)
{
    int rc = -1;
    if (sonde__heap_lock(&sonde__heap_gate.map_lock, SONDE__HEAP_RANK_MAP)) return rc;
    const struct heap_map_mapping m = { start, end, ++numbers, *b };
    heap_map_cut(start, end, m.number);
    if (!room_make()) {
        insert_at(first_behind(start), &m);
        rc = 0;
    }
    sonde__heap_unlock(&sonde__heap_gate.map_lock, SONDE__HEAP_RANK_MAP);
    return rc;
}

void sonde__heap_maps_init(void)
{
    list = NULL;
    list_count = list_room = 0;
}

uint64_t sonde__heap_maps_count(void) { return __atomic_load_n(&list_count, __ATOMIC_RELAXED); }

/* Piece by piece. */
void sonde__heap_maps_each(void (*call)(void *arg, const struct sonde__heap_block *b), void *arg)
{
    if (sonde__heap_lock(&sonde__heap_gate.map_lock, SONDE__HEAP_RANK_MAP)) return;
    for (uint32_t i = 0; i < list_count; i++) {
        struct sonde__heap_block b = list[i].block;
        b.addr = list[i].start;
        b.size = list[i].end - list[i].start;
        call(arg, &b);
    }
    sonde__heap_unlock(&sonde__heap_gate.map_lock, SONDE__HEAP_RANK_MAP);
}

/* ---- Coming ---------------------------------------------------------------------------------- */

static void heap_map_count_alloc(struct sonde__heap_thread *t, struct sonde__heap_row *row,
                                 uint64_t size)
{
    const struct sonde__heap_weight w = heap_map_weigh(size);
    const int shared = !t->lane_index;
    sonde__heap_add(&row->allocs, w.count, shared);
    sonde__heap_add(&row->alloc_bytes, w.bytes, shared);
    sonde__heap_add(&row->mapped_bytes, w.bytes, shared);
    sonde__heap_add(&row->alloc_bytes_var, w.bytes_var, shared);
    sonde__heap_add(&row->alloc_count_var, w.count_var, shared);
    if (sonde__heap_gate.mode == SONDE__HEAP_SAMPLED) sonde__heap_add(&row->samples, 1, shared);
    sonde__heap_add(&t->lane->allocs, w.count, shared);
    sonde__heap_add(&t->lane->alloc_bytes, w.bytes, shared);
    sonde__heap_add(&t->lane->size_class[sonde__heap_size_class(size)], w.count, shared);
    if (shared) {
        sonde__heap_tls.allocs += w.count;
        sonde__heap_tls.bytes += w.bytes;
    }
    sonde__heap_live_add(t, (int64_t)w.bytes);
}

/* In sampled mode all that get here are told one by one. */
static int is_event(struct sonde__heap_thread *t, uint64_t size)
{
    if (sonde__heap_gate.mode == SONDE__HEAP_SAMPLED) return 1;
    if (size < t->event_countdown) {
        t->event_countdown -= size + 1;
        return 0;
    }
    t->event_countdown = sonde__heap_draw(&sonde__heap_tls.rng, sonde__heap_state.mean);
    return 1;
}

static void heap_map_record(const struct sonde__caller *c, uint64_t start, uint64_t size)
{
    struct sonde__heap *m = sonde__heap_state.area;
    struct sonde__heap_thread *t = sonde__heap_thread_take();
    struct sonde__heap_row *row;
    if (!t) {
        sonde__heap_count(&m->refused);
        return;
    }
    struct sonde__heap_block b = { .addr = start, .size = size, .ticks = sonde_ticks() };
    b.site = sonde__heap_walk(t, c, &row);
    b.precise = (uint32_t)is_event(t, size);
    if (heap_map_put(start, start + size, &b)) {
        sonde__heap_count(&m->refused);
    } else {
        heap_map_count_alloc(t, row, size);
        sonde__heap_newest(start);
        if (b.precise) sonde__heap_tell_alloc(&b);
    }
    sonde__heap_thread_give(t);
}

/* ---- Interposed ------------------------------------------------------------------------------ */

/* Does it matter to us what this caller maps? */
static int heap_map_concerns(uint64_t caller)
{
    const struct sonde__heap_state *s = &sonde__heap_state;
    return !(caller >= s->own_low && caller < s->own_high) &&
           !(caller >= s->allocator_low && caller < s->allocator_high);
}

static uint64_t heap_map_pages(uint64_t n) { return (n + PAGE_MASK) & ~PAGE_MASK; }

static void *heap_map_mapped(const struct sonde__caller *c, void *p, size_t n)
{
    const int saved = errno;
    if (p == MAP_FAILED) {
        sonde__heap_count(&sonde__heap_state.area->failed);
        return p;
    }
    sonde__heap_busy(1);
    heap_map_record(c, (uint64_t)(uintptr_t)p, heap_map_pages(n));
    sonde__heap_busy(0);
    errno = saved;
    return p;
}

/* [p, p + n) is no more what it was, for all that was mapped before number. */
static int heap_map_unmapped(void *p, size_t n, uint64_t number)
{
    const uint64_t start = (uint64_t)(uintptr_t)p;
    const int saved = errno;
    int any = 0;
    __atomic_fetch_add(&sonde__heap_unmaps, 1, __ATOMIC_RELAXED);
    sonde__heap_busy(1);
    if (!sonde__heap_lock(&sonde__heap_gate.map_lock, SONDE__HEAP_RANK_MAP)) {
        any = heap_map_cut(start, start + heap_map_pages(n), number);
        sonde__heap_unlock(&sonde__heap_gate.map_lock, SONDE__HEAP_RANK_MAP);
    }
    sonde__heap_busy(0);
    errno = saved;
    return any;
}

static uint64_t number_now(void) { return __atomic_load_n(&numbers, __ATOMIC_ACQUIRE) + 1; }

static int heap_map_watching(void) { return sonde__heap_gate.mode && !sonde__heap_tls.busy; }

static void *heap_map_new(const struct sonde__caller *c, void *p, size_t n, int prot, int flags,
                          int fd, off_t offset)
{
    const int choose =
        heap_map_concerns(c->ra) && prot != PROT_NONE && sonde__heap_chosen(heap_map_pages(n));
    const uint64_t number = number_now();
    void *q = sonde__heap_real.mmap(p, n, prot, flags, fd, offset);
    if (choose) return heap_map_mapped(c, q, n);
    if (q != MAP_FAILED && flags & MAP_FIXED && heap_map_watching()) {
        heap_map_unmapped(q, n, number);
    }
    return q;
}

EXPORT void *mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset)
{
    const struct sonde__caller c = sonde__arch_caller();
    return heap_map_new(&c, p, n, prot, flags, fd, offset);
}

EXPORT void *mmap64(void *p, size_t n, int prot, int flags, int fd, off_t offset)
{
    const struct sonde__caller c = sonde__arch_caller();
    return heap_map_new(&c, p, n, prot, flags, fd, offset);
}

EXPORT int munmap(void *p, size_t n)
{
    const uint64_t number = number_now();
    const int rc = sonde__heap_real.munmap(p, n);
    if (!rc && heap_map_watching()) heap_map_unmapped(p, n, number);
    return rc;
}

/* A free and an allocation, like realloc, of what is known. */
EXPORT void *mremap(void *p, size_t had, size_t n, int flags, ...)
{
    const struct sonde__caller c = sonde__arch_caller();
    va_list ap;
    va_start(ap, flags);
    void *to = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(ap, void *) : NULL;
    va_end(ap);
    const int choose = heap_map_concerns(c.ra) && sonde__heap_chosen(heap_map_pages(n));
    const uint64_t number = number_now();
    void *q = sonde__heap_real.mremap(p, had, n, flags, to);
    if (!heap_map_watching()) return q;
    if (q == MAP_FAILED) return choose ? heap_map_mapped(&c, q, n) : q;
    const int known = !(flags & MREMAP_DONTUNMAP) && heap_map_unmapped(p, had, number);
    if (!choose && flags & MREMAP_FIXED) heap_map_unmapped(q, n, number);
    if (choose && (known || sonde__heap_gate.mode == SONDE__HEAP_SAMPLED)) {
        heap_map_mapped(&c, q, n);
    }
    return q;
}
