/* live.h - which blocks there are: a table by address, in parts.
 *
 * A part (shard) belongs to stretches of 4 MiB of addresses, chosen by their hash. Allocators give
 * threads memory by such stretches (arenas, segments), so that a thread mostly meets its own
 * parts: two processors do not pass a line to and fro for every allocation, which would take
 * longer than the allocation. A part has a lock of its own, held for nanoseconds.
 *
 * In a part: buckets of four entries, which are a line of the cache. A block is in the bucket that
 * its hash says, or if that is full, in one of the next; a bucket counts how many went past it, so
 * that looking for what is not there ends soon, and removing moves nothing. Three quarters full it
 * grows by a third: the table takes 21 … 28 bytes a block.
 *
 *   word 0   address / 8 (44 bits; 0 = empty) | site (17) << 44 | side << 61 | 2 bits of the count
 *            of those that went past, in the first two entries of a bucket
 *   word 1   size (32) | coarse time << 32;  side: index of a side record, which has a size of 64
 *            bits and precise ticks: for sampled blocks, and for those of 4 GiB and more
 *
 * Rejected: linear probing with deletion by moving up what follows. Hashing all that follows to
 * see whether it may move took a third of the time. */
#ifndef SONDE_PRELOAD_HEAP_LIVE_H
#define SONDE_PRELOAD_HEAP_LIVE_H

#include "preload/heap/heap.h"

#define SONDE__LIVE_SHARDS 1024u
#define SONDE__LIVE_KEY_BITS 44
#define SONDE__LIVE_KEY ((1ull << SONDE__LIVE_KEY_BITS) - 1)
#define SONDE__LIVE_SIDE (1ull << 61)
#define SONDE__LIVE_PAST (3ull << 62)
#define SONDE__LIVE_SITE 0x1ffffu

struct sonde__live_entry { uint64_t key, value; };
struct sonde__live_bucket { struct sonde__live_entry e[4]; };
_Static_assert(sizeof(struct sonde__live_bucket) == 64, "a bucket is a line");

struct sonde__live_shard {
    uint32_t lock, count;
    uint32_t limit;             /* it grows when count is this */
    uint32_t buckets;
    struct sonde__live_bucket *bucket;
} __attribute__((aligned(64)));

extern struct sonde__live_shard *sonde__live_shards;

static inline struct sonde__live_shard *sonde__live_shard(uint64_t addr)
{
    return &sonde__live_shards[(addr >> 22) * 0x9e3779b97f4a7c15ull >> 54];
}
_Static_assert(SONDE__LIVE_SHARDS == 1u << (64 - 54), "as many as bits are left");

static inline uint32_t sonde__live_home(const struct sonde__live_shard *s, uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15ull >> 32) * s->buckets >> 32);
}

/* Long before the table is looked into, so that it is in the cache by then. */
static inline void sonde__live_prefetch(uint64_t addr)
{
    const struct sonde__live_shard *s = sonde__live_shard(addr);
    const struct sonde__live_bucket *b = __atomic_load_n(&s->bucket, __ATOMIC_RELAXED);
    __builtin_prefetch(b + sonde__live_home(s, addr >> 3), 1);
}

/* How many went past, up to 15, which stays. */
static inline uint32_t sonde__live_past(const struct sonde__live_bucket *b)
{
    return (uint32_t)(b->e[0].key >> 62 | b->e[1].key >> 62 << 2);
}

/* The entry of addr in its first bucket, or NULL: it is elsewhere, or nowhere. */
static inline struct sonde__live_entry *sonde__live_near(const struct sonde__live_shard *s,
                                                         uint64_t key)
{
    struct sonde__live_bucket *b = &s->bucket[sonde__live_home(s, key)];
    for (int i = 0; i < 4; i++) {
        if ((b->e[i].key & SONDE__LIVE_KEY) == key) return &b->e[i];
    }
    return NULL;
}

/* The slow ways; both assert the lock, put_far also lets go of it. */
int sonde__live_put_far(struct sonde__live_shard *s, struct sonde__live_entry e,
                        struct sonde__live_entry *old);
int sonde__live_take_far(struct sonde__live_shard *s, uint64_t key, struct sonde__live_entry *out);

/* 1 and *old: a block that was never seen freed was there; 0; -1: no memory, nothing is changed.
 * That is looked for beyond the first bucket only if some call was missed. */
static inline int sonde__live_put(struct sonde__live_entry e, struct sonde__live_entry *old)
{
    const uint64_t key = e.key & SONDE__LIVE_KEY;
    struct sonde__live_shard *s = sonde__live_shard(key << 3);
    if (sonde__heap_lock(&s->lock, SONDE__HEAP_RANK_SHARD)) return -1;
    if (__builtin_expect(s->count < s->limit, 1)) {
        struct sonde__live_bucket *b = &s->bucket[sonde__live_home(s, key)];
        struct sonde__live_entry *to = NULL;
        int known = sonde__heap_gate.missed && sonde__live_past(b);
        for (int i = 4; i--;) {
            const uint64_t there = b->e[i].key & SONDE__LIVE_KEY;
            known |= there == key;
            if (!there) to = &b->e[i];
        }
        if (__builtin_expect(to && !known, 1)) {
            to->key = (to->key & SONDE__LIVE_PAST) | e.key;
            to->value = e.value;
            s->count++;
            sonde__heap_unlock(&s->lock, SONDE__HEAP_RANK_SHARD);
            return 0;
        }
    }
    return sonde__live_put_far(s, e, old);
}

/* 1 = it was there, and is no more. */
static inline int sonde__live_take(uint64_t addr, struct sonde__live_entry *out)
{
    const uint64_t key = addr >> 3;
    struct sonde__live_shard *s = sonde__live_shard(addr);
    int found = 0;
    if (!__atomic_load_n(&s->buckets, __ATOMIC_RELAXED) ||
        sonde__heap_lock(&s->lock, SONDE__HEAP_RANK_SHARD)) {
        return 0;
    }
    struct sonde__live_entry *e = sonde__live_near(s, key);
    if (__builtin_expect(e != NULL, 1)) {
        /* Word by word: the processor does not hand on two words that were stored one by one,
         * a moment ago, to a load of both. */
        out->key = __atomic_load_n(&e->key, __ATOMIC_RELAXED);
        out->value = __atomic_load_n(&e->value, __ATOMIC_RELAXED);
        e->key &= SONDE__LIVE_PAST;
        s->count--;
        found = 1;
    } else if (sonde__live_past(&s->bucket[sonde__live_home(s, key)])) {
        found = sonde__live_take_far(s, key, out);
    }
    sonde__heap_unlock(&s->lock, SONDE__HEAP_RANK_SHARD);
    return found;
}

/* From and to what is kept. pack: -1 = no memory for a side record; unpack gives it back. */
int sonde__live_pack(const struct sonde__heap_block *b, struct sonde__live_entry *out);
void sonde__live_unpack(const struct sonde__live_entry *e, struct sonde__heap_block *out);

/* How many there are, and each of them. A part is locked while it is told. */
typedef void sonde__live_fn(void *arg, const struct sonde__heap_block *b);
uint64_t sonde__live_count(void);
void sonde__live_each(sonde__live_fn *call, void *arg);

int sonde__live_init(void);     /* 0, or -1: no memory */

#endif
