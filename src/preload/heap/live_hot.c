/* live_hot.c - the less common ways of the table in live.h. */
#include "preload/heap/live.h"

#include <stddef.h>

#include "base/hot_banned.h"

#define BUCKETS_FIRST 64u   /* a page */

_Static_assert(SONDE__HEAP_ROWS * SONDE__HEAP_ROW_CHUNKS == SONDE__LIVE_SITE + 1, "17 bits");

struct sonde__live_shard *sonde__live_shards;

/* ---- Side records ---------------------------------------------------------------------------- */

#define SIDES 4096u         /* in a chunk */
#define SIDE_CHUNKS 4096u

struct heap_live_side { uint64_t size, ticks; };

static struct heap_live_side *side_chunk[SIDE_CHUNKS];
static uint32_t side_count; /* ever taken */
static uint32_t side_free;  /* + 1: the first of a list through size */

static struct heap_live_side *side_at(uint32_t i)
{
    SONDE_MUST(i < SIDES * SIDE_CHUNKS);
    struct heap_live_side *chunk = __atomic_load_n(&side_chunk[i / SIDES], __ATOMIC_ACQUIRE);
    return &chunk[i % SIDES];
}

/* -1: no memory. */
static int side_take(uint64_t size, uint64_t ticks, uint32_t *out)
{
    int rc = -1;
    if (sonde__heap_lock(&sonde__heap_gate.side_lock, SONDE__HEAP_RANK_SIDE)) return rc;
    if (side_free) {
        *out = side_free - 1;
        side_free = (uint32_t)side_at(*out)->size;
        rc = 0;
    } else if (side_count < SIDES * SIDE_CHUNKS) {
        struct heap_live_side **chunk = &side_chunk[side_count / SIDES];
        if (!*chunk) {
            __atomic_store_n(chunk, sonde__heap_pages(SIDES * sizeof(**chunk)), __ATOMIC_RELEASE);
        }
        if (*chunk) {
            *out = side_count++;
            rc = 0;
        }
    }
    if (!rc) *side_at(*out) = (struct heap_live_side){ size, ticks };
    sonde__heap_unlock(&sonde__heap_gate.side_lock, SONDE__HEAP_RANK_SIDE);
    return rc;
}

static void side_give(uint32_t i)
{
    if (sonde__heap_lock(&sonde__heap_gate.side_lock, SONDE__HEAP_RANK_SIDE)) return;
    side_at(i)->size = side_free;
    side_free = i + 1;
    sonde__heap_unlock(&sonde__heap_gate.side_lock, SONDE__HEAP_RANK_SIDE);
}

int sonde__live_pack(const struct sonde__heap_block *b, struct sonde__live_entry *out)
{
    uint32_t side;
    out->key = b->addr >> 3 | (uint64_t)b->site << SONDE__LIVE_KEY_BITS;
    out->value = b->size | (uint64_t)b->coarse << 32;
    if (b->addr >> (SONDE__LIVE_KEY_BITS + 3)) return -1;
    if (!b->precise) return 0;
    if (side_take(b->size, b->ticks, &side)) return -1;
    out->key |= SONDE__LIVE_SIDE;
    out->value = side;
    return 0;
}

static void heap_live_look(const struct sonde__live_entry *e, struct sonde__heap_block *out)
{
    *out = (struct sonde__heap_block){
        .addr = (e->key & SONDE__LIVE_KEY) << 3,
        .size = (uint32_t)e->value,
        .site = (uint32_t)(e->key >> SONDE__LIVE_KEY_BITS) & SONDE__LIVE_SITE,
        .coarse = (uint32_t)(e->value >> 32),
    };
    if (!(e->key & SONDE__LIVE_SIDE)) return;
    const struct heap_live_side *side = side_at((uint32_t)e->value);
    out->size = side->size;
    out->ticks = side->ticks;
    out->precise = 1;
}

void sonde__live_unpack(const struct sonde__live_entry *e, struct sonde__heap_block *out)
{
    heap_live_look(e, out);
    if (out->precise) side_give((uint32_t)e->value);
}

/* ---- Buckets --------------------------------------------------------------------------------- */

static struct sonde__live_bucket *heap_live_after(const struct sonde__live_shard *s,
                                                  struct sonde__live_bucket *b)
{
    return b + 1 == s->bucket + s->buckets ? s->bucket : b + 1;
}

static void past_add(struct sonde__live_bucket *b, int by)
{
    const uint32_t n = sonde__live_past(b);
    if (n == 15) return;
    const uint64_t now = (uint64_t)((int)n + by);
    b->e[0].key = (b->e[0].key & ~SONDE__LIVE_PAST) | (now & 3) << 62;
    b->e[1].key = (b->e[1].key & ~SONDE__LIVE_PAST) | now >> 2 << 62;
}

/* Where key is, as far as others went past; NULL = nowhere. */
static struct sonde__live_entry *heap_live_find(const struct sonde__live_shard *s, uint64_t key,
                                                struct sonde__live_bucket **in)
{
    struct sonde__live_bucket *b = &s->bucket[sonde__live_home(s, key)];
    for (uint32_t n = 0; n < s->buckets; n++, b = heap_live_after(s, b)) {
        for (int i = 0; i < 4; i++) {
            if ((b->e[i].key & SONDE__LIVE_KEY) == key) {
                *in = b;
                return &b->e[i];
            }
        }
        if (!sonde__live_past(b)) break;
    }
    return NULL;
}

