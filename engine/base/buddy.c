/* buddy.c - the allocator of buddy.h.
 *
 * What is known of blocks is kept beside the range and not in it, so that a free block's pages need
 * not be touched (and are not there until somebody writes to them):
 *
 *   states[unit]   0: inside of a block; else its first unit: order + 1, and USED if handed out
 *   links[unit]    of a free block: its neighbours in the list of its order; of one that is handed
 *                  out: what its caller asked for
 *   heads[order]   the lists of free blocks; orders has a bit for each that is not empty
 *
 * A capacity that is not a power of two is cut into the powers that it is made of, largest first.
 * Each of them begins at a multiple of its size, so the rule for buddies holds; a buddy that would
 * reach beyond the end does not exist.
 *
 * Rejected: an own free list per thread. Blocks here are tensors and pages of a KV cache; there are
 * thousands of calls a second at most, and one lock is not seen in a profile. */
#include "base/buddy.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sonde/engine.h"

enum { ORDERS = 32, USED = 0x80, ORDER_MASK = 0x7f };
#define NONE UINT32_MAX

union buddy_link {
    struct { uint32_t next, previous; } list;
    uint64_t asked_bytes;
};

struct buddy {
    unsigned char *base;
    uint32_t units, unit_shift;
    uint8_t *states;
    union buddy_link *links;
    pthread_mutex_t lock;        /* over all that follows, and states and links */
    uint32_t heads[ORDERS];
    uint32_t orders;
    struct buddy_stats stats;
    struct sonde_allocator told;
    char name[64];
};

static uint64_t buddy_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Lists of free blocks ------------------------------------------------------------------ */

static void list_push(struct buddy *b, uint32_t order, uint32_t unit)
{
    const uint32_t head = b->heads[order];
    b->links[unit].list.next = head;
    b->links[unit].list.previous = NONE;
    if (head != NONE) b->links[head].list.previous = unit;
    b->heads[order] = unit;
    b->orders |= 1u << order;
    b->states[unit] = (uint8_t)(order + 1);
}

static void buddy_list_remove(struct buddy *b, uint32_t order, uint32_t unit)
{
    const uint32_t next = b->links[unit].list.next, previous = b->links[unit].list.previous;
    if (next != NONE) b->links[next].list.previous = previous;
    if (previous != NONE) {
        b->links[previous].list.next = next;
    } else {
        b->heads[order] = next;
        if (next == NONE) b->orders &= ~(1u << order);
    }
    b->states[unit] = 0;
}

static uint64_t order_bytes(const struct buddy *b, uint32_t order)
{
    return (uint64_t)1 << (b->unit_shift + order);
}

static uint64_t largest_free(const struct buddy *b)
{
    return b->orders ? order_bytes(b, 31u - (uint32_t)__builtin_clz(b->orders)) : 0;
}

/* ---- Creating ------------------------------------------------------------------------------ */

