/* buddy.h - a memory pool with a name: a buddy allocator over one reserved range of addresses.
 *
 *   order 3  ┌───────────────────────────────┐   a block is 2^order units; splitting halves it,
 *   order 2  ├───────────────┬───────────────┤   and a block that is freed joins its buddy (the
 *   order 1  ├───────┬───────┼───────┬───────┤   address with one bit flipped) when that is free
 *   order 0  ├───┬───┼───┬───┼───┬───┼───┬───┤   as a whole.
 *
 * Finding a block takes at most one step an order. The price is internal fragmentation: a request
 * is rounded up to a power of two. Pages of the range that nobody touches take no memory.
 *
 * Every pool tells sonde what it does (sonde/engine.h): allocations and frees with their times,
 * failures, bytes in use, asked for, the largest block that is free. Thread-safe. */
#ifndef ENGINE_BASE_BUDDY_H
#define ENGINE_BASE_BUDDY_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

struct buddy;

struct buddy_stats {
    uint64_t capacity_bytes;     /* what may be handed out in all */
    uint64_t used_bytes;         /* in blocks that are handed out, rounded up as they are */
    uint64_t asked_bytes;        /* what their callers asked for */
    uint64_t used_bytes_max;
    uint64_t free_block_bytes;   /* the largest request that would succeed now */
    uint64_t allocations, frees, failures;
    uint64_t allocation_ns, free_ns; /* in all */
};

/* name: "weights", "kv", "activations". capacity is rounded down to whole units; unit is a power of
 * two of at least 64. */
int buddy_create(const char *name, uint64_t capacity_bytes, uint32_t unit_bytes, struct buddy **out,
                 struct fail *why);
void buddy_destroy(struct buddy *b); /* NULL is fine; all blocks are gone with it */

/* Pages of 2 MB where the operating system has them, for a pool that is filled once and read all
 * the time: a pass over weights then needs few entries of the TLB. Not for pools whose memory is to
 * follow what is in use. */
void buddy_prefer_huge_pages(struct buddy *b);

/* NULL if no block is free. Aligned to 64 bytes. */
void *buddy_alloc(struct buddy *b, uint64_t bytes);
void buddy_free(struct buddy *b, void *block); /* NULL is fine */

void buddy_stats(struct buddy *b, struct buddy_stats *out);
/* 0 to 1: how much of what is free cannot be had in one piece (external), and how much of what is
 * handed out was not asked for (internal). */
double buddy_fragmentation_external(const struct buddy_stats *s);
double buddy_fragmentation_internal(const struct buddy_stats *s);

#endif