/* It is not there yet, and there is room. */
static void heap_live_insert(struct sonde__live_shard *s, struct sonde__live_entry e)
{
    SONDE_MUST(s->count < s->buckets * 4 && e.key & SONDE__LIVE_KEY);
    struct sonde__live_bucket *b = &s->bucket[sonde__live_home(s, e.key & SONDE__LIVE_KEY)];
    for (;; b = heap_live_after(s, b)) {
        for (int i = 0; i < 4; i++) {
            if (b->e[i].key & SONDE__LIVE_KEY) continue;
            b->e[i].key = (b->e[i].key & SONDE__LIVE_PAST) | e.key;
            b->e[i].value = e.value;
            s->count++;
            return;
        }
        past_add(b, 1);
    }
}

static uint32_t limit_of(uint32_t buckets) { return buckets * 3; } /* of 4 each */

static uint32_t heap_live_grown(uint32_t buckets)
{
    return buckets ? (buckets / 3 * 4 + BUCKETS_FIRST - 1) & ~(BUCKETS_FIRST - 1) : BUCKETS_FIRST;
}

static void move_all(const struct sonde__live_shard *from, struct sonde__live_shard *to)
{
    for (uint32_t b = 0; b < from->buckets; b++) {
        for (int i = 0; i < 4; i++) {
            struct sonde__live_entry e = from->bucket[b].e[i];
            e.key &= ~SONDE__LIVE_PAST;
            if (e.key & SONDE__LIVE_KEY) heap_live_insert(to, e);
        }
    }
}

/* The memory is fetched without the lock: another thread may have seen to it meanwhile. Returns
 * with the lock held, or -1 without. */
static int heap_live_grow(struct sonde__live_shard *s)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_SHARD));
    struct sonde__live_shard to = { .buckets = heap_live_grown(s->buckets) };
    const uint64_t bytes = to.buckets * sizeof(*to.bucket);
    to.limit = limit_of(to.buckets);
    sonde__heap_unlock(&s->lock, SONDE__HEAP_RANK_SHARD);
    to.bucket = sonde__heap_pages(bytes);
    if (!to.bucket) return -1;
    if (sonde__heap_lock(&s->lock, SONDE__HEAP_RANK_SHARD)) {
        sonde__heap_pages_give(to.bucket, bytes);
        return -1;
    }
    void *unused = to.bucket;
    uint64_t unused_bytes = bytes;
    if (s->count >= s->limit && to.buckets > s->buckets) {
        move_all(s, &to);
        unused = s->bucket;
        unused_bytes = s->buckets * sizeof(*s->bucket);
        s->limit = to.limit;
        __atomic_store_n(&s->bucket, to.bucket, __ATOMIC_RELEASE);
        __atomic_store_n(&s->buckets, to.buckets, __ATOMIC_RELEASE);
    }
    sonde__heap_unlock(&s->lock, SONDE__HEAP_RANK_SHARD);
    sonde__heap_pages_give(unused, unused_bytes);
    return sonde__heap_lock(&s->lock, SONDE__HEAP_RANK_SHARD);
}

int sonde__live_put_far(struct sonde__live_shard *s, struct sonde__live_entry e,
                        struct sonde__live_entry *old)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_SHARD));
    struct sonde__live_bucket *in;
    struct sonde__live_entry *known =
        s->buckets ? heap_live_find(s, e.key & SONDE__LIVE_KEY, &in) : NULL;
    if (!known) {
        while (s->count >= s->limit) {
            if (heap_live_grow(s)) return -1;
        }
        heap_live_insert(s, e);
    } else {
        *old = *known;
        known->key = (known->key & SONDE__LIVE_PAST) | e.key;
        known->value = e.value;
    }
    sonde__heap_unlock(&s->lock, SONDE__HEAP_RANK_SHARD);
    return known != NULL;
}

int sonde__live_take_far(struct sonde__live_shard *s, uint64_t key, struct sonde__live_entry *out)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_SHARD));
    struct sonde__live_bucket *in, *b = &s->bucket[sonde__live_home(s, key)];
    struct sonde__live_entry *e = heap_live_find(s, key, &in);
    if (!e) return 0;
    *out = *e;
    e->key &= SONDE__LIVE_PAST;
    s->count--;
    for (; b != in; b = heap_live_after(s, b)) past_add(b, -1);
    return 1;
}

/* ---- All ------------------------------------------------------------------------------------- */

uint64_t sonde__live_count(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < SONDE__LIVE_SHARDS; i++) {
        n += __atomic_load_n(&sonde__live_shards[i].count, __ATOMIC_RELAXED);
    }
    return n;
}

void sonde__live_each(sonde__live_fn *call, void *arg)
{
    for (uint32_t i = 0; i < SONDE__LIVE_SHARDS; i++) {
        struct sonde__live_shard *s = &sonde__live_shards[i];
        struct sonde__heap_block b;
        if (sonde__heap_lock(&s->lock, SONDE__HEAP_RANK_SHARD)) continue;
        for (uint32_t k = 0; k < s->buckets * 4; k++) {
            const struct sonde__live_entry *e = &s->bucket[k / 4].e[k % 4];
            if (!(e->key & SONDE__LIVE_KEY)) continue;
            heap_live_look(e, &b);
            call(arg, &b);
        }
        sonde__heap_unlock(&s->lock, SONDE__HEAP_RANK_SHARD);
    }
}

int sonde__live_init(void)
{
    sonde__live_shards = sonde__heap_pages(SONDE__LIVE_SHARDS * sizeof(struct sonde__live_shard));
    side_count = side_free = 0;
    for (uint32_t i = 0; i < SIDE_CHUNKS; i++) side_chunk[i] = NULL;
    return sonde__live_shards ? 0 : -1;
}