/* Addresses only: pages come when they are written to. */
static void *range_reserve(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void blocks_cut(struct buddy *b)
{
    for (uint32_t order = 0; order < ORDERS; order++) b->heads[order] = NONE;
    uint32_t unit = 0;
    for (uint32_t order = ORDERS; order-- > 0;) {
        if (!(b->units >> order & 1)) continue;
        list_push(b, order, unit);
        unit += 1u << order;
    }
}

static int buddy_map(struct buddy *b, struct fail *why)
{
    const uint64_t bytes = b->stats.capacity_bytes;
    b->base = range_reserve(bytes);
    b->states = range_reserve(b->units);
    b->links = range_reserve((uint64_t)b->units * sizeof(*b->links));
    if (b->base && b->states && b->links) return 0;
    return fail_set(why, "%s: cannot reserve %llu MiB of addresses: %s", b->name,
                    (unsigned long long)(bytes >> 20), strerror(errno));
}

static void buddy_unmap(struct buddy *b)
{
    if (b->base) munmap(b->base, b->stats.capacity_bytes);
    if (b->states) munmap(b->states, b->units);
    if (b->links) munmap(b->links, (uint64_t)b->units * sizeof(*b->links));
}

int buddy_create(const char *name, uint64_t capacity_bytes, uint32_t unit_bytes, struct buddy **out,
                 struct fail *why)
{
    if (unit_bytes < 64 || unit_bytes & (unit_bytes - 1)) {
        return fail_set(why, "%s: a unit of %u bytes is not a power of two of at least 64", name,
                        unit_bytes);
    }
    const uint64_t units = capacity_bytes / unit_bytes;
    if (!units || units >= NONE) {
        return fail_set(why, "%s: a pool of %llu bytes in units of %u cannot be made", name,
                        (unsigned long long)capacity_bytes, unit_bytes);
    }
    struct buddy *b = calloc(1, sizeof(*b));
    if (!b) return fail_set(why, "%s: out of memory", name);
    snprintf(b->name, sizeof(b->name), "%s", name);
    b->units = (uint32_t)units;
    b->unit_shift = (uint32_t)__builtin_ctz(unit_bytes);
    b->stats.capacity_bytes = units * unit_bytes;
    if (buddy_map(b, why)) {
        buddy_unmap(b);
        free(b);
        return -1;
    }
    pthread_mutex_init(&b->lock, NULL);
    blocks_cut(b);
    /* Added rather than set: two pools of one name (two models in a process) are one series. */
    b->told = sonde_allocator(name);
    sonde_gauge_add(b->told.capacity, (double)b->stats.capacity_bytes);
    sonde_gauge_set(b->told.free_block, (double)largest_free(b));
    *out = b;
    return 0;
}

void buddy_destroy(struct buddy *b)
{
    if (!b) return;
    sonde_pool_add(b->told.used, -(int64_t)b->stats.used_bytes);
    sonde_gauge_add(b->told.requested, -(double)b->stats.asked_bytes);
    sonde_gauge_add(b->told.capacity, -(double)b->stats.capacity_bytes);
    sonde_gauge_set(b->told.free_block, 0);
    pthread_mutex_destroy(&b->lock);
    buddy_unmap(b);
    free(b);
}

/* ---- Blocks -------------------------------------------------------------------------------- */

/* The order that a request needs; ORDERS: more than any has. */
static uint32_t request_order(const struct buddy *b, uint64_t bytes)
{
    uint32_t order = 0;
    while (order < ORDERS && order_bytes(b, order) < bytes) order++;
    return order;
}

static uint32_t buddy_block_take(struct buddy *b, uint32_t order)
{
    const uint32_t fitting = order < ORDERS ? b->orders & ~((1u << order) - 1) : 0;
    if (!fitting) return NONE;
    uint32_t from = (uint32_t)__builtin_ctz(fitting);
    const uint32_t unit = b->heads[from];
    buddy_list_remove(b, from, unit);
    while (from > order) { /* the upper half is free, the lower one is cut further */
        from--;
        list_push(b, from, unit + (1u << from));
    }
    b->states[unit] = (uint8_t)(USED | (order + 1));
    return unit;
}

void buddy_prefer_huge_pages(struct buddy *b)
{
    /* A wish; refusing is fine. */
    madvise(b->base, (size_t)b->units << b->unit_shift, MADV_HUGEPAGE);
}

void *buddy_alloc(struct buddy *b, uint64_t bytes)
{
    const uint64_t begin = buddy_clock_ns();
    pthread_mutex_lock(&b->lock);
    const uint32_t order = request_order(b, bytes);
    const uint32_t unit = buddy_block_take(b, order);
    struct buddy_stats *s = &b->stats;
    if (unit == NONE) {
        s->failures++;
        sonde_counter_add(b->told.failures, 1);
    } else {
        const uint64_t block = order_bytes(b, order);
        b->links[unit].asked_bytes = bytes;
        s->allocations++;
        s->used_bytes += block;
        s->asked_bytes += bytes;
        if (s->used_bytes > s->used_bytes_max) s->used_bytes_max = s->used_bytes;
        sonde_pool_add(b->told.used, (int64_t)block);
        sonde_gauge_add(b->told.requested, (double)bytes);
        sonde_gauge_set(b->told.free_block, (double)largest_free(b));
        sonde_gauge_set(b->told.peak, (double)b->stats.used_bytes_max);
    }
    const uint64_t ns = buddy_clock_ns() - begin;
    s->allocation_ns += ns;
    pthread_mutex_unlock(&b->lock);
    sonde_hist_record(b->told.allocation, ns);
    return unit == NONE ? NULL : b->base + ((uint64_t)unit << b->unit_shift);
}

/* Joins with the buddy as long as that is free as a whole. */
static void block_give_back(struct buddy *b, uint32_t unit, uint32_t order)
{
    b->states[unit] = 0;
    while (order + 1 < ORDERS) {
        const uint32_t size = 1u << order, buddy = unit ^ size;
        if ((uint64_t)buddy + size > b->units || b->states[buddy] != order + 1) break;
        buddy_list_remove(b, order, buddy);
        unit &= ~size;
        order++;
    }
    list_push(b, order, unit);
}

/* A block that is freed twice, or never was one, is in use elsewhere by now: nothing that this
 * process computes could be trusted any more. */
static void block_check(const struct buddy *b, uint64_t offset)
{
    if (offset < b->stats.capacity_bytes && !(offset & (((uint64_t)1 << b->unit_shift) - 1)) &&
        b->states[offset >> b->unit_shift] & USED) {
        return;
    }
    fprintf(stderr, "sonde-engine: pool %s: freed what is not a block in use\n", b->name);
    abort();
}

void buddy_free(struct buddy *b, void *block)
{
    if (!block) return;
    const uint64_t begin = buddy_clock_ns();
    const uint64_t offset = (uint64_t)((unsigned char *)block - b->base);
    pthread_mutex_lock(&b->lock);
    block_check(b, offset);
    const uint32_t unit = (uint32_t)(offset >> b->unit_shift);
    const uint32_t order = (b->states[unit] & ORDER_MASK) - 1u;
    const uint64_t asked = b->links[unit].asked_bytes;
    struct buddy_stats *s = &b->stats;
    block_give_back(b, unit, order);
    s->frees++;
    s->used_bytes -= order_bytes(b, order);
    s->asked_bytes -= asked;
    sonde_pool_add(b->told.used, -(int64_t)order_bytes(b, order));
    sonde_gauge_add(b->told.requested, -(double)asked);
    sonde_gauge_set(b->told.free_block, (double)largest_free(b));
    const uint64_t ns = buddy_clock_ns() - begin;
    s->free_ns += ns;
    pthread_mutex_unlock(&b->lock);
    sonde_hist_record(b->told.release, ns);
}

/* ---- Figures ------------------------------------------------------------------------------- */

void buddy_stats(struct buddy *b, struct buddy_stats *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->stats;
    out->free_block_bytes = largest_free(b);
    pthread_mutex_unlock(&b->lock);
}

double buddy_fragmentation_external(const struct buddy_stats *s)
{
    const uint64_t free_bytes = s->capacity_bytes - s->used_bytes;
    return free_bytes ? 1.0 - (double)s->free_block_bytes / (double)free_bytes : 0;
}

double buddy_fragmentation_internal(const struct buddy_stats *s)
{
    return s->used_bytes ? 1.0 - (double)s->asked_bytes / (double)s->used_bytes : 0;
}
